/**
 * Where what is ingested and redriven goes: into the ledger's own partition on the disk, or into the
 * topic, without a spool: whoever hands it in waits, and can hand it in again.
 */
import { type DataPaths, LEDGER_PARTITION } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { DiskLogWriter } from '../log/disk/writer.ts';
import type { ClickLogWriter } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import type { Logger } from '../platform/logger.ts';
import { reportRecovery } from './report-recovery.ts';

export interface LedgerWriter {
  readonly writer: ClickLogWriter;
  /** Acknowledged records that it lacked when it was opened; on Kafka the brokers' own care. */
  readonly lostRecords: number;
}

export async function openLedgerWriter(
  config: Pick<Config, 'log'>,
  { paths, clock, logger }: { paths: DataPaths; clock: Clock; logger: Logger },
): Promise<LedgerWriter> {
  if (config.log.kind === 'kafka') {
    return { writer: await openTopicWriter(config.log.kafka, clock, logger), lostRecords: 0 };
  }
  const writer = new DiskLogWriter({
    logDir: paths.log,
    partition: LEDGER_PARTITION,
    segmentBytes: config.log.segmentBytes,
    clock,
    onHealth: (error) => logger[error === null ? 'info' : 'error']({ err: error }, 'log health'),
  });
  reportRecovery(writer, logger);
  return { writer, lostRecords: writer.recovery.lostRecords };
}

async function openTopicWriter(
  kafka: Config['log']['kafka'],
  clock: Clock,
  logger: Logger,
): Promise<ClickLogWriter> {
  const { openPublisher } = await import('./kafka-publisher.ts');
  const { KafkaTopicWriter } = await import('../log/kafka/topic-writer.ts');
  const clientId = 'clickledger-ledger';
  const open = await openPublisher({ kafka, clientId, clock, logger, refusesTopic: false });
  return new KafkaTopicWriter({ publisher: open.publisher, closeConnections: () => open.close() });
}
