/** The product as its users have it: commands, two ports, and what goes wrong around them. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LedgerStatus } from '../../src/api/admin-port.ts';
import { dataPaths, LEDGER_PARTITION } from '../../src/config/paths.ts';
import { DiskLogWriter } from '../../src/log/disk/writer.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { click } from '../support/archive-fixtures.ts';
import { eventBytes } from '../support/memory-log.ts';
import { cleanUp, eventually, Product, runCommand } from '../support/product.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const WRAPPER = fileURLToPath(new URL('../../bin/clickledger.mjs', import.meta.url));
const files = tempDir('product-files');
let product: Product;
let token: string;

beforeAll(async () => {
  product = await Product.create({ env: { CLICKLEDGER_ARCHIVE_ROTATE_MS: '500' } });
});
afterAll(async () => {
  await cleanUp();
  files.remove();
});

function fileOf(name: string, text: string): string {
  const path = join(files.path, name);
  writeFileSync(path, text);
  return path;
}

const ads = (...ids: string[]): string =>
  ids
    .map((ad_id) => {
      const target_url = `https://shop.example/${ad_id}?imp={impression_id}`;
      return JSON.stringify({ ad_id, advertiser_id: 'adv-1', campaign_id: 'camp-1', target_url });
    })
    .join('\n');

async function sign(imp: string, ad: string): Promise<string> {
  const link = await product.do('sign', '--imp', imp, '--ad', ad, '--base', product.clickUrl);
  return link.trim();
}

/** As a browser: a program that says that it is one is not billed. */
const BROWSER =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36';

const visit = (link: string): Promise<Response> =>
  fetch(link, { redirect: 'manual', headers: { 'User-Agent': BROWSER } });

async function metrics(bearer = token): Promise<Response> {
  const nowMs = systemClock();
  const query = new URLSearchParams({
    from: new Date(nowMs - (nowMs % HOUR_MS) - 48 * HOUR_MS).toISOString(),
    to: new Date(nowMs - (nowMs % HOUR_MS) + 2 * HOUR_MS).toISOString(),
    granularity: 'total',
  });
  return fetch(`${product.apiUrl}/v1/ads/metrics?${query}`, {
    headers: { Authorization: `Bearer ${bearer}` },
  });
}

async function clicksOf(adId: string): Promise<number> {
  const answer = (await (await metrics()).json()) as { rows: { ad_id: string; clicks: number }[] };
  return answer.rows.find((row) => row.ad_id === adId)?.clicks ?? 0;
}

async function statusOf(): Promise<LedgerStatus> {
  return JSON.parse(await product.do('status', '--json')) as LedgerStatus;
}

/** Waits until everything logged before now is in the live numbers. */
async function counted(): Promise<void> {
  const nowMs = systemClock();
  await eventually('everything is counted', async () => {
    return (await product.admin.status()).asOfMs >= nowMs;
  });
}

test('--help lists each command with a line, through the wrapper that npm installs', async () => {
  const child = Bun.spawn(['node', WRAPPER, '--help'], { stdout: 'pipe' });
  const help = await new Response(child.stdout).text();
  expect(await child.exited).toBe(0);
  const commands =
    'up click ledger config ads key sign token ingest verdicts reconcile status dlq rebuild verify demo';
  for (const command of commands.split(' ')) {
    expect(help).toMatch(new RegExp(`^ {2}${command}\\b.* {2,}\\S+`, 'm'));
  }
  expect(help).not.toContain('run-role');
});

test('the product starts on an empty folder, with a key and without ads', async () => {
  await product.start();
  expect(product.output).toContain('created the signing key');
  expect((await visit(await sign('imp-none', 'nothing'))).status).toBe(404);
  expect((await visit(`${product.clickUrl}/v1/c?imp=a&ad=b`)).status).toBe(400);
});

