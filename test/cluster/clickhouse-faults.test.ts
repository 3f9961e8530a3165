// Proves INV-4, INV-5 of SPEC.md where a network and a server of its own are in between.
/** What happens to counts when the ClickHouse server, or the way to it, fails (D8, G7, G8, G12). */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import type { ClickHouseServer } from '../../src/warehouse/clickhouse/client.ts';
import { openClickHouseWarehouse } from '../../src/warehouse/clickhouse/warehouse.ts';
import type { FinalRow, LiveRow, Warehouse } from '../../src/warehouse/port.ts';
import { hourState } from '../conformance/warehouse-world.ts';
import { LedgerFiles, MINUTE_MS } from '../crash/ledger-world.ts';
import { click } from '../support/archive-fixtures.ts';
import { TestClickHouse } from '../support/clickhouse-server.ts';

const HOUR_MS = 60 * MINUTE_MS;
const BASE_MS = Date.UTC(2026, 2, 28);
const KEPT = { minuteTtlDays: 0, hourTtlDays: 0 };

let server: TestClickHouse;
const opened: Warehouse[] = [];
let waits: number[] = [];

beforeAll(async () => {
  server = await TestClickHouse.start();
});
afterEach(async () => {
  for (const warehouse of opened.splice(0)) await warehouse.close();
});
afterAll(() => server.dispose());

/** Waits are noted and not waited for. */
async function open(more: Partial<ClickHouseServer> = {}): Promise<Warehouse> {
  waits = [];
  const sleep = async (ms: number): Promise<void> => void waits.push(ms);
  const warehouse = await openClickHouseWarehouse({ server: server.options(more), ...KEPT, sleep });
  opened.push(warehouse);
  return warehouse;
}

async function openEmpty(more: Partial<ClickHouseServer> = {}): Promise<Warehouse> {
  const warehouse = await open(more);
  await warehouse.reset();
  return warehouse;
}

const key = { advertiserId: 'a1', campaignId: 'c1', country: 'DE', device: 'mobile' } as const;
const final = (atMs: number, clicks: number, adId = 'ad-1'): FinalRow => ({
  ...key,
  adId,
  minuteMs: atMs,
  clicks,
});
const live = (atMs: number, clicks: number, shard = 0): LiveRow => ({
  ...final(atMs, clicks),
  shard,
});
const failure = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => null,
    (error: unknown) => error,
  );
const UNAVAILABLE = { code: 'warehouse_unavailable', kind: 'retry' };

test('live rows that were written, though the connection broke, are written again and count once', async () => {
  const warehouse = await openEmpty();
  const before = (await server.statements('INSERT INTO live_minute')).length;
  await server.fail({ kind: 'reset-after', match: 'INSERT INTO live_minute', times: 1 });
  await warehouse.upsertLive([live(BASE_MS, 3), live(BASE_MS, 4, 1)], 1);
  const sent = (await server.statements('INSERT INTO live_minute')).slice(before);
  expect(sent.map(({ failed }) => failed)).toEqual([true, false]);
  expect(new Set(sent.map(({ rows }) => rows)).size).toBe(1);
  expect(await warehouse.liveRows(BASE_MS, BASE_MS + HOUR_MS)).toEqual([final(BASE_MS, 7)]);
});

test('final rows that were written, though the connection broke, are not written again (S2)', async () => {
  const warehouse = await openEmpty();
  const rows = [final(BASE_MS, 3), final(BASE_MS + MINUTE_MS, 4)];
  for (const table of ['final_minute', 'final_hour', 'final_hour_rollup']) {
    const match = `INSERT INTO ${table} `;
    await server.fail({ kind: 'reset-after', match, times: 1 });
    const before = (await server.statements(match)).length;
    const attempt = await warehouse.nextAttempt('hour', BASE_MS);
    expect(await failure(warehouse.writeFinalHour(BASE_MS, attempt, rows))).toMatchObject(
      UNAVAILABLE,
    );
    expect((await server.statements(match)).length - before).toBe(1);
  }
  const attempt = await warehouse.nextAttempt('hour', BASE_MS);
  expect(attempt).toBe(4);
  await warehouse.writeFinalHour(BASE_MS, attempt, rows);
  const hour = hourState(BASE_MS, 1, attempt);
  await warehouse.publish({ hour, day: null, drift: [], restatements: [] });
  expect(await warehouse.finalRows(BASE_MS)).toEqual(rows);
  expect(await warehouse.tierRows('hour', BASE_MS)).toEqual([final(BASE_MS, 7)]);
  expect(await warehouse.rollupDifferences('hour', BASE_MS)).toEqual([]);
});

