// Proves INV-4, INV-5, INV-8, INV-9, INV-13 of SPEC.md.
/** What every warehouse adapter must do. `warehouse.test.ts` puts the adapters under it. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { FinalRow, LiveRow, MetricsQuery, Warehouse } from '../../src/warehouse/port.ts';
import { fcParams } from '../support/seed.ts';
import { HOUR_MS, MINUTE_MS, WarehouseModel } from './warehouse-model.ts';
import {
  build,
  hourState,
  type Question,
  question,
  WORLD_HOURS,
  world,
} from './warehouse-world.ts';

export interface WarehouseHarness {
  warehouse: Warehouse;
  /** Closes and opens again on the same data; replaces `warehouse`. */
  reopen(): Promise<void>;
  /** A number out of a statement on the same tables, past the adapter. */
  scalar(sql: string): Promise<number>;
  dispose(): Promise<void>;
}

const BASE_MS = Date.UTC(2026, 2, 28);
const DAY_MS = 24 * HOUR_MS;
const FOREVER_MS = 4_000_000_000_000;

const final = (atMs: number, clicks: number, more: Partial<FinalRow> = {}): FinalRow => ({
  advertiserId: 'a1',
  campaignId: 'c1',
  adId: 'ad-1',
  minuteMs: atMs,
  country: 'DE',
  device: 'mobile',
  clicks,
  ...more,
});
const live = (atMs: number, clicks: number, more: Partial<LiveRow> = {}): LiveRow => ({
  ...final(atMs, clicks),
  shard: 0,
  ...more,
});
const ask = (more: Partial<MetricsQuery> = {}): MetricsQuery => ({
  advertiserId: 'a1',
  adIds: undefined,
  campaignIds: undefined,
  countries: undefined,
  devices: undefined,
  fromMs: BASE_MS - DAY_MS,
  toMs: BASE_MS + 400 * DAY_MS,
  granularity: 'total',
  timezone: 'UTC',
  groupBy: [],
  limit: 1000,
  after: undefined,
  ...more,
});

export function warehouseSuite(name: string, open: () => Promise<WarehouseHarness>): void {
  describe(`warehouse conformance: ${name}`, () => {
    let harness: WarehouseHarness;
    let warehouse: Warehouse;
    beforeAll(async () => {
      harness = await open();
    });
    beforeEach(async () => {
      warehouse = harness.warehouse;
      await warehouse.reset();
    });
    afterAll(() => harness.dispose());
    const context = (): WarehouseHarness => harness;
    liveTests(context);
    finalTests(context);
    stateTests(context);
    queryTests(context);

    test(
      'answers every query as a slow plain model does, whole and page by page',
      async () => {
        await fc.assert(
          fc.asyncProperty(world, fc.nat(), async (spec, seed) => {
            await warehouse.reset();
            const toMs = spec.baseMs + WORLD_HOURS * HOUR_MS;
            const model = new WarehouseModel(spec.baseMs, toMs);

            await build(spec, warehouse, model);
            const questions = fc.sample(question(spec.baseMs), { numRuns: 40, seed });
            for (const one of questions) await checkQuestion(warehouse, model, one);
          }),
          { ...fcParams(3), endOnFailure: true },
        );
      },
      { timeout: 120_000 },
    );
  });
}

type Context = () => WarehouseHarness;

async function checkQuestion(
  warehouse: Warehouse,
  model: WarehouseModel,
  { query, finalUntilMs, pageLimit }: Question,
): Promise<void> {
  const expected = model.metrics(query, finalUntilMs).rows;
  const page = await warehouse.metrics(query, finalUntilMs);
  const label = JSON.stringify({ ...query, finalUntilMs, pageLimit });
  expect({ label, rows: page.rows }).toEqual({ label, rows: expected });
  expect(page.next).toBeUndefined();

  const total = await warehouse.metrics(
    { ...query, granularity: 'total', groupBy: [] },
    finalUntilMs,
  );
  const sum = page.rows.reduce((clicks, row) => clicks + row.clicks, 0);
  expect({ label, sum: total.rows[0]?.clicks ?? 0 }).toEqual({ label, sum });

  const by = (['ad', 'campaign', 'country', 'device'] as const)[expected.length % 4]!;
  const top = { ...query, by, limit: pageLimit };
  expect({ label, by, top: await warehouse.top(top, finalUntilMs) }).toEqual({
    label,
    by,
    top: model.top(top, finalUntilMs),
  });
  await checkPartition(warehouse, { query, finalUntilMs, pageLimit }, sum);

  const limit = Math.max(pageLimit, Math.ceil(expected.length / 4));
  const paged = await allPages(warehouse, { ...query, limit }, finalUntilMs);
  expect({ label, paged }).toEqual({ label, paged: [...expected] });
}

