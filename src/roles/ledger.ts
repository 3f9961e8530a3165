/** The ledger process: counter, archiver, reconciler, API and admin socket around one warehouse. */
import { chmodSync, rmSync } from 'node:fs';
import { createAdminSocketApp } from '../api/admin-socket.ts';
import { openGeo } from '../click/geo.ts';
import type { Config } from '../config/schema.ts';
import { shiftedClock } from '../platform/clock.ts';
import { createLogger } from '../platform/logger.ts';
import { openCatalogSync } from './catalog-sync.ts';
import { createLedgerAdmin } from './ledger-admin.ts';
import { adsImporter, createLedgerApi } from './ledger-api.ts';
import { openLiveHub } from './ledger-live.ts';
import { createLedgerMetrics } from './ledger-metrics.ts';
import { Ledger } from './ledger-parts.ts';
import { openLedgerWebhooks } from './ledger-webhooks.ts';
import { logHour } from './log-hour.ts';
import { openControl } from './open-control.ts';
import { untilAborted } from './readiness.ts';
import { requireSingle } from './run-role.ts';
import { MAX_ADMIN_BODY_BYTES, serveApi } from './serve-api.ts';
import { openTelemetry } from './telemetry.ts';

export async function runLedger(config: Config, stop: AbortSignal): Promise<void> {
  requireSingle(config);
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
      logHour(result, logger);
    },
  });
  const { parts } = ledger;
  const control = await openControl(config, parts.paths, clock, 'the ledger');
  const { audit } = control;
  const admin = createLedgerAdmin(ledger, await openGeo());
  const log = (error: unknown, message: string): void => logger.error({ err: error }, message);
  const webhooks = openLedgerWebhooks({
    ...{ ledger, logger, registry: metrics.registry },
    ...{ store: control.webhooks, leases: control.leases },
  });
  const adsSync = openCatalogSync(parts, metrics.registry);
  const live = openLiveHub(ledger, logger);
  const own = { webhooks: webhooks.webhooks, live };
  const api = createLedgerApi({
    ...{ ledger, control, keys: parts.catalog, admin, metrics, logger, ...own },
  });
  const server = serveApi(config.api, api);
  const importAds = adsImporter(parts);
  const socketApp = createAdminSocketApp(admin, { log, audit, importAds });
  const socket = serveSocket(parts.paths.adminSocket, (request) => socketApp.fetch(request));
  ledger.start();
  webhooks.start();
  adsSync.start();
  // Noted outside of its file, so that a log that was cut or written anew shows.
  logger.info({ port: server.port, auditHead: await audit.head() }, 'counting and answering');
  await untilAborted(stop);
  await live.close();
  await server.stop(true);
  await socket.stop(true);
  await webhooks.close();
  await adsSync.close();
  rmSync(parts.paths.adminSocket, { force: true });
  await ledger.close();
  await telemetry?.close();
  await control.close();
  logger.info('stopped');
}

function serveSocket(unix: string, answer: (request: Request) => Response | Promise<Response>) {
  rmSync(unix, { force: true });
  const maxRequestBodySize = MAX_ADMIN_BODY_BYTES;
  const socket = Bun.serve({ unix, maxRequestBodySize, fetch: (request) => answer(request) });
  chmodSync(unix, 0o600);
  return socket;
}
