/**
 * What counting costs beside reading: one counter worker catches up with a topic, and the same records
 * are only read and parsed. Processor time is this process's, all its threads: broker and warehouse are others.
 *
 * Rounds of both alternate in one process; the first is left out, it is the compiler's. Medians.
 * `bun bench/cluster/counter.ts [--records 3000000] [--partitions 8] [--batch 4] [--ads 20000] [--rounds 3]
 * [--clickhouse] [--only read|count]`
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { configSchema } from '../../src/config/schema.ts';
import { RecordSource } from '../../src/counter/record-source.ts';
import type { CounterWorkerOptions } from '../../src/counter/worker.ts';
import type { KafkaConnection } from '../../src/log/kafka/options.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { openClickHouseWarehouse } from '../../src/warehouse/clickhouse/warehouse.ts';
import { TestClickHouse } from '../../test/support/clickhouse-server.ts';
import { KafkaServers } from '../../test/support/kafka.ts';
import { MadeClicks } from '../made-clicks.ts';
import { heading, median, thousands, withTempDir } from '../support.ts';
import { connectionOf, fillTopic, makeTopic, openReader, topicBytes } from './topic.ts';
import { beginHere, countedUntil, SINK, startWorker } from './worker.ts';

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '3000000' },
    partitions: { type: 'string', default: '8' },
    batch: { type: 'string', default: '4' },
    ads: { type: 'string', default: '20000' },
    rounds: { type: 'string', default: '3' },
    clickhouse: { type: 'boolean', default: false },
    only: { type: 'string' },
  },
});
const RECORDS = Number(values.records);
const PARTITIONS = Number(values.partitions);
const PER_BATCH = Number(values.batch);
const ROUNDS = Number(values.rounds);
const CLICKS_PER_MS = 10;
const READ_BYTES = 1024 * 1024;
const TOPIC = 'clicks';

interface Measured {
  readonly perSecond: number;
  readonly perCoreSecond: number;
}

async function measured(work: () => Promise<void>): Promise<Measured> {
  const before = process.cpuUsage();
  const startedMs = performance.now();
  await work();
  const elapsedMs = performance.now() - startedMs;
  const { user, system } = process.cpuUsage(before);
  return {
    perSecond: RECORDS / (elapsedMs / 1_000),
    perCoreSecond: RECORDS / ((user + system) / 1e6),
  };
}

/** Every partition side by side, one read ahead, as the worker reads. */
async function readAndParse(connection: KafkaConnection): Promise<void> {
  const reader = openReader(connection, TOPIC);
  const { maxSkewMs } = configSchema.parse({}).counting;
  let records = 0;
  const readPartition = async (partition: number): Promise<void> => {
    const source = new RecordSource(maxSkewMs);
    let ahead = reader.read(partition, 0, READ_BYTES);
    for (;;) {
      const batches = await ahead;
      const last = batches.at(-1);
      if (last === undefined) return;
      ahead = reader.read(partition, last.firstOffset + last.count, READ_BYTES);
      for (const batch of batches) {
        for (let i = 0; i < batch.count; i++) if (source.read(batch, i) === null) records++;
      }
    }
  };
  await Promise.all((await reader.partitions()).map(readPartition));
  await reader.close();
  if (records !== RECORDS) throw new Error(`${records} records were read`);
}

interface Counted {
  readonly connection: KafkaConnection;
  readonly groupId: string;
  readonly filledMs: number;
  readonly warehouse: CounterWorkerOptions['warehouse'];
}

