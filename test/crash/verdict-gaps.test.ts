// Proves INV-2, INV-7, INV-9 of SPEC.md.
/**
 * Verdicts on a real archive and a real warehouse: what they take back and give back, and that a death
 * after any effect ends with the same numbers and the same history.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Evidence, type EvidenceClick } from '../../src/reconcile/evidence.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { Warehouse } from '../../src/warehouse/port.ts';
import { Crash, click } from '../support/archive-fixtures.ts';
import { tempDir } from '../support/temp-dir.ts';
import { COUNTING, Deaths } from './ledger-world.ts';
import {
  auditedRows,
  finalClicks,
  HOUR_MS,
  historyOf,
  ReconcilerWorld,
} from './reconciler-world.ts';

/** The last hour of a day and the first of the next. */
const A = Date.UTC(2026, 0, 31, 23);
const B = A + HOUR_MS;
const CLOSED_MS = B + HOUR_MS + COUNTING.latenessMs + 1_000;

const home = tempDir('verdict-gaps');
let warehouse: Warehouse;
const open: ReconcilerWorld[] = [];

beforeAll(async () => {
  const path = join(home.path, 'warehouse');
  warehouse = await openChdbWarehouse({ path, minuteTtlDays: 0, hourTtlDays: 0 });
});
afterEach(async () => {
  for (const world of open.splice(0)) await world.dispose();
});
afterAll(async () => {
  await warehouse.close();
  home.remove();
});

/** Two hours; `twice` is clicked in both. Counted and archived, not final yet. */
async function twoHours(): Promise<ReconcilerWorld> {
  const world = await ReconcilerWorld.open(warehouse, A);
  open.push(world);
  await world.append(A + HOUR_MS, [
    click('a1', { clickedAtMs: A + 1_000 }),
    click('a1', { clickedAtMs: A + 13_000, country: 'FR', device: 'desktop' }),
    click('a2', { clickedAtMs: A + 70_000, adId: 'ad-2' }),
    click('twice', { clickedAtMs: A + 3_590_000 }),
    click('seen', { clickedAtMs: A + 2_000, class: 'head' }),
  ]);
  const inB = [
    click('b1', { clickedAtMs: B + 1_000 }),
    click('twice', { clickedAtMs: B + 20_000 }),
  ];
  await world.append(B + HOUR_MS, inB, 1);
  await world.settle();
  world.files.nowMs = CLOSED_MS;
  return world;
}

async function twoFinalHours(): Promise<ReconcilerWorld> {
  const world = await twoHours();
  await world.reconcile();
  return world;
}

async function expectExact(world: ReconcilerWorld, invalid: readonly string[]): Promise<void> {
  const rows = await finalClicks(warehouse, [A, B]);
  expect(rows).toEqual(auditedRows(world.records, new Set(invalid)));
  const before = await historyOf(warehouse);
  expect(await world.reconcile()).toEqual([]);
  expect(await historyOf(warehouse)).toEqual(before);
  expect((await world.verify()).differences).toEqual([]);
  for (const hour of await warehouse.hours(A, B + HOUR_MS)) {
    const { records, counted, duplicate, notBillable } = hour;
    expect(counted + duplicate + notBillable + hour.invalid).toBe(records);
  }
  await expectEvidence(world);
}

/** Evidence of every ad, which must count as many clicks as the final rows have. */
async function evidenceOf(world: ReconcilerWorld, adId: string): Promise<readonly EvidenceClick[]> {
  const { reconciler, verdicts } = await world.parts();
  const { store, manifest } = world;
  const takenBack = (hourMs: number) => reconciler.takenBack(hourMs);
  const evidence = new Evidence({ store, manifest, verdicts, takenBack });
  const ad = { adId, advertiserId: 'adv-1' };
  const range = { fromMs: A, toMs: B + HOUR_MS };
  return (await evidence.clicks({ ...ad, ...range, limit: 1_000, after: undefined })).clicks;
}

