// Proves INV-2, INV-6, INV-9 of SPEC.md.
/**
 * The reconciler's numbered effects on a real archive and a real warehouse: whatever dies between two
 * of them, hours get the same numbers, the same revisions and the same history.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Archiver } from '../../src/archive/archiver.ts';
import { loadManifest, type Manifest } from '../../src/archive/manifest.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import type { Counter } from '../../src/counter/counter.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';
import { HourIndexes } from '../../src/reconcile/hour-index.ts';
import { HourSource } from '../../src/reconcile/hour-source.ts';
import { PendingHours } from '../../src/reconcile/pending-hours.ts';
import { type HourResult, Reconciler } from '../../src/reconcile/reconciler.ts';
import { verifyWarehouse } from '../../src/reconcile/verify.ts';
import { openChdbClient } from '../../src/warehouse/chdb/client.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { Warehouse } from '../../src/warehouse/port.ts';
import { Crash, click } from '../support/archive-fixtures.ts';
import { type AuditRecord, audit, auditRowName } from '../support/auditor.ts';
import { tempDir } from '../support/temp-dir.ts';
import { COUNTING, Deaths, LedgerFiles, MINUTE_MS, rowKeyOf, withDeaths } from './ledger-world.ts';

const HOUR_MS = 3_600_000;
const LOOKBACK_MS = 7 * 24 * HOUR_MS;
/** The last hour of a day and the first of the next: the one completes a day, the other does not. */
const A = Date.UTC(2026, 0, 31, 23);
const B = A + HOUR_MS;
const CLOSED_MS = B + HOUR_MS + COUNTING.latenessMs + 1_000;

const home = tempDir('reconciler-gaps');
const warehousePath = join(home.path, 'warehouse');
let warehouse: Warehouse;
const open: World[] = [];

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

/** One ledger without loops: each test says when it counts, archives and reconciles. */
class World {
  readonly files = new LedgerFiles(A);
  readonly records: ClickEvent[] = [];
  store!: ObjectStore;
  manifest!: Manifest;
  archiver!: Archiver;
  counter!: Counter;

  static async open(): Promise<World> {
    await warehouse.reset();
    const world = new World();
    open.push(world);
    await world.openArchive();
    world.counter = await world.files.openCounter(warehouse);
    return world;
  }

  async openArchive(): Promise<void> {
    const { store, manifest, archiver } = await this.files.openArchive();
    Object.assign(this, { store, manifest, archiver });
  }

  async append(nowMs: number, events: readonly ClickEvent[], partition = 0): Promise<void> {
    this.files.nowMs = nowMs;
    await this.files.append(partition, events);
    this.records.push(...events);
  }

  async settle(): Promise<void> {
    await this.archiver.flush();
    await this.counter.catchUp();
  }

  path(name: string): string {
    return join(this.files.dir.path, 'archive', name);
  }

  async reconciler(deaths = new Deaths()): Promise<Reconciler> {
    const dir = join(this.files.dir.path, 'recount');
    const indexes = withDeaths(new HourIndexes(dir), deaths, { write: '7 index stored' });
    const reconciler = new Reconciler({
      store: withDeaths(this.store, deaths, { putIfAbsent: '5 final record archived' }),
      manifest: this.manifest,
      warehouse: withDeaths(warehouse, deaths, {
        nextAttempt: '1 attempt reserved',
        writeFinalHour: '2 minute and hour rows',
        writeFinalDay: '3 day rows',
        publish: '6 published',
      }),
      indexes,
      pending: mortalPending(new PendingHours(join(dir, 'pending.json')), deaths),
      clock: this.files.clock,
      delayMs: 0,
      lookbackMs: LOOKBACK_MS,
      driftAlert: 0.001,
      latenessMs: COUNTING.latenessMs,
      coveredUntilMs: () => this.archiver.coveredUntilMs(),
      settle: () => this.settle(),
    });
    await reconciler.open();
    return reconciler;
  }

  /** Reconciles; a process that dies is followed by one that lives. False when none has died. */
  async reconcileThroughDeath(deaths: Deaths): Promise<boolean> {
    try {
      await (await this.reconciler(deaths)).reconcile();
      return false;
    } catch (error) {
      if (!(error instanceof Crash)) throw error;
      await this.openArchive();
      await (await this.reconciler()).reconcile();
      return true;
    }
  }

  async verify() {
    const { store, manifest } = this;
    const source = new HourSource({ store, manifest, indexes: null, lookbackMs: LOOKBACK_MS });
    return verifyWarehouse(source, warehouse, {
      hoursInArchive: manifest.hours(),
      minutesFromMs: 0,
      hoursFromMs: 0,
    });
  }

  async dispose(): Promise<void> {
    await this.counter.close();
    await this.files.dispose();
  }
}

function mortalPending(pending: PendingHours, deaths: Deaths): PendingHours {
  const add = pending.add.bind(pending);
  const remove = pending.remove.bind(pending);
  pending.add = (hours) => deaths.sync('4 later hours noted', () => add(hours));
  pending.remove = (hourMs) => deaths.sync('7 tidied up', () => remove(hourMs));
  return pending;
}

