/** The ledger process: counter, archiver, reconciler, API and admin socket around one warehouse. */
import { chmodSync, rmSync } from 'node:fs';
import { createAdminSocketApp } from '../api/admin-socket.ts';
import { openTokenStore } from '../auth/tokens.ts';
import { openGeo } from '../click/geo.ts';
import type { Config } from '../config/schema.ts';
import { shiftedClock } from '../platform/clock.ts';
import { createLogger } from '../platform/logger.ts';
import { createLedgerAdmin } from './ledger-admin.ts';
import { adsImporter, createLedgerApi } from './ledger-api.ts';
import { createLedgerMetrics } from './ledger-metrics.ts';
import { Ledger } from './ledger-parts.ts';
import { listen } from './listen.ts';

/** Recorded clicks come in one long request; everything else is bounded by the API itself. */
const MAX_ADMIN_BODY_BYTES = 64 * 1024 * 1024 * 1024;
const IDLE_TIMEOUT_SECONDS = 255;

export async function runLedger(config: Config, stop: AbortSignal): Promise<void> {
  const logger = createLogger(config.logLevel, 'ledger');
  const clock = shiftedClock(config.clockOffsetMs);
  const metrics = createLedgerMetrics(() => ledger);
  const ledger = await Ledger.open({
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
  const admin = createLedgerAdmin(ledger, await openGeo());
  const log = (error: unknown, message: string): void => logger.error({ err: error }, message);
  const api = createLedgerApi({ ledger, tokens, admin, metrics, logger });
  const server = listen('api', config.api.port, () =>
    Bun.serve({
      port: config.api.port,
      hostname: config.api.host,
      maxRequestBodySize: MAX_ADMIN_BODY_BYTES,
      idleTimeout: IDLE_TIMEOUT_SECONDS,
      fetch: (request) => api.fetch(request),
    }),
  );
  rmSync(parts.paths.adminSocket, { force: true });
  const socket = Bun.serve({
    unix: parts.paths.adminSocket,
    maxRequestBodySize: MAX_ADMIN_BODY_BYTES,
    fetch: createAdminSocketApp(admin, { log, importAds: adsImporter(parts.catalog) }).fetch,
  });
  chmodSync(parts.paths.adminSocket, 0o600);
  ledger.start();
  logger.info({ port: server.port }, 'counting and answering');
  await new Promise<void>((resolve) => {
    if (stop.aborted) resolve();
    else stop.addEventListener('abort', () => resolve());
  });
  await server.stop(true);
  await socket.stop(true);
  rmSync(parts.paths.adminSocket, { force: true });
  await ledger.close();
  tokens.close();
  logger.info('stopped');
}