test('a publication whose answer was lost is published again, and the later one counts', async () => {
  const warehouse = await openEmpty();
  const publish = async (revision: number, attempt: number, clicks: number) => {
    await warehouse.writeFinalHour(BASE_MS, attempt, [final(BASE_MS, clicks)]);
    const change = { hourMs: BASE_MS, revision, advertiserId: 'a1' };
    const more = { before: 5, after: clicks, cause: 'late_clicks', atMs: BASE_MS + attempt };
    const restatements = revision === 1 ? [] : [{ ...change, adId: 'ad-1', ...more }];
    const drift = [{ ...change, live: 5, final: clicks }];
    const hour = hourState(BASE_MS, revision, attempt);
    await warehouse.publish({ hour, day: null, drift, restatements });
  };
  await publish(1, 1, 5);
  await server.fail({ kind: 'reset-after', match: 'INSERT INTO finality', times: 1 });
  expect(await failure(publish(2, 2, 6))).toMatchObject(UNAVAILABLE);
  // Until it is told otherwise this process answers from what it knows: the whole of revision 1.
  expect(await warehouse.finalRows(BASE_MS)).toEqual([final(BASE_MS, 5)]);
  await publish(2, 3, 7);
  for (const reader of [warehouse, await open()]) {
    expect(await reader.finalRows(BASE_MS)).toEqual([final(BASE_MS, 7)]);
    const [restated, ...others] = await reader.restatements(0, BASE_MS + HOUR_MS, undefined);
    expect(others).toEqual([]);
    expect(restated).toMatchObject({ revision: 2, before: 5, after: 7 });
    expect((await reader.drift(0, BASE_MS + HOUR_MS, 'a1')).map((row) => row.final)).toEqual([
      5, 7,
    ]);
  }
});

test('a 503 of a proxy, and a connection that breaks before the statement ran, pass', async () => {
  const warehouse = await openEmpty();
  await server.fail({ kind: 'page', match: 'INSERT INTO live_minute', times: 1 });
  await server.fail({ kind: 'reset-before', match: 'INSERT INTO live_minute', times: 1 });
  await warehouse.upsertLive([live(BASE_MS, 3)], 1);
  expect(await warehouse.liveTotals(BASE_MS)).toEqual(new Map([['a1', 3]]));
  for (const kind of ['page', 'reset-before', 'reset-after'] as const) {
    await server.fail({ kind, match: 'FROM live_minute', times: 1 });
    expect(await failure(warehouse.liveTotals(BASE_MS))).toMatchObject(UNAVAILABLE);
  }
  expect(await warehouse.liveTotals(BASE_MS)).toEqual(new Map([['a1', 3]]));
});

test('an answer that takes longer than a request may is a failure that passes', async () => {
  const warehouse = await openEmpty({ requestTimeoutMs: 1_000 });
  const slow = { kind: 'slow', times: 1, delayMs: 2_000 } as const;
  await server.fail({ ...slow, match: 'INSERT INTO live_minute' });
  await warehouse.upsertLive([live(BASE_MS, 3)], 1);
  expect(await warehouse.liveTotals(BASE_MS)).toEqual(new Map([['a1', 3]]));
  await server.fail({ ...slow, match: 'INSERT INTO attempts' });
  expect(await failure(warehouse.nextAttempt('hour', BASE_MS))).toMatchObject(UNAVAILABLE);
  // The number that nobody was given is used up (S1).
  expect(await warehouse.nextAttempt('hour', BASE_MS)).toBe(2);
});

