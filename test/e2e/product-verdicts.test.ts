/** Verdicts as their users have them: a command or a request, a restatement, and evidence of why. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/platform/clock.ts';
import { cleanUp, eventually, Product } from '../support/product.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const files = tempDir('product-verdicts');
let product: Product;
/** An hour that is long over. */
const hourMs = Math.floor(systemClock() / HOUR_MS) * HOUR_MS - 12 * HOUR_MS;
const iso = (timeMs: number): string => new Date(timeMs).toISOString();
const RANGE = `from=${iso(hourMs)}&to=${iso(hourMs + HOUR_MS)}`;

beforeAll(async () => {
  product = await Product.create({ env: { CLICKLEDGER_RECONCILE_INTERVAL_MS: '200' } });
  const ad = { ad_id: 'ad-1', advertiser_id: 'adv-1', campaign_id: 'camp-1' };
  const ads = JSON.stringify({ ...ad, target_url: 'https://shop.example/' });
  await product.do('ads', 'import', fileOf('ads.ndjson', ads));
  const clicks = ['a', 'b', 'b', 'c'].map((impression_id, index) => {
    return { impression_id, ad_id: 'ad-1', clicked_at: iso(hourMs + index * MINUTE_MS) };
  });
  await product.do('ingest', fileOf('clicks.ndjson', lines(clicks)));
  await product.do('reconcile', '--until', iso(hourMs + HOUR_MS));
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

function lines(rows: readonly object[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join('');
}

const bot = (impression_id: string) => ({ impression_id, valid: false, reason: 'data centre' });

interface Answer {
  readonly rows: { readonly clicks: number }[];
  readonly restatements: {
    readonly before: number;
    readonly after: number;
    readonly cause: string;
  }[];
  readonly clicks: {
    readonly impression_id: string;
    readonly outcome: string;
    readonly final: boolean;
  }[];
}

async function tokenOf(...scope: string[]): Promise<string> {
  return (await product.do('token', 'create', ...scope)).match(/clk_\S+/)![0];
}

async function get(token: string, path: string): Promise<Answer> {
  const headers = { Authorization: `Bearer ${token}` };
  return (await (await fetch(`${product.apiUrl}${path}`, { headers })).json()) as Answer;
}

test('a command takes verdicts while the product is stopped, and the next reconcile restates', async () => {
  const file = fileOf('bots.csv', 'impression_id,valid,reason\na,false,data centre\n');
  const said = await product.do('verdicts', file);
  expect(said).toContain('1 verdicts taken, 1 of them new');
  expect(said).toContain('the next reconcile restates 1 final hours');
  expect(await product.do('verdicts', file)).toContain('1 verdicts taken, 0 of them new');
  expect(await product.do('reconcile')).toMatch(/restated +2 +4 +2 +1 +0 +1 /);
  expect(await product.do('reconcile')).toContain('nothing to do');
  expect(await product.do('verify')).toContain('0 differences, 0 archive problems');
  const wrong = await product.run('verdicts', fileOf('wrong.ndjson', `${lines([bot('b')])}{}\n`));
  expect(wrong.code).toBe(1);
  expect(wrong.stderr).toContain('line 2: missing column');
});

test('a running product takes them by command and by request, and shows why the number fell', async () => {
  await product.start();
  const reader = await tokenOf('--advertiser', 'adv-1');
  const admin = await tokenOf('--admin');
  expect(await product.do('verdicts', fileOf('b.ndjson', lines([bot('b')])))).toContain(
    '1 of them new',
  );
  const answer = await fetch(`${product.apiUrl}/v1/verdicts`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${admin}` },
    body: lines([bot('c'), { impression_id: 'a', valid: true, reason: 'looked at' }]),
  });
  const result = JSON.parse((await answer.text()).trim().split('\n').at(-1)!) as object;
  expect(result).toEqual({ result: { taken: 2, new: 2, unchanged: 0, hours: [iso(hourMs)] } });
  await eventually('the hour is restated', async () => {
    const { clicks } = await get(reader, `/v1/ads/ad-1/clicks?${RANGE}`);
    return clicks.every(({ final }) => final);
  });
  const { clicks } = await get(reader, `/v1/ads/ad-1/clicks?${RANGE}`);
  expect(clicks.map(({ impression_id, outcome }) => [impression_id, outcome])).toEqual([
    ['a', 'counted'],
    ['b', 'invalid'],
    ['b', 'duplicate'],
    ['c', 'invalid'],
  ]);
  const { rows } = await get(reader, `/v1/ads/metrics?${RANGE}&granularity=total`);
  expect(rows).toMatchObject([{ clicks: 1 }]);
  const { restatements } = await get(reader, `/v1/restatements?${RANGE}`);
  expect(restatements[0]).toMatchObject({ before: 3, after: 2, cause: 'verdict' });
  expect(restatements.every(({ cause }) => cause === 'verdict')).toBe(true);
  expect(restatements.at(-1)).toMatchObject({ after: 1 });
  const metrics = await (await fetch(`${product.apiUrl}/metrics`)).text();
  expect(metrics).toContain('\nclickledger_invalid_impressions 2\n');
  const stranger = await tokenOf('--advertiser', 'adv-2');
  expect((await get(stranger, `/v1/ads/ad-1/clicks?${RANGE}`)).clicks).toEqual([]);
});

test('rebuild brings the same numbers, restatements and evidence', async () => {
  const reader = await tokenOf('--advertiser', 'adv-1');
  const answers = async (): Promise<Answer[]> => [
    await get(reader, `/v1/ads/ad-1/clicks?${RANGE}`),
    await get(reader, `/v1/restatements?${RANGE}`),
  ];
  const [clicks, history] = await answers();
  await product.do('rebuild');
  await eventually('the numbers are there again', async () => {
    return (await get(reader, `/v1/restatements?${RANGE}`)).restatements !== undefined;
  });
  const [clicksAgain, historyAgain] = await answers();
  expect(clicksAgain!.clicks).toEqual(clicks!.clicks);
  expect(historyAgain!.restatements).toEqual(history!.restatements);
  expect(await product.do('verify')).toContain('0 differences, 0 archive problems');
});
