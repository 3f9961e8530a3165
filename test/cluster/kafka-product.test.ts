/** The whole product with its clicks on Kafka, through commands, ports and a broker that hangs. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dataPaths } from '../../src/config/paths.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { KafkaServers } from '../support/kafka.ts';
import { cleanUp, eventually, Product } from '../support/product.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const BROWSER =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36';
const files = tempDir('kafka-product');
let servers: KafkaServers;
let product: Product;
let token: string;
let links: string[];

beforeAll(async () => {
  servers = await KafkaServers.start();
  product = await Product.create({
    workers: 2,
    env: {
      CLICKLEDGER_ARCHIVE_ROTATE_MS: '500',
      CLICKLEDGER_LOG_KIND: 'kafka',
      CLICKLEDGER_LOG_KAFKA_BROKERS: servers.addresses.join(','),
      CLICKLEDGER_LOG_KAFKA_PARTITIONS: '4',
      CLICKLEDGER_LOG_KAFKA_REPLICATION: '1',
    },
  });
});
afterAll(async () => {
  for (const broker of servers?.brokers ?? []) broker.thaw();
  await cleanUp();
  await servers?.stop();
  files.remove();
});

const visit = (link: string): Promise<Response> =>
  fetch(link, { redirect: 'manual', headers: { 'User-Agent': BROWSER } });

async function clicks(): Promise<number> {
  const hourMs = systemClock() - (systemClock() % HOUR_MS);
  const query = new URLSearchParams({
    from: new Date(hourMs - HOUR_MS).toISOString(),
    to: new Date(hourMs + 2 * HOUR_MS).toISOString(),
    granularity: 'total',
  });
  const answer = await fetch(`${product.apiUrl}/v1/ads/metrics?${query}`, {
    headers: { Authorization: `Bearer ${token}` },
  });
  if (!answer.ok) throw new Error(await answer.text());
  const { rows } = (await answer.json()) as { rows: { clicks: number }[] };
  return rows.reduce((sum, row) => sum + row.clicks, 0);
}

test('without the topic a click worker refuses to start and says how to make it', async () => {
  const { code, stderr, stdout } = await product.run('click', '--click-port', '0');
  expect(code).toBe(1);
  expect(stderr + stdout).toContain('Kafka has no topic "clicks"');
  expect(stderr + stdout).toContain('clickledger kafka create-topic');
});

test('the command makes the topic, and finds it safe afterwards', async () => {
  expect(await product.do('kafka', 'create-topic')).toContain('made the topic clicks');
  expect(await product.do('kafka', 'create-topic')).toContain('exists and holds clicks safely');
  expect(await product.do('kafka', 'check')).toContain('holds clicks safely');
});

test('clicks are redirected and counted', async () => {
  await product.start();
  const row = { ad_id: 'ad-1', advertiser_id: 'adv-1', campaign_id: 'c-1' };
  const file = join(files.path, 'ads.ndjson');
  writeFileSync(file, JSON.stringify({ ...row, target_url: 'https://shop.example/' }));
  await product.do('ads', 'import', file);
  token = (await product.do('token', 'create', '--advertiser', 'adv-1')).trim();
  links = [];
  for (let i = 0; i < 12; i++) {
    const link = await product.do(
      'sign',
      '--imp',
      `i-${i}`,
      '--ad',
      'ad-1',
      '--base',
      product.clickUrl,
    );
    links.push(link.trim());
  }
  for (const link of links.slice(0, 4)) expect((await visit(link)).status).toBe(302);
  await eventually('they are counted', async () => (await clicks()) === 4);
});

test('while the broker hangs clicks are redirected all the same, and counted when it is back', async () => {
  const [broker] = servers.brokers;
  broker!.freeze();
  // A busy machine takes its time to stop every thread of it.
  await Bun.sleep(300);
  for (const link of links.slice(4, 8)) {
    const startedMs = performance.now();
    expect((await visit(link)).status).toBe(302);
    expect(performance.now() - startedMs).toBeLessThan(1_000);
  }
  const metrics = await (await fetch(`${product.clickUrl}/metrics`)).text();
  expect(metrics).toMatch(/clickledger_kafka_records_total\{outcome="spooled",worker="\d"\} [1-9]/);
  expect(metrics).toMatch(/clickledger_spool_backlog_records\{worker="\d"\} [1-9]/);
  broker!.thaw();
  await eventually('the spooled ones are counted', async () => (await clicks()) === 8);
  for (const link of links) expect((await visit(link)).status).toBe(302);
  await eventually('each is counted once', async () => (await clicks()) === 12);
});

test('recorded clicks go into the topic like all others, and are counted', async () => {
  const file = join(files.path, 'recorded.ndjson');
  const row = { ad_id: 'ad-1', impression_id: 'recorded-1', clicked_at: new Date().toISOString() };
  writeFileSync(file, JSON.stringify(row));
  await product.do('ingest', file);
  await eventually('it is counted', async () => (await clicks()) === 13);
  const { partitions } = await product.admin.status();
  expect(partitions.map(({ partition }) => partition)).toEqual([10_000, 10_001, 10_002, 10_003]);
  expect(partitions.reduce((sum, { logEndOffset }) => sum + logEndOffset, 0)).toBeGreaterThan(12);
  expect(existsSync(dataPaths(product.dataDir).log)).toBe(false);
});

test('it stops cleanly', async () => {
  expect(await product.stop()).toBe(0);
});
