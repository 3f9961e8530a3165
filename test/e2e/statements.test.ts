// Proves INV-10 of SPEC.md.
/**
 * Statements from request to file, on the real warehouse and a real archive folder. Their sums are
 * compared with what the metrics API says about the same period.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { createHash } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { parquetReadObjects } from 'hyparquet';
import { statementsFeature } from '../../src/api/statement-routes.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { readCsv } from '../../src/platform/csv.ts';
import { openStatements, STATEMENT_LIMITS } from '../../src/statements/statements.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { FinalRow, Warehouse } from '../../src/warehouse/port.ts';
import { jsonOf, setUpApi } from '../support/api.ts';
import { FinalHours, finalRow } from '../support/final-hours.ts';
import { fcParams } from '../support/seed.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const folder = tempDir('statements');
/** Far enough from the data that minute rows have expired: only hour and day rows may be used. */
let nowMs = 0;
let warehouse: Warehouse;
let hours: FinalHours;
let archive = '';
let round = 0;

beforeAll(async () => {
  warehouse = await openChdbWarehouse({
    path: join(folder.path, 'warehouse'),
    minuteTtlDays: 90,
    hourTtlDays: 1098,
    clock: () => nowMs,
  });
});
beforeEach(async () => {
  await warehouse.reset();
  hours = new FinalHours(warehouse);
  nowMs = Date.UTC(2026, 2, 10) + 365 * DAY_MS;
  archive = join(folder.path, `archive-${round++}`);
});
afterAll(async () => {
  await warehouse.close();
  folder.remove();
});

async function setUp(limits: Partial<typeof STATEMENT_LIMITS> = {}) {
  const store = await openFolderStore({ dir: archive });
  const finalUntilMs = () => hours.finalUntilMs;
  const clock = () => nowMs;
  const statements = openStatements({
    store,
    warehouse,
    finalUntilMs,
    clock,
    limits: { ...STATEMENT_LIMITS, ...limits },
  });
  const logged: string[] = [];
  const api = setUpApi({
    config: { maxRows: 10_000, maxAdIds: 100 },
    warehouse,
    finalUntilMs,
    features: [statementsFeature({ statements, log: (_, message) => logged.push(message) })],
  });
  const create = (body: object, token = 'reader'): Promise<Response> =>
    api.send('/v1/statements', { method: 'POST', body: JSON.stringify(body) }, token);
  return { ...api, create, statements, store, loggedHere: logged };
}
type World = Awaited<ReturnType<typeof setUp>>;

interface Body {
  readonly id: string;
  readonly version: number;
  readonly supersedes: number | null;
  readonly rows: number;
  readonly clicks: number;
  readonly files: Record<'csv' | 'parquet', { url: string; sha256: string; size_bytes: number }>;
}
const bodyOf = async (answer: Response | Promise<Response>): Promise<Body> =>
  (await jsonOf(answer)) as unknown as Body;

async function* once(text: string): AsyncGenerator<string> {
  yield text;
}

async function csvRows(text: string): Promise<Record<string, unknown>[]> {
  const required = text.slice(0, text.indexOf('\r\n')).split(',');
  const rows: Record<string, unknown>[] = [];
  for await (const row of readCsv(once(text), { required, optional: [] })) {
    if (!row.ok) throw new Error(row.reason);
    rows.push({ ...row.record });
  }
  return rows;
}

/** Clicks by day and ad, out of the metrics API. */
async function metricsOf({ send }: World, period: Record<string, string>) {
  const query = new URLSearchParams({ ...period, granularity: 'day', group_by: 'ad,campaign' });
  const body = await jsonOf(send(`/v1/ads/metrics?${query}`));
  expect(body.next_cursor).toBeNull();
  const rows = body.rows as Record<string, unknown>[];
  return rows.map((row) => ({
    day: String(row.bucket_start).slice(0, 10),
    ad_id: String(row.ad_id),
    campaign_id: String(row.campaign_id),
    clicks: Number(row.clicks),
  }));
}

