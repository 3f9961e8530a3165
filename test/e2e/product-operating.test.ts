/** What an operator reads of the running product: log lines and metrics, of every process. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { configSchema } from '../../src/config/schema.ts';
import { cleanUp, environment, eventually, Product } from '../support/product.ts';
import { tempDir } from '../support/temp-dir.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const USER_AGENT = 'SecretBrowser/77.1';
const ADDRESS = '203.0.113.77';
const REFERER = 'https://private.example/page';
const files = tempDir('operating');
const logPath = join(files.path, 'stderr.log');
let product: Product;
let up: Bun.Subprocess;
let token: string;

interface Line {
  readonly level: string;
  readonly time: string;
  readonly role: string;
  readonly msg: string;
  readonly child?: string;
  readonly err?: { readonly code?: string; readonly message: string };
}

const linesOf = (text: string): Line[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);

beforeAll(async () => {
  product = await Product.create({ workers: 2, env: { CLICKLEDGER_CLICK_TRUSTED_PROXIES: '1' } });
  up = Bun.spawn([process.execPath, MAIN, ...product.upArguments], {
    env: environment({
      CLICKLEDGER_LOG_LEVEL: 'debug',
      CLICKLEDGER_CLICK_TRUSTED_PROXIES: '1',
    }),
    stdin: 'ignore',
    stdout: 'ignore',
    stderr: openSync(logPath, 'a'),
  });
  await eventually('both ports are ready', async () => {
    const urls = [`${product.clickUrl}/readyz`, `${product.apiUrl}/readyz`];
    const isReady = (url: string) =>
      fetch(url).then(
        ({ ok }) => ok,
        () => false,
      );
    return (await Promise.all(urls.map(isReady))).every((each) => each);
  });
  const ad = {
    ad_id: 'ad-1',
    advertiser_id: 'adv-1',
    campaign_id: 'c',
    target_url: 'https://a.b/',
  };
  const path = join(files.path, 'ads.ndjson');
  await Bun.write(path, JSON.stringify(ad));
  await product.do('ads', 'import', path);
  token = (await product.do('token', 'create', '--admin')).trim();
});
afterAll(async () => {
  up.kill('SIGTERM');
  await up.exited;
  await cleanUp();
  files.remove();
});

async function workersSeen(): Promise<string[]> {
  const text = await (await fetch(`${product.clickUrl}/metrics`)).text();
  const labels = text.matchAll(/^clickledger_log_healthy_workers\{worker="(\d+)"\} 1$/gm);
  return [...labels].map((match) => match[1]!).sort();
}

test('every worker has its own series, so that one that restarts does not look like a reset of all', async () => {
  await eventually('both workers are seen', async () => (await workersSeen()).length === 2);
  const children = readFileSync(`/proc/${up.pid}/task/${up.pid}/children`, 'utf8');
  const argumentsOf = (pid: string) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  const worker = children
    .trim()
    .split(' ')
    .find((pid) => argumentsOf(pid).join(' ').includes('run-role click 1 '));
  process.kill(Number(worker), 'SIGKILL');
  // A question that meets the dying worker gets no answer, and is asked again.
  const seenNow = () => workersSeen().catch(() => []);
  await eventually('one is missing', async () => (await seenNow()).join() === '0');
  await eventually('it is back', async () => (await workersSeen()).join() === '0,1');
  const text = await (await fetch(`${product.clickUrl}/metrics`)).text();
  expect(text.match(/^clickledger_click_workers\{worker="\d"\} 2$/gm)?.length).toBe(2);
});

test('API requests are told by route, never by the path that a client made up', async () => {
  const ask = (path: string) =>
    fetch(product.apiUrl + path, { headers: { Authorization: `Bearer ${token}` } });
  expect((await ask('/v1/hours?from=2026-01-01&to=2026-01-02')).status).toBe(200);
  expect((await ask('/v1/made-up-by-a-client')).status).toBe(404);
  const text = await (await ask('/metrics')).text();
  expect(text).toMatch(
    /^clickledger_api_request_seconds_count\{method="GET",route="\/v1\/hours",status="200"\} 1$/m,
  );
  expect(text).toMatch(
    /^clickledger_api_request_seconds_count\{method="GET",route="other",status="404"\} 1$/m,
  );
  expect(text).not.toContain('made-up-by-a-client');
  for (const name of ['data_disk_free_bytes', 'data_disk_bytes']) {
    expect(text).toMatch(new RegExp(`^clickledger_${name} [1-9]`, 'm'));
  }
  expect(text).toMatch(/^clickledger_archive_lag_seconds \d/m);
  expect(text).toMatch(/^clickledger_unarchived_records\{partition="0"\} 0$/m);
});

test('the redirects that a worker answered are in its latency histogram', async () => {
  const link = await product.do(
    'sign',
    '--imp',
    'imp-1',
    '--ad',
    'ad-1',
    '--base',
    product.clickUrl,
  );
  const headers = { 'User-Agent': USER_AGENT, 'X-Forwarded-For': ADDRESS, Referer: REFERER };
  const visit = () => fetch(link.trim(), { redirect: 'manual', headers });
  expect((await visit()).status).toBe(302);
  expect((await visit()).status).toBe(302);
  const text = await (await fetch(`${product.clickUrl}/metrics`)).text();
  const counts = [...text.matchAll(/^clickledger_click_redirect_seconds_count\{.*\} (\d+)$/gm)];
  expect(counts.reduce((sum, match) => sum + Number(match[1]), 0)).toBe(2);
  expect(text).toMatch(
    /^clickledger_click_redirect_seconds_bucket\{le="\+Inf",worker="\d"\} [12]$/m,
  );
});

test('every line on standard error is JSON with time, level, role and message', async () => {
  const lines = linesOf(readFileSync(logPath, 'utf8'));
  for (const line of lines) {
    expect(line.time).toMatch(ISO_TIME);
    expect(['debug', 'info', 'warn', 'error', 'fatal']).toContain(line.level);
    expect(line.role).toMatch(/^(up|ledger|click-\d)$/);
    expect(line.msg.length).toBeGreaterThan(0);
  }
  const roles = new Set(lines.map(({ role }) => role));
  expect([...roles].sort()).toEqual(['click-0', 'click-1', 'ledger', 'up']);
  const ended = lines.find(({ msg }) => msg === 'click-1 has ended');
  expect(ended).toMatchObject({ level: 'error', role: 'up', child: 'click-1' });
});

test('no line has an address, user agent, referer, signature, token or secret', async () => {
  const link = await product.do(
    'sign',
    '--imp',
    'imp-2',
    '--ad',
    'ad-1',
    '--base',
    product.clickUrl,
  );
  const signature = new URL(link.trim()).searchParams.get('sig')!;
  const headers = { 'User-Agent': USER_AGENT, 'X-Forwarded-For': ADDRESS, Referer: REFERER };
  await fetch(link.trim(), { redirect: 'manual', headers });
  await fetch(`${link.trim()}x`, { redirect: 'manual', headers });
  await fetch(`${product.apiUrl}/v1/hours`, { headers: { Authorization: `Bearer ${token}` } });
  const log = readFileSync(logPath, 'utf8');
  for (const secret of [USER_AGENT, ADDRESS, REFERER, signature, token]) {
    expect(log).not.toContain(secret);
  }
});

test('a process that cannot run says why in a line of its log', async () => {
  const config = configSchema.parse({ dataDir: product.dataDir });
  for (const role of [['ledger'], ['click', '0']]) {
    const child = Bun.spawn(
      [process.execPath, MAIN, 'run-role', ...role, '--config-json', JSON.stringify(config)],
      { env: environment(), stdin: 'pipe', stdout: 'ignore', stderr: 'pipe' },
    );
    const lines = linesOf(await new Response(child.stderr).text());
    expect(await child.exited).toBe(1);
    expect(lines.at(-1)).toMatchObject({
      level: 'fatal',
      role: role.join('-'),
      msg: 'ended by an error',
    });
    expect(lines.at(-1)!.err!.code).toBe('locked');
  }
});