/** What a list holds and what it leaves out add up to all. */
async function checkPartition(
  warehouse: Warehouse,
  { query, finalUntilMs, pageLimit }: Question,
  sum: number,
): Promise<void> {
  const lists = [
    ['adIds', 'adIdsNot', ['ad-1', 'ad.3', 'nobodys']],
    ['campaignIds', 'campaignIdsNot', ['c1']],
    ['countries', 'countriesNot', ['ZZ', 'US']],
    ['devices', 'devicesNot', ['mobile']],
  ] as const;
  const [only, not, values] = lists[pageLimit % lists.length]!;
  // Within a query that has such a list already, the other parts would not be all.
  if (query[only] !== undefined || query[not] !== undefined) return;
  const whole = { ...query, granularity: 'total', groupBy: [], after: undefined } as const;
  const clicks = async (list: Partial<MetricsQuery>): Promise<number> =>
    (await warehouse.metrics({ ...whole, ...list }, finalUntilMs)).rows[0]?.clicks ?? 0;
  const parts = [await clicks({ [only]: values }), await clicks({ [not]: values })];
  expect({ query, values, sum: parts[0]! + parts[1]! }).toEqual({ query, values, sum });
}

async function allPages(warehouse: Warehouse, query: MetricsQuery, finalUntilMs: number) {
  const rows = [];
  let after: readonly string[] | undefined;
  do {
    const page = await warehouse.metrics({ ...query, after }, finalUntilMs);
    expect(page.rows.length).toBeLessThanOrEqual(query.limit);
    rows.push(...page.rows);
    after = page.next;
  } while (after !== undefined);
  return rows;
}

async function total(warehouse: Warehouse, finalUntilMs: number): Promise<number> {
  const page = await warehouse.metrics(ask(), finalUntilMs);
  return page.rows[0]?.clicks ?? 0;
}

async function publishFirst(warehouse: Warehouse, hourMs: number, attempt: number): Promise<void> {
  const hour = hourState(hourMs, 1, attempt);
  await warehouse.publish({ hour, day: null, drift: [], restatements: [] });
}