async function expectEvidence(world: ReconcilerWorld): Promise<void> {
  for (const adId of ['ad-1', 'ad-2']) {
    const clicks = await evidenceOf(world, adId);
    expect(clicks.every(({ isFinal }) => isFinal)).toBe(true);
    for (const hourMs of [A, B]) {
      const rows = (await warehouse.finalRows(hourMs)).filter((row) => row.adId === adId);
      const counted = clicks.filter(
        (each) => each.outcome === 'counted' && each.object.includes(hourOf(hourMs)),
      );
      expect(counted.length).toBe(rows.reduce((sum, row) => sum + row.clicks, 0));
    }
  }
}

function hourOf(hourMs: number): string {
  return `hr=${new Date(hourMs).toISOString().slice(11, 13)}`;
}

function objectsOf(world: ReconcilerWorld): string[] {
  const dir = world.path('verdicts');
  return existsSync(dir) ? readdirSync(dir).sort() : [];
}

const FIRST = [
  [A, 1, 'first', 3],
  [B, 1, 'first', 1],
];

describe('a verdict', () => {
  test('takes clicks of a final hour back, and the restatement shows it (A6)', async () => {
    const world = await ReconcilerWorld.open(warehouse, A);
    open.push(world);
    const gateway = Array.from({ length: 20 }, (_, i) =>
      click(`gateway-${i}`, { clickedAtMs: A + 100 * i, adId: `ad-${1 + (i % 2)}` }),
    );
    await world.append(A + HOUR_MS, [...gateway, click('human', { clickedAtMs: A + 5_000 })]);
    await world.append(B + HOUR_MS, [click('b1', { clickedAtMs: B + 1_000 })], 1);
    await world.settle();
    world.files.nowMs = CLOSED_MS;
    await world.reconcile();
    expect((await historyOf(warehouse)).hours[0]).toEqual([A, 1, 'first', 21]);
    const ids = gateway.map(({ impressionId }) => impressionId);
    const taken = await world.judge(Object.fromEntries(ids.map((id) => [id, 'invalid'])));
    expect(taken).toEqual({ taken: 20, new: 20, unchanged: 0, hoursMs: [A] });
    await world.reconcile();
    expect(await historyOf(warehouse)).toEqual({
      hours: [
        [A, 2, 'verdict', 1],
        [B, 1, 'first', 1],
      ],
      restatements: [
        [A, 2, 'ad-1', 11, 1, 'verdict'],
        [A, 2, 'ad-2', 10, 0, 'verdict'],
      ],
    });
    expect((await warehouse.hours(A, B))[0]).toMatchObject({
      records: 21,
      counted: 1,
      invalid: 20,
    });
    await expectExact(world, ids);
  });

  test('leaves the second of two clicks a duplicate, with the first and both as evidence (A7)', async () => {
    const world = await twoFinalHours();
    await world.judge({ a1: 'invalid' });
    await world.reconcile();
    const own = (await evidenceOf(world, 'ad-1')).filter((each) => each.impressionId === 'a1');
    const verdict = { valid: false, reason: 'a bot', atMs: CLOSED_MS };
    expect(own).toMatchObject([
      { outcome: 'invalid', country: 'DE', device: 'mobile', duplicateOf: null, verdict },
      { outcome: 'duplicate', country: 'FR', duplicateOf: { partition: 0, offset: 0 }, verdict },
    ]);
    await expectExact(world, ['a1']);
  });

  test('on an impression clicked in two hours changes the hour that bills it, and no other', async () => {
    const world = await twoFinalHours();
    await world.judge({ twice: 'invalid' });
    await world.reconcile();
    expect(await historyOf(warehouse)).toEqual({
      hours: [[A, 2, 'verdict', 2], FIRST[1]],
      restatements: [[A, 2, 'ad-1', 2, 1, 'verdict']],
    } as Awaited<ReturnType<typeof historyOf>>);
    const late = (await evidenceOf(world, 'ad-1')).findLast(
      (each) => each.impressionId === 'twice',
    );
    expect(late).toMatchObject({ outcome: 'duplicate', duplicateOf: null, isFinal: true });
    await expectExact(world, ['twice']);
  });

  test('that is taken back gives the click back with another revision', async () => {
    const world = await twoFinalHours();
    await world.judge({ a2: 'invalid' });
    await world.reconcile();
    await expectExact(world, ['a2']);
    await world.judge({ a2: 'valid' });
    await world.reconcile();
    expect(await historyOf(warehouse)).toEqual({
      hours: [[A, 3, 'verdict', 3], FIRST[1]],
      restatements: [
        [A, 2, 'ad-2', 1, 0, 'verdict'],
        [A, 3, 'ad-2', 0, 1, 'verdict'],
      ],
    } as Awaited<ReturnType<typeof historyOf>>);
    await expectExact(world, []);
  });

  test('that was given before stores nothing and restates nothing', async () => {
    const world = await twoFinalHours();
    await world.judge({ a1: 'invalid', nobody: 'valid' });
    await world.reconcile();
    const before = await historyOf(warehouse);
    const again = await world.judge({ nobody: 'valid', a1: 'invalid' });
    expect(again).toEqual({ taken: 2, new: 0, unchanged: 2, hoursMs: [] });
    expect(objectsOf(world)).toHaveLength(1);
    expect(await world.reconcile()).toEqual([]);
    expect(await historyOf(warehouse)).toEqual(before);
  });

  test('on a click that is not counted yet applies when its hour first turns final', async () => {
    const world = await twoHours();
    await world.judge({ a1: 'invalid', b1: 'invalid', never: 'invalid' });
    await world.reconcile();
    expect(await historyOf(warehouse)).toEqual({
      hours: [
        [A, 1, 'first', 2],
        [B, 1, 'first', 0],
      ],
      restatements: [],
    });
    await expectExact(world, ['a1', 'b1']);
  });

  test('on a late click keeps it from being billed, and tells each ad its own cause', async () => {
    const world = await twoFinalHours();
    const late = [
      click('late', { clickedAtMs: A + 5_000 }),
      click('fraud', { clickedAtMs: A + 6_000 }),
    ];
    await world.append(CLOSED_MS, late);
    await world.settle();
    await world.judge({ fraud: 'invalid', a2: 'invalid' });
    await world.reconcile();
    expect(await historyOf(warehouse)).toEqual({
      hours: [[A, 2, 'late_clicks', 3], FIRST[1]],
      restatements: [
        [A, 2, 'ad-1', 2, 3, 'late_clicks'],
        [A, 2, 'ad-2', 1, 0, 'verdict'],
      ],
    } as Awaited<ReturnType<typeof historyOf>>);
    await expectExact(world, ['fraud', 'a2']);
  });

  test('does not reach hours further back than configured, in no count', async () => {
    const world = await twoFinalHours();
    world.verdictReachMs = HOUR_MS;
    expect(await world.judge({ a1: 'invalid', b1: 'invalid' })).toMatchObject({ hoursMs: [B] });
    await world.reconcile();
    expect((await historyOf(warehouse)).hours).toEqual([
      [A, 1, 'first', 3],
      [B, 2, 'verdict', 0],
    ]);
    await expectExact(world, ['b1']);
    // A late click has the older hour counted again, and so does building everything again.
    await world.append(CLOSED_MS, [click('late', { clickedAtMs: A + 5_000 })]);
    await world.settle();
    await world.reconcile();
    await expectExact(world, ['b1']);
    await rebuild(world);
    await expectExact(world, ['b1']);
  });

  test('is found again by a warehouse that is built again, with its history', async () => {
    const world = await twoFinalHours();
    await world.judge({ a1: 'invalid', a2: 'invalid' });
    await world.reconcile();
    await world.judge({ a2: 'valid' });
    await world.reconcile();
    const before = await historyOf(warehouse);
    await rebuild(world);
    expect(await historyOf(warehouse)).toEqual(before);
    await expectExact(world, ['a1']);
  });
});