test('on "too many parts" it waits longer each time and sends the same rows; then it gives them back (G8)', async () => {
  const warehouse = await openEmpty();
  const fault = { kind: 'exception', match: 'INSERT INTO live_minute', code: 252 } as const;
  const before = (await server.statements('INSERT INTO live_minute')).length;
  await server.fail({ ...fault, times: 2 });
  await warehouse.upsertLive([live(BASE_MS, 3)], 1);
  expect(waits).toEqual([750, 3_000]);
  const sent = (await server.statements('INSERT INTO live_minute')).slice(before);
  expect(new Set(sent.map(({ rows }) => rows)).size).toBe(1);
  expect(sent.map(({ failed }) => failed)).toEqual([true, true, false]);
  await server.fail({ ...fault, times: 3 });
  expect(await failure(warehouse.upsertLive([live(BASE_MS, 9)], 2))).toMatchObject(UNAVAILABLE);
  expect(await warehouse.liveTotals(BASE_MS)).toEqual(new Map([['a1', 3]]));
});

test('what is no failure of the way or the load is not tried again', async () => {
  const warehouse = await openEmpty();
  await server.fail({ kind: 'exception', match: 'INSERT INTO live_minute', times: 1, code: 49 });
  expect(await failure(warehouse.upsertLive([live(BASE_MS, 3)], 1))).toMatchObject({ code: '49' });
  expect(waits).toEqual([]);
});

test('a wrong password, and a database or a cluster that is not there, are said in words', async () => {
  const hints: [Partial<ClickHouseServer>, string, RegExp][] = [
    [{ password: 'wrong' }, 'warehouse_refuses', /CLICKHOUSE_PASSWORD/],
    [{ database: 'nowhere' }, 'warehouse_refuses', /create it/],
    [{ cluster: 'nowhere', replicated: true }, 'warehouse_cluster', /remote_servers/],
    // It would store every row twice.
    [{ cluster: 'doubling', replicated: true }, 'warehouse_cluster', /internal_replication/],
  ];
  for (const [more, code, hint] of hints) {
    const error = await failure(open(more));
    expect(error).toMatchObject({ code, hint: expect.stringMatching(hint) });
    expect(JSON.stringify(error)).not.toContain(server.options().password);
  }
});

test('lists longer than a server takes in one parameter are read in parts', async () => {
  const warehouse = await openEmpty();
  const adIds = Array.from({ length: 10_000 }, (_, at) => `${'x'.repeat(100)}'\\-${at}`);
  const wanted = [adIds[0]!, adIds[4_321]!, adIds.at(-1)!];
  await warehouse.writeFinalHour(
    BASE_MS,
    1,
    [...wanted, 'another'].map((adId) => final(BASE_MS, 1, adId)),
  );
  const hour = hourState(BASE_MS, 1, 1);
  await warehouse.publish({ hour, day: null, drift: [], restatements: [] });
  const query = {
    advertiserId: 'a1',
    campaignIds: undefined,
    countries: undefined,
    devices: undefined,
    fromMs: BASE_MS,
    toMs: BASE_MS + HOUR_MS,
    granularity: 'total',
    timezone: 'UTC',
    groupBy: [],
    limit: 10,
    after: undefined,
  } as const;
  const clicks = async (lists: { adIds: string[] | undefined; adIdsNot?: string[] }) =>
    (await warehouse.metrics({ ...query, ...lists }, BASE_MS + HOUR_MS)).rows[0]?.clicks;
  expect(await clicks({ adIds })).toBe(3);
  expect(await clicks({ adIds: undefined, adIdsNot: adIds })).toBe(1);
});