function liveTests(context: Context): void {
  test('a live row replaces the one before it, and readers sum over shards (W2)', async () => {
    const { warehouse } = context();
    await warehouse.upsertLive([live(BASE_MS, 3), live(BASE_MS, 10, { shard: 1 })], 1);
    await warehouse.upsertLive([live(BASE_MS, 5)], 2);
    await warehouse.upsertLive([live(BASE_MS, 5)], 3);
    await warehouse.upsertLive([live(BASE_MS, 7, { advertiserId: 'a2' })], 4);
    expect(await warehouse.liveTotals(BASE_MS)).toEqual(
      new Map([
        ['a1', 15],
        ['a2', 7],
      ]),
    );
    expect(await warehouse.liveRows(BASE_MS, BASE_MS + HOUR_MS)).toEqual([
      final(BASE_MS, 15),
      final(BASE_MS, 7, { advertiserId: 'a2' }),
    ]);
    expect(await warehouse.liveRows(BASE_MS + MINUTE_MS, BASE_MS + HOUR_MS)).toEqual([]);
    expect(await total(warehouse, 0)).toBe(15);
    expect(await warehouse.maxLiveVersion()).toBe(4);
  });

  test('the version must rise', async () => {
    const { warehouse } = context();
    await warehouse.upsertLive([live(BASE_MS, 3)], 7);
    expect(warehouse.upsertLive([live(BASE_MS, 4)], 7)).rejects.toThrow('version');
  });

  test('rows of many shards go in one call, each shard with versions of its own', async () => {
    const { warehouse } = context();
    const most = Number.MAX_SAFE_INTEGER;
    const of = (shard: number, clicks: number, version: number) => {
      return { rows: [live(BASE_MS, clicks, { shard })], version };
    };
    await warehouse.upsertLiveBatches([of(10_000, 3, 2 ** 33 + 1), of(10_001, 10, 7), of(5, 1, 1)]);
    await warehouse.upsertLiveBatches([of(10_001, 20, 8), of(10_002, 100, most - 1)]);
    await warehouse.upsertLiveBatches([of(10_002, 200, most)]);
    expect(await total(warehouse, 0)).toBe(3 + 20 + 1 + 200);
    expect(await warehouse.maxLiveVersion(10_000)).toBe(2 ** 33 + 1);
    expect(await warehouse.maxLiveVersion(10_001)).toBe(8);
    expect(await warehouse.maxLiveVersion(77)).toBe(0);
    expect(await warehouse.maxLiveVersion()).toBe(most);
    await warehouse.upsertLiveBatches([]);
    await expect(warehouse.upsertLiveBatches([of(10_001, 9, 8)])).rejects.toThrow('version');
  });

  test('a row of a writer that was superseded changes nothing, however late it arrives', async () => {
    const harness = context();
    await harness.warehouse.upsertLiveBatches([{ rows: [live(BASE_MS, 5)], version: 2 ** 32 * 9 }]);
    // Another process: its versions are of an older epoch.
    await harness.reopen();
    const older = { rows: [live(BASE_MS, 4)], version: 2 ** 32 * 8 + 1_000 };
    await harness.warehouse.upsertLiveBatches([older]);
    expect(await total(harness.warehouse, 0)).toBe(5);
  });

  test('takes rows of 200 days at once, and 200 upserts of one row (G8)', async () => {
    const { warehouse } = context();
    const days = Array.from({ length: 200 }, (_, day) => live(BASE_MS + day * DAY_MS, 1));
    await warehouse.upsertLive(days, 1);
    for (let version = 2; version <= 201; version++) {
      await warehouse.upsertLive([live(BASE_MS, version)], version);
    }
    expect(await total(warehouse, 0)).toBe(199 + 201);
  });

  test('FINAL and the highest version in the query give the same totals (G2)', async () => {
    const { warehouse, scalar } = context();
    let expected = 0;
    for (let version = 1; version <= 5; version++) {
      const rows = Array.from({ length: 300 }, (_, at) =>
        live(BASE_MS + at * 7 * MINUTE_MS, version * 10 + at, { shard: at % 3 }),
      ).filter((_, at) => version === 1 || at % version === 0);
      await warehouse.upsertLive(rows, version);
    }
    for (let at = 0; at < 300; at++) {
      const version = [5, 4, 3, 2, 1].find((candidate) => at % candidate === 0)!;
      expected += version * 10 + at;
    }
    expect(await scalar('SELECT sum(clicks) FROM live_minute FINAL')).toBe(expected);
    expect(await total(warehouse, 0)).toBe(expected);
    const rows = await warehouse.liveRows(BASE_MS, BASE_MS + 10 * DAY_MS);
    expect(rows.reduce((sum, row) => sum + row.clicks, 0)).toBe(expected);
  });
}

