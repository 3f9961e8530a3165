/** The archiver role: one of several that share the log's partitions. It keeps nothing of its own. */
import { Gauge, type Registry } from 'prom-client';
import { GroupArchiver } from '../archive/group-archiver.ts';
import { loadManifest, type Manifest } from '../archive/manifest.ts';
import type { Config } from '../config/schema.ts';
import type { ClickLogReader } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import { requireKnownLog } from './known-log.ts';
import { appendedAtMsOf } from './log-age.ts';
import { openLogGroup } from './log-group.ts';
import { openTopicReader } from './log-reader.ts';
import { openStore } from './open-store.ts';
import { addControlMetric, addGroupMetrics } from './role-metrics.ts';
import { openShared, type RoleContext, type RoleWork, runRole } from './run-role.ts';
import { SharedFacts } from './shared-facts.ts';

export function runArchiver(config: Config, stop: AbortSignal): Promise<void> {
  return runRole(config, { role: 'archiver' }, stop, openArchiverRole);
}

async function openArchiverRole(context: RoleContext): Promise<RoleWork> {
  const { config, clock, logger, registry, readiness, instance } = context;
  const control = await openShared(context);
  const facts = new SharedFacts(control.state);
  const store = await readiness.until('the archive', () => openStore(config, clock, logger));
  const manifest = await readiness.until('the archive', () => loadManifest(store));
  const reader = await openTopicReader(config, 'clickledger-archiver', logger);
  await readiness.until('Kafka and PostgreSQL', () => requireKnownLog(config, { reader, facts }));
  const group = await openLogGroup(config, { role: 'archiver', instance, logger });
  let controlProblem: Error | null = null;
  const archiver = new GroupArchiver({
    group,
    reader,
    store,
    manifest,
    clock,
    rotateMs: config.archive.rotateMs,
    rotateRecords: config.archive.rotateRecords,
    maxSkewMs: config.counting.maxSkewMs,
    async flushRequestedAtMs() {
      try {
        const askedAtMs = await facts.flushAskedAtMs();
        controlProblem = null;
        return askedAtMs;
      } catch (error) {
        // Archiving does not depend on it: what is due by time or number is written all the same.
        controlProblem = error as Error;
        return null;
      }
    },
    onError: (error, partition) => logger.error({ err: error, partition }, 'archiving failed'),
  });
  addGroupMetrics(registry, 'archiver', () => group.status());
  addControlMetric(registry, () => controlProblem === null);
  const parts = { archiver, reader, manifest, clock, partitions: () => group.status().partitions };
  addArchiverMetrics(registry, parts);
  const end = new AbortController();
  const running = archiver.run(end.signal).catch((error: unknown) => {
    logger.fatal({ err: error }, 'archiving has ended by an error');
    process.exit(1);
  });
  return {
    waitsFor() {
      const { waitsFor, lastError } = archiver.status();
      return waitsFor ?? lastError?.message ?? null;
    },
    async drain() {
      end.abort();
      await running;
    },
    async close() {
      await reader.close();
      await control.close();
    },
  };
}

interface Measured {
  readonly archiver: GroupArchiver;
  readonly reader: ClickLogReader;
  readonly manifest: Manifest;
  readonly clock: Clock;
  readonly partitions: () => readonly number[];
}

function addArchiverMetrics(registry: Registry, measured: Measured): void {
  const { archiver, reader, manifest, clock, partitions } = measured;
  const registers = [registry];
  new Gauge({
    name: 'clickledger_archive_lag_seconds',
    help: 'Age of the oldest record of the log that is not archived yet; 0 when all are.',
    registers,
    async collect() {
      const nowMs = clock();
      const ages = partitions().map(async (partition) => {
        const { nextOffset } = manifest.archivedUpTo(partition);
        const atMs = await appendedAtMsOf(reader, await reader.range(partition), nextOffset);
        return nowMs - (atMs ?? nowMs);
      });
      this.set(Math.max(0, ...(await Promise.all(ages).catch(() => [0]))) / 1_000);
    },
  });
  new Gauge({
    name: 'clickledger_archive_stopped_partitions',
    help: 'Partitions whose archiving has stopped for a reason that does not pass.',
    registers,
    collect() {
      const stopped = archiver.status().partitions.filter((each) => each.stopped !== null);
      this.set(stopped.length);
    },
  });
}
