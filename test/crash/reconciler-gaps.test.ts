// Proves INV-2, INV-6, INV-9 of SPEC.md.
/**
 * The reconciler's numbered effects on a real archive and a real warehouse: whatever dies between two
 * of them, hours get the same numbers, the same revisions and the same history.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadManifest } from '../../src/archive/manifest.ts';
import type { HourResult } from '../../src/reconcile/reconciler.ts';
import { openChdbClient } from '../../src/warehouse/chdb/client.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { Warehouse } from '../../src/warehouse/port.ts';
import { Crash, click } from '../support/archive-fixtures.ts';
import { tempDir } from '../support/temp-dir.ts';
import { COUNTING, Deaths, MINUTE_MS } from './ledger-world.ts';
import {
  auditedRows,
  finalClicks as clicksOf,
  HOUR_MS,
  historyOf,
  ReconcilerWorld,
} from './reconciler-world.ts';

/** The last hour of a day and the first of the next: the one completes a day, the other does not. */
const A = Date.UTC(2026, 0, 31, 23);
const B = A + HOUR_MS;
const CLOSED_MS = B + HOUR_MS + COUNTING.latenessMs + 1_000;

const home = tempDir('reconciler-gaps');
const warehousePath = join(home.path, 'warehouse');
let warehouse: Warehouse;
const open: ReconcilerWorld[] = [];

beforeAll(async () => {
  warehouse = await openChdbWarehouse({ path: warehousePath, minuteTtlDays: 0, hourTtlDays: 0 });
});
afterEach(async () => {
  for (const world of open.splice(0)) await world.dispose();
});
afterAll(async () => {
  await warehouse.close();
  home.remove();
});

async function openWorld(): Promise<ReconcilerWorld> {
  const world = await ReconcilerWorld.open(warehouse, A);
  open.push(world);
  return world;
}

const finalClicks = () => clicksOf(warehouse, [A, B]);
const history = () => historyOf(warehouse);

/** Two hours; `twice` is clicked in both, and `moves` only in the second, so far. */
async function twoHours(world: ReconcilerWorld): Promise<void> {
  const inA = [
    click('a1', { clickedAtMs: A + 1_000 }),
    click('a2', { clickedAtMs: A + 70_000, adId: 'ad-2' }),
    click('twice', { clickedAtMs: A + 3_590_000 }),
    click('seen', { clickedAtMs: A + 2_000, class: 'head' }),
  ];
  await world.append(A + HOUR_MS, inA);
  const inB = [
    click('b1', { clickedAtMs: B + 1_000 }),
    click('twice', { clickedAtMs: B + 20_000 }),
    click('moves', { clickedAtMs: B + 30_000, adId: 'ad-2', country: 'FR' }),
  ];
  await world.append(B + HOUR_MS, inB, 1);
  await world.settle();
  world.files.nowMs = CLOSED_MS;
}

/** Late clicks for the first hour: a new one, and an earlier click on one billed in the second. */
async function lateClicks(world: ReconcilerWorld): Promise<void> {
  const late = [
    click('late', { clickedAtMs: A + 5_000 }),
    click('moves', { clickedAtMs: A + 6_000, adId: 'ad-2', country: 'FR' }),
  ];
  await world.append(CLOSED_MS, late);
  await world.settle();
}

const FIRST = {
  hours: [
    [A, 1, 'first', 3],
    [B, 1, 'first', 2],
  ],
  restatements: [],
};
const RESTATED = {
  hours: [
    [A, 2, 'late_clicks', 5],
    [B, 2, 'earlier_hour_changed', 1],
  ],
  restatements: [
    [A, 2, 'ad-1', 2, 3, 'late_clicks'],
    [A, 2, 'ad-2', 1, 2, 'late_clicks'],
    [B, 2, 'ad-2', 1, 0, 'earlier_hour_changed'],
  ],
};

async function expectSettled(
  world: ReconcilerWorld,
  wanted: typeof FIRST | typeof RESTATED,
): Promise<void> {
  expect(await history()).toEqual(wanted as Awaited<ReturnType<typeof history>>);
  expect(await finalClicks()).toEqual(auditedRows(world.records));
  expect(await (await world.reconciler()).reconcile()).toEqual([]);
  expect(await history()).toEqual(wanted as Awaited<ReturnType<typeof history>>);
  expect((await world.verify()).differences).toEqual([]);
}

test('an impression clicked on both sides of an hour is billed once, in the earlier hour', async () => {
  const world = await openWorld();
  await twoHours(world);
  const deaths = new Deaths();
  const results = await (await world.reconciler(deaths)).reconcile();
  expect(results.map(({ hour, kind }) => [hour.hourMs, kind, hour.duplicate])).toEqual([
    [A, 'final', 0],
    [B, 'final', 1],
  ]);
  expect(new Set(deaths.effects.map((name) => name[0]))).toEqual(
    new Set(['1', '2', '3', '4', '5', '6', '7', '8']),
  );
  await expectSettled(world, FIRST);
});