test('verdicts wait for a warehouse that was lost: what was final comes back as it was', async () => {
  const world = await twoFinalHours();
  await world.judge({ a1: 'invalid' });
  await world.reconcile();
  const before = await historyOf(warehouse);
  await warehouse.reset();
  const given = world.judge({ a2: 'invalid' });
  await expect(given).rejects.toMatchObject({ code: 'rebuilding', kind: 'retry' });
  await world.reconcile();
  expect(await historyOf(warehouse)).toEqual(before);
  await world.judge({ a2: 'invalid' });
  await world.reconcile();
  await expectExact(world, ['a1', 'a2']);
});

async function rebuild(world: ReconcilerWorld): Promise<void> {
  await warehouse.reset();
  rmSync(join(world.files.dir.path, 'recount'), { recursive: true });
  await (await world.reconciler()).reconcile({ untilMs: B + HOUR_MS });
}

describe('after a death', () => {
  const WANTED = {
    hours: [
      [A, 2, 'verdict', 2],
      [B, 2, 'verdict', 0],
    ],
    restatements: [
      [A, 2, 'ad-1', 2, 1, 'verdict'],
      [B, 2, 'ad-1', 1, 0, 'verdict'],
    ],
  } as Awaited<ReturnType<typeof historyOf>>;
  const GIVEN = { a1: 'invalid', b1: 'invalid' } as const;

  /** True when the process died; the effects tell after which. */
  async function dies(work: Promise<unknown>): Promise<boolean> {
    try {
      await work;
      return false;
    } catch (error) {
      if (!(error instanceof Crash)) throw error;
      return true;
    }
  }

  test('at any effect of taking them, verdicts are all in force, also when nobody gives them again', async () => {
    const effects: (string | undefined)[] = [];
    for (let at = 0, died = true; died; at++) {
      const world = await twoFinalHours();
      const deaths = new Deaths(at, 'after');
      died = await dies(world.judge(GIVEN, deaths));
      effects.push(deaths.effects.at(-1));
      await world.reconcile();
      expect(await historyOf(warehouse)).toEqual(WANTED);
      await expectExact(world, ['a1', 'b1']);
      expect(objectsOf(world)).toHaveLength(1);
      await open.pop()!.dispose();
    }
    expect(effects.slice(0, 3)).toEqual([
      '1 verdicts archived',
      '4 hours noted',
      'verdicts searched',
    ]);
  });

  test('before they were archived, verdicts are not in force until they are given again', async () => {
    const world = await twoFinalHours();
    expect(await dies(world.judge(GIVEN, new Deaths(0, 'before')))).toBe(true);
    await world.reconcile();
    expect((await historyOf(warehouse)).hours).toEqual(FIRST as typeof WANTED.hours);
    await world.judge(GIVEN);
    await world.reconcile();
    expect(await historyOf(warehouse)).toEqual(WANTED);
  });

  test('at any effect of the restatement, hours are restated once', async () => {
    for (let at = 0, died = true; died; at++) {
      const world = await twoFinalHours();
      await world.judge(GIVEN);
      died = await world.reconcileThroughDeath(new Deaths(at, 'after'));
      expect(await historyOf(warehouse)).toEqual(WANTED);
      await expectExact(world, ['a1', 'b1']);
      await open.pop()!.dispose();
    }
  });

  test('with the recount folder gone, verdicts are searched for again', async () => {
    const world = await twoFinalHours();
    await world.judge(GIVEN);
    rmSync(join(world.files.dir.path, 'recount'), { recursive: true });
    await world.reconcile();
    expect(await historyOf(warehouse)).toEqual(WANTED);
    // Nor does evidence need it: what was taken back is found by another recount.
    rmSync(join(world.files.dir.path, 'recount', 'taken-back'), { recursive: true });
    await expectExact(world, ['a1', 'b1']);
  });
});

