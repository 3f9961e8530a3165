// Proves INV-1 of SPEC.md.
/** Spools whose workers are gone, and the role that ships them. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dataPaths } from '../../src/config/paths.ts';
import { EventView } from '../../src/event/codec.ts';
import { DiskLogReader } from '../../src/log/disk/reader.ts';
import type { ClickLogReader } from '../../src/log/port.ts';
import { FIRST, KafkaWorld } from '../support/kafka-world.ts';
import {
  cleanUp,
  environment,
  eventually,
  freePort,
  Product,
  startCommand,
} from '../support/product.ts';

let world: KafkaWorld;
let product: Product;
let env: Record<string, string>;
let rolePort: number;
let links: string[];
const shippers: ReturnType<typeof startCommand>[] = [];

beforeAll(async () => {
  world = await KafkaWorld.start();
});
afterEach(async () => {
  world.servers.brokers[0]!.thaw();
  for (const shipper of shippers.splice(0)) {
    shipper.kill('SIGKILL');
    await shipper.exited;
  }
  await cleanUp();
});
afterAll(() => world?.stop());

/** A product on a topic of one partition, which shows the order, and links to click on. */
async function start(): Promise<string> {
  let topic = '';
  // A broker that hung just now may not be in office again yet.
  await eventually('the broker takes a topic', async () => {
    topic = await world.topic({ partitions: 1 }).catch(() => '');
    return topic !== '';
  });
  rolePort = await freePort();
  env = {
    CLICKLEDGER_LOG_KIND: 'kafka',
    CLICKLEDGER_LOG_KAFKA_BROKERS: world.servers.addresses.join(','),
    CLICKLEDGER_LOG_KAFKA_TOPIC: topic,
    CLICKLEDGER_LOG_KAFKA_REPLICATION: '1',
    CLICKLEDGER_LOG_KAFKA_TOPIC_RETENTION_MS: '3600000',
    CLICKLEDGER_LOG_RETENTION_MS: '3600000',
    CLICKLEDGER_COUNTING_DEDUP_WINDOW_MS: '3600000',
    CLICKLEDGER_ROLE_PORT: String(rolePort),
    CLICKLEDGER_ROLE_HOST: '127.0.0.1',
  };
  product = await Product.create({ env });
  await product.start();
  const file = join(product.dataDir, 'ads.ndjson');
  mkdirSync(product.dataDir, { recursive: true });
  const row = { ad_id: 'ad-1', advertiser_id: 'adv-1', campaign_id: 'c-1' };
  writeFileSync(file, JSON.stringify({ ...row, target_url: 'https://shop.example/' }));
  await product.do('ads', 'import', file);
  links = [];
  for (let i = 0; i < 6; i++) {
    const of = ['--imp', `i-${i}`, '--ad', 'ad-1', '--base', product.clickUrl];
    links.push((await product.do('sign', ...of)).trim());
  }
  return topic;
}

/** Clicks that are redirected while the broker hangs: they are in the spool, in this order. */
async function spoolClicks(): Promise<string[]> {
  world.servers.brokers[0]!.freeze();
  // A busy machine takes its time to stop every thread of it.
  await Bun.sleep(300);
  for (const link of links) {
    expect((await fetch(link, { redirect: 'manual' })).status).toBe(302);
  }
  const spool = new DiskLogReader(dataPaths(product.dataDir).spool);
  const impressions = await impressionsIn(spool, 0);
  await spool.close();
  expect(impressions).toEqual(links.map((_, i) => `i-${i}`));
  return impressions;
}

async function impressionsIn(log: ClickLogReader, partition: number): Promise<string[]> {
  const view = new EventView();
  const found: string[] = [];
  for (const { count, bytes, bounds } of await log.read(partition, 0, 1024 * 1024)) {
    for (let i = 0; i < count; i++) {
      expect(view.read(bytes, bounds[2 * i]!, bounds[2 * i + 1]!)).toBe(true);
      found.push(bytes.latin1Slice(view.impressionStart, view.impressionEnd));
    }
  }
  return found;
}

/** Each once, where it was first: what lay in the socket of the broker that hung was written as well. */
const inTopic = async (topic: string): Promise<string[]> => [
  ...new Set(await impressionsIn(world.reader(topic, { patienceMs: 60_000 }), FIRST)),
];

function startShipper() {
  const args = ['shipper', '--data', product.dataDir];
  const shipper = startCommand(args, environment({ ...env, CLICKLEDGER_LOG_LEVEL: 'warn' }));
  shippers.push(shipper);
  return shipper;
}

async function metric(name: string): Promise<number> {
  const text = await fetch(`http://127.0.0.1:${rolePort}/metrics`).then(
    (answer) => answer.text(),
    () => '',
  );
  const line = text.split('\n').find((each) => each.startsWith(name));
  return line === undefined ? Number.NaN : Number(line.split(' ').at(-1));
}

const SHIPPED = 'clickledger_kafka_records_total{outcome="shipped"}';

test('workers are killed with clicks in the spool, Kafka is away: the shipper alone delivers all of them, in order', async () => {
  const topic = await start();
  const impressions = await spoolClicks();
  product.killAll();
  const shipper = startShipper();
  await eventually('it knows of the spool', async () =>
    [0, impressions.length].includes(await metric('clickledger_spool_backlog_records')),
  );
  expect(await metric(SHIPPED)).toBe(0);
  world.servers.brokers[0]!.thaw();
  await eventually('all are delivered', async () => (await metric(SHIPPED)) === impressions.length);
  expect(await inTopic(topic)).toEqual(impressions);
  expect(await metric('clickledger_spool_backlog_records')).toBe(0);
  shipper.kill('SIGTERM');
  expect(await shipper.exited).toBe(0);
});

test('beside a worker that runs it leaves the spool alone, and takes it over when the worker has died', async () => {
  const topic = await start();
  const impressions = await spoolClicks();
  startShipper();
  await eventually('it runs', async () => (await metric(SHIPPED)) === 0);
  world.servers.brokers[0]!.thaw();
  await eventually('the worker delivers', async () => {
    return (await inTopic(topic)).length === impressions.length;
  });
  expect(await inTopic(topic)).toEqual(impressions);
  expect(await metric(SHIPPED)).toBe(0);
  // Again in the spool; what is in the topic already is there once more.
  await spoolAgain();
  product.killAll();
  world.servers.brokers[0]!.thaw();
  await eventually('the shipper has taken over', async () => (await metric(SHIPPED)) > 0);
});

async function spoolAgain(): Promise<void> {
  world.servers.brokers[0]!.freeze();
  await Bun.sleep(300);
  for (const link of links) {
    expect((await fetch(link, { redirect: 'manual' })).status).toBe(302);
  }
}

test('a worker that is stopped with clicks in its spool delivers them after its next start', async () => {
  const topic = await start();
  const impressions = await spoolClicks();
  expect(await product.stop()).toBe(0);
  world.servers.brokers[0]!.thaw();
  await product.start();
  await eventually('all are delivered', async () => {
    return (await inTopic(topic)).length === impressions.length;
  });
  expect(await inTopic(topic)).toEqual(impressions);
});
