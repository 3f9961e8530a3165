/**
 * The click log on Kafka: how fast clicks are published and read, against the client's own calls for
 * the same records. One broker on the same cores: the figures compare, they do not promise.
 */
import { Consumer, Producer } from '@platformatic/kafka';
import { KafkaLogReader } from '../src/log/kafka/reader.ts';
import { createTopic } from '../src/log/kafka/topic.ts';
import { KafkaServers } from '../test/support/kafka.ts';
import { clickOf } from '../test/support/kafka-clicks.ts';
import { type Compression, paced, withWriter } from './cluster/writer.ts';
import { heading, thousands } from './support.ts';

const RECORDS = Number(process.argv[2] ?? 300_000);
const ROUNDS = 3;
const PARTITIONS = 32;
/** Clicks that wait at once: what a busy worker has. */
const IN_FLIGHT = 2_000;
const PACED_PER_MS = 5;
const PACED_MS = 6_000;
const CLIENT_BATCH = 500;
const CLIENT_SENDS = 4;

const clicks = Array.from({ length: 10_000 }, (_, i) => clickOf(`impression-${i}`));
const servers = await KafkaServers.start();
const connection = {
  clientId: 'bench',
  brokers: servers.addresses,
  connectTimeoutMs: 2_000,
  requestTimeoutMs: 10_000,
};

async function freshTopic(name: string): Promise<string> {
  const plan = { topic: name, partitions: PARTITIONS, replication: 1, retentionMs: 3_600_000 };
  await createTopic(connection, plan);
  const reader = new KafkaLogReader({ connection, topic: name, firstPartition: 0 });
  for (const partition of await reader.partitions()) await reader.range(partition);
  await reader.close();
  return name;
}

/** Processor time of this process a record, all its threads: what publishing takes from redirects. */
function cpuSince(before: NodeJS.CpuUsage): string {
  const { user, system } = process.cpuUsage(before);
  return `${((user + system) / RECORDS).toFixed(1)} µs of processor a record`;
}

function report(what: string, elapsedMs: number, more = ''): void {
  console.log(
    `${what.padEnd(44)} ${thousands((RECORDS / elapsedMs) * 1_000).padStart(9)} /s ${more}`,
  );
}

/** Appends, with so many waiting at once, until all are acknowledged. */
async function ours(topic: string, compression: Compression): Promise<void> {
  const plan = { compression, publishDeadlineMs: 10_000 };
  await withWriter({ connection, topic }, plan, async (writer) => {
    const before = process.cpuUsage();
    const startedMs = performance.now();
    await new Promise<void>((resolve) => {
      let taken = 0;
      let answered = 0;
      const next = (): void => {
        while (taken < RECORDS && taken - answered < IN_FLIGHT) {
          const click = clicks[taken++ % clicks.length]!;
          writer.append(click, click.length, () => {
            if (++answered === RECORDS) resolve();
            else if (taken - answered < IN_FLIGHT / 2) next();
          });
        }
      };
      next();
    });
    const elapsedMs = performance.now() - startedMs;
    report(`publish, our writer, ${compression}`, elapsedMs, cpuSince(before));
  });
}

async function theirs(topic: string, compression: Compression): Promise<void> {
  const producer = new Producer({
    clientId: 'bench-client',
    bootstrapBrokers: servers.addresses,
    compression,
  });
  let next = 0;
  const before = process.cpuUsage();
  const startedMs = performance.now();
  const lane = async (): Promise<void> => {
    while (next < RECORDS) {
      const from = next;
      next += CLIENT_BATCH;
      const messages = Array.from({ length: Math.min(CLIENT_BATCH, RECORDS - from) }, (_, i) => ({
        topic,
        key: Buffer.from(`impression-${(from + i) % clicks.length}`),
        value: clicks[(from + i) % clicks.length]!,
      }));
      await producer.send({ messages, acks: -1 });
    }
  };
  await Promise.all(Array.from({ length: CLIENT_SENDS }, lane));
  const elapsedMs = performance.now() - startedMs;
  report(
    `publish, the client’s send of ${CLIENT_BATCH}, ${compression}`,
    elapsedMs,
    cpuSince(before),
  );
  await producer.close();
}

async function readOurs(topic: string): Promise<void> {
  const reader = new KafkaLogReader({ connection, topic, firstPartition: 0 });
  const partitions = await reader.partitions();
  let records = 0;
  const startedMs = performance.now();
  for (const partition of partitions) {
    for (let next = 0; ; ) {
      const batches = await reader.read(partition, next, 1024 * 1024);
      const last = batches.at(-1);
      if (last === undefined) break;
      records += last.firstOffset + last.count - next;
      next = last.firstOffset + last.count;
    }
  }
  report(`read, our reader (${thousands(records)} records)`, performance.now() - startedMs);
  await reader.close();
}

async function readTheirs(topic: string): Promise<void> {
  const consumer = new Consumer({
    ...{ clientId: 'bench-consumer', groupId: `bench-${topic}` },
    ...{ bootstrapBrokers: servers.addresses, autocommit: false },
  });
  const stream = await consumer.consume({ topics: [topic], mode: 'earliest' });
  let records = 0;
  const startedMs = performance.now();
  for await (const _ of stream) if (++records === RECORDS) break;
  report('read, the client’s consumer', performance.now() - startedMs);
  await consumer.close(true);
}

heading(
  `Click log on Kafka: ${thousands(RECORDS)} clicks of ${clicks[0]!.length} bytes, ${PARTITIONS} partitions`,
);
try {
  for (let round = 0; round < ROUNDS; round++) {
    for (const compression of ['none', 'lz4', 'zstd'] as const) {
      const own = await freshTopic(`ours-${compression}-${round}`);
      await ours(own, compression);
      await theirs(await freshTopic(`theirs-${compression}-${round}`), compression);
      await readOurs(own);
    }
    await readTheirs(`ours-lz4-${round}`);
    const topic = await freshTopic(`paced-${round}`);
    await withWriter({ connection, topic }, { compression: 'lz4' }, (writer) =>
      paced(writer, clicks, { perMs: PACED_PER_MS, forMs: PACED_MS }),
    );
  }
} finally {
  await servers.stop();
}
