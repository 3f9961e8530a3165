/**
 * A click worker: one process, one partition of the log, the catalog mapped read-only.
 *
 * Shares nothing with the ledger but files, so it keeps redirecting while the ledger is away.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { AggregatorRegistry } from 'prom-client';
import { openLmdbCatalog } from '../ads/lmdb/catalog.ts';
import { openGeo } from '../click/geo.ts';
import { ClickCounters } from '../click/metrics.ts';
import { createOpsFetch } from '../click/ops.ts';
import { createClickService } from '../click/service.ts';
import { dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { DiskLogWriter } from '../log/disk/writer.ts';
import { shiftedClock } from '../platform/clock.ts';
import { takeLock } from '../platform/lock.ts';
import { createLogger } from '../platform/logger.ts';
import { ClickWorkerMetrics } from './click-metrics.ts';
import { reportRecovery } from './ledger-parts.ts';
import { listen } from './listen.ts';

const MAX_REQUEST_BODY_BYTES = 4_096;
const PEER_TIMEOUT_MS = 500;

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
  const counters = new ClickCounters();
  let metrics: ClickWorkerMetrics;
  const writer = new DiskLogWriter({
    logDir: paths.log,
    partition: index,
    segmentBytes: config.log.segmentBytes,
    clock,
    onCommit: (commit) => metrics.commit(commit),
    onHealth: (error) => logger[error === null ? 'info' : 'error']({ err: error }, 'log health'),
  });
  metrics = new ClickWorkerMetrics(counters, () => writer);
  reportRecovery(writer, logger);
  const ads = openLmdbCatalog({ dir: paths.catalog, readOnly: true });
  const metricsText = () => workersMetrics(config, paths.run, index, metrics);
  const service = createClickService({
    config: config.click,
    ads,
    log: writer,
    clock,
    geo: await openGeo(),
    metrics: counters,
    opsFetch: createOpsFetch({ ads, log: writer, metricsText }),
    onInternalError: (error) => logger.error({ err: error }, 'a request failed unexpectedly'),
  });
  const server = listen('click', config.click.port, () =>
    Bun.serve({
      port: config.click.port,
      hostname: config.click.host,
      reusePort: true,
      maxRequestBodySize: MAX_REQUEST_BODY_BYTES,
      fetch: (request, self) => service.fetch(request, self),
    }),
  );
  const socket = join(paths.run, `click-${index}.sock`);
  rmSync(socket, { force: true });
  const peer = Bun.serve({
    unix: socket,
    fetch: async () => Response.json(await metrics.registry.getMetricsAsJSON()),
  });
  logger.info({ port: server.port, partition: index }, 'taking clicks');
  await new Promise<void>((resolve) => {
    if (stop.aborted) resolve();
    else stop.addEventListener('abort', () => resolve());
  });
  await Promise.race([server.stop(), Bun.sleep(config.click.drainMs)]);
  await Promise.race([service.drain(), Bun.sleep(config.click.drainMs)]);
  await writer.close();
  await server.stop(true);
  await peer.stop(true);
  await ads.close();
  lock.release();
  logger.info({ partition: index }, 'stopped');
}

/** The metrics of all workers summed: a scrape reaches one of them, whichever took the connection. */
async function workersMetrics(
  config: Config,
  runDir: string,
  own: number,
  metrics: ClickWorkerMetrics,
): Promise<string> {
  const all = await Promise.all(
    Array.from({ length: config.click.workers }, async (_, index) => {
      if (index === own) return metrics.registry.getMetricsAsJSON();
      try {
        const response = await fetch('http://worker/', {
          unix: join(runDir, `click-${index}.sock`),
          signal: AbortSignal.timeout(PEER_TIMEOUT_MS),
        });
        return (await response.json()) as object[];
      } catch {
        // A worker that is restarting answers again soon; the others' numbers are still worth having.
        return [];
      }
    }),
  );
  return AggregatorRegistry.aggregate(all).metrics();
}