test('kill -9 of the server during inserts: what was acknowledged is there, and once (G7, G12)', async () => {
  const warehouse = await openEmpty();
  const expected = new Map<number, number>();
  let version = 0;
  const again = async <T>(work: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await work();
      } catch (error) {
        expect(error).toMatchObject(UNAVAILABLE);
        await Bun.sleep(20);
      }
    }
  };
  const writeHour = async (hourMs: number, clicks: number): Promise<void> => {
    const attempt = await warehouse.nextAttempt('hour', hourMs);
    const rows = [final(hourMs, clicks), final(hourMs + MINUTE_MS, clicks, 'ad-2')];
    await warehouse.writeFinalHour(hourMs, attempt, rows);
    const hour = hourState(hourMs, 1, attempt);
    await warehouse.publish({ hour, day: null, drift: [], restatements: [] });
  };
  let isOver = false;
  const killing = (async () => {
    for (const upserts of [5, 13, 24, 32]) {
      while (version < upserts) await Bun.sleep(1);
      await server.crash();
      await server.start();
    }
    isOver = true;
  })();
  let hours = 0;
  while (!isOver || hours < 10) {
    const hourMs = BASE_MS + hours * HOUR_MS;
    for (let round = 1; round <= 3; round++) {
      // As the counter does it: what failed comes again with a newer version, and perhaps a newer count.
      await again(() =>
        warehouse.upsertLive([live(hourMs, round), live(hourMs, 10, 1)], ++version),
      );
    }
    expected.set(hourMs, 13);
    await again(() => writeHour(hourMs, hours + 1));
    hours++;
  }
  await killing;
  for (const reader of [warehouse, await open()]) {
    const published = await reader.hours(0, BASE_MS + 10_000 * HOUR_MS);
    expect(published.map(({ hourMs }) => hourMs)).toEqual([...expected.keys()]);
    for (const [at, { hourMs }] of published.entries()) {
      const clicks = at + 1;
      expect(await reader.finalRows(hourMs)).toEqual([
        final(hourMs, clicks),
        final(hourMs + MINUTE_MS, clicks, 'ad-2'),
      ]);
      expect(await reader.liveTotals(hourMs)).toEqual(new Map([['a1', expected.get(hourMs)!]]));
    }
  }
}, 300_000);

test('the server is away for two hours: the counter goes on, and nothing is lost or doubled (D8)', async () => {
  const warehouse = await openEmpty();
  const files = new LedgerFiles(BASE_MS);
  const upsertIntervalMs = 50;
  const counter = await files.openCounter(warehouse, { over: { upsertIntervalMs } });
  const expected = new Map<number, number>();
  const clickAt = async (partition: number, minute: number): Promise<void> => {
    files.nowMs = BASE_MS + minute * MINUTE_MS;
    const events = Array.from({ length: 1 + (minute % 4) }, (_, at) =>
      click(`imp-${partition}-${minute}-${at}`, { clickedAtMs: files.nowMs }),
    );
    // Every fifth comes twice.
    await files.append(partition, minute % 5 === 0 ? [...events, events[0]!] : events);
    expected.set(files.nowMs, (expected.get(files.nowMs) ?? 0) + events.length);
  };
  const drive = async (fromMinute: number, toMinute: number): Promise<void> => {
    for (let minute = fromMinute; minute < toMinute; minute++) {
      for (const partition of [0, 1]) await clickAt(partition, minute);
      while (await counter.step());
    }
  };
  const rows = async (): Promise<Map<number, number>> => {
    const read = await warehouse.liveRows(BASE_MS, BASE_MS + 4 * HOUR_MS);
    return new Map(read.map((row) => [row.minuteMs, row.clicks]));
  };
  await drive(0, 20);
  await counter.catchUp();
  expect(await rows()).toEqual(expected);

  await server.crash();
  await drive(20, 140);
  expect(await failure(warehouse.liveTotals(BASE_MS))).toMatchObject(UNAVAILABLE);
  expect(await failure(counter.catchUp())).toMatchObject(UNAVAILABLE);
  expect(counter.failure).toBeNull();
  expect(counter.heldRows).toBeGreaterThanOrEqual(120);

  await server.start();
  await drive(140, 150);
  await counter.catchUp();
  expect(counter.heldRows).toBe(0);
  expect(await rows()).toEqual(expected);
  await counter.close();
  await files.dispose();
}, 120_000);