test('an import with wrong rows names their lines, imports nothing and ends with 1', async () => {
  const wrong = `${ads('ad-1')}\n{"ad_id":"ad-2"}\n${ads('ad-3')}\nnot json\n`;
  const { code, stderr } = await product.run('ads', 'import', fileOf('wrong.ndjson', wrong));
  expect(code).toBe(1);
  expect(stderr).toContain('line 2:');
  expect(stderr).toContain('line 4:');
  expect(stderr).toContain('nothing was imported');
  expect(await product.do('ads', 'list')).toContain('0 of 0 ads');
});

test('a click on an imported ad is redirected and answered by the API within 5 s', async () => {
  const imported = await product.do('ads', 'import', fileOf('ads.ndjson', ads('ad-1', 'ad-2')));
  expect(imported).toContain('2 ads: 2 added');
  token = (await product.do('token', 'create', '--advertiser', 'adv-1')).trim();
  const link = await sign('imp-1', 'ad-1');
  const response = await visit(link);
  const clickedMs = performance.now();
  expect(response.status).toBe(302);
  expect(response.headers.get('Location')).toBe('https://shop.example/ad-1?imp=imp-1');
  expect(response.headers.get('Cache-Control')).toBe('no-store');
  await eventually('the click is counted', async () => (await clicksOf('ad-1')) === 1, 5_000);
  expect(performance.now() - clickedMs).toBeLessThan(5_000);

  expect((await visit(link)).status).toBe(302);
  await counted();
  expect(await clicksOf('ad-1')).toBe(1);
});

test('a token that is revoked is refused at once', async () => {
  const other = (await product.do('token', 'create', '--advertiser', 'adv-1')).trim();
  expect((await metrics(other)).status).toBe(200);
  await product.do('token', 'revoke', other);
  expect((await metrics(other)).status).toBe(401);
  expect((await metrics()).status).toBe(200);
});

test('keys rotate: old and new verify together, and a retired one no longer does', async () => {
  const old = await sign('imp-2', 'ad-2');
  expect(await product.do('key', 'create', 'second')).toContain('second');
  const second = (
    await product.do(
      'sign',
      '--imp',
      'imp-3',
      '--ad',
      'ad-2',
      '--base',
      product.clickUrl,
      '--kid',
      'second',
    )
  ).trim();
  await eventually(
    'the new key verifies',
    async () => (await visit(second)).status === 302,
    10_000,
  );
  expect((await visit(old)).status).toBe(302);
  await product.do('key', 'retire', 'second');
  await eventually('the key is retired', async () => (await visit(second)).status === 403, 10_000);
  expect((await visit(old)).status).toBe(302);
});

const recorded = (count: number): string =>
  Array.from({ length: count }, (_, i) => {
    const clicked_at = new Date(systemClock() - MINUTE_MS - i).toISOString();
    return JSON.stringify({ impression_id: `rec-${i}`, ad_id: 'ad-2', clicked_at, country: 'DE' });
  }).join('\n');

test('a file of recorded clicks that is taken twice counts once', async () => {
  const path = fileOf('recorded.ndjson', recorded(20));
  await counted();
  const before = await clicksOf('ad-2');
  for (let i = 0; i < 2; i++) {
    expect(await product.do('ingest', path)).toContain('20 clicks taken');
    await counted();
    expect(await clicksOf('ad-2')).toBe(before + 20);
  }
});

test('status tells as JSON and as text what is counted; the outcomes sum to the log', async () => {
  const status = await statusOf();
  const logged = status.partitions.reduce((sum, { logEndOffset }) => sum + logEndOffset, 0);
  expect(Object.values(status.outcomes).reduce((sum, n) => sum + n, 0)).toBe(logged);
  expect(status.problems).toEqual([]);
  expect(await product.do('status')).toContain('all is well');
  expect(await product.do('dlq', 'list')).toContain('0 dead letters');
});

