// Proves INV-1 of SPEC.md.
/** The Kafka writer when the broker hangs, is away or refuses, and the spool that takes over. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { KafkaCluster } from '../../src/log/kafka/cluster.ts';
import { readPosition, writePosition } from '../../src/log/kafka/position-file.ts';
import { Publisher } from '../../src/log/kafka/publisher.ts';
import { KafkaTopicWriter, type TopicWriterOptions } from '../../src/log/kafka/topic-writer.ts';
import { KafkaLogWriter, WRITER_DEFAULTS } from '../../src/log/kafka/writer.ts';
import type { ClickLogWriter } from '../../src/log/port.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { append, appendBytes, readAll } from '../conformance/log-suite.ts';
import { clickOf, countLog, Load, until } from '../support/kafka-clicks.ts';
import { FIRST, KafkaWorld } from '../support/kafka-world.ts';

/** A spool write, on a machine that does other things as well. */
const FSYNC_MS = 450;

let world: KafkaWorld;
beforeAll(async () => {
  world = await KafkaWorld.start();
});
afterEach(() => world.servers.brokers[0]!.thaw());
afterAll(() => world?.stop());

const brokenSpool: ClickLogWriter = {
  healthy: false,
  append: () => {
    throw new Error('the disk is full');
  },
  close: async () => {},
};

describe('a broker that hangs', () => {
  test('every click is answered within the deadline and one fsync, none is lost, each is counted once', async () => {
    const topic = await world.topic();
    const { writer, publisher, spoolDir } = await world.writer(topic);
    const [broker] = world.servers.brokers;
    const load = new Load(writer);
    await until('clicks are published', () => writer.counts.published > 500);
    broker!.freeze();
    await until('the breaker opens', () => writer.breakerState === 'open');
    const { expired, spooled } = writer.counts;
    await until('clicks are spooled', () => writer.counts.spooled > spooled + 2_000);
    // What was sent before it opened, and then one probe a second.
    expect(writer.counts.expired - expired).toBeLessThan(1_000);
    expect(writer.counts.expired).toBeLessThan(writer.counts.spooled / 2);
    broker!.thaw();
    const before = writer.counts.published;
    await until('clicks are published again', () => writer.counts.published > before + 500);
    expect(writer.breakerState).toBe('closed');
    await load.stop();
    await writer.close();
    expect(load.failures).toEqual([]);
    expect(load.acknowledged.size).toBe(load.taken);
    expect(load.slowestMs).toBeLessThan(WRITER_DEFAULTS.publishDeadlineMs + FSYNC_MS);

    const shipper = world.shipper(spoolDir, publisher);
    await shipper.start();
    await until('the spool is shipped', async () => (await shipper.backlogRecords()) === 0);
    const log = await countLog(world.reader(topic));
    expect(log.impressions.size).toBe(load.taken);
    expect(log.counted).toBe(load.taken);
    // What lay in the socket when the broker froze was written by it and by the shipper.
    expect(log.duplicates).toBeGreaterThan(0);
    expect(log.records).toBe(load.taken + log.duplicates);
  });

  test('a writer that is closed meanwhile leaves what waits in the spool', async () => {
    const topic = await world.topic();
    const { writer, publisher, spoolDir } = await world.writer(topic);
    await append(writer, 'before');
    const [broker] = world.servers.brokers;
    broker!.freeze();
    const acknowledged: (Error | null)[] = [];
    for (let i = 0; i < 300; i++) {
      const click = clickOf(`closing-${i}`);
      writer.append(click, click.length, (error) => acknowledged.push(error));
    }
    await writer.close();
    broker!.thaw();
    expect(acknowledged).toEqual(new Array(300).fill(null));
    expect(() => writer.append(Buffer.from('x'), 1, () => {})).toThrow('closing');
    const shipper = world.shipper(spoolDir, publisher);
    await shipper.start();
    await until('the spool is shipped', async () => (await shipper.backlogRecords()) === 0);
    const texts = await world.everything(topic);
    for (let i = 0; i < 300; i++) {
      expect(texts.some((text) => text.includes(`closing-${i}`))).toBe(true);
    }
  });

  test('without a spool that works, the click is refused, not acknowledged', async () => {
    const topic = await world.topic();
    const { writer } = await world.writer(topic, {
      spool: brokenSpool,
      breakerFailures: 1,
      breakerLastingMs: 0,
    });
    expect(writer.healthy).toBe(true);
    const [broker] = world.servers.brokers;
    broker!.freeze();
    await expect(append(writer, 'lost')).rejects.toThrow('the disk is full');
    expect(writer.healthy).toBe(false);
    // The breaker is open, yet Kafka is what is left: the record goes there, and is taken.
    broker!.thaw();
    await until('Kafka takes clicks', () =>
      append(writer, 'taken').then(
        () => true,
        () => false,
      ),
    );
    expect(writer.counts).toMatchObject({ spooled: 0 });
    await until('the breaker closes', async () => {
      await append(writer, 'more').catch(() => {});
      return writer.healthy;
    });
    await writer.close();
  });
});