test('late clicks for a final hour make a new revision, and move later hours that had them', async () => {
  const world = await openWorld();
  await twoHours(world);
  await (await world.reconciler()).reconcile();
  await lateClicks(world);
  const deaths = new Deaths();
  const results: HourResult[] = await (await world.reconciler(deaths)).reconcile();
  // In one go: between the two, the impression that moves would be billed twice.
  expect(results.map(({ hour, kind }) => [hour.hourMs, kind])).toEqual([
    [A, 'restated'],
    [B, 'restated'],
  ]);
  expect(deaths.effects).toContain('4 hours noted');
  await expectSettled(world, RESTATED);
});

test('between two restatements of one round, both hours are known to change', async () => {
  const world = await openWorld();
  await twoHours(world);
  await (await world.reconciler()).reconcile();
  expect((await world.reconciler()).isChanging(A, B + HOUR_MS)).toBe(false);
  await lateClicks(world);
  // The second publication is that of B; before it the click that moved is billed in both.
  const deaths = new Deaths();
  const dying = await world.reconciler(deaths);
  const inner = deaths.async.bind(deaths);
  let publications = 0;
  deaths.async = (name, work) => {
    if (name === '6 published' && ++publications === 2) deaths.isDead = true;
    return inner(name, work);
  };
  await expect(dying.reconcile()).rejects.toThrow(Crash);
  const reconciler = await world.reconciler();
  expect([reconciler.isChanging(A, B), reconciler.isChanging(B, B + HOUR_MS)]).toEqual([
    false,
    true,
  ]);
  await reconciler.reconcile();
  expect(reconciler.isChanging(A, B + HOUR_MS)).toBe(false);
});

// Before the first effect nothing has happened, and before any other is after the one before it.
test('a reconciler that dies after any effect of a first final result comes to the same one', async () => {
  for (let at = 0, died = true; died; at++) {
    const world = await openWorld();
    await twoHours(world);
    died = await world.reconcileThroughDeath(new Deaths(at, 'after'));
    await expectSettled(world, FIRST);
    await open.pop()!.dispose();
  }
});

test('a reconciler that dies after any effect of a restatement restates once', async () => {
  for (let at = 0, died = true; died; at++) {
    const world = await openWorld();
    await twoHours(world);
    await (await world.reconciler()).reconcile();
    await lateClicks(world);
    died = await world.reconcileThroughDeath(new Deaths(at, 'after'));
    await expectSettled(world, RESTATED);
    await open.pop()!.dispose();
  }
});

test('clicks that come between the record of a revision and its publication get a revision of their own', async () => {
  const world = await openWorld();
  await twoHours(world);
  await (await world.reconciler()).reconcile();
  await world.append(CLOSED_MS, [click('late', { clickedAtMs: A + 5_000 })]);
  await world.settle();
  const dying = new Deaths();
  const reconciler = await world.reconciler(withDeathBefore(dying, '6 published'));
  await expect(reconciler.reconcile()).rejects.toThrow(Crash);
  await world.append(CLOSED_MS + 1, [click('later', { clickedAtMs: A + 6_000 })]);
  await world.settle();
  await (await world.reconciler()).reconcile();
  expect((await history()).restatements).toEqual([
    [A, 2, 'ad-1', 2, 3, 'late_clicks'],
    [A, 3, 'ad-1', 3, 4, 'late_clicks'],
  ]);
  expect(await finalClicks()).toEqual(auditedRows(world.records));
});

test('a final hour that is recounted on demand keeps its revision and its history', async () => {
  const world = await openWorld();
  await twoHours(world);
  await (await world.reconciler()).reconcile();
  await lateClicks(world);
  await (await world.reconciler()).reconcile();
  const drift = await warehouse.drift(A, B + HOUR_MS, undefined);
  expect(drift).toHaveLength(4);
  const again = await (await world.reconciler()).reconcileHour(A);
  expect(again).toMatchObject({ kind: 'unchanged', hour: { revision: 2 } });
  expect(await warehouse.drift(A, B + HOUR_MS, undefined)).toEqual(drift);
  await expectSettled(world, RESTATED);
});

/** Dies before the first effect of this name. */
function withDeathBefore(deaths: Deaths, name: string): Deaths {
  const inner = deaths.async.bind(deaths);
  deaths.async = (each, work) => {
    if (each === name) deaths.isDead = true;
    return inner(each, work);
  };
  return deaths;
}

