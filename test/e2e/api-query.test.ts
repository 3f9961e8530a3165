// Proves INV-8 of SPEC.md.
/**
 * Queries over real rows behind a real socket: local days at every tier, whole results as a stream, and
 * clients that go away.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { createApi } from '../../src/api/api.ts';
import { requestLimits } from '../../src/auth/limits.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { LiveRow, Warehouse } from '../../src/warehouse/port.ts';
import { hourState } from '../conformance/warehouse-world.ts';
import { FakeAdmin, READY_OPS, testFinality } from '../support/api.ts';
import { testAudit } from '../support/audit.ts';
import { tempDir } from '../support/temp-dir.ts';

const MINUTE_MS = 60_000;
const QUARTER_MS = 15 * MINUTE_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const folder = tempDir('api-query');
const errors: unknown[] = [];
let finalUntilMs = 0;
/** Pages of metrics that were read. */
let pagesRead = 0;
let warehouse: Warehouse;
let server: Bun.Server<undefined>;

beforeAll(async () => {
  const kept = { minuteTtlDays: 0, hourTtlDays: 0 };
  warehouse = await openChdbWarehouse({ path: `${folder.path}/warehouse`, ...kept });
  const counted: Pick<Warehouse, 'metrics' | 'hours' | 'restatements' | 'drift'> = {
    metrics: (query, until) => {
      pagesRead += 1;
      return warehouse.metrics(query, until);
    },
    hours: (from, to) => warehouse.hours(from, to),
    restatements: (from, to, advertiser) => warehouse.restatements(from, to, advertiser),
    drift: (from, to, advertiser) => warehouse.drift(from, to, advertiser),
  };
  const api = createApi({
    config: { maxRows: 10_000, maxAdIds: 10_000 },
    tokens: {
      authenticate: async (tokenId) => ({ scope: 'read', advertiserId: 'adv-1', tokenId }),
    },
    limits: requestLimits(0, systemClock),
    audit: testAudit(),
    warehouse: counted,
    finalUntilMs: () => finalUntilMs,
    finality: testFinality({ clock: systemClock }),
    asOfMs: systemClock,
    admin: new FakeAdmin(),
    ops: READY_OPS,
    log: (error) => errors.push(error),
  });
  server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: (req) => api.fetch(req) });
});
beforeEach(async () => {
  await warehouse.reset();
  finalUntilMs = 0;
  pagesRead = 0;
});
afterAll(async () => {
  await server.stop(true);
  await warehouse.close();
  folder.remove();
  expect(errors).toEqual([]);
});

interface Row {
  readonly bucket_start: string;
  readonly clicks: number;
  readonly final: boolean;
}

const ask = (search: string, init: RequestInit = {}): Promise<Response> => {
  const headers = { Authorization: 'Bearer t1', ...init.headers };
  return fetch(new URL(`/v1/ads/metrics?${search}`, server.url), { ...init, headers });
};

async function rowsOf(search: string): Promise<Row[]> {
  const answer = await ask(`group_by=none&${search}`);
  const body = (await answer.json()) as { rows: Row[] };
  expect([answer.status, body]).toEqual([200, body]);
  return body.rows;
}

const live = (minuteMs: number, over: Partial<LiveRow> = {}): LiveRow => ({
  advertiserId: 'adv-1',
  campaignId: 'c1',
  adId: 'ad-1',
  minuteMs,
  country: 'DE',
  device: 'mobile',
  shard: 0,
  clicks: 1,
  ...over,
});

/** A click every quarter of an hour, live and final, with every whole UTC day of it published. */
async function clickEveryQuarter(fromMs: number, toMs: number): Promise<void> {
  const all: LiveRow[] = [];
  for (let ms = fromMs; ms < toMs; ms += QUARTER_MS) all.push(live(ms));
  await warehouse.upsertLive(all, 1);
  for (let dayMs = fromMs; dayMs < toMs; dayMs += DAY_MS) {
    const hours = Array.from({ length: 24 }, (_, at) => dayMs + at * HOUR_MS);
    for (const hourMs of hours) {
      const rows = [0, 1, 2, 3].map((at) => {
        const { shard: _, ...row } = live(hourMs + at * QUARTER_MS);
        return row;
      });
      await warehouse.writeFinalHour(hourMs, 1, rows);
    }
    await warehouse.writeFinalDay(dayMs, 1, new Map(hours.map((hourMs) => [hourMs, 1])));
    for (const hourMs of hours) {
      const day = hourMs === hours.at(-1) ? { dayMs, attempt: 1 } : null;
      const hour = hourState(hourMs, 1, 1);
      await warehouse.publish({ hour, day, drift: [], restatements: [] });
    }
  }
}

