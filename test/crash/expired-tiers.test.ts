// Proves INV-8, INV-9 of SPEC.md.
/**
 * Hours whose minute and hour rows are past their time to live: the engine here drops them the moment
 * they are written, which a real one may. Days stay for ever, so they must stay right.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { openChdbClient } from '../../src/warehouse/chdb/client.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { Warehouse } from '../../src/warehouse/port.ts';
import { click } from '../support/archive-fixtures.ts';
import { tempDir } from '../support/temp-dir.ts';
import { COUNTING, Deaths } from './ledger-world.ts';
import { auditedRows, HOUR_MS, historyOf, ReconcilerWorld } from './reconciler-world.ts';

const DAY_MS = 24 * HOUR_MS;
const DAY = Date.UTC(2026, 0, 31);
/** Three hours of one day, the last of them its last. */
const [A, B, C] = [DAY + 10 * HOUR_MS, DAY + 22 * HOUR_MS, DAY + 23 * HOUR_MS];
const CLOSED_MS = DAY + DAY_MS + COUNTING.latenessMs + 1_000;
const LATER_MS = CLOSED_MS + 1_000;
const ALL_EXPIRED = { minuteMs: DAY + DAY_MS, hourMs: DAY + DAY_MS };

const home = tempDir('expired-tiers');
const path = join(home.path, 'warehouse');
let warehouse: Warehouse;
let client: ClickHouseClient;
const open: ReconcilerWorld[] = [];

beforeAll(async () => {
  warehouse = await openChdbWarehouse({ path, minuteTtlDays: 0, hourTtlDays: 0 });
  client = openChdbClient(path);
});
afterEach(async () => {
  for (const world of open.splice(0)) await world.dispose();
});
afterAll(async () => {
  await client.close();
  await warehouse.close();
  home.remove();
});

async function drop(...tables: readonly string[]): Promise<void> {
  for (const table of tables) await client.command({ query: `TRUNCATE TABLE ${table}` });
}
const MINUTES = ['final_minute'];
const MINUTES_AND_HOURS = [...MINUTES, 'final_hour', 'final_hour_rollup'];

/** The warehouse, whose engine drops hours as soon as they are written. */
function dropping(): Warehouse {
  return new Proxy(warehouse, {
    get(target, property) {
      const value = Reflect.get(target, property, target) as unknown;
      if (typeof value !== 'function') return value;
      if (property !== 'writeFinalHour') {
        return (...args: unknown[]) => Reflect.apply(value, target, args) as unknown;
      }
      return async (...args: Parameters<Warehouse['writeFinalHour']>) => {
        await target.writeFinalHour(...args);
        await drop(...MINUTES_AND_HOURS);
      };
    },
  });
}

async function threeHours(engine: Warehouse = dropping()): Promise<ReconcilerWorld> {
  const world = await ReconcilerWorld.open(engine, A);
  open.push(world);
  world.keptFrom = ALL_EXPIRED;
  const inA = [
    click('a1', { clickedAtMs: A + 1_000 }),
    click('a2', { clickedAtMs: A + 70_000, adId: 'ad-2' }),
  ];
  const inB = [
    click('b1', { clickedAtMs: B + 1_000 }),
    click('moves', { clickedAtMs: B + 2_000, adId: 'ad-2', country: 'FR' }),
  ];
  await world.append(A + HOUR_MS, inA);
  await world.append(B + HOUR_MS, inB, 1);
  await world.append(C + HOUR_MS, [click('c1', { clickedAtMs: C + 1_000 })]);
  await world.settle();
  world.files.nowMs = CLOSED_MS;
  return world;
}

/** In two hours at once, in two partitions, one of them on an impression that a later hour had. */
async function lateClicks(world: ReconcilerWorld): Promise<void> {
  const inA = [
    click('late', { clickedAtMs: A + 5_000 }),
    click('moves', { clickedAtMs: A + 6_000, adId: 'ad-2', country: 'FR' }),
  ];
  await world.append(LATER_MS, inA);
  await world.append(LATER_MS, [click('later', { clickedAtMs: C + 5_000 })], 1);
  await world.settle();
}