describe('a broker that is away', () => {
  test('clicks are spooled from the first one on', async () => {
    const connection = { ...world.connection, brokers: ['127.0.0.1:9'], connectTimeoutMs: 200 };
    const cluster = new KafkaCluster(connection, 'nowhere');
    const publisher = new Publisher({
      ...{ cluster, topic: 'nowhere', compression: 'lz4' as const },
      ...{ timeoutMs: 1_000, clock: systemClock },
    });
    const spool = world.spool(world.folder());
    const writer = new KafkaLogWriter({ ...WRITER_DEFAULTS, publisher, spool });
    await Promise.all(Array.from({ length: 50 }, (_, i) => appendBytes(writer, clickOf(`a${i}`))));
    expect(writer.counts).toMatchObject({ published: 0, spooled: 50, failed: 0 });
    expect(writer.healthy).toBe(true);
    await writer.close();
    await cluster.close();
  });
});

describe('a writer without a spool', () => {
  async function topicWriter(options: Partial<TopicWriterOptions> = {}) {
    const topic = await world.topic({ partitions: 1 });
    const { publisher, cluster } = await world.publisher(topic);
    const closeConnections = (): Promise<void> => cluster.close();
    return { topic, writer: new KafkaTopicWriter({ publisher, closeConnections, ...options }) };
  }

  test('acknowledges what is in the topic, keyed like every click', async () => {
    const { topic, writer } = await topicWriter();
    const texts = Array.from({ length: 700 }, (_, i) => `record ${i}`);
    await Promise.all(texts.map((text) => append(writer, text)));
    await writer.close();
    expect(await readAll(world.reader(topic), FIRST)).toEqual(texts);
    expect(() => writer.append(Buffer.from('x'), 1, () => {})).toThrow('closing');
  });

  test('waits for a broker that hangs, and every record is there in the end', async () => {
    const { topic, writer } = await topicWriter();
    const [broker] = world.servers.brokers;
    broker!.freeze();
    const taken = Array.from({ length: 50 }, (_, i) => append(writer, `record ${i}`));
    await Bun.sleep(5_500);
    broker!.thaw();
    await Promise.all(taken);
    expect(writer.healthy).toBe(true);
    expect(new Set(await readAll(world.reader(topic), FIRST)).size).toBe(50);
    await writer.close();
  });

  test('gives up after its time with an error that says to try again, and is well again afterwards', async () => {
    const { writer } = await topicWriter({ giveUpAfterMs: 300 });
    const [broker] = world.servers.brokers;
    broker!.freeze();
    await expect(append(writer, 'lost')).rejects.toMatchObject({
      code: 'log_unavailable',
      kind: 'retry',
    });
    expect(writer.healthy).toBe(false);
    broker!.thaw();
    await until('it takes records', () =>
      append(writer, 'taken').then(
        () => true,
        () => false,
      ),
    );
    expect(writer.healthy).toBe(true);
    await writer.close();
  });

  test('refuses a record at once when the topic must not be written to, or too much waits', async () => {
    const topic = await world.topic({ partitions: 1 });
    const { publisher, cluster } = await world.publisher(topic);
    const writer = new KafkaTopicWriter({
      ...{ publisher, closeConnections: () => cluster.close(), maxPendingBytes: 10 },
    });
    publisher.hold(new LedgerError('topic_unsafe', 'it would lose clicks'));
    await expect(append(writer, 'x')).rejects.toMatchObject({ code: 'topic_unsafe' });
    expect(() => writer.append(Buffer.alloc(11), 11, () => {})).toThrow('too many clicks wait');
    await writer.close();
  });
});

describe('the bound on what waits', () => {
  test('a burst above it is refused at once, and nothing of it was taken', async () => {
    const topic = await world.topic({ partitions: 1 });
    const { writer } = await world.writer(topic, {
      maxPendingBytes: 1_000,
      publishDeadlineMs: 20_000,
    });
    const taken = Array.from({ length: 10 }, (_, i) => append(writer, `${i}`.repeat(100)));
    expect(() => writer.append(Buffer.from('x'), 1, () => {})).toThrow('too many clicks wait');
    await Promise.all(taken);
    await append(writer, 'after');
    await writer.close();
    expect(await readAll(world.reader(topic), FIRST)).toHaveLength(11);
  });
});