describe('while verdicts are', () => {
  test('damaged, no hour turns final or is restated, and the object is named', async () => {
    const world = await twoHours();
    await world.judge({ a1: 'invalid' });
    const [name] = objectsOf(world);
    const path = world.path(`verdicts/${name}`);
    const kept = readFileSync(path);
    rmSync(path);
    writeFileSync(path, kept.toString().replace('"valid":false', '"valid":true'));
    const { reconciler, takeVerdicts } = await world.parts();
    await expect(reconciler.reconcile()).rejects.toThrow(name!);
    expect(reconciler.stuck).toMatchObject({ code: 'verdicts_damaged' });
    await expect(takeVerdicts.take([], () => {})).rejects.toThrow(name!);
    rmSync(path);
    writeFileSync(path, kept);
    await world.reconcile();
    await expectExact(world, ['a1']);
  });

  test('missing at their end, that is noticed by what was searched for', async () => {
    const world = await twoFinalHours();
    await world.judge({ a1: 'invalid' });
    await world.judge({ a2: 'invalid' });
    rmSync(world.path(`verdicts/${objectsOf(world)[1]}`));
    const { reconciler } = await world.parts();
    await expect(reconciler.reconcile()).rejects.toMatchObject({ code: 'verdicts_missing' });
  });

  test('noted and not restated yet, evidence does not call their hour final', async () => {
    const world = await twoFinalHours();
    await world.judge({ a1: 'invalid' });
    const clicks = await evidenceOf(world, 'ad-1');
    expect(clicks.filter(({ isFinal }) => !isFinal).map(({ object }) => object)).toEqual(
      clicks.filter(({ object }) => object.includes(hourOf(A))).map(({ object }) => object),
    );
    expect(clicks[0]).toMatchObject({ impressionId: 'a1', outcome: 'invalid', isFinal: false });
  });
});

