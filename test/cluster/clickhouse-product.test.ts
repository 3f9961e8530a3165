/**
 * The product on a ClickHouse server: clicks to live counts to final ones, while the server is killed and
 * started again. The server is the engine behind a test server; what that one is not, its head says.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dataPaths } from '../../src/config/paths.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { PASSWORD, TestClickHouse, USER } from '../support/clickhouse-server.ts';
import { cleanUp, eventually, Product } from '../support/product.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const BROWSER =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36';
const files = tempDir('clickhouse-product');
/** An hour that is long over. */
const hourMs = Math.floor(systemClock() / HOUR_MS) * HOUR_MS - 12 * HOUR_MS;
const iso = (timeMs: number): string => new Date(timeMs).toISOString();
let server: TestClickHouse;
let product: Product;
let token: string;
let links = 0;

beforeAll(async () => {
  server = await TestClickHouse.start();
  product = await Product.create({
    env: {
      CLICKLEDGER_WAREHOUSE_KIND: 'clickhouse',
      CLICKLEDGER_WAREHOUSE_CLICKHOUSE_URL: server.url,
      CLICKLEDGER_WAREHOUSE_CLICKHOUSE_USERNAME: USER,
      CLICKLEDGER_WAREHOUSE_CLICKHOUSE_REPLICATED: 'true',
      CLICKLEDGER_WAREHOUSE_CLICKHOUSE_CLUSTER: 'one',
      CLICKHOUSE_PASSWORD: PASSWORD,
      // Hours turn final when the test says so.
      CLICKLEDGER_RECONCILE_INTERVAL_MS: String(HOUR_MS),
      CLICKLEDGER_ARCHIVE_ROTATE_MS: '300',
    },
  });
});
afterAll(async () => {
  await cleanUp();
  await server.dispose();
  files.remove();
});

function fileOf(name: string, rows: readonly object[]): string {
  const path = join(files.path, name);
  writeFileSync(path, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  return path;
}

function recorded(...impressions: string[]): object[] {
  return impressions.map((impression_id, at) => {
    return { impression_id, ad_id: 'ad-1', clicked_at: iso(hourMs + at * 60_000) };
  });
}

/** Signs links first, then visits them: signing is a command, and takes its time. */
async function visits(count: number): Promise<void> {
  const signed: string[] = [];
  for (let at = 0; at < count; at++) {
    const args = ['--imp', `imp-${links++}`, '--ad', 'ad-1', '--base', product.clickUrl];
    signed.push((await product.do('sign', ...args)).trim());
  }
  for (const link of signed) {
    const response = await fetch(link, { redirect: 'manual', headers: { 'User-Agent': BROWSER } });
    expect(response.status).toBe(302);
  }
}

function metrics(fromMs: number, toMs: number): Promise<Response> {
  const query = `from=${iso(fromMs)}&to=${iso(toMs)}&granularity=total`;
  const headers = { Authorization: `Bearer ${token}` };
  return fetch(`${product.apiUrl}/v1/ads/metrics?${query}`, { headers });
}

async function clicks(fromMs: number, toMs: number): Promise<number> {
  const answer = (await (await metrics(fromMs, toMs)).json()) as { rows?: { clicks: number }[] };
  return (answer.rows ?? []).reduce((sum, row) => sum + row.clicks, 0);
}

const live = (): Promise<number> => clicks(hourMs + 10 * HOUR_MS, hourMs + 15 * HOUR_MS);
const final = (): Promise<number> => clicks(hourMs, hourMs + HOUR_MS);

test('clicks and recorded clicks are counted on the server, and nothing is stored here', async () => {
  await product.do(
    'ads',
    'import',
    fileOf('ads.ndjson', [
      { ad_id: 'ad-1', advertiser_id: 'a1', campaign_id: 'c1', target_url: 'https://x.example/' },
    ]),
  );
  await product.do('ingest', fileOf('clicks.ndjson', recorded('a', 'b', 'b', 'c')));
  await product.start();
  token = (await product.do('token', 'create', '--advertiser', 'a1')).trim();
  await visits(3);
  await eventually('live clicks are counted', async () => (await live()) === 3);
  expect(existsSync(dataPaths(product.dataDir).warehouse)).toBe(false);
  expect((await server.statements('INSERT INTO live_minute')).length).toBeGreaterThan(0);
});

test('the password is on no command line and in no output', () => {
  const pids = [...product.children('ledger'), ...product.children('click'), product.upPid];
  expect(pids.length).toBe(3);
  for (const pid of pids) {
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).not.toContain(PASSWORD);
  }
  expect(product.output).not.toContain(PASSWORD);
});

test('while the server is away clicks are redirected and the API says 503; then all are counted', async () => {
  const ledger = product.children('ledger');
  await server.crash();
  await visits(2);
  const refused = await metrics(hourMs, hourMs + 15 * HOUR_MS);
  expect(refused.status).toBe(503);
  expect(refused.headers.get('Retry-After')).toBe('5');
  const problem = (await refused.json()) as object;
  expect(problem).toMatchObject({ code: 'warehouse_unavailable' });
  expect(JSON.stringify(problem)).not.toContain('127.0.0.1');
  await server.start();
  await eventually('all five are counted', async () => (await live()) === 5);
  expect(product.children('ledger')).toEqual(ledger);
});

test('the hour turns final though the server dies meanwhile, and verify finds no difference', async () => {
  // Whether the hour is final already or not: with these its rows have to be written.
  await product.do('ingest', fileOf('more.ndjson', recorded('d', 'e')));
  await server.fail({ kind: 'slow', match: 'INSERT INTO final_hour', times: 1, delayMs: 60_000 });
  const said = product.run('reconcile', '--until', iso(hourMs + HOUR_MS));
  let ended = '';
  void said.then(({ stdout, stderr }) => {
    ended = stdout + stderr;
  });
  await eventually('final rows are being written', async () => {
    if (ended !== '') throw new Error(`it has ended: ${ended}`);
    const written = await server.statements('INSERT INTO final_hour ');
    return written.at(-1)?.failed === true;
  });
  await server.crash();
  await server.start();
  expect((await said).code).toBe(1);
  await eventually('the hour is final', async () => {
    const { code, stdout } = await product.run('reconcile', '--until', iso(hourMs + HOUR_MS));
    return code === 0 && stdout.includes('nothing to do');
  });
  expect(await final()).toBe(5);
  expect(await product.do('verify')).toContain('0 differences, 0 archive problems');
});

test('a ledger that dies, and a rebuild, come to the same numbers', async () => {
  await server.crash();
  product.crash('ledger');
  await server.start();
  await product.ready();
  await eventually('all are there', async () => (await live()) === 5 && (await final()) === 5);
  await product.do('rebuild');
  await eventually('all are there again', async () => {
    return (await live()) === 5 && (await final()) === 5;
  });
  expect(await product.do('verify')).toContain('0 differences, 0 archive problems');
  expect(await product.stop()).toBe(0);
});
