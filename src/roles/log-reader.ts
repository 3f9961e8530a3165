/**
 * Where the ledger reads clicks: the log's folder, or the Kafka topic together with the partition that
 * the ledger writes itself, which stays on its disk.
 */
import { type DataPaths, LEDGER_PARTITION } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { DiskLogReader } from '../log/disk/reader.ts';
import type { ClickLogReader, PartitionRange, RecordBatch } from '../log/port.ts';
import { assert } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';

export async function openLogReader(
  config: Config,
  paths: DataPaths,
  logger: Logger,
): Promise<ClickLogReader> {
  const disk = new DiskLogReader(paths.log);
  if (config.log.kind === 'disk') return disk;
  const { KafkaLogReader } = await import('../log/kafka/reader.ts');
  const { kafkaConnection } = await import('./kafka-log.ts');
  const { kafka } = config.log;
  const topic = new KafkaLogReader({
    connection: kafkaConnection(kafka, 'clickledger-ledger'),
    topic: kafka.topic,
    onMissing: (missing) =>
      logger.error(missing, 'the topic has a hole: these offsets hold no click'),
  });
  return new TopicAndOwnPartition(topic, disk);
}

class TopicAndOwnPartition implements ClickLogReader {
  readonly #topic: ClickLogReader;
  readonly #disk: ClickLogReader;

  constructor(topic: ClickLogReader, disk: ClickLogReader) {
    this.#topic = topic;
    this.#disk = disk;
  }

  async partitions(): Promise<number[]> {
    const own = (await this.#disk.partitions()).filter((each) => each === LEDGER_PARTITION);
    const topic = await this.#topic.partitions();
    assert(
      topic.length <= LEDGER_PARTITION,
      'the topic has more partitions than there are numbers',
    );
    return [...topic, ...own];
  }

  range(partition: number): Promise<PartitionRange> {
    return this.#of(partition).range(partition);
  }

  read(partition: number, fromOffset: number, maxBytes: number): Promise<RecordBatch[]> {
    return this.#of(partition).read(partition, fromOffset, maxBytes);
  }

  async close(): Promise<void> {
    await Promise.all([this.#topic.close(), this.#disk.close()]);
  }

  #of(partition: number): ClickLogReader {
    return partition < LEDGER_PARTITION ? this.#topic : this.#disk;
  }
}