test('verdicts that come while an hour turns final wait for it, and restate it', async () => {
  const world = await twoHours();
  const hook = new Deaths();
  const parts = await world.parts(hook);
  const inner = hook.async.bind(hook);
  let taking: Promise<unknown> | undefined;
  hook.async = async (name, work) => {
    // Counted without the verdict, and not yet known to be final.
    if (name === '6 published' && taking === undefined) {
      const record = { impression_id: 'a1', valid: false, reason: 'a bot' };
      taking = parts.takeVerdicts.take([{ line: 1, record }], () => {});
      await Promise.race([taking, turns(2_000)]);
    }
    return inner(name, work);
  };
  await parts.reconciler.reconcile();
  expect(await taking).toMatchObject({ new: 1, hoursMs: [A] });
  await parts.reconciler.reconcile();
  expect((await historyOf(warehouse)).restatements).toEqual([[A, 2, 'ad-1', 2, 1, 'verdict']]);
  await expectExact(world, ['a1']);
});

/** Lets whatever can go on without us go on. */
async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
}

test('totals of final hours never fall without a restatement, whatever comes (H9)', async () => {
  const world = await twoFinalHours();
  const total = async (): Promise<number> => {
    const rows = await finalClicks(warehouse, [A, B]);
    return [...rows.values()].reduce((sum, clicks) => sum + clicks, 0);
  };
  const restated = async (): Promise<number> => {
    const rows = await warehouse.restatements(A, B + HOUR_MS, undefined);
    return rows.reduce((sum, { before, after }) => sum + after - before, 0);
  };
  const firstTotal = await total();
  const steps: (() => Promise<unknown>)[] = [
    () => world.judge({ a1: 'invalid', twice: 'invalid' }),
    () => world.append(CLOSED_MS, [click('a3', { clickedAtMs: A + 9_000 })]),
    () => world.judge({ twice: 'valid', a2: 'invalid', b1: 'invalid' }),
    () => rebuild(world),
    () => world.append(CLOSED_MS, [click('b1', { clickedAtMs: A + 9_500 })]),
    () => world.judge({ b1: 'valid', a1: 'valid' }),
  ];
  for (const step of steps) {
    await step();
    await world.settle();
    await world.reconcile();
    expect(await total()).toBe(firstTotal + (await restated()));
  }
  await expectExact(world, ['a2']);
});