function finalTests(context: Context): void {
  test('an hour that was loaded twice counts once (G1)', async () => {
    const { warehouse } = context();
    const rows = [final(BASE_MS, 3), final(BASE_MS + 59 * MINUTE_MS, 4)];
    for (let load = 0; load < 2; load++) {
      const attempt = await warehouse.nextAttempt('hour', BASE_MS);
      await warehouse.writeFinalHour(BASE_MS, attempt, rows);
    }
    await publishFirst(warehouse, BASE_MS, 2);
    expect(await total(warehouse, BASE_MS + HOUR_MS)).toBe(7);
    const byMinute = await warehouse.metrics(ask({ granularity: 'minute' }), BASE_MS + HOUR_MS);
    expect(byMinute.rows.map((row) => row.clicks)).toEqual([3, 4]);
    expect(await warehouse.finalRows(BASE_MS)).toEqual(rows);
  });

  test('rows of an attempt that is not published are never seen (W3)', async () => {
    const { warehouse } = context();
    const [first, middle, last] = [BASE_MS, BASE_MS + HOUR_MS, BASE_MS + 2 * HOUR_MS];
    for (const hourMs of [first, middle, last]) {
      await warehouse.writeFinalHour(hourMs, 1, [final(hourMs, 1)]);
    }
    await warehouse.writeFinalHour(last, 2, [final(last, 10)]);
    await publishFirst(warehouse, first, 1);
    await publishFirst(warehouse, last, 2);
    const finalUntilMs = BASE_MS + 5 * HOUR_MS;
    expect(await total(warehouse, finalUntilMs)).toBe(11);
    const byHour = await warehouse.metrics(ask({ granularity: 'hour' }), finalUntilMs);
    expect(byHour.rows.map((row) => row.clicks)).toEqual([1, 10]);
    const byMinute = await warehouse.metrics(ask({ granularity: 'minute' }), finalUntilMs);
    expect(byMinute.rows.map((row) => row.clicks)).toEqual([1, 10]);
    expect(await warehouse.finalRows(middle)).toEqual([]);
  });

  test('live rows inside final hours are not seen, final rows after final_until are not either', async () => {
    const { warehouse } = context();
    await warehouse.upsertLive([live(BASE_MS, 100), live(BASE_MS + HOUR_MS, 200)], 1);
    await warehouse.writeFinalHour(BASE_MS, 1, [final(BASE_MS, 1)]);
    await publishFirst(warehouse, BASE_MS, 1);
    expect(await total(warehouse, BASE_MS)).toBe(300);
    expect(await total(warehouse, BASE_MS + HOUR_MS)).toBe(201);
    expect(await total(warehouse, BASE_MS + 2 * HOUR_MS)).toBe(1);
  });

  test('roll-ups are the sums of their rows, and one that is not is found', async () => {
    const { warehouse, scalar } = context();
    const rows = [final(BASE_MS, 3), final(BASE_MS + 20 * MINUTE_MS, 4, { adId: 'ad-2' })];
    // Attempt 1 was left half-written; attempt 2 is in force.
    await warehouse.writeFinalHour(BASE_MS, 1, rows.slice(1));
    await warehouse.writeFinalHour(BASE_MS, 2, rows);
    await warehouse.writeFinalDay(BASE_MS, 1, new Map([[BASE_MS, 2]]));
    const day = { dayMs: BASE_MS, attempt: 1 };
    await warehouse.publish({ hour: hourState(BASE_MS, 1, 2), day, drift: [], restatements: [] });
    expect(await warehouse.rollupDifferences('hour', BASE_MS)).toEqual([]);
    expect(await warehouse.rollupDifferences('day', BASE_MS)).toEqual([]);
    const columns = 'advertiser_id, campaign_id, ad_id, country, device';
    await scalar(
      `INSERT INTO final_hour_rollup (summed_by, ${columns}, hour, q1, clicks, attempt)
        VALUES ('place', 'a1', '', '', 'DE', 'mobile', ${BASE_MS / 1000}, 1, 1, 2)`,
    );
    await scalar(
      `INSERT INTO final_day_rollup (summed_by, ${columns}, day, clicks, attempt)
        VALUES ('ad', 'a1', 'c1', 'ad-9', '', '', ${BASE_MS / 1000}, 5, 1)`,
    );
    const key = { advertiserId: 'a1', campaignId: '', adId: '', country: 'DE', device: 'mobile' };
    expect(await warehouse.rollupDifferences('hour', BASE_MS)).toEqual([
      { ...key, rows: 7, rollup: 8 },
    ]);
    const ad = { ...key, campaignId: 'c1', adId: 'ad-9', country: '', device: '' };
    expect(await warehouse.rollupDifferences('day', BASE_MS)).toEqual([
      { ...ad, rows: 0, rollup: 5 },
    ]);
  });

  test('a day that is final, final hours and live rows make one row of one bucket', async () => {
    const { warehouse } = context();
    await warehouse.writeFinalHour(BASE_MS, 1, [final(BASE_MS, 1)]);
    await warehouse.writeFinalHour(BASE_MS + DAY_MS, 1, [final(BASE_MS + DAY_MS, 20)]);
    await warehouse.writeFinalDay(BASE_MS, 1, new Map([[BASE_MS, 1]]));
    const day = { dayMs: BASE_MS, attempt: 1 };
    await warehouse.publish({ hour: hourState(BASE_MS, 1, 1), day, drift: [], restatements: [] });
    await publishFirst(warehouse, BASE_MS + DAY_MS, 1);
    await warehouse.upsertLive([live(BASE_MS + DAY_MS + HOUR_MS, 300)], 1);
    const finalUntilMs = BASE_MS + DAY_MS + HOUR_MS;
    const byDay = await warehouse.metrics(ask({ granularity: 'day' }), finalUntilMs);
    expect(byDay.rows.map((row) => [row.bucketStart, row.clicks])).toEqual([
      ['2026-03-28T00:00:00+00:00', 1],
      ['2026-03-29T00:00:00+00:00', 320],
    ]);
    expect(await total(warehouse, finalUntilMs)).toBe(321);
    expect(await warehouse.tierRows('day', BASE_MS)).toEqual([final(BASE_MS, 1)]);
    expect(await warehouse.tierRows('day', BASE_MS + DAY_MS)).toEqual([]);
    expect(await warehouse.tierRows('hour', BASE_MS + DAY_MS)).toEqual([
      final(BASE_MS + DAY_MS, 20),
    ]);
    expect(await warehouse.tierRows('hour', BASE_MS + HOUR_MS)).toEqual([]);
  });

  test('an hour of a published day is published again only with its day', async () => {
    const { warehouse } = context();
    await warehouse.writeFinalDay(BASE_MS, 1, new Map());
    const day = { dayMs: BASE_MS, attempt: 1 };
    await warehouse.publish({ hour: hourState(BASE_MS, 1, 1), day, drift: [], restatements: [] });
    const again = { hour: hourState(BASE_MS, 2, 2), day: null, drift: [], restatements: [] };
    expect(warehouse.publish(again)).rejects.toThrow('brings its day');
  });
}