/** What the auditor bills: no lateness and no dedup window, over everything that was logged. */
function audited(records: readonly ClickEvent[]): Map<string, number> {
  const log: AuditRecord[] = records.map((event, offset) => {
    const { impressionId, clickedAtMs } = event;
    const { class: kind } = event;
    return {
      partition: 0,
      offset,
      impressionId,
      clickedAtMs,
      class: kind,
      rowKey: rowKeyOf(event),
    };
  });
  const forever = Number.POSITIVE_INFINITY;
  const rules = { dedupWindowMs: forever, latenessMs: forever, watermarkLagMs: 0 };
  return audit([log], { ...rules, shards: 'none' }).rows;
}

async function finalClicks(hours: readonly number[] = [A, B]): Promise<Map<string, number>> {
  const clicks = new Map<string, number>();
  for (const hourMs of hours) {
    for (const row of await warehouse.finalRows(hourMs)) {
      clicks.set(auditRowName(0, row.minuteMs, rowKeyOf(row)), row.clicks);
    }
  }
  return clicks;
}

async function history() {
  const hours = await warehouse.hours(A, B + HOUR_MS);
  const restatements = await warehouse.restatements(A, B + HOUR_MS, undefined);
  return {
    hours: hours.map(({ hourMs, revision, cause, counted }) => [hourMs, revision, cause, counted]),
    restatements: restatements
      .map(({ hourMs, revision, adId, before, after, cause }) => {
        return [hourMs, revision, adId, before, after, cause];
      })
      .sort(),
  };
}

/** Two hours; `twice` is clicked in both, and `moves` only in the second, so far. */
async function twoHours(world: World): Promise<void> {
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
async function lateClicks(world: World): Promise<void> {
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

async function expectSettled(world: World, wanted: typeof FIRST | typeof RESTATED): Promise<void> {
  expect(await history()).toEqual(wanted as Awaited<ReturnType<typeof history>>);
  expect(await finalClicks()).toEqual(audited(world.records));
  expect(await (await world.reconciler()).reconcile()).toEqual([]);
  expect(await history()).toEqual(wanted as Awaited<ReturnType<typeof history>>);
  expect((await world.verify()).differences).toEqual([]);
}

test('an impression clicked on both sides of an hour is billed once, in the earlier hour', async () => {
  const world = await World.open();
  await twoHours(world);
  const deaths = new Deaths();
  const results = await (await world.reconciler(deaths)).reconcile();
  expect(results.map(({ hour, kind }) => [hour.hourMs, kind, hour.duplicate])).toEqual([
    [A, 'final', 0],
    [B, 'final', 1],
  ]);
  expect(new Set(deaths.effects.map((name) => name[0]))).toEqual(
    new Set(['1', '2', '3', '5', '6', '7']),
  );
  await expectSettled(world, FIRST);
});

test('late clicks for a final hour make a new revision, and move later hours that had them', async () => {
  const world = await World.open();
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
  expect(deaths.effects).toContain('4 later hours noted');
  await expectSettled(world, RESTATED);
});

// Before the first effect nothing has happened, and before any other is after the one before it.
test('a reconciler that dies after any effect of a first final result comes to the same one', async () => {
  for (let at = 0, died = true; died; at++) {
    const world = await World.open();
    await twoHours(world);
    died = await world.reconcileThroughDeath(new Deaths(at, 'after'));
    await expectSettled(world, FIRST);
    await open.pop()!.dispose();
  }
});

test('a reconciler that dies after any effect of a restatement restates once', async () => {
  for (let at = 0, died = true; died; at++) {
    const world = await World.open();
    await twoHours(world);
    await (await world.reconciler()).reconcile();
    await lateClicks(world);
    died = await world.reconcileThroughDeath(new Deaths(at, 'after'));
    await expectSettled(world, RESTATED);
    await open.pop()!.dispose();
  }
});

test('clicks that come between the record of a revision and its publication get a revision of their own', async () => {
  const world = await World.open();
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
  expect(await finalClicks()).toEqual(audited(world.records));
});

test('a final hour that is recounted on demand keeps its revision and its history', async () => {
  const world = await World.open();
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
  const world = await World.open();
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
    const world = await World.open();
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
  const world = await World.open();
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
  const world = await World.open();
  await twoHours(world);
  await world.append(CLOSED_MS - 10_000, [click('c', { clickedAtMs: B + 40_000 })], 2);
  world.files.nowMs = CLOSED_MS;
  world.settle = async () => {};
  const reconciler = await world.reconciler();
  await expect(reconciler.reconcile()).rejects.toMatchObject({ code: 'hour_not_covered' });
  expect(reconciler.finalUntilMs).toBeLessThanOrEqual(B);
});

test('verify finds a row that was changed in the warehouse by hand', async () => {
  const world = await World.open();
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