const byAdAndDay = (rows: { ad_id: string; day: string; campaign_id: string }[]) =>
  rows.toSorted((a, b) => {
    const key = (row: typeof a): string => [row.ad_id, row.day, row.campaign_id].join('\n');
    return key(a) < key(b) ? -1 : 1;
  });

const MARCH_10 = Date.UTC(2026, 2, 10);
/** A local day in Paris before the clocks change: it begins at 23:00 UTC of the day before. */
const PARIS = { from: '2026-03-10', to: '2026-03-11', timezone: 'Europe/Paris' };
const PARIS_FROM = MARCH_10 - HOUR_MS;
const PARIS_TO = PARIS_FROM + DAY_MS;

async function aParisDay(): Promise<void> {
  await hours.publishAll(PARIS_FROM - HOUR_MS, PARIS_TO + HOUR_MS, [
    finalRow(PARIS_FROM - 60_000, { clicks: 1000 }),
    finalRow(PARIS_FROM, { clicks: 3, adId: '-ad' }),
    finalRow(PARIS_FROM + 5 * HOUR_MS, { clicks: 4, country: 'US' }),
    finalRow(PARIS_FROM + 5 * HOUR_MS, { clicks: 1, country: 'DE' }),
    finalRow(PARIS_FROM + 6 * HOUR_MS, { clicks: 2, campaignId: 'c0' }),
    finalRow(PARIS_FROM + 7 * HOUR_MS, { clicks: 77, advertiserId: 'adv-2' }),
    finalRow(PARIS_TO, { clicks: 2000 }),
  ]);
}

