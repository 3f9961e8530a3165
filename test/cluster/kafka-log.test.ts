/** The Kafka log against a real broker: what every click log must do, and what only this one can. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  Admin,
  compatibilityPartitioner,
  Producer,
  stringSerializers,
  murmur2 as theirMurmur2,
} from '@platformatic/kafka';
import { encodeEvent, MAX_EVENT_BYTES } from '../../src/event/codec.ts';
import { murmur2 } from '../../src/log/kafka/partitioner.ts';
import { checkTopic, createTopic } from '../../src/log/kafka/topic.ts';
import { append, appendBytes, clickLogSuite, readAll } from '../conformance/log-suite.ts';
import { FIRST, KafkaWorld } from '../support/kafka-world.ts';

let world: KafkaWorld;
beforeAll(async () => {
  world = await KafkaWorld.start();
});
afterAll(() => world?.stop());

clickLogSuite('kafka', async () => {
  const topic = await world.topic();
  return {
    openWriter: async (partition: number) =>
      // A broker in a cold virtual machine on a busy test machine takes its time.
      (await world.writer(topic, { fixedPartition: partition, publishDeadlineMs: 20_000 })).writer,
    // The suite is that of all logs, whose partitions begin at 0.
    openReader: async () => world.reader(topic, { firstPartition: 0 }),
    cleanUp: async () => {},
    partitionsFromStart: [0, 1, 2, 3],
  };
});

const event = (impressionId: string, out = Buffer.alloc(MAX_EVENT_BYTES)): Buffer =>
  out.subarray(
    0,
    encodeEvent(
      {
        impressionId,
        adId: 'ad1',
        advertiserId: 'adv1',
        campaignId: 'c1',
        clickedAtMs: Date.now(),
        country: 'DE',
        device: 'mobile',
        class: 'click',
        source: 'http',
        geoVersion: 1,
        ip: '192.0.2.1',
        userAgent: 'Mozilla/5.0',
        referer: '',
      },
      out,
      0,
    ),
  );

/** The client's own producer: what another program would write. */
async function foreign(
  topic: string,
  messages: { key?: string; value: Buffer | null; partition?: number }[],
): Promise<void> {
  const producer = new Producer({
    clientId: 'other',
    bootstrapBrokers: world.servers.addresses,
    partitioner: compatibilityPartitioner,
  });
  await producer.send({
    acks: -1,
    messages: messages.map(({ key, value, partition }) => ({
      topic,
      ...(key !== undefined && { key: Buffer.from(key) }),
      // A null value is what a tombstone is; the client's types know only of buffers.
      value: value as Buffer,
      ...(partition !== undefined && { partition }),
    })),
  });
  await producer.close();
}

describe('partitions', () => {
  test('the hash is the one of the client, for every length', () => {
    for (let length = 0; length < 70; length++) {
      const bytes = Buffer.from(Array.from({ length }, (_, i) => (i * 37 + length * 11) & 0xff));
      expect(murmur2(bytes, 0, length) | 0).toBe(theirMurmur2(bytes) | 0);
    }
  });

  test('a click lies in the partition in which another producer puts the same impression id', async () => {
    const topic = await world.topic({ partitions: 5 });
    const { writer } = await world.writer(topic, { publishDeadlineMs: 20_000 });
    const ids = Array.from({ length: 40 }, (_, i) => `imp-${i + 100}-${i * i}`);
    await Promise.all(ids.map((id) => appendBytes(writer, event(id))));
    await foreign(
      topic,
      ids.map((id) => ({ key: id, value: Buffer.from(`theirs ${id}`) })),
    );
    const reader = world.reader(topic);
    for (const partition of await reader.partitions()) {
      const texts = await readAll(reader, partition);
      const theirs = texts.filter((text) => text.startsWith('theirs '));
      const ours = texts.filter((text) => !text.startsWith('theirs '));
      expect(theirs.length).toBeGreaterThan(0);
      expect(ours).toHaveLength(theirs.length);
      for (const text of theirs) {
        expect(ours.some((each) => each.includes(text.slice(7)))).toBe(true);
      }
    }
    await writer.close();
  });
});

