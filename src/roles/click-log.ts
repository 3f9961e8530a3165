/** Which log a click worker writes: a partition on the disk, or Kafka with a spool on the disk. */
import type { Registry } from 'prom-client';
import type { DataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { type Commit, DiskLogWriter } from '../log/disk/writer.ts';
import type { ClickLogWriter } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import type { Logger } from '../platform/logger.ts';
import type { ClickWorkerMetrics } from './click-metrics.ts';
import { addKafkaMetrics } from './kafka-metrics.ts';

export interface ClickLogOptions {
  readonly config: Config;
  readonly paths: DataPaths;
  readonly index: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** They need the log that is being opened, and are there before the first click. */
  readonly metrics: () => ClickWorkerMetrics;
}

export interface ClickLog {
  readonly writer: ClickLogWriter;
  /** What the worker writes on its own disk: the log itself, or the spool. */
  readonly disk: DiskLogWriter;
  /** Whether clicks are taken, and what opening the disk had to repair. */
  readonly health: Pick<DiskLogWriter, 'healthy' | 'recovery'>;
  addMetrics(registry: Registry): void;
  close(): Promise<void>;
}

export async function openClickLog(options: ClickLogOptions): Promise<ClickLog> {
  const { config, paths, index, clock, logger, metrics } = options;
  const onHealth = (error: Error | null): void =>
    logger[error === null ? 'info' : 'error']({ err: error }, 'log health');
  if (config.log.kind === 'kafka') {
    const onCommit = (commit: Commit): void => metrics().spoolWrite(commit);
    // The client takes a second and 75 MB: only who uses Kafka loads it.
    const { openKafkaClickLog } = await import('./kafka-log.ts');
    const log = await openKafkaClickLog({
      ...{ config, paths, index, clock, logger },
      spoolHooks: { onCommit, onHealth },
      onSettled: (_by, records, waitedMs) => metrics().settled(records, waitedMs),
    });
    return {
      writer: log.writer,
      disk: log.spool,
      health: healthOf(log.writer, log.spool),
      addMetrics: (registry) => addKafkaMetrics(registry, log, clock),
      close: () => log.close(),
    };
  }
  const writer = new DiskLogWriter({
    logDir: paths.log,
    partition: index,
    segmentBytes: config.log.segmentBytes,
    clock,
    onCommit: (commit) => metrics().commit(commit),
    onHealth,
  });
  return {
    writer,
    disk: writer,
    health: writer,
    addMetrics: () => {},
    close: () => writer.close(),
  };
}

function healthOf(writer: ClickLogWriter, { recovery }: DiskLogWriter): ClickLog['health'] {
  return {
    recovery,
    get healthy() {
      return writer.healthy;
    },
  };
}