describe('a statement', () => {
  beforeEach(aParisDay);

  test('has the period’s final clicks per ad and day, sorted, as CSV and as Parquet', async () => {
    const world = await setUp();
    const answer = await world.create(PARIS);
    expect(answer.status).toBe(201);
    const body = await bodyOf(answer);
    expect(answer.headers.get('Location')).toBe(`/v1/statements/${body.id}`);
    expect(body).toMatchObject({
      version: 1,
      supersedes: null,
      advertiser_id: 'adv-1',
      from: '2026-03-10T00:00:00+01:00',
      to: '2026-03-11T00:00:00+01:00',
      timezone: 'Europe/Paris',
      rows: 3,
      clicks: 10,
    });
    const csv = await world.send(body.files.csv.url);
    const start = `${body.id},1,adv-1,2026-03-10`;
    expect(await csv.text()).toBe(
      [
        'statement_id,version,advertiser_id,day,ad_id,campaign_id,clicks',
        `${start},'-ad,c1,3`,
        `${start},ad-1,c0,2`,
        `${start},ad-1,c1,5`,
        '',
      ].join('\r\n'),
    );
    const parquet = await world.send(body.files.parquet.url);
    const rows = await parquetReadObjects({ file: await parquet.arrayBuffer() });
    const expected = { statement_id: body.id, version: 1, advertiser_id: 'adv-1' };
    const day = new Date('2026-03-10');
    expect(rows).toEqual([
      { ...expected, day, ad_id: '-ad', campaign_id: 'c1', clicks: 3n },
      { ...expected, day, ad_id: 'ad-1', campaign_id: 'c0', clicks: 2n },
      { ...expected, day, ad_id: 'ad-1', campaign_id: 'c1', clicks: 5n },
    ]);
  });

  test('is the same statement, version and bytes however its period is written (H13)', async () => {
    const world = await setUp();
    const first = await bodyOf(world.create(PARIS));
    nowMs += 1;
    for (const over of [
      {},
      { from: '2026-03-09T23:00:00Z', to: '2026-03-10T23:00:00.000Z' },
      { from: '2026-03-10T00:00', to: '2026-03-11T00:00:00+01:00' },
      { timezone: 'europe/paris' },
    ]) {
      const again = await world.create({ ...PARIS, ...over });
      expect(again.status).toBe(200);
      expect(await bodyOf(again)).toEqual(first);
    }
    const utc = await bodyOf(world.create({ ...PARIS, timezone: 'UTC' }));
    expect(utc.id).not.toBe(first.id);
  });

  test('is refused while hours of it are not final, and says both times', async () => {
    const world = await setUp();
    hours.finalUntilMs = PARIS_TO - HOUR_MS;
    const answer = await world.create(PARIS);
    expect([answer.status, await jsonOf(answer)]).toEqual([
      409,
      expect.objectContaining({
        code: 'period_not_final',
        detail: expect.stringMatching(/2026-03-10T23:00:00.000Z.*2026-03-10T22:00:00.000Z/),
      }),
    ]);
    hours.finalUntilMs = 0;
    expect((await jsonOf(world.create(PARIS))).detail).toContain('nothing is final yet');
    hours.finalUntilMs = PARIS_TO;
    expect((await world.create(PARIS)).status).toBe(201);
  });

  test('has local midnights as edges, at most 400 days, and nothing else (H13)', async () => {
    const world = await setUp();
    hours.finalUntilMs = Date.UTC(2030, 0, 1);
    await hours.publish(Date.UTC(2029, 11, 31, 23), []);
    const statusOf = async (over: object) => {
      const answer = await world.create({ ...PARIS, ...over });
      return [answer.status, (await jsonOf(answer)).code];
    };
    for (const over of [
      { to: '2026-03-10T20:00:00Z' },
      { to: '2026-03-11T00:00:00Z' },
      { from: '2026-03-09T23:15:00Z' },
      { from: '2026-03-10', to: '2027-04-15' },
    ]) {
      expect([over, await statusOf(over)]).toEqual([over, [400, 'period_invalid']]);
    }
    const summer = { from: '2026-06-01', to: '2026-06-02T22:00:00Z' };
    expect((await statusOf(summer))[0]).toBe(201);
    expect((await statusOf({ from: '2026-03-10', to: '2027-04-14' }))[0]).toBe(201);
    expect((await statusOf({ from: '2026-03-10', to: '2026-03-10' }))[1]).toBe('range_empty');
    expect((await statusOf({ timezone: 'Mars/Base' }))[1]).toBe('parameters_invalid');
    expect((await statusOf({ zone: 'UTC' }))[1]).toBe('parameters_invalid');
    const hint = (await jsonOf(world.create({ ...PARIS, to: '2026-03-10T20:00:00Z' }))).hint;
    expect(hint).toContain('2026-03-10T00:00:00+01:00 or 2026-03-11T00:00:00+01:00');
  });

  test('gets a new version when a restatement changes it; the old one stays as it was', async () => {
    const world = await setUp();
    const first = await bodyOf(world.create(PARIS));
    const bytes = await (await world.send(first.files.csv.url)).text();
    // Another advertiser's restatement in the period changes nothing of ours.
    await hours.publish(PARIS_FROM + 7 * HOUR_MS, []);
    expect((await world.create(PARIS)).status).toBe(200);
    await hours.publish(PARIS_FROM + 6 * HOUR_MS, [
      finalRow(PARIS_FROM + 6 * HOUR_MS, { clicks: 1, campaignId: 'c0' }),
    ]);
    const answer = await world.create(PARIS);
    expect(answer.status).toBe(201);
    const second = await bodyOf(answer);
    expect(second).toMatchObject({ id: first.id, version: 2, supersedes: 1, clicks: 9 });
    expect(await bodyOf(world.create(PARIS))).toEqual(second);
    expect(await bodyOf(world.send(`/v1/statements/${first.id}`))).toEqual(second);
    const old = await bodyOf(world.send(`/v1/statements/${first.id}?version=1`));
    expect(old).toEqual({ ...first, latest_version: 2 } as unknown as Body);
    expect(await (await world.send(first.files.csv.url)).text()).toBe(bytes);
    expect((await world.send(`/v1/statements/${first.id}?version=3`)).status).toBe(404);
    // Back to the numbers of before: that is a change too, and its own version.
    await hours.publish(PARIS_FROM + 6 * HOUR_MS, [
      finalRow(PARIS_FROM + 6 * HOUR_MS, { clicks: 2, campaignId: 'c0' }),
    ]);
    expect(await bodyOf(world.create(PARIS))).toMatchObject({ version: 3, supersedes: 2 });
  });

  test('asked for many times at once gets one version', async () => {
    const world = await setUp();
    const answers = await Promise.all([1, 2, 3, 4].map(() => world.create(PARIS)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 201]);
    const bodies = await Promise.all(answers.map(bodyOf));
    for (const body of bodies) expect(body).toEqual(bodies[0]!);
    const busy = await Promise.all([1, 2, 3, 4, 5].map(() => world.create(PARIS)));
    expect(busy.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 503]);
    expect((await world.create(PARIS)).status).toBe(200);
  });

  test('beyond its bounds is refused with a way round', async () => {
    const codeWith = async (limits: Partial<typeof STATEMENT_LIMITS>) =>
      (await jsonOf((await setUp(limits)).create(PARIS))).code;
    expect(await codeWith({ rows: 2 })).toBe('statement_too_large');
    expect(await codeWith({ fileBytes: 100 })).toBe('statement_too_large');
    const world = await setUp({ statements: 1 });
    expect((await world.create(PARIS)).status).toBe(201);
    const other = { ...PARIS, timezone: 'Europe/Berlin' };
    expect((await jsonOf(world.create(other))).code).toBe('statements_too_many');
    expect((await world.create({ ...PARIS, advertiser_id: 'adv-2' }, 'admin')).status).toBe(201);
    expect((await world.create(PARIS)).status).toBe(200);
  });

  test('without any clicks is a statement too', async () => {
    const world = await setUp();
    const body = await bodyOf(world.create({ ...PARIS, advertiser_id: 'adv-9' }, 'admin'));
    expect(body).toMatchObject({ version: 1, rows: 0, clicks: 0 });
    expect(await csvRows(await (await world.send(body.files.csv.url, {}, 'admin')).text())).toEqual(
      [],
    );
    const parquet = await world.send(body.files.parquet.url, {}, 'admin');
    expect(await parquetReadObjects({ file: await parquet.arrayBuffer() })).toEqual([]);
  });
});

