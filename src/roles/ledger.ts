/** The ledger process: counter, archiver, reconciler, API and admin socket around one warehouse. */
import { chmodSync, rmSync } from 'node:fs';
import { createAdminSocketApp } from '../api/admin-socket.ts';
import type { Connection } from '../api/api.ts';
import { openAuditLog } from '../auth/audit-log.ts';
import { openTokenStore } from '../auth/tokens.ts';
import { openGeo } from '../click/geo.ts';
import type { Config } from '../config/schema.ts';
import { openDisputes } from '../disputes/sqlite/store.ts';
import { shiftedClock } from '../platform/clock.ts';
import { createLogger } from '../platform/logger.ts';
import { openCatalogSync } from './catalog-sync.ts';
import { createLedgerAdmin } from './ledger-admin.ts';
import { adsImporter, createLedgerApi } from './ledger-api.ts';
import { openLiveHub } from './ledger-live.ts';
import { createLedgerMetrics } from './ledger-metrics.ts';
import { Ledger } from './ledger-parts.ts';
import { openLedgerWebhooks } from './ledger-webhooks.ts';
import { listen } from './listen.ts';
import { openTelemetry } from './telemetry.ts';

/** Recorded clicks come in one long request; everything else is bounded by the API itself. */
const MAX_ADMIN_BODY_BYTES = 64 * 1024 * 1024 * 1024;
const IDLE_TIMEOUT_SECONDS = 255;

export async function runLedger(config: Config, stop: AbortSignal): Promise<void> {
  const logger = createLogger(config.logLevel, 'ledger');
  const clock = shiftedClock(config.clockOffsetMs);
  const telemetry = await openTelemetry({
    config: config.telemetry,
    service: 'ledger',
    instance: 'ledger',
    clock,
    logger,
  });
  const metrics = createLedgerMetrics(
    () => ledger,
    () => telemetry?.counts ?? null,
  );
  const ledger = await Ledger.open({
    telemetry,
    config,
    clock,
    logger,
    onHour: (result) => {
      metrics.hour(result);
      const { hourMs, revision, counted, driftMax } = result.hour;
      const hour = new Date(hourMs).toISOString();
      logger.info({ hour, revision, counted, driftMax, kind: result.kind }, 'hour recounted');
      if (result.driftAlert) logger.error({ hour, driftMax }, 'live and final differ too much');
    },
  });
  const { parts } = ledger;
  const tokens = openTokenStore({ path: parts.paths.control, clock });
  const audit = openAuditLog({ path: parts.paths.control, clock });
  const admin = createLedgerAdmin(ledger, await openGeo());
  const log = (error: unknown, message: string): void => logger.error({ err: error }, message);
  const webhooks = openLedgerWebhooks({ ledger, registry: metrics.registry, logger });
  const adsSync = openCatalogSync(parts, metrics.registry);
  const live = openLiveHub(ledger, logger);
  const disputes = openDisputes({ path: parts.paths.control, clock });
  const own = { webhooks: webhooks.webhooks, live, disputes };
  const api = createLedgerApi({ ledger, tokens, audit, admin, metrics, logger, ...own });
  const server = listen('api', config.api.port, () =>
    Bun.serve({
      port: config.api.port,
      hostname: config.api.host,
      maxRequestBodySize: MAX_ADMIN_BODY_BYTES,
      idleTimeout: IDLE_TIMEOUT_SECONDS,
      fetch: (request, bun) => api.fetch(request, connectionOf(bun.requestIP(request))),
    }),
  );
  const importAds = adsImporter(parts);
  const socketApp = createAdminSocketApp(admin, { log, audit, importAds });
  const socket = serveSocket(parts.paths.adminSocket, (request) => socketApp.fetch(request));
  ledger.start();
  webhooks.start();
  adsSync.start();
  // Noted outside of its file, so that a log that was cut or written anew shows.
  logger.info({ port: server.port, auditHead: audit.head() }, 'counting and answering');
  await untilAborted(stop);
  await live.close();
  await server.stop(true);
  await socket.stop(true);
  await webhooks.close();
  await adsSync.close();
  rmSync(parts.paths.adminSocket, { force: true });
  await ledger.close();
  await telemetry?.close();
  for (const store of [tokens, audit, disputes]) store.close();
  logger.info('stopped');
}

function serveSocket(unix: string, answer: (request: Request) => Response | Promise<Response>) {
  rmSync(unix, { force: true });
  const maxRequestBodySize = MAX_ADMIN_BODY_BYTES;
  const socket = Bun.serve({ unix, maxRequestBodySize, fetch: (request) => answer(request) });
  chmodSync(unix, 0o600);
  return socket;
}

function untilAborted(stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (stop.aborted) resolve();
    else stop.addEventListener('abort', () => resolve());
  });
}

/** A connection that is gone by now has no address. */
function connectionOf(peer: { readonly address: string } | null): Connection {
  return peer === null ? {} : { peerAddress: peer.address };
}