describe('what others leave in the topic', () => {
  test('a null value is an empty record, and the records behind it are read', async () => {
    const topic = await world.topic({ partitions: 1 });
    await foreign(topic, [
      { key: 'a', value: Buffer.from('first') },
      { key: 'a', value: null },
      { key: 'a', value: Buffer.from('third') },
    ]);
    expect(await readAll(world.reader(topic), FIRST)).toEqual(['first', '', 'third']);
  });

  test('a hole in the offsets is told and stands as empty records, not skipped', async () => {
    const topic = await world.topic({ partitions: 1 });
    const producer = new Producer({
      clientId: 'transactional',
      bootstrapBrokers: world.servers.addresses,
      transactionalId: 'tx-1',
      idempotent: true,
      serializers: stringSerializers,
    });
    for (const value of ['one', 'two']) {
      const transaction = await producer.beginTransaction();
      await transaction.send({ messages: [{ topic, key: 'k', value }] });
      await transaction.commit();
    }
    await producer.close();
    const missing: number[] = [];
    const reader = world.reader(topic, {
      onMissing: ({ firstOffset, count }) => missing.push(firstOffset, count),
    });
    // The end of a transaction takes an offset that no consumer gets to see.
    expect(await readAll(reader, FIRST)).toEqual(['one', '', 'two', '']);
    expect(missing).toEqual([1, 1, 3, 1]);
  });

  for (const compression of ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const) {
    test(`records that another producer has packed with ${compression} are read`, async () => {
      const topic = await world.topic({ partitions: 1 });
      const texts = Array.from({ length: 300 }, (_, i) => `record ${i} ${'y'.repeat(i)}`);
      const producer = new Producer({
        clientId: 'packing',
        bootstrapBrokers: world.servers.addresses,
        serializers: stringSerializers,
        compression,
      });
      await producer.send({ acks: -1, messages: texts.map((value) => ({ topic, value })) });
      await producer.close();
      expect(await readAll(world.reader(topic), FIRST)).toEqual(texts);
    });
  }
});

describe('offsets that the topic does not hold', () => {
  test('one that fell off the log is refused, and never becomes where the log begins', async () => {
    const topic = await world.topic({ partitions: 1 });
    const { writer } = await world.writer(topic, { publishDeadlineMs: 20_000 });
    for (let i = 0; i < 10; i++) await append(writer, `r${i}`);
    await writer.close();
    const admin = new Admin({ clientId: 'admin', bootstrapBrokers: world.servers.addresses });
    await admin.deleteRecords({
      topics: [{ name: topic, partitions: [{ partition: 0, offset: 6n }] }],
    });
    await admin.close();
    const reader = world.reader(topic);
    expect(await reader.range(FIRST)).toEqual({ partition: FIRST, firstOffset: 6, endOffset: 10 });
    await expect(reader.read(FIRST, 5, 4096)).rejects.toMatchObject({
      code: 'offset_out_of_retention',
      kind: 'refuse',
    });
    expect(await readAll(reader, FIRST, 6)).toEqual(['r6', 'r7', 'r8', 'r9']);
  });

  test('places are found by the time of the append', async () => {
    const topic = await world.topic({ partitions: 2 });
    const { writer } = await world.writer(topic, { fixedPartition: 1, publishDeadlineMs: 20_000 });
    const reader = world.reader(topic);
    expect(await reader.partitions()).toEqual([FIRST, FIRST + 1]);
    const beforeMs = Date.now();
    expect(await reader.offsetAt(FIRST + 1, 0)).toBe(0);
    for (const text of ['a', 'b']) await append(writer, text);
    await Bun.sleep(20);
    const betweenMs = Date.now();
    await Bun.sleep(20);
    for (const text of ['c', 'd', 'e']) await append(writer, text);
    await writer.close();
    expect(await reader.offsetAt(FIRST + 1, beforeMs)).toBe(0);
    expect(await reader.offsetAt(FIRST + 1, betweenMs)).toBe(2);
    expect(await reader.offsetAt(FIRST + 1, Date.now() + 60_000)).toBe(5);
    expect(await reader.offsetAt(FIRST + 1, -1)).toBe(0);
    expect(await reader.offsetAt(FIRST, beforeMs)).toBe(0);
    await expect(reader.range(1)).rejects.toMatchObject({ code: 'log_missing' });
  });

  test('one beyond the end says that the log has lost records', async () => {
    const topic = await world.topic({ partitions: 1 });
    const reader = world.reader(topic);
    expect(await reader.read(FIRST, 0, 4096)).toEqual([]);
    await expect(reader.read(FIRST, 7, 4096)).rejects.toMatchObject({ code: 'log_damaged' });
  });

  test('a topic that is made anew under its name is refused by a reader of the old one', async () => {
    const topic = await world.topic({ partitions: 1 });
    const { writer } = await world.writer(topic, { publishDeadlineMs: 20_000 });
    await append(writer, 'old');
    await writer.close();
    const reader = world.reader(topic);
    expect(await readAll(reader, FIRST)).toEqual(['old']);
    const admin = new Admin({ clientId: 'admin', bootstrapBrokers: world.servers.addresses });
    await admin.deleteTopics({ topics: [topic] });
    await admin.close();
    await world.createAgain(topic);
    await expect(readUntilRefused(reader)).rejects.toMatchObject({ code: 'log_replaced' });
  });

  /** The brokers may answer for the old topic a moment longer. */
  async function readUntilRefused(reader: ReturnType<typeof world.reader>): Promise<never> {
    for (;;) {
      await reader.read(FIRST, 1, 4096).catch((error) => {
        if (error.code !== 'log_damaged') throw error;
      });
      await Bun.sleep(20);
    }
  }
});

