/**
 * The click log of a click worker on Kafka: the writer with its spool, and the shippers.
 *
 * A worker ships its own spool, and those of workers that are no longer there: the one with the
 * number that is left when the spool's is divided by the count of workers. A spool that somebody else
 * ships already (`clickledger shipper`) is left to them, and looked at again.
 */
import type { DataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { DiskLogWriter } from '../log/disk/writer.ts';
import type { SpoolShipper } from '../log/kafka/shipper.ts';
import { KafkaLogWriter, WRITER_DEFAULTS } from '../log/kafka/writer.ts';
import type { Clock } from '../platform/clock.ts';
import type { Logger } from '../platform/logger.ts';
import { openPublisher } from './kafka-publisher.ts';
import { SpoolShippers } from './spool-shippers.ts';

const LOOK_INTERVAL_MS = 5_000;

export interface KafkaClickLog {
  readonly writer: KafkaLogWriter;
  readonly spool: DiskLogWriter;
  /** Those of spools that this worker ships by now. */
  shippers(): readonly SpoolShipper[];
  close(): Promise<void>;
}

export interface KafkaClickLogOptions {
  readonly config: Config;
  readonly paths: DataPaths;
  readonly index: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly spoolHooks: Pick<
    ConstructorParameters<typeof DiskLogWriter>[0],
    'onCommit' | 'onHealth'
  >;
  readonly onSettled: (by: 'kafka' | 'spool', records: number, waitedMs: number) => void;
}

/** Throws when the topic is missing or unsafe; a Kafka that cannot be reached is no reason not to start. */
export async function openKafkaClickLog(options: KafkaClickLogOptions): Promise<KafkaClickLog> {
  const { config, paths, index, clock, logger } = options;
  const { kafka, segmentBytes } = config.log;
  const clientId = `clickledger-click-${index}`;
  const open = await openPublisher({ kafka, clientId, clock, logger, refusesTopic: true });
  const { publisher } = open;
  const spool = new DiskLogWriter({
    logDir: paths.spool,
    partition: index,
    segmentBytes,
    clock,
    ...options.spoolHooks,
  });
  const writer = new KafkaLogWriter({
    ...WRITER_DEFAULTS,
    publisher,
    spool,
    publishDeadlineMs: kafka.publishDeadlineMs,
    lingerMs: kafka.lingerMs,
    breakerOpenMs: kafka.breakerOpenMs,
    onSettled: options.onSettled,
  });
  const spools = new SpoolShippers({
    ...{ paths, publisher, logger, lookIntervalMs: LOOK_INTERVAL_MS },
    shipRecordsPerSecond: kafka.shipRecordsPerSecond,
    wants: (partition) => partition % config.click.workers === index,
  });
  await spools.start();
  return {
    writer,
    spool,
    shippers: () => spools.shippers,
    close: async () => {
      await spools.close();
      await writer.close();
      await open.close();
    },
  };
}