const RESTATED = {
  hours: [
    [A, 2, 'late_clicks', 4],
    [B, 2, 'earlier_hour_changed', 1],
    [C, 2, 'late_clicks', 2],
  ],
  restatements: [
    [A, 2, 'ad-1', 1, 2, 'late_clicks'],
    [A, 2, 'ad-2', 1, 2, 'late_clicks'],
    [B, 2, 'ad-2', 1, 0, 'earlier_hour_changed'],
    [C, 2, 'ad-1', 1, 2, 'late_clicks'],
  ],
};

async function expectDayRight(world: ReconcilerWorld): Promise<void> {
  const rows = await warehouse.tierRows('day', DAY);
  const billed = [...auditedRows(world.records).values()].reduce((sum, n) => sum + n, 0);
  expect(rows.reduce((sum, { clicks }) => sum + clicks, 0)).toBe(billed);
  expect((await world.verify()).differences).toEqual([]);
}

/** Hours with clicks. */
const history = async () => {
  const { hours, restatements } = await historyOf(warehouse);
  return { hours: hours.filter((hour) => hour[3] !== 0), restatements };
};

test('days of hours whose rows have expired are right at first, and after a recount on demand', async () => {
  const world = await threeHours();
  await world.reconcile();
  await expectDayRight(world);
  for (const hourMs of [A, C]) {
    const again = await (await world.reconciler()).reconcileHour(hourMs);
    expect(again).toMatchObject({ kind: 'unchanged', hour: { revision: 1 } });
    await expectDayRight(world);
  }
  expect((await history()).restatements).toEqual([]);
});

test('late clicks in expired hours of one day are restated from what they were, and the day is right', async () => {
  const world = await threeHours();
  await world.reconcile();
  await lateClicks(world);
  await world.reconcile();
  expect(await history()).toEqual(RESTATED);
  await expectDayRight(world);
  expect(await world.reconcile()).toEqual([]);
});

test('a reconciler that dies after any effect of restating expired hours restates once', async () => {
  // Those of the first hour; the others have the same.
  const effects: string[] = [];
  for (let at = 0; !effects.includes('6 published'); at++) {
    const world = await threeHours();
    await world.reconcile();
    await lateClicks(world);
    const deaths = new Deaths(at, 'after');
    expect(await world.reconcileThroughDeath(deaths)).toBe(true);
    effects.push(deaths.effects.at(-1)!);
    expect([at, await history()]).toEqual([at, RESTATED]);
    await expectDayRight(world);
    await open.pop()!.dispose();
  }
  expect(effects).toContain('3 day rows');
});

test('a warehouse that is built again has the days of expired hours, whatever the engine drops', async () => {
  const world = await threeHours();
  await world.reconcile();
  await lateClicks(world);
  await world.reconcile();
  await warehouse.reset();
  rmSync(join(world.files.dir.path, 'recount'), { recursive: true });
  await (await world.reconciler()).reconcile({ untilMs: DAY + DAY_MS });
  expect(await history()).toEqual(RESTATED);
  await expectDayRight(world);
});

test('an hour whose old rows the archive does not give again keeps its day, and says so', async () => {
  const world = await threeHours();
  await world.reconcile();
  const day = await warehouse.tierRows('day', DAY);
  await lateClicks(world);
  rmSync(world.path('final'), { recursive: true });
  const reconciler = await world.reconciler();
  await expect(reconciler.reconcile()).rejects.toMatchObject({ code: 'hour_expired' });
  expect(reconciler.stuck).toMatchObject({ hourMs: A, code: 'hour_expired' });
  expect(await warehouse.tierRows('day', DAY)).toEqual(day);
});

test('where only minutes have expired, ads that did not change have no restatement', async () => {
  const world = await threeHours(warehouse);
  world.keptFrom = { minuteMs: DAY + DAY_MS, hourMs: 0 };
  await world.reconcile();
  await drop(...MINUTES);
  await world.append(CLOSED_MS, [click('late', { clickedAtMs: A + 5_000 })]);
  await world.settle();
  await world.reconcile();
  expect((await history()).restatements).toEqual([[A, 2, 'ad-1', 1, 2, 'late_clicks']]);
});