test('both ports have health, readiness and the metrics that operators need', async () => {
  for (const url of [product.clickUrl, product.apiUrl]) {
    for (const path of ['/healthz', '/readyz']) expect((await fetch(url + path)).status).toBe(200);
  }
  const metricsOf = async (url: string) => (await fetch(`${url}/metrics`)).text();
  const clicks = await metricsOf(product.clickUrl);
  expect(clicks).toMatch(/^clickledger_click_requests_total\{outcome="\w+",worker="0"\} [1-9]/m);
  for (const name of ['log_append_seconds', 'log_fsync_seconds']) {
    expect(clicks).toMatch(new RegExp(`^clickledger_${name}_count\\{worker="0"\\} [1-9]`, 'm'));
  }
  const ledger = await metricsOf(product.apiUrl);
  for (const name of [
    'log_backlog_records{partition="0"}',
    'oldest_uncounted_seconds',
    'watermark_lag_seconds',
    'outcomes_total{outcome="counted"}',
    'drift_ratio',
    'final_until_age_seconds',
  ]) {
    expect(ledger).toContain(`\nclickledger_${name} `);
  }
  expect(ledger).toContain('# TYPE clickledger_dead_letters gauge');
});

test('a second "up" on the same data folder is refused with a clear message', async () => {
  const { code, stderr } = await runCommand(['up', '--data', product.dataDir]);
  expect(code).toBe(1);
  expect(stderr).toContain('Another "clickledger up" runs on this data folder');
  expect((await fetch(`${product.clickUrl}/healthz`)).status).toBe(200);
});

test('a port in use is refused and named', async () => {
  const other = await Product.create();
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(other.apiPort, '0.0.0.0', resolve));
  const { code, stderr } = await runCommand(other.upArguments);
  server.close();
  expect(code).toBe(1);
  expect(stderr).toContain(`port ${other.apiPort} is in use`);
  expect(stderr).toContain('--api-port');
});

test('"config check" lists every error at once', async () => {
  const path = fileOf('wrong.toml', '[click]\nworkerz = 2\nmax_pending = 0\n[api]\nport = "x"\n');
  const { code, stderr } = await product.run('config', 'check', '--config', path);
  expect(code).toBe(1);
  for (const key of ['workerz', 'max_pending', 'api.port']) expect(stderr).toContain(key);
});

test('SIGTERM under load loses nothing and ends with 0 (D3)', async () => {
  const links: string[] = [];
  for (let i = 0; i < 3; i++) links.push(await sign(`term-${i}`, 'ad-1'));
  await counted();
  const before = await clicksOf('ad-1');
  const acknowledged = new Set<string>();
  let stopped = false;
  const visitors = links.flatMap((link) =>
    Array.from({ length: 4 }, async () => {
      while (!stopped) {
        try {
          const response = await visit(link);
          if (response.status === 302) acknowledged.add(link);
          else if (response.status !== 503) throw new Error(`status ${response.status}`);
        } catch (error) {
          // A connection that is refused is no answer: nothing was promised.
          if (error instanceof Error && error.message.startsWith('status')) throw error;
          await Bun.sleep(5);
        }
      }
    }),
  );
  await eventually('clicks are answered', () => acknowledged.size === links.length);
  const startedMs = performance.now();
  const code = await product.stop();
  const tookMs = performance.now() - startedMs;
  stopped = true;
  await Promise.all(visitors);
  expect(code).toBe(0);
  expect(tookMs).toBeLessThan(20_000);

  await product.start();
  await counted();
  expect(await clicksOf('ad-1')).toBe(before + links.length);
  expect(await product.stop()).toBe(0);
});

/** Appends to the ledger's own partition, as a faulty writer would. */
async function appendRaw(records: readonly Buffer[]): Promise<void> {
  const writer = new DiskLogWriter({
    logDir: dataPaths(product.dataDir).log,
    partition: LEDGER_PARTITION,
    segmentBytes: 1 << 20,
    clock: systemClock,
  });
  const appended = records.map(
    (bytes) =>
      new Promise<void>((resolve, reject) => {
        writer.append(bytes, bytes.length, (error) => (error ? reject(error) : resolve()));
      }),
  );
  await Promise.all(appended);
  await writer.close();
}