describe('the shipper', () => {
  const RECORDS = 3_000;

  async function spooled() {
    const topic = await world.topic({ partitions: 1 });
    const { publisher } = await world.publisher(topic);
    const spoolDir = world.folder();
    const spool = world.spool(spoolDir);
    const texts = Array.from({ length: RECORDS }, (_, i) => `record ${i} ${'x'.repeat(60)}`);
    for (let i = 0; i < RECORDS; i += 100) {
      await Promise.all(texts.slice(i, i + 100).map((text) => append(spool, text)));
    }
    await spool.close();
    return { topic, publisher, spoolDir, texts, position: join(spoolDir, 'shipped', 'shipped-0') };
  }
  const segments = (spoolDir: string): number =>
    readdirSync(join(spoolDir, 'p0')).filter((name) => name.endsWith('.log')).length;

  test('brings everything into the topic in order, then removes the segments', async () => {
    const { topic, publisher, spoolDir, texts, position } = await spooled();
    expect(segments(spoolDir)).toBeGreaterThan(2);
    const shipper = world.shipper(spoolDir, publisher);
    await shipper.start();
    await until('all is shipped', async () => (await shipper.backlogRecords()) === 0);
    await until('nothing waits', () => shipper.oldestAppendedAtMs === null);
    expect(await readAll(world.reader(topic), FIRST)).toEqual(texts);
    expect(readPosition(position)).toBe(RECORDS);
    expect(segments(spoolDir)).toBe(1);
    await shipper.close();
  });

  test('keeps to its rate', async () => {
    const { publisher, spoolDir } = await spooled();
    const shipper = world.shipper(spoolDir, publisher, { shipRecordsPerSecond: 2_000 });
    const startedMs = performance.now();
    await shipper.start();
    await until('a third is shipped', () => shipper.shipped >= RECORDS / 3);
    await shipper.close();
    // The stretch after which it was looked has not been waited for.
    expect(performance.now() - startedMs).toBeGreaterThan(((RECORDS / 3 - 500) / 2_000) * 1_000);
    expect(shipper.shipped).toBeLessThan(RECORDS);
  });

  test('goes on where it ended, without repeating anything', async () => {
    const { topic, publisher, spoolDir, texts } = await spooled();
    const first = world.shipper(spoolDir, publisher, { shipRecordsPerSecond: 5_000 });
    await first.start();
    await until('some is shipped', () => first.shipped >= 500);
    await first.close();
    const second = world.shipper(spoolDir, publisher);
    await second.start();
    await until('all is shipped', async () => (await second.backlogRecords()) === 0);
    expect(await readAll(world.reader(topic), FIRST)).toEqual(texts);
  });

  test('that died between publishing and noting it repeats that stretch and misses nothing', async () => {
    const { topic, publisher, spoolDir, texts, position } = await spooled();
    const first = world.shipper(spoolDir, publisher, { removeShipped: () => {} });
    await first.start();
    await until('all is shipped', async () => (await first.backlogRecords()) === 0);
    await first.close();
    writePosition(position, 2_500);
    const second = world.shipper(spoolDir, publisher);
    await second.start();
    await until('all is shipped again', async () => (await second.backlogRecords()) === 0);
    expect(await readAll(world.reader(topic), FIRST)).toEqual([...texts, ...texts.slice(2_500)]);
  });

  test('that died before it removed the segments removes them when it starts', async () => {
    const { topic, publisher, spoolDir, texts } = await spooled();
    const first = world.shipper(spoolDir, publisher, { removeShipped: () => {} });
    await first.start();
    await until('all is shipped', async () => (await first.backlogRecords()) === 0);
    await first.close();
    expect(segments(spoolDir)).toBeGreaterThan(2);
    const second = world.shipper(spoolDir, publisher);
    await second.start();
    expect(segments(spoolDir)).toBe(1);
    expect(await readAll(world.reader(topic), FIRST)).toEqual(texts);
  });

  test('a position that does not fit the spool means the beginning of it', async () => {
    const { topic, publisher, spoolDir, texts, position } = await spooled();
    // Makes the folder of the position.
    const first = world.shipper(spoolDir, publisher, { removeShipped: () => {} });
    await first.start();
    await first.close();
    writePosition(position, RECORDS + 7);
    const shipper = world.shipper(spoolDir, publisher);
    await shipper.start();
    await until('all is shipped', async () => (await shipper.backlogRecords()) === 0);
    expect(new Set(await readAll(world.reader(topic), FIRST))).toEqual(new Set(texts));
  });

  test('waits for a broker that hangs, says so, and then goes on', async () => {
    const { topic, publisher, spoolDir, texts } = await spooled();
    const health: boolean[] = [];
    const [broker] = world.servers.brokers;
    broker!.freeze();
    const shipper = world.shipper(spoolDir, publisher, {
      onHealth: (error) => health.push(error === null),
    });
    await shipper.start();
    await until('it has said that it cannot ship', () => health.length > 0);
    expect(shipper.position).toBe(0);
    broker!.thaw();
    await until('all is shipped', async () => (await shipper.backlogRecords()) === 0);
    expect(health).toEqual([false, true]);
    expect(new Set(await readAll(world.reader(topic), FIRST))).toEqual(new Set(texts));
  });
});
