/** Where clicks are read: the log's folder, or the Kafka topic. */
import type { DataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { DiskLogReader } from '../log/disk/reader.ts';
import type { ClickLogReader, LogTimes } from '../log/port.ts';
import type { Logger } from '../platform/logger.ts';

export async function openLogReader(
  config: Config,
  paths: DataPaths,
  logger: Logger,
): Promise<ClickLogReader> {
  if (config.log.kind === 'disk') return new DiskLogReader(paths.log);
  return openTopicReader(config, 'clickledger-ledger', logger);
}

export type TopicReader = ClickLogReader & LogTimes & { logId(): Promise<string> };

export async function openTopicReader(
  config: Pick<Config, 'log'>,
  clientId: string,
  logger: Logger,
): Promise<TopicReader> {
  const { KafkaLogReader } = await import('../log/kafka/reader.ts');
  const { kafkaConnection } = await import('./kafka-connection.ts');
  const { kafka } = config.log;
  return new KafkaLogReader({
    connection: kafkaConnection(kafka, clientId),
    topic: kafka.topic,
    firstPartition: kafka.firstPartition,
    onMissing: (missing) =>
      logger.error(missing, 'the topic has a hole: these offsets hold no click'),
  });
}