test('every command works while the product is stopped, and dead letters count once redriven', async () => {
  const soon = click('from-tomorrow', {
    adId: 'ad-1',
    clickedAtMs: systemClock() + 30 * MINUTE_MS,
  });
  await appendRaw([Buffer.from('not an event'), eventBytes(soon)]);
  expect((await statusOf()).partitions.at(-1)).toMatchObject({ partition: 1000, backlog: 2 });
  await product.start();
  await counted();
  expect(await product.stop()).toBe(0);
  expect(await product.do('reconcile')).toContain('nothing to do');
  const listed = await product.do('dlq', 'list');
  expect(listed).toContain('undecodable');
  expect(listed).toContain('clicked_at_ahead_of_log');
  const id = /^(\S+)\s+clicked_at_ahead_of_log/m.exec(listed)![1]!;
  expect(JSON.parse(await product.do('dlq', 'show', id))).toMatchObject({
    reason: 'clicked_at_ahead_of_log',
    event: { impressionId: 'from-tomorrow' },
  });
  expect((await product.run('dlq', 'show', '7-7')).code).toBe(1);
  expect((await statusOf()).deadLetters).toEqual({ undecodable: 1, clicked_at_ahead_of_log: 1 });
  expect(await product.do('ingest', fileOf('again.ndjson', recorded(3)))).toContain(
    '3 clicks taken',
  );

  // Past the end of the hour in which the letter's click was made, it counts.
  const hourEndMs = soon.clickedAtMs - (soon.clickedAtMs % HOUR_MS) + HOUR_MS;
  const env = { CLICKLEDGER_CLOCK_OFFSET_MS: String(hourEndMs + 6 * MINUTE_MS - systemClock()) };
  const later = await Product.create({ env, dataDir: product.dataDir });
  const before = (await statusOf()).outcomes.counted!;
  expect(await later.do('dlq', 'redrive', '--reason', 'clicked_at_ahead_of_log')).toContain(
    '1 redriven',
  );
  expect((await later.run('dlq', 'redrive', id)).code).toBe(1);
  const until = new Date(hourEndMs).toISOString();
  expect(await later.do('reconcile', '--until', until)).toContain(
    `final until ${until.slice(0, 13)}`,
  );
  const status = JSON.parse(await later.do('status', '--json')) as LedgerStatus;
  expect(status.outcomes.counted! + status.outcomes.late!).toBe(before + 1);
  expect(status.finalUntilMs).toBe(hourEndMs);
  expect(await later.do('verify')).toContain('0 differences, 0 archive problems');
  await rebuildUnderEyes(later, hourEndMs);
  expect(await later.do('verify')).toContain('0 differences, 0 archive problems');
  expect(await later.do('reconcile', '--until', until)).toContain('nothing to do');
});

/** While a running product is rebuilt, every answer is the whole number or none. */
async function rebuildUnderEyes(later: Product, toMs: number): Promise<void> {
  await later.start();
  const query = new URLSearchParams({
    from: new Date(toMs - 2 * HOUR_MS).toISOString(),
    to: new Date(toMs).toISOString(),
    granularity: 'total',
  });
  const url = `${later.apiUrl}/v1/ads/metrics?${query}`;
  const ask = () => fetch(url, { headers: { Authorization: `Bearer ${token}` } });
  const rows = async (answer: Response) => ((await answer.json()) as { rows: unknown }).rows;
  await eventually('the numbers are there', async () => (await ask()).status === 200);
  const before = await rows(await ask());
  expect(before).not.toEqual([]);
  const seen = new Set<number>();
  let done = false;
  const rebuilt = later.do('rebuild').finally(() => {
    done = true;
  });
  while (!done) {
    const answer = await ask();
    seen.add(answer.status);
    if (answer.status === 200) expect(await rows(answer)).toEqual(before);
    else expect(await answer.json()).toMatchObject({ code: 'rebuilding' });
  }
  expect(await rebuilt).toContain('hours final again');
  expect(seen).toContain(503);
  expect(await rows(await ask())).toEqual(before);
  expect(await later.stop()).toBe(0);
}

test('commands on a folder that is not there say so', async () => {
  const { code, stderr } = await runCommand(['status', '--data', join(files.path, 'nowhere')]);
  expect(code).toBe(1);
  expect(stderr).toContain('no data folder');
});