describe('local days and hours over clock changes and odd offsets', () => {
  test.each([
    // Clocks go back by half an hour: a day of 24.5 hours.
    ['Australia/Lord_Howe', '2026-04-05', [96, 98, 96], 25],
    // … and forward.
    ['Australia/Lord_Howe', '2026-10-04', [96, 94, 96], 24],
    // Half an hour beside the full one, and clocks go forward by one.
    ['America/St_Johns', '2026-03-08', [96, 92, 96], 23],
    ['America/St_Johns', '2026-11-01', [96, 100, 96], 25],
    // Three quarters beside the full hour, always.
    ['Asia/Kathmandu', '2026-03-08', [96, 96, 96], 24],
    ['America/Toronto', '2024-03-10', [96, 92, 96], 23],
    ['UTC', '2026-03-08', [96, 96, 96], 24],
  ] as const)(
    '%s around %s has the same days from live rows, minutes, quarters, hours and days (H2, H5, H8, H10)',
    async (timezone, middle, expected, hours) => {
      const middleMs = Date.parse(middle);
      const dates = [-1, 0, 1, 2].map((day) =>
        new Date(middleMs + day * DAY_MS).toISOString().slice(0, 10),
      );
      await clickEveryQuarter(middleMs - 2 * DAY_MS, middleMs + 3 * DAY_MS);
      const days = `from=${dates[0]}&to=${dates[3]}&timezone=${timezone}`;
      const oneDay = `from=${dates[1]}&to=${dates[2]}&timezone=${timezone}`;
      const total = expected[0] + expected[1] + expected[2];
      // Nothing final, the middle day half final, and all of it.
      for (const untilMs of [0, middleMs + 7 * HOUR_MS, middleMs + 3 * DAY_MS]) {
        finalUntilMs = untilMs;
        const byDay = await rowsOf(`${days}&granularity=day`);
        expect(byDay.map(({ clicks }) => clicks)).toEqual([...expected]);
        const filled = await rowsOf(`${days}&granularity=day&fill=zero`);
        expect(filled).toEqual(byDay);
        expect(filled.map((row) => row.bucket_start.slice(0, 10))).toEqual(dates.slice(0, 3));

        const byHour = await rowsOf(`${oneDay}&granularity=hour&fill=zero`);
        expect(byHour).toHaveLength(hours);
        expect(await rowsOf(`${oneDay}&granularity=hour`)).toEqual(byHour);
        const sums = {
          hours: byHour.reduce((sum, { clicks }) => sum + clicks, 0),
          minutes: (await rowsOf(`${oneDay}&granularity=minute`)).length,
          day: (await rowsOf(`${oneDay}&granularity=day`))[0]!.clicks,
        };
        expect(sums).toEqual({ hours: expected[1], minutes: expected[1], day: expected[1] });
        expect((await rowsOf(`${days}&granularity=total`))[0]!.clicks).toBe(total);
      }
    },
    { timeout: 60_000 },
  );

  test('"today" is the same number in the views of a day, a week and a month (H5)', async () => {
    // 33 clicks late in the local evening: the next day already in UTC.
    const eveningMs = Date.UTC(2026, 2, 11, 3, 30);
    await warehouse.upsertLive([live(eveningMs, { clicks: 33 }), live(eveningMs - DAY_MS)], 1);
    for (const from of ['2026-03-10', '2026-03-04', '2026-02-09']) {
      const rows = await rowsOf(`from=${from}&to=2026-03-11&timezone=America/Toronto`);
      expect(rows.at(-1)).toMatchObject({
        bucket_start: '2026-03-10T00:00:00-04:00',
        clicks: 33,
      });
    }
  });
});

describe('the whole result as lines', () => {
  const ADS = 30_000;
  const FROM_MS = Date.UTC(2026, 2, 10);
  const SEARCH = 'from=2026-03-10&to=2026-03-11&granularity=hour';
  const ALL = { headers: { Accept: 'application/x-ndjson' } };
  beforeEach(async () => {
    const rows = Array.from({ length: ADS }, (_, at) =>
      live(FROM_MS + (at % 3) * HOUR_MS, { adId: `ad-${at}`, clicks: 1 + (at % 5) }),
    );
    await warehouse.upsertLive(rows, 1);
  });

  test('it has every row once, in order, over more than one page', async () => {
    const lines = (await (await ask(SEARCH, ALL)).text()).trimEnd().split('\n');
    const rows = lines.slice(1, -1).map((line) => JSON.parse(line) as Row & { ad_id: string });
    expect(JSON.parse(lines.at(-1)!)).toEqual({ end: { rows: ADS } });
    expect(pagesRead).toBeGreaterThan(1);
    const names = rows.map((row) => `${row.bucket_start} ${row.ad_id}`);
    expect(names).toEqual([...names].sort());
    expect(new Set(names).size).toBe(ADS);
    expect(rows.reduce((sum, { clicks }) => sum + clicks, 0)).toBe(ADS * 3);
  });

  test('by clicks it is the same rows, most first, ties by bucket and ad', async () => {
    const text = await (await ask(`${SEARCH}&order_by=-clicks`, ALL)).text();
    const lines = text.trimEnd().split('\n');
    const rows = lines.slice(1, -1).map((line) => JSON.parse(line) as Row & { ad_id: string });
    expect(rows).toHaveLength(ADS);
    const names = rows.map((row) => `${9 - row.clicks} ${row.bucket_start} ${row.ad_id}`);
    expect(names).toEqual([...names].sort());
    expect(new Set(names).size).toBe(ADS);
  });

  test('a client that goes away stops it, and its place is free', async () => {
    // More rounds than a token has places: the server hears of every one that goes.
    for (let round = 0; round < 6; round++) {
      const gone = new AbortController();
      const answer = await placeFor(SEARCH, { ...ALL, signal: gone.signal });
      await answer.body!.getReader().read();
      gone.abort();
    }
    const last = await placeFor(SEARCH, ALL);
    expect((await last.text()).trimEnd().split('\n').at(-1)).toBe(`{"end":{"rows":${ADS}}}`);
  });

  /** Asks until there is a place. */
  async function placeFor(search: string, init: RequestInit): Promise<Response> {
    const deadlineMs = Date.now() + 20_000;
    for (;;) {
      const answer = await ask(search, init);
      if (answer.status !== 429 || Date.now() > deadlineMs) {
        expect(answer.status).toBe(200);
        return answer;
      }
      await answer.text();
    }
  }
});
