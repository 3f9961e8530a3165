/**
 * Catching up after ten minutes in which nobody counted, at 10,000 clicks a second: from the start of the
 * counter processes until all is counted and in ClickHouse. The roles as they are run, broker, ClickHouse
 * (the tests' server) and counters on the same cores.
 *
 * `bun bench/cluster/outage.ts [--records 6000000] [--partitions 8] [--batch 4] [--ads 20000]
 * [--counters 1,2] [--live]`; `--live`: new clicks at 10,000 a second meanwhile, out of this process.
 */
import { parseArgs } from 'node:util';
import { CounterProgress } from '../../src/counter/progress.ts';
import { KafkaGroupProgress } from '../../src/log/kafka/group-progress.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { PASSWORD, USER } from '../../test/support/clickhouse-server.ts';
import { type Placed, RoleCluster } from '../../test/support/role-cluster.ts';
import { RoleServers } from '../../test/support/role-servers.ts';
import { MadeClicks } from '../made-clicks.ts';
import {
  childrenWith,
  cpuMsOf,
  heading,
  megabytes,
  memoryOf,
  thousands,
  waitFor,
} from '../support.ts';
import {
  connectionOf,
  FIRST_PARTITION,
  fillTopic,
  keepPublishing,
  openReader,
  topicBytes,
} from './topic.ts';

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '6000000' },
    partitions: { type: 'string', default: '8' },
    batch: { type: 'string', default: '4' },
    ads: { type: 'string', default: '20000' },
    counters: { type: 'string', default: '1,2' },
    live: { type: 'boolean', default: false },
  },
});
const RECORDS = Number(values.records);
const PARTITIONS = Number(values.partitions);
const PER_BATCH = Number(values.batch);
const CLICKS_PER_MS = 10;
const TOPIC = 'clicks';

interface Scenario {
  readonly cluster: RoleCluster;
  readonly group: string;
  readonly placed: readonly Placed[];
}

/** Its counters have begun at the end of the topic as it is now, and are away. */
async function begun(servers: RoleServers, count: number): Promise<Scenario> {
  const group = `counters-${count}`;
  const cluster = await RoleCluster.create(servers, {
    partitions: PARTITIONS,
    withoutKeys: true,
    env: {
      CLICKLEDGER_LOG_KAFKA_TOPIC: TOPIC,
      CLICKLEDGER_LOG_KAFKA_GROUP: group,
      CLICKLEDGER_COUNTER_UPSERT_INTERVAL_MS: '1000',
      CLICKLEDGER_WAREHOUSE_CLICKHOUSE_REQUEST_TIMEOUT_MS: '60000',
    },
  });
  const placed = Array.from({ length: count }, (_, i): Placed => [`m${i}`, 'counter']);
  await cluster.startAll(placed);
  await countedUntil(servers, group, systemClock());
  await cluster.stopAll();
  return { cluster, group, placed };
}

async function countedUntil(servers: RoleServers, group: string, timeMs: number): Promise<void> {
  const connection = connectionOf(servers.kafka);
  const reader = openReader(connection, TOPIC);
  const committed = new KafkaGroupProgress({
    ...{ connection, topic: TOPIC, firstPartition: FIRST_PARTITION },
    groupId: `${group}-counter`,
  });
  const progress = new CounterProgress({ group: committed, reader, clock: systemClock });
  const isThere = async (): Promise<boolean> => {
    await progress.poll();
    return progress.asOfMs >= timeMs;
  };
  await waitFor('the counters’ numbers', isThere, { withinMs: 900_000, everyMs: 200 });
  await committed.close();
  await reader.close();
}