function stateTests(context: Context): void {
  test('an attempt number is never given twice, not even after a restart', async () => {
    const harness = context();
    const given = await Promise.all(
      [1, 2, 3].map(() => harness.warehouse.nextAttempt('hour', BASE_MS)),
    );
    expect(given.sort()).toEqual([1, 2, 3]);
    expect(await harness.warehouse.nextAttempt('day', BASE_MS)).toBe(1);
    await harness.reopen();
    expect(await harness.warehouse.nextAttempt('hour', BASE_MS)).toBe(4);
    expect(await harness.warehouse.nextAttempt('hour', BASE_MS + HOUR_MS)).toBe(1);
  });

  test('states, rows and versions are the same after a restart', async () => {
    const harness = context();
    await harness.warehouse.writeFinalHour(BASE_MS, 3, [final(BASE_MS, 8)]);
    await harness.warehouse.writeFinalDay(BASE_MS, 2, new Map([[BASE_MS, 3]]));
    const hour = { ...hourState(BASE_MS, 1, 3), driftMax: 1 / 3 };
    const day = { dayMs: BASE_MS, attempt: 2 };
    await harness.warehouse.publish({ hour, day, drift: [], restatements: [] });
    await harness.warehouse.upsertLive([live(BASE_MS + HOUR_MS, 2)], 41);
    for (let round = 0; round < 2; round++) {
      const { warehouse } = harness;
      expect(await warehouse.hours(0, FOREVER_MS)).toEqual([hour]);
      expect(await warehouse.hours(BASE_MS + HOUR_MS, FOREVER_MS)).toEqual([]);
      expect(await warehouse.days(0, FOREVER_MS)).toEqual([day]);
      expect(await warehouse.maxLiveVersion()).toBe(41);
      expect(await total(warehouse, BASE_MS + HOUR_MS)).toBe(10);
      await harness.reopen();
    }
  });

  test('a publication that is repeated does not double drift, restatements or clicks', async () => {
    const { warehouse } = context();
    await warehouse.writeFinalHour(BASE_MS, 1, [final(BASE_MS, 5)]);
    await publishFirst(warehouse, BASE_MS, 1);
    const of = (attempt: number) => ({
      hour: hourState(BASE_MS, 2, attempt),
      day: null,
      drift: [{ hourMs: BASE_MS, revision: 2, advertiserId: 'a1', live: 5, final: 6 }],
      restatements: [
        {
          hourMs: BASE_MS,
          revision: 2,
          advertiserId: 'a1',
          adId: 'ad-1',
          before: 5,
          after: 6,
          cause: 'late_clicks',
          atMs: BASE_MS + 5_001,
        },
      ],
    });
    await warehouse.writeFinalHour(BASE_MS, 2, [final(BASE_MS, 6)]);
    await warehouse.publish(of(2));
    await warehouse.publish(of(2));
    await warehouse.writeFinalHour(BASE_MS, 3, [final(BASE_MS, 6)]);
    await warehouse.publish(of(3));
    const { restatements, drift } = of(3);
    expect(await warehouse.restatements(0, FOREVER_MS, undefined)).toEqual(restatements);
    expect(await warehouse.restatements(0, FOREVER_MS, 'a1')).toEqual(restatements);
    expect(await warehouse.restatements(0, FOREVER_MS, 'a2')).toEqual([]);
    expect(await warehouse.restatements(0, BASE_MS, undefined)).toEqual([]);
    expect(await warehouse.drift(0, FOREVER_MS, undefined)).toEqual(drift);
    expect(await total(warehouse, BASE_MS + HOUR_MS)).toBe(6);
  });

  test('drift of a publication that died before its last step is not seen', async () => {
    const harness = context();
    await harness.scalar(
      `INSERT INTO drift (hour, revision, attempt, advertiser_id, live, final)
        SELECT toDateTime(${BASE_MS / 1000}, 'UTC'), 1, 1, 'a1', 4, 5`,
    );
    expect(await harness.warehouse.drift(0, FOREVER_MS, undefined)).toEqual([]);
    await publishFirst(harness.warehouse, BASE_MS, 2);
    expect(await harness.warehouse.drift(0, FOREVER_MS, undefined)).toEqual([]);
  });

  test('a publication that was overtaken and comes late changes nothing (W5)', async () => {
    const harness = context();
    const of = (revision: number, attempt: number) => ({
      hour: hourState(BASE_MS, revision, attempt),
      day: { dayMs: BASE_MS, attempt },
      drift: [],
      restatements: [],
    });
    for (const [attempt, clicks] of [5, 6, 7].entries()) {
      await harness.warehouse.writeFinalHour(BASE_MS, attempt + 1, [final(BASE_MS, clicks)]);
      const hourAttempts = new Map([[BASE_MS, attempt + 1]]);
      await harness.warehouse.writeFinalDay(BASE_MS, attempt + 1, hourAttempts);
    }
    await harness.warehouse.publish(of(1, 1));
    await harness.warehouse.publish(of(2, 3));
    // Of a process that does not know of it: the same revision, and an older one, both behind.
    for (const [revision, attempt] of [
      [2, 2],
      [1, 2],
    ]) {
      await harness.scalar(
        `INSERT INTO finality (kind, start, revision, attempt)
          SELECT kind, toDateTime(${BASE_MS / 1000}, 'UTC'), if(kind = 'day', 0, ${revision}), ${attempt}
          FROM (SELECT arrayJoin(['hour', 'day']) AS kind)`,
      );
    }
    for (const refreshed of [() => harness.warehouse.refresh(), () => harness.reopen()]) {
      await refreshed();
      const { warehouse } = harness;
      expect(await warehouse.hours(0, FOREVER_MS)).toEqual([hourState(BASE_MS, 2, 3)]);
      expect(await warehouse.days(0, FOREVER_MS)).toEqual([{ dayMs: BASE_MS, attempt: 3 }]);
      expect(await warehouse.finalRows(BASE_MS)).toEqual([final(BASE_MS, 7)]);
      expect(await warehouse.tierRows('day', BASE_MS)).toEqual([final(BASE_MS, 7)]);
      const late = warehouse.publish(of(1, 4));
      await expect(late).rejects.toMatchObject({ code: 'publication_overtaken', kind: 'retry' });
      expect(await warehouse.hours(0, FOREVER_MS)).toEqual([hourState(BASE_MS, 2, 3)]);
    }
  });

  test('what another process publishes or empties is seen by the next refresh', async () => {
    const harness = context();
    const { warehouse } = harness;
    await warehouse.writeFinalHour(BASE_MS, 1, [final(BASE_MS, 5)]);
    await publishFirst(warehouse, BASE_MS, 1);
    await harness.scalar(
      `INSERT INTO finality (kind, start, revision, attempt)
        SELECT 'hour', toDateTime(${(BASE_MS + HOUR_MS) / 1000}, 'UTC'), 1, 1`,
    );
    expect(await warehouse.hours(0, FOREVER_MS)).toHaveLength(1);
    await warehouse.refresh();
    const known = await warehouse.hours(0, FOREVER_MS);
    expect(known.map(({ hourMs }) => hourMs)).toEqual([BASE_MS, BASE_MS + HOUR_MS]);
    await warehouse.refresh();
    expect(await warehouse.hours(0, FOREVER_MS)).toEqual(known);
    await harness.scalar('TRUNCATE TABLE finality');
    await warehouse.refresh();
    expect(await warehouse.hours(0, FOREVER_MS)).toEqual([]);
    expect(await warehouse.finalRows(BASE_MS)).toEqual([]);
  });

  test('an attempt that is reserved elsewhere has the number that was given there', async () => {
    const { warehouse } = context();
    const reserve = async (highest: number) => highest + 3;
    expect(await warehouse.nextAttempt('hour', BASE_MS, reserve)).toBe(3);
    expect(await warehouse.nextAttempt('hour', BASE_MS, reserve)).toBe(6);
    expect(await warehouse.nextAttempt('hour', BASE_MS)).toBe(7);
  });

  test('reset leaves nothing, and attempts start again', async () => {
    const { warehouse } = context();
    const attempt = await warehouse.nextAttempt('hour', BASE_MS);
    await warehouse.writeFinalHour(BASE_MS, attempt, [final(BASE_MS, 1)]);
    await publishFirst(warehouse, BASE_MS, attempt);
    await warehouse.upsertLive([live(BASE_MS + HOUR_MS, 1)], 1);
    await warehouse.reset();
    expect(await warehouse.hours(0, FOREVER_MS)).toEqual([]);
    expect(await total(warehouse, BASE_MS + HOUR_MS)).toBe(0);
    expect(await total(warehouse, 0)).toBe(0);
    expect(await warehouse.maxLiveVersion()).toBe(0);
    expect(await warehouse.nextAttempt('hour', BASE_MS)).toBe(1);
    await warehouse.upsertLive([live(BASE_MS, 1)], 1);
  });
}

