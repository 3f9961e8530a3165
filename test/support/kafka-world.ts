/** A cluster, and the parts of the Kafka log on topics and spools of their own, for one test file. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DiskLogReader } from '../../src/log/disk/reader.ts';
import { removeOldSegments } from '../../src/log/disk/retention.ts';
import { DiskLogWriter } from '../../src/log/disk/writer.ts';
import { KafkaCluster } from '../../src/log/kafka/cluster.ts';
import { type KafkaGroupOptions, KafkaPartitionGroup } from '../../src/log/kafka/group.ts';
import type { KafkaConnection } from '../../src/log/kafka/options.ts';
import { Publisher, type PublisherOptions } from '../../src/log/kafka/publisher.ts';
import { KafkaLogReader, type KafkaReaderOptions } from '../../src/log/kafka/reader.ts';
import { type ShipperOptions, SpoolShipper } from '../../src/log/kafka/shipper.ts';
import { createTopic, type TopicPlan } from '../../src/log/kafka/topic.ts';
import {
  KafkaLogWriter,
  type KafkaWriterOptions,
  WRITER_DEFAULTS,
} from '../../src/log/kafka/writer.ts';
import type { ClickLogWriter, RecordBatch } from '../../src/log/port.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { type KafkaOptions, KafkaServers } from './kafka.ts';
import { tempDir } from './temp-dir.ts';

/** The number of each topic's partition 0. */
export const FIRST = 10_000;

export interface WriterParts {
  readonly writer: KafkaLogWriter;
  readonly publisher: Publisher;
  readonly cluster: KafkaCluster;
  readonly spoolDir: string;
}

export class KafkaWorld {
  readonly servers: KafkaServers;
  readonly #dir = tempDir('kafka-world');
  readonly #closing: (() => Promise<void>)[] = [];
  #names = 0;

  private constructor(servers: KafkaServers) {
    this.servers = servers;
  }

  static async start(options?: KafkaOptions): Promise<KafkaWorld> {
    return new KafkaWorld(await KafkaServers.start(options));
  }

  get connection(): KafkaConnection {
    return {
      clientId: 'clickledger-test',
      brokers: this.servers.addresses,
      connectTimeoutMs: 1_000,
      requestTimeoutMs: 4_000,
    };
  }

  async topic(plan: Partial<TopicPlan> = {}): Promise<string> {
    const topic = `clicks-${++this.#names}`;
    await this.#create(topic, plan);
    return topic;
  }

  /** A topic of the same name, once the brokers have let go of the one that was deleted. */
  async createAgain(topic: string): Promise<void> {
    while (true) {
      const made = await this.#create(topic, { partitions: 1 }).catch(() => false);
      if (made) return;
      await Bun.sleep(50);
    }
  }

  async #create(topic: string, plan: Partial<TopicPlan>): Promise<boolean> {
    const replication = this.servers.brokers.length;
    const whole = { topic, partitions: 4, replication, retentionMs: 3_600_000, ...plan };
    const made = await createTopic(this.connection, whole);
    await this.leadersOf(topic);
    return made;
  }

  /** Leaders take office a moment after the topic is there. */
  async leadersOf(topic: string): Promise<void> {
    const reader = this.reader(topic, { patienceMs: 60_000 });
    for (const partition of await reader.partitions()) await reader.range(partition);
  }

  folder(): string {
    const path = join(this.#dir.path, `spool-${++this.#names}`);
    mkdirSync(path);
    return path;
  }

  /** A publisher of its own connections, once it knows who leads. */
  async publisher(topic: string, options: Partial<PublisherOptions> = {}) {
    const cluster = new KafkaCluster(this.connection, topic);
    this.#closing.push(() => cluster.close());
    await cluster.refresh();
    const publisher = new Publisher({
      cluster,
      topic,
      compression: 'lz4',
      timeoutMs: 3_000,
      clock: systemClock,
      ...options,
    });
    return { cluster, publisher };
  }

  async writer(
    topic: string,
    options: Partial<KafkaWriterOptions> & { fixedPartition?: number; spoolDir?: string } = {},
  ): Promise<WriterParts> {
    const { fixedPartition, spoolDir = this.folder(), ...rest } = options;
    const fixed = fixedPartition === undefined ? {} : { fixedPartition };
    const { cluster, publisher } = await this.publisher(topic, fixed);
    const spool = rest.spool ?? this.spool(spoolDir);
    const writer = new KafkaLogWriter({ ...WRITER_DEFAULTS, publisher, ...rest, spool });
    return { writer, publisher, cluster, spoolDir };
  }

  spool(spoolDir: string): ClickLogWriter {
    return new DiskLogWriter({
      logDir: spoolDir,
      partition: 0,
      segmentBytes: 65_536,
      clock: systemClock,
    });
  }

  shipper(
    spoolDir: string,
    publisher: Publisher,
    options: Partial<ShipperOptions> = {},
  ): SpoolShipper {
    const shipper = new SpoolShipper({
      publisher,
      spool: new DiskLogReader(spoolDir),
      partition: 0,
      positionDir: join(spoolDir, 'shipped'),
      shipRecordsPerSecond: 50_000,
      removeShipped: (safeOffset) => {
        removeOldSegments(spoolDir, 0, { safeOffset, olderThanMs: Number.POSITIVE_INFINITY });
      },
      ...options,
    });
    this.#closing.push(() => shipper.close());
    return shipper;
  }

  reader(topic: string, options: Partial<KafkaReaderOptions> = {}): KafkaLogReader {
    const { connection } = this;
    const reader = new KafkaLogReader({ connection, topic, firstPartition: FIRST, ...options });
    this.#closing.push(() => reader.close());
    return reader;
  }

  /** A member that does not wait as long as it would in earnest. */
  group(topic: string, options: Partial<KafkaGroupOptions> = {}): KafkaPartitionGroup {
    const group = new KafkaPartitionGroup({
      ...{ connection: this.connection, groupId: `${topic}-group`, topic, firstPartition: FIRST },
      ...{
        instanceId: null,
        sessionTimeoutMs: 3_000,
        heartbeatMs: 200,
        rebalanceTimeoutMs: 10_000,
      },
      ...options,
    });
    this.#closing.push(() => group.leave());
    return group;
  }

  /** Every record of the topic, as text. */
  async everything(topic: string): Promise<string[]> {
    const reader = this.reader(topic, { patienceMs: 60_000 });
    const texts: string[] = [];
    for (const partition of await reader.partitions()) {
      for (let next = 0; ; ) {
        const batches = await reader.read(partition, next, 1024 * 1024);
        const last = batches.at(-1);
        if (last === undefined) break;
        texts.push(...textsOf(batches, next));
        next = last.firstOffset + last.count;
      }
    }
    return texts;
  }

  async stop(): Promise<void> {
    for (const broker of this.servers.brokers) broker.thaw();
    for (const close of this.#closing.splice(0).reverse()) await close();
    await this.servers.stop();
    this.#dir.remove();
  }
}

export function textsOf(batches: readonly RecordBatch[], from: number): string[] {
  return batches.flatMap(({ firstOffset, count, bytes, bounds }) =>
    Array.from({ length: count }, (_, i) =>
      bytes.toString('utf8', bounds[2 * i]!, bounds[2 * i + 1]!),
    ).slice(Math.max(0, from - firstOffset)),
  );
}