describe('who may see a statement', () => {
  beforeEach(aParisDay);

  test('another’s and a missing one give the same answer, byte for byte', async () => {
    const world = await setUp();
    const other = await bodyOf(world.create({ ...PARIS, advertiser_id: 'adv-2' }, 'admin'));
    const own = await bodyOf(world.create(PARIS));
    expect(own.id).not.toBe(other.id);
    const answersTo = async (id: string) => {
      const answers: unknown[] = [];
      for (const path of ['', '/csv', '/parquet', '?version=1']) {
        const answer = await world.send(`/v1/statements/${id}${path}`);
        answers.push([answer.status, await answer.text()]);
      }
      return answers;
    };
    const missing = await answersTo(other.id.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')));
    expect(await answersTo(other.id)).toEqual(missing);
    expect(missing[0]).toEqual([404, expect.stringContaining('statement_unknown')]);
    for (const id of ['x', '..%2f..%2fetc', `${own.id}%00`, '__proto__', own.id.toUpperCase()]) {
      expect([id, (await world.send(`/v1/statements/${id}`)).status]).toEqual([id, 404]);
    }
    expect((await world.create({ ...PARIS, advertiser_id: 'adv-2' })).status).toBe(403);
    expect((await world.create(PARIS, 'admin')).status).toBe(400);
    expect((await world.send('/v1/statements?advertiser_id=adv-2')).status).toBe(403);
  });

  test('a list has one’s own, latest versions, page by page', async () => {
    const world = await setUp();
    const zones = ['UTC', 'Europe/Paris', 'Europe/Berlin'];
    const ids: string[] = [];
    for (const timezone of zones) {
      ids.push((await bodyOf(world.create({ ...PARIS, timezone }))).id);
      await world.create({ ...PARIS, timezone, advertiser_id: 'adv-2' }, 'admin');
    }
    const read = async (token: string, query: string) => {
      const found: string[] = [];
      let cursor = '';
      do {
        const path = `/v1/statements?limit=2${query}${cursor}`;
        const body = await jsonOf(world.send(path, {}, token));
        found.push(...(body.statements as Body[]).map(({ id }) => id));
        expect((body.statements as unknown[]).length).toBeLessThanOrEqual(2);
        cursor = body.next_cursor === null ? '' : `&cursor=${body.next_cursor}`;
      } while (cursor !== '');
      return found;
    };
    expect(await read('reader', '')).toEqual(ids.toSorted());
    expect((await read('admin', '')).length).toBe(6);
    expect((await read('admin', '&advertiser_id=adv-2')).length).toBe(3);
    expect((await world.send('/v1/statements?cursor=Li4v')).status).toBe(400);
  });
});

describe('a download', () => {
  beforeEach(aParisDay);

  test('carries its name, size, ETag and digest, and answers 304 to who has it', async () => {
    const world = await setUp();
    const { id, files } = await bodyOf(world.create(PARIS));
    for (const kind of ['csv', 'parquet'] as const) {
      const answer = await world.send(`/v1/statements/${id}/${kind}`);
      const bytes = new Uint8Array(await answer.arrayBuffer());
      const digest = createHash('sha256').update(bytes).digest();
      expect([digest.toString('hex'), bytes.length]).toEqual([
        files[kind].sha256,
        files[kind].size_bytes,
      ]);
      expect(answer.headers.get('Content-Disposition')).toBe(
        `attachment; filename="${id}-v1.${kind}"`,
      );
      expect(answer.headers.get('ETag')).toBe(`"${files[kind].sha256}"`);
      expect(answer.headers.get('Repr-Digest')).toBe(`sha-256=:${digest.toString('base64')}:`);
      const headers = { 'If-None-Match': `W/"x", "${files[kind].sha256}"` };
      const again = await world.send(`/v1/statements/${id}/${kind}`, { headers });
      expect([again.status, await again.text()]).toEqual([304, '']);
    }
  });

  test('whose bytes are damaged is not sent; asking for the statement again mends it', async () => {
    const world = await setUp();
    const { id, files } = await bodyOf(world.create(PARIS));
    const paths = (['csv', 'parquet'] as const).map((kind) => ({
      kind,
      path: join(archive, 'statements', id, `v1.${kind}`),
      bytes: Buffer.alloc(files[kind].size_bytes, 'x'),
    }));
    for (const { kind, path, bytes } of paths) {
      for (const damage of [() => writeFileSync(path, bytes), () => rmSync(path)]) {
        rmSync(path);
        writeFileSync(path, '');
        damage();
        const answer = await world.send(`/v1/statements/${id}/${kind}`);
        const problem = await jsonOf(answer);
        expect([answer.status, problem.code]).toEqual([500, 'statement_damaged']);
        expect(JSON.stringify(problem)).not.toContain(archive);
        expect(world.loggedHere.at(-1)).toContain(`statements/${id}/v1.${kind}`);
        expect((await world.create(PARIS)).status).toBe(200);
        const mended = await (await world.send(`/v1/statements/${id}/${kind}`)).arrayBuffer();
        expect(createHash('sha256').update(new Uint8Array(mended)).digest('hex')).toBe(
          files[kind].sha256,
        );
      }
    }
    writeFileSync(join(archive, 'statements', id, 'v1.json'), '{}');
    expect((await world.send(`/v1/statements/${id}`)).status).toBe(500);
    expect((await world.create(PARIS)).status).toBe(500);
  });
});

describe('the numbers of a statement', () => {
  test('of a year ago in a zone of half hours come from hour rows, whose minutes have expired', async () => {
    const fromMs = Date.UTC(2026, 2, 9, 18, 30);
    const edges = [fromMs - 60_000, fromMs, fromMs + DAY_MS - 60_000, fromMs + DAY_MS];
    await hours.publishAll(
      Date.UTC(2026, 2, 9, 18),
      Date.UTC(2026, 2, 11, 19),
      edges.map((ms, at) => finalRow(ms, { clicks: 10 ** at })),
    );
    const world = await setUp();
    const kolkata = { from: '2026-03-10', to: '2026-03-11', timezone: 'Asia/Kolkata' };
    expect(await bodyOf(world.create(kolkata))).toMatchObject({ rows: 1, clicks: 110 });
    const twoDays = { ...kolkata, to: '2026-03-12' };
    expect(await bodyOf(world.create(twoDays))).toMatchObject({ rows: 2, clicks: 1110 });
    const minutes = new URLSearchParams({ ...kolkata, granularity: 'minute' });
    expect((await jsonOf(world.send(`/v1/ads/metrics?${minutes}`))).code).toBe('tier_expired');
  });

  test('are those of the metrics API, row by row and in all, in any zone', async () => {
    const zones = ['UTC', 'Europe/Paris', 'Asia/Kolkata', 'Asia/Kathmandu', 'Australia/Lord_Howe'];
    const baseMs = Date.UTC(2026, 3, 3);
    const spec = fc.record({
      rows: fc.array(
        fc.record({
          minute: fc.integer({ min: 0, max: 3 * 24 * 60 - 1 }),
          ad: fc.constantFrom('a', 'a.1', 'B', '-x', '~z'),
          campaign: fc.constantFrom('c1', 'c2'),
          clicks: fc.integer({ min: 0, max: 2 ** 31 }),
        }),
        { maxLength: 60, size: 'max' },
      ),
      timezone: fc.constantFrom(...zones),
      days: fc.integer({ min: 1, max: 2 }),
    });
    await fc.assert(
      fc.asyncProperty(spec, async ({ rows, timezone, days }) => {
        await warehouse.reset();
        hours = new FinalHours(warehouse);
        archive = join(folder.path, `archive-${round++}`);
        const all: FinalRow[] = rows.map(({ minute, ad, campaign, clicks }) =>
          finalRow(baseMs + minute * 60_000, { adId: ad, campaignId: campaign, clicks }),
        );
        const distinct = new Map(all.map((row) => [JSON.stringify({ ...row, clicks: 0 }), row]));
        await hours.publishAll(baseMs, baseMs + 3 * DAY_MS, [...distinct.values()]);
        const world = await setUp();
        const period = { from: '2026-04-04', to: `2026-04-0${4 + days}`, timezone };
        const body = await bodyOf(world.create(period));
        const expected = await metricsOf(world, period);
        const csv = await csvRows(await (await world.send(body.files.csv.url)).text());
        const seen = csv.map(({ day, ad_id, campaign_id, clicks }) => ({
          day: String(day),
          ad_id: String(ad_id).replace(/^'/, ''),
          campaign_id: String(campaign_id),
          clicks: Number(clicks),
        }));
        expect(seen).toEqual(byAdAndDay(expected) as typeof seen);
        const total = new URLSearchParams({ ...period, granularity: 'total', group_by: 'none' });
        const sum = (await jsonOf(world.send(`/v1/ads/metrics?${total}`))).rows as Body[];
        expect(body.clicks).toBe(sum[0]?.clicks ?? 0);
        expect(body.clicks).toBe(seen.reduce((clicks, row) => clicks + row.clicks, 0));
      }),
      { ...fcParams(3), endOnFailure: true },
    );
  }, 120_000);
});