async function catchUp(servers: RoleServers, scenario: Scenario): Promise<void> {
  const { cluster, group, placed } = scenario;
  // More than the outage's, when clicks were published during a scenario before this one.
  const backlog = await recordsIn(servers);
  const untilMs = systemClock();
  const clicks = new MadeClicks({
    ...{ ads: Number(values.ads), perMs: CLICKS_PER_MS, firstMs: systemClock(), seed: 11 },
  });
  const live = values.live
    ? keepPublishing(connectionOf(servers.kafka), { topic: TOPIC, perMs: CLICKS_PER_MS }, clicks)
    : null;
  const startedMs = performance.now();
  for (const each of placed) cluster.start(...each);
  await countedUntil(servers, group, untilMs);
  const seconds = (performance.now() - startedMs) / 1_000;
  const pids = childrenWith('counter');
  const cpuMs = (await Promise.all(pids.map(cpuMsOf))).reduce((sum, ms) => sum + ms, 0);
  const memory = await Promise.all(pids.map(memoryOf));
  const published = await live?.stop();
  const core = thousands(backlog / (cpuMs / 1_000));
  const peaks = memory.map(({ peakBytes }) => megabytes(peakBytes)).join(', ');
  console.log(
    `${placed.length} counter(s): ${thousands(backlog)} clicks in ClickHouse after ${seconds.toFixed(1)} s, ${thousands(backlog / seconds)} /s, ${core} a core-second of counters; memory ${peaks}`,
  );
  if (published !== undefined) {
    console.log(
      `  with new clicks at ${thousands(published.perSecond)} /s meanwhile (${thousands(published.published)})`,
    );
  }
  await cluster.stopAll();
}

async function recordsIn(servers: RoleServers): Promise<number> {
  const reader = openReader(connectionOf(servers.kafka), TOPIC);
  let records = 0;
  for (const partition of await reader.partitions()) {
    const { firstOffset, endOffset } = await reader.range(partition);
    records += endOffset - firstOffset;
  }
  await reader.close();
  return records;
}

/** After merges, as a table that is left alone. */
async function rowBytes(servers: RoleServers, database: string): Promise<string> {
  const credentials = Buffer.from(`${USER}:${PASSWORD}`).toString('base64');
  const ask = async (query: string): Promise<string> => {
    const headers = { Authorization: `Basic ${credentials}` };
    const response = await fetch(servers.clickhouse.url, { method: 'POST', body: query, headers });
    return response.text();
  };
  await ask(`OPTIMIZE TABLE ${database}.live_minute FINAL`);
  return (
    await ask(`SELECT sum(rows), round(sum(bytes_on_disk) / sum(rows), 1) FROM system.parts
      WHERE active AND database = '${database}' AND table = 'live_minute'`)
  ).trim();
}

async function main(servers: RoleServers): Promise<void> {
  const scenarios: Scenario[] = [];
  for (const count of values.counters.split(',')) {
    scenarios.push(await begun(servers, Number(count)));
  }
  const clicks = new MadeClicks({
    ...{ ads: Number(values.ads), perMs: CLICKS_PER_MS, repeatShare: 0.02 },
    firstMs: systemClock() - RECORDS / CLICKS_PER_MS,
  });
  const filling = { topic: TOPIC, partitions: PARTITIONS, records: RECORDS, perBatch: PER_BATCH };
  const startedMs = performance.now();
  await fillTopic(connectionOf(servers.kafka), filling, clicks);
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0);
  const bytes = (topicBytes(servers.kafka, TOPIC) / RECORDS).toFixed(0);
  console.log(`${bytes} bytes a record in Kafka, lz4; filled within ${seconds} s`);
  for (const scenario of scenarios) {
    await catchUp(servers, scenario);
    const [rows, size] = (await rowBytes(servers, scenario.cluster.name)).split('\t');
    console.log(`  live_minute: ${thousands(Number(rows))} rows, ${size} bytes each after merges`);
    await scenario.cluster.dispose();
  }
}

heading(`After an outage: ${thousands(RECORDS)} clicks, ${PARTITIONS} partitions`);
const servers = await RoleServers.start();
try {
  await main(servers);
} finally {
  await servers.stop();
}
process.exit(0);