async function count({ connection, groupId, filledMs, warehouse }: Counted): Promise<Measured> {
  return withTempDir(async (dir) => {
    let rows = 0;
    const { upsertLiveBatches } = warehouse;
    const result = await measured(async () => {
      const running = startWorker({
        ...{ connection, topic: TOPIC, groupId, dir },
        warehouse: {
          maxLiveVersion: (shard) => warehouse.maxLiveVersion(shard),
          upsertLiveBatches: (batches) => {
            for (const batch of batches) rows += batch.rows.length;
            return upsertLiveBatches.call(warehouse, batches);
          },
        },
      });
      await countedUntil(running.worker, filledMs);
      const { counted, duplicate } = running.worker.outcomes();
      await running.close();
      if (counted + duplicate !== RECORDS) throw new Error(`${counted + duplicate} were counted`);
    });
    console.log(`  (${(rows / RECORDS).toFixed(2)} rows upserted a record)`);
    return result;
  });
}

function line(what: string, { perSecond, perCoreSecond }: Measured): void {
  const figures = `${thousands(perSecond).padStart(9)} /s, ${thousands(perCoreSecond).padStart(9)} a core-second`;
  console.log(`${what.padEnd(34)} ${figures}`);
}

function medians(all: readonly Measured[]): Measured {
  return {
    perSecond: median(all.map(({ perSecond }) => perSecond)),
    perCoreSecond: median(all.map(({ perCoreSecond }) => perCoreSecond)),
  };
}

async function main(servers: KafkaServers, clickhouse: TestClickHouse | null): Promise<void> {
  const connection = connectionOf(servers);
  const groups = Array.from({ length: ROUNDS + 2 }, (_, round) => `round-${round}`);
  await makeTopic(connection, { topic: TOPIC, partitions: PARTITIONS });
  await withTempDir(async (dir) => {
    for (const groupId of groups) {
      await beginHere({ connection, topic: TOPIC, groupId }, join(dir, groupId));
    }
  });
  const clicks = new MadeClicks({
    ...{ ads: Number(values.ads), perMs: CLICKS_PER_MS, repeatShare: 0.02 },
    firstMs: systemClock() - RECORDS / CLICKS_PER_MS,
  });
  const plan = { topic: TOPIC, partitions: PARTITIONS, records: RECORDS, perBatch: PER_BATCH };
  await fillTopic(connection, plan, clicks);
  const filledMs = systemClock();
  const size = (topicBytes(servers, TOPIC) / RECORDS).toFixed(0);
  console.log(`${size} bytes a record in the topic, lz4, about ${PER_BATCH} to a batch`);

  const reading: Measured[] = [];
  const counting: Measured[] = [];
  const countInto = (groupId: string, warehouse: Counted['warehouse']) =>
    count({ connection, groupId, filledMs, warehouse });
  for (let round = 0; round <= ROUNDS; round++) {
    if (values.only !== 'count') {
      const read = await measured(() => readAndParse(connection));
      if (round > 0) reading.push(read);
      line(`round ${round}: read and parse`, read);
    }
    if (values.only !== 'read') {
      const counted = await countInto(groups[round]!, SINK);
      if (round > 0) counting.push(counted);
      line(`round ${round}: count`, counted);
    }
  }
  line('read and parse', medians(reading));
  line('count, rows taken at once', medians(counting));
  const ratio = medians(counting).perCoreSecond / medians(reading).perCoreSecond;
  console.log(`counting against reading, by processor: ${ratio.toFixed(2)}   (target >= 0.60)`);
  if (clickhouse === null) return;
  const options = { server: clickhouse.options(), minuteTtlDays: 90, hourTtlDays: 1_098 };
  const warehouse = await openClickHouseWarehouse(options);
  line('count, rows to ClickHouse', await countInto(groups.at(-1)!, warehouse));
  await warehouse.close();
}

heading(
  `A counter on Kafka: ${thousands(RECORDS)} clicks, ${PARTITIONS} partitions, ${PER_BATCH} to a batch`,
);
const servers = await KafkaServers.start();
const clickhouse = values.clickhouse ? await TestClickHouse.start() : null;
try {
  await main(servers, clickhouse);
} finally {
  await servers.stop();
  await clickhouse?.dispose();
}
process.exit(0);
