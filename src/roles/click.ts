/**
 * A click worker: one process, one partition of the log (or Kafka and a spool), the catalog mapped
 * read-only. Shares nothing with the ledger but files and the log, so it keeps redirecting while the ledger is away.
 */
import { mkdirSync } from 'node:fs';
import { openLmdbCatalog } from '../ads/lmdb/catalog.ts';
import type { AdCatalog } from '../ads/port.ts';
import { readSyncState } from '../ads/sync-state.ts';
import { openGeo } from '../click/geo.ts';
import { ClickCounters } from '../click/metrics.ts';
import { createOpsFetch } from '../click/ops.ts';
import { type ClickService, createClickService } from '../click/service.ts';
import { dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { shiftedClock } from '../platform/clock.ts';
import { takeLock } from '../platform/lock.ts';
import { createLogger } from '../platform/logger.ts';
import { openClickLog } from './click-log.ts';
import { ClickWorkerMetrics } from './click-metrics.ts';
import { listen } from './listen.ts';
import { untilAborted } from './readiness.ts';
import { reportRecovery } from './report-recovery.ts';
import { openTelemetry } from './telemetry.ts';
import { serveToPeers, workersMetrics } from './workers-metrics.ts';

const MAX_REQUEST_BODY_BYTES = 4_096;

export async function runClickWorker(
  config: Config,
  index: number,
  stop: AbortSignal,
): Promise<void> {
  const logger = createLogger(config.logLevel, `click-${index}`);
  const paths = dataPaths(config.dataDir);
  mkdirSync(paths.run, { recursive: true, mode: 0o700 });
  const lock = takeLock(
    paths.run,
    `click-${index}`,
    'Another click worker writes this partition; stop it first.',
  );
  const clock = shiftedClock(config.clockOffsetMs);
  const telemetry = await openTelemetry({
    config: config.telemetry,
    service: 'click',
    instance: `click-${index}`,
    clock,
    logger,
  });
  const counters = new ClickCounters();
  let metrics: ClickWorkerMetrics;
  const log = await openClickLog({ config, paths, index, clock, logger, metrics: () => metrics });
  const { writer } = log;
  const spans = () => telemetry?.counts ?? null;
  metrics = new ClickWorkerMetrics({
    ...{ counters, spans },
    ...{ writer: log.health, workers: config.click.workers },
  });
  log.addMetrics(metrics.registry);
  reportRecovery(log.disk, logger);
  const ads = openLmdbCatalog({ dir: paths.catalog, readOnly: true });
  const workers = {
    runDir: paths.run,
    own: index,
    count: config.click.workers,
    registry: metrics.registry,
  };
  const service = createClickService({
    config: config.click,
    ads,
    log: writer,
    clock,
    geo: await openGeo(),
    metrics: counters,
    tracer: telemetry?.clickTracer() ?? null,
    opsFetch: createOpsFetch({
      ads,
      log: writer,
      adsProblem: () => adsProblem(config, ads),
      metricsText: () => workersMetrics(workers),
    }),
    onInternalError: (error) => logger.error({ err: error }, 'a request failed unexpectedly'),
  });
  const server = takeClicks(config.click, service);
  const peer = serveToPeers(workers);
  logger.info({ port: server.port, partition: index }, 'taking clicks');
  await untilAborted(stop);
  await Promise.race([server.stop(), Bun.sleep(config.click.drainMs)]);
  await Promise.race([service.drain(), Bun.sleep(config.click.drainMs)]);
  await log.close();
  await server.stop(true);
  await peer.stop(true);
  await ads.close();
  await telemetry?.close();
  lock.release();
  logger.info({ partition: index }, 'stopped');
}

function takeClicks({ port, host }: Config['click'], service: ClickService) {
  return listen('click', port, () =>
    Bun.serve({
      port,
      hostname: host,
      reusePort: true,
      maxRequestBodySize: MAX_REQUEST_BODY_BYTES,
      fetch: (request, self) => service.fetch(request, self),
    }),
  );
}

/** A new machine would answer 404 to clicks on ads that it has not read yet. */
function adsProblem({ catalog }: Config, ads: Pick<AdCatalog, 'syncState'>): string | null {
  if (catalog.kind === 'local') return null;
  const isLoaded = (readSyncState(ads.syncState())?.loadedAtMs ?? null) !== null;
  return isLoaded ? null : 'the ads table has not been read to its end yet';
}