describe('the topic', () => {
  const plan = { partitions: 2, replication: 1, retentionMs: 3_600_000 };

  test('one that was made by us passes the check, and making it again changes nothing', async () => {
    const topic = await world.topic(plan);
    expect(await createTopic(world.connection, { ...plan, topic })).toBe(false);
    await checkTopic(world.connection, { ...plan, topic });
  });

  test('one that would lose or misdate clicks is refused with every reason at once', async () => {
    const admin = new Admin({ clientId: 'admin', bootstrapBrokers: world.servers.addresses });
    const configs = [
      { name: 'cleanup.policy', value: 'compact,delete' },
      { name: 'message.timestamp.type', value: 'CreateTime' },
      { name: 'retention.ms', value: '1000' },
    ];
    await admin.createTopics({ topics: ['unsafe'], partitions: 1, replicas: 1, configs });
    await admin.close();
    const refusal = checkTopic(world.connection, { ...plan, replication: 3, topic: 'unsafe' });
    await expect(refusal).rejects.toMatchObject({ code: 'topic_unsafe', kind: 'refuse' });
    const message = await refusal.catch((error: Error) => error.message);
    for (const said of [
      'message.timestamp.type is CreateTime, must be LogAppendTime',
      'cleanup.policy is compact,delete, must be delete',
      'min.insync.replicas is 1, must be 2',
      'retention.ms is 1000, must be 3600000',
      'a partition has 1 replicas, must be 3',
    ]) {
      expect(message).toContain(said);
    }
  });

  test('one that does not exist is named, and so is a cluster that does not answer', async () => {
    await expect(checkTopic(world.connection, { ...plan, topic: 'absent' })).rejects.toMatchObject({
      code: 'log_missing',
    });
    const nobody = { ...world.connection, brokers: ['127.0.0.1:9'], connectTimeoutMs: 200 };
    await expect(checkTopic(nobody, { ...plan, topic: 'absent' })).rejects.toMatchObject({
      code: 'log_unavailable',
      kind: 'retry',
    });
  });

  test('records that carry their producer’s time are refused by the reader', async () => {
    const admin = new Admin({ clientId: 'admin', bootstrapBrokers: world.servers.addresses });
    await admin.createTopics({ topics: ['producer-time'], partitions: 1, replicas: 1 });
    await admin.close();
    await world.leadersOf('producer-time');
    await foreign('producer-time', [{ value: Buffer.from('x'), partition: 0 }]);
    await expect(world.reader('producer-time').read(FIRST, 0, 4096)).rejects.toMatchObject({
      code: 'log_misdated',
    });
  });
});