test('a warehouse that is built again has the same numbers, revisions and restatements', async () => {
  const world = await openWorld();
  await twoHours(world);
  await (await world.reconciler()).reconcile();
  await lateClicks(world);
  await (await world.reconciler()).reconcile();
  await world.append(CLOSED_MS + 1, [click('later', { clickedAtMs: A + 7_000 })]);
  await world.settle();
  await (await world.reconciler()).reconcile();
  const before = await history();
  expect(before.hours).toEqual([
    [A, 3, 'late_clicks', 6],
    [B, 2, 'earlier_hour_changed', 1],
  ]);
  const clicks = await finalClicks();
  const drift = await warehouse.drift(A, B + HOUR_MS, undefined);
  await warehouse.reset();
  rmSync(join(world.files.dir.path, 'recount'), { recursive: true });
  await (await world.reconciler()).reconcile({ untilMs: B + HOUR_MS });
  expect(await history()).toEqual(before);
  expect(await finalClicks()).toEqual(clicks);
  expect(await warehouse.drift(A, B + HOUR_MS, undefined)).toEqual(drift);
});

test('late clicks that come while the warehouse is lost are restated against the archive', async () => {
  const world = await openWorld();
  await twoHours(world);
  await (await world.reconciler()).reconcile();
  await warehouse.reset();
  rmSync(join(world.files.dir.path, 'recount'), { recursive: true });
  const reconciler = await world.reconciler();
  expect(await reconciler.isBehind()).toBe(true);
  await lateClicks(world);
  world.files.nowMs = CLOSED_MS + 1_000;
  await reconciler.reconcile({ untilMs: B + HOUR_MS });
  expect(await history()).toMatchObject(RESTATED);
  expect(await reconciler.isBehind()).toBe(false);
  expect((await world.verify()).differences).toEqual([]);
});

const DAMAGES: Readonly<Record<string, (path: string) => void>> = {
  'a truncated object': (path) => truncateSync(path, readFileSync(path).length - 7),
  'an object of no bytes': (path) => truncateSync(path, 0),
  'an object with a flipped bit': (path) => {
    const bytes = readFileSync(path);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(path, bytes, { mode: 0o600 });
  },
  'a missing object': (path) => rmSync(path),
};

for (const [what, damage] of Object.entries(DAMAGES)) {
  test(`an archive with ${what} keeps its hour from turning final and is named (I12, I8)`, async () => {
    const world = await openWorld();
    await twoHours(world);
    const { name } = world.manifest.objectsOfHour(B)[0]!;
    const kept = readFileSync(world.path(name));
    rmSync(world.path(name));
    writeFileSync(world.path(name), kept);
    damage(world.path(name));
    const reconciler = await world.reconciler();
    await expect(reconciler.reconcile()).rejects.toThrow(name);
    expect(reconciler.finalUntilMs).toBe(B);
    expect(reconciler.stuck).toMatchObject({ hourMs: B });
    expect(reconciler.stuck?.reason).toContain(name);

    // Whole again, the hour turns final by itself.
    rmSync(world.path(name), { force: true });
    writeFileSync(world.path(name), kept);
    await reconciler.reconcile();
    expect(reconciler.stuck).toBeNull();
    await expectSettled(world, FIRST);
  });
}

test('a manifest entry that is gone leaves a hole, and no hour turns final over it (I8)', async () => {
  const world = await openWorld();
  await twoHours(world);
  await lateClicks(world);
  for await (const { name } of world.store.list('manifest/p00000/')) {
    rmSync(world.path(name));
    break;
  }
  await world.openArchive();
  const reconciler = await world.reconciler();
  await expect(reconciler.reconcile()).rejects.toThrow(/partition 0/);
  expect(reconciler.finalUntilMs).toBe(0);
  expect((await loadManifest(world.store)).problems[0]).toMatchObject({
    kind: 'hole',
    partition: 0,
  });
});

test('an hour does not turn final while records of it may still be missing from the archive (I4)', async () => {
  const world = await openWorld();
  await twoHours(world);
  await world.append(CLOSED_MS - 10_000, [click('c', { clickedAtMs: B + 40_000 })], 2);
  world.files.nowMs = CLOSED_MS;
  world.settle = async () => {};
  const reconciler = await world.reconciler();
  await expect(reconciler.reconcile()).rejects.toMatchObject({ code: 'hour_not_covered' });
  expect(reconciler.finalUntilMs).toBeLessThanOrEqual(B);
});

test('verify finds a row that was changed in the warehouse by hand', async () => {
  const world = await openWorld();
  await twoHours(world);
  await (await world.reconciler()).reconcile();
  expect((await world.verify()).differences).toEqual([]);
  const client = openChdbClient(warehousePath);
  await client.command({
    query: `ALTER TABLE final_minute UPDATE clicks = clicks + 1 WHERE ad_id = 'ad-2' AND toStartOfHour(minute) = toDateTime(${A / 1000}) SETTINGS mutations_sync = 1`,
  });
  await client.close();
  const { differences } = await world.verify();
  expect(differences).toMatchObject([
    { tier: 'minute', adId: 'ad-2', startMs: A + MINUTE_MS, archive: 1, warehouse: 2 },
  ]);
});