function queryTests(context: Context): void {
  test('an empty warehouse answers with no rows and no NaN (G10)', async () => {
    const { warehouse } = context();
    for (const granularity of ['minute', 'hour', 'day', 'total'] as const) {
      const query = ask({ granularity, groupBy: ['ad', 'country'], toMs: BASE_MS + 3 * DAY_MS });
      expect(await warehouse.metrics(query, BASE_MS)).toEqual({ rows: [], next: undefined });
    }
    expect(await warehouse.liveTotals(BASE_MS)).toEqual(new Map());
    expect(await warehouse.liveRows(BASE_MS, BASE_MS + DAY_MS)).toEqual([]);
    expect(await warehouse.finalRows(BASE_MS)).toEqual([]);
    await warehouse.writeFinalHour(BASE_MS, 1, []);
    await publishFirst(warehouse, BASE_MS, 1);
    expect(await total(warehouse, BASE_MS + HOUR_MS)).toBe(0);
  });

  test('values are bound, whatever they contain, and 100,000 of them at once', async () => {
    const { warehouse } = context();
    await warehouse.upsertLive([live(BASE_MS, 4)], 1);
    const strange = ["'", '\\', "\\'", '"', '\n', '\t', '{p0:String}', "') OR 1=1 --", 'é😀', ''];
    expect(await warehouse.metrics(ask({ adIds: strange }), 0)).toEqual({
      rows: [],
      next: undefined,
    });
    expect(await warehouse.metrics(ask({ advertiserId: "a1' OR '1'='1" }), 0)).toMatchObject({
      rows: [],
    });
    const many = Array.from({ length: 100_000 }, (_, at) => `ad-${at}`);
    expect((await warehouse.metrics(ask({ adIds: many }), 0)).rows[0]?.clicks).toBe(4);
    expect((await warehouse.metrics(ask({ adIds: [] }), 0)).rows).toEqual([]);
  });

  test('a cursor of another query and an unknown zone are refused', async () => {
    const { warehouse } = context();
    for (const after of [[], ['x'], ['12'], [String(BASE_MS / 1000)], ['0', 'a', 'b']]) {
      const query = ask({ granularity: 'hour', groupBy: ['ad'], after });
      expect(warehouse.metrics(query, 0)).rejects.toMatchObject({ code: 'cursor_invalid' });
    }
    const query = ask({ granularity: 'day', timezone: 'Mars/Olympus' });
    expect(warehouse.metrics(query, 0)).rejects.toMatchObject({ code: 'timezone_unknown' });
  });

  test('clicks late in the local evening are of that local day in every view (H5, H13)', async () => {
    const { warehouse } = context();
    const eveningMs = Date.UTC(2026, 2, 11, 3, 30); // 2026-03-10 23:30 in Toronto
    await warehouse.writeFinalHour(eveningMs - 30 * MINUTE_MS, 1, [final(eveningMs, 33)]);
    await publishFirst(warehouse, eveningMs - 30 * MINUTE_MS, 1);
    for (const days of [1, 7, 30]) {
      const toMs = Date.UTC(2026, 2, 11, 4);
      const query = ask({
        fromMs: toMs - days * DAY_MS,
        toMs,
        granularity: 'day',
        timezone: 'America/Toronto',
      });
      const { rows } = await warehouse.metrics(query, toMs);
      expect(rows.map((row) => [row.bucketStart, row.clicks])).toEqual([
        ['2026-03-10T00:00:00-04:00', 33],
      ]);
    }
  });

  test('a day of 25 hours that ends the range holds all of them', async () => {
    const { warehouse } = context();
    const fromMs = Date.UTC(2026, 9, 23, 22);
    const toMs = Date.UTC(2026, 9, 25, 23);
    const hours = (toMs - fromMs) / HOUR_MS;
    const rows = Array.from({ length: hours }, (_, at) => live(fromMs + at * HOUR_MS, 1));
    await warehouse.upsertLive(rows, 1);
    const query = ask({ fromMs, toMs, granularity: 'day', timezone: 'Europe/Berlin' });
    const page = await warehouse.metrics(query, 0);
    expect(page.rows.map((row) => [row.bucketStart, row.clicks])).toEqual([
      ['2026-10-24T00:00:00+02:00', 24],
      ['2026-10-25T00:00:00+02:00', 25],
    ]);
  });

  test('half-open ranges next to each other add up to the range over both (H6)', async () => {
    const { warehouse } = context();
    const rows = Array.from({ length: 120 }, (_, at) => live(BASE_MS + at * MINUTE_MS, at + 1));
    await warehouse.upsertLive(rows, 1);
    const sum = async (fromMs: number, toMs: number): Promise<number> =>
      (await warehouse.metrics(ask({ fromMs, toMs }), 0)).rows[0]?.clicks ?? 0;
    const cutMs = BASE_MS + 37 * MINUTE_MS;
    const left = await sum(BASE_MS, cutMs);
    const right = await sum(cutMs, BASE_MS + 2 * HOUR_MS);
    expect(left).toBe((37 * 38) / 2);
    expect(left + right).toBe((120 * 121) / 2);
  });
}
