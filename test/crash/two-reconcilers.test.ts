// Proves INV-13 of SPEC.md.
/**
 * Several reconcilers over one archive and one warehouse: whichever stands still wherever, for longer than
 * its lease, while others work on, hours have one result, the auditor's, and one history.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import fc from 'fast-check';
import { Evidence } from '../../src/reconcile/evidence.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { Warehouse } from '../../src/warehouse/port.ts';
import { click } from '../support/archive-fixtures.ts';
import { fcParams } from '../support/seed.ts';
import { tempDir } from '../support/temp-dir.ts';
import { COUNTING } from './ledger-world.ts';
import { ManyReconcilers, type Process } from './many-reconcilers.ts';
import {
  auditedRows,
  finalClicks,
  HOUR_MS,
  historyOf,
  ReconcilerWorld,
} from './reconciler-world.ts';

/** The last two hours of a day and the first of the next: one of them completes a day. */
const Z = Date.UTC(2026, 0, 31, 22);
const A = Z + HOUR_MS;
const B = A + HOUR_MS;
const END_MS = B + HOUR_MS;
const CLOSED_MS = END_MS + COUNTING.latenessMs + 1_000;

const home = tempDir('two-reconcilers');
/** One database; each process has its own idea of what is published. */
const warehouses: Warehouse[] = [];
const open: ReconcilerWorld[] = [];

beforeAll(async () => {
  const path = join(home.path, 'warehouse');
  for (let each = 0; each < 3; each++) {
    warehouses.push(await openChdbWarehouse({ path, minuteTtlDays: 0, hourTtlDays: 0 }));
  }
});
afterEach(async () => {
  for (const world of open.splice(0)) await world.dispose();
});
afterAll(async () => {
  for (const warehouse of warehouses) await warehouse.close();
  home.remove();
});

/** Hours A and B, or Z as well; `twice` is clicked in two of them. Counted and archived, not final yet. */
async function openHours(
  options: { withZ?: boolean } = {},
): Promise<{ many: ManyReconcilers; one: Process; other: Process }> {
  const world = await ReconcilerWorld.open(warehouses[0]!, Z);
  open.push(world);
  const inZ = [click('z1', { clickedAtMs: Z + 1_000 }), click('z2', { clickedAtMs: Z + 2_000 })];
  if (options.withZ === true) await world.append(A, inZ);
  await world.append(B, [
    click('a1', { clickedAtMs: A + 1_000 }),
    click('a2', { clickedAtMs: A + 70_000, adId: 'ad-2' }),
    click('twice', { clickedAtMs: A + 3_590_000 }),
  ]);
  const inB = [
    click('b1', { clickedAtMs: B + 1_000 }),
    click('twice', { clickedAtMs: B + 20_000 }),
    click('moves', { clickedAtMs: B + 30_000, adId: 'ad-2', country: 'FR' }),
  ];
  await world.append(END_MS, inB, 1);
  await world.settle();
  world.files.nowMs = CLOSED_MS;
  const many = new ManyReconcilers(world);
  const one = await many.start('one', warehouses[0]!);
  const other = await many.start('other', warehouses[1]!);
  return { many, one, other };
}

type Setting = Awaited<ReturnType<typeof openHours>>;

async function finalHours(options: { withZ?: boolean } = {}): Promise<Setting> {
  const setting = await openHours(options);
  await setting.many.reconcile(setting.other);
  return setting;
}

/** Late clicks for one hour: a new one, and an earlier click on one billed later. */
async function lateClicks({ many }: Setting, hourMs: number): Promise<void> {
  const late = [
    click(`late-${hourMs}`, { clickedAtMs: hourMs + 5_000 }),
    click('moves', { clickedAtMs: hourMs + 6_000, adId: 'ad-2', country: 'FR' }),
  ];
  await many.world.append(CLOSED_MS, late);
  await many.world.settle();
}

/** Everything that must hold at rest, whatever was before. */
async function expectExact(setting: Setting, invalid: readonly string[]): Promise<void> {
  const { many, one, other } = setting;
  await many.rest([one, other]);
  for (const warehouse of warehouses) await warehouse.refresh();
  const [warehouse] = warehouses;
  const rows = await finalClicks(warehouse!, [Z, A, B]);
  expect(rows).toEqual(auditedRows(many.world.records, new Set(invalid)));
  await many.world.openArchive();
  expect((await many.world.verify()).differences).toEqual([]);
  await expectHistoryAddsUp(warehouse!);
  await expectEvidence(setting);
}

/** Each ad's restatements lead from its first final number to the one in force, each exactly once. */
async function expectHistoryAddsUp(warehouse: Warehouse): Promise<void> {
  const restatements = await warehouse.restatements(0, END_MS, undefined);
  const keys = restatements.map(({ hourMs, revision, adId }) => `${hourMs} ${revision} ${adId}`);
  expect(new Set(keys).size).toBe(keys.length);
  for (const hourMs of [Z, A, B]) {
    const counted = new Map<string, number>();
    for (const { adId, clicks } of await warehouse.finalRows(hourMs)) {
      counted.set(adId, (counted.get(adId) ?? 0) + clicks);
    }
    const own = restatements
      .filter((each) => each.hourMs === hourMs)
      .sort((a, b) => a.revision - b.revision);
    const last = new Map<string, number>();
    for (const { adId, before, after } of own) {
      if (last.has(adId)) expect([hourMs, adId, before]).toEqual([hourMs, adId, last.get(adId)!]);
      last.set(adId, after);
    }
    for (const [adId, after] of last) expect(counted.get(adId) ?? 0).toBe(after);
  }
}

/** In a process that has recounted nothing itself, too, evidence counts what the final rows count. */
async function expectEvidence({ many, one }: Setting): Promise<void> {
  const { store, manifest } = many.world;
  const reader = await many.start('reader', warehouses[2]!);
  for (const { reconciler, verdicts } of [one, reader]) {
    await reconciler.look();
    expect(reconciler.isChanging(Z, END_MS)).toBe(false);
    const takenBack = (hourMs: number) => reconciler.takenBack(hourMs);
    const evidence = new Evidence({ store, manifest, verdicts, takenBack });
    const rows = await finalClicks(warehouses[0]!, [Z, A, B]);
    let counted = 0;
    for (const adId of ['ad-1', 'ad-2']) {
      const ad = { adId, advertiserId: 'adv-1', fromMs: Z, toMs: END_MS };
      const { clicks } = await evidence.clicks({ ...ad, limit: 1_000, after: undefined });
      expect(clicks.every(({ isFinal }) => isFinal)).toBe(true);
      counted += clicks.filter(({ outcome }) => outcome === 'counted').length;
    }
    expect(counted).toBe([...rows.values()].reduce((sum, n) => sum + n, 0));
  }
}

const history = async () => {
  await warehouses[0]!.refresh();
  return historyOf(warehouses[0]!);
};

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
type History = Awaited<ReturnType<typeof history>>;

/**
 * Runs the case once for every effect at which a process can stand still, up to the last of the first
 * hour that it works on; the others have the same. Gives their names.
 */
async function atEveryEffect(
  run: (at: number) => Promise<string | null>,
): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for (let at = 0; ; at++) {
    const name = await run(at);
    for (const world of open.splice(0)) await world.dispose();
    if (name !== null) names.add(name);
    if (name === null || name === '8 note removed') return names;
  }
}

const EFFECTS_OF_AN_HOUR = [
  '0 turn begun',
  '0 counted',
  '1 attempt reserved',
  '2 minute and hour rows',
  '2 what was taken back',
  '4 hours noted',
  'told that it holds its lease',
  '5 final record archived',
  '6 published',
  '7 index stored',
  '8 note removed',
];

describe('while one stands still at any effect', () => {
  test('of a first final result and the other makes it, there is one result', async () => {
    const names = await atEveryEffect(async (at) => {
      const setting = await openHours();
      const { many, one, other } = setting;
      const work = () => many.reconcile(one);
      const name = await many.stalled(one, at, work, () => many.reconcile(other));
      await expectExact(setting, []);
      expect([at, await history()]).toEqual([at, FIRST as History]);
      return name;
    });
    expect([...names]).toEqual(expect.arrayContaining([...EFFECTS_OF_AN_HOUR, '3 day rows']));
  }, 600_000);

  test('of a restatement and the other makes it, hours are restated once', async () => {
    const names = await atEveryEffect(async (at) => {
      const setting = await finalHours();
      const { many, one, other } = setting;
      await lateClicks(setting, A);
      const work = () => many.reconcile(one);
      const name = await many.stalled(one, at, work, () => many.reconcile(other));
      await expectExact(setting, []);
      expect([at, await history()]).toEqual([at, RESTATED as History]);
      return name;
    });
    expect([...names]).toEqual(expect.arrayContaining(EFFECTS_OF_AN_HOUR));
  }, 600_000);

  test('and another hour of the same day is restated, the day has both', async () => {
    await atEveryEffect(async (at) => {
      const setting = await finalHours({ withZ: true });
      const { many, one, other } = setting;
      await lateClicks(setting, A);
      const others = async () => {
        // By a verdict, which later hours are not looked at again for, and only that hour: so nobody
        // has come to the one whose publication arrives late.
        await many.judge(other, { z1: 'invalid' });
        await other.reconciler.reconcileHour(Z);
      };
      const name = await many.stalled(one, at, () => many.reconcile(one), others);
      await expectExact(setting, name === null ? [] : ['z1']);
      return name;
    });
  }, 600_000);

  test('and a verdict is taken, it is not lost', async () => {
    await atEveryEffect(async (at) => {
      const setting = await openHours();
      const { many, one, other } = setting;
      const given = { a1: 'invalid', b1: 'invalid' } as const;
      let isTaken = false;
      const name = await many.stalled(
        one,
        at,
        () => many.reconcile(one),
        async () => {
          isTaken = await many.judge(other, given);
        },
      );
      await expectExact(setting, isTaken ? ['a1', 'b1'] : []);
      if (isTaken) return name;
      expect(await many.judge(other, given)).toBe(true);
      await expectExact(setting, ['a1', 'b1']);
      return name;
    });
  }, 600_000);

  test('of taking a verdict and hours turn final without it, it is not lost', async () => {
    const names = await atEveryEffect(async (at) => {
      const setting = await openHours();
      const { many, one, other } = setting;
      const work = () => many.judge(one, { a1: 'invalid' });
      const name = await many.stalled(one, at, work, () => many.reconcile(other));
      await expectExact(setting, ['a1']);
      return name;
    });
    expect([...names]).toEqual(expect.arrayContaining(['1 verdicts archived']));
  }, 600_000);

  test('of taking a verdict and another is taken, both are in force', async () => {
    const names = await atEveryEffect(async (at) => {
      const setting = await finalHours();
      const { many, one, other } = setting;
      const work = () => many.judge(one, { a1: 'invalid' });
      const name = await many.stalled(one, at, work, () => many.judge(other, { b1: 'invalid' }));
      await expectExact(setting, name === null ? ['a1'] : ['a1', 'b1']);
      return name;
    });
    expect([...names]).toEqual(expect.arrayContaining(['verdicts searched']));
  }, 600_000);
});

interface Step {
  readonly who: number;
  readonly what: 'late' | 'judge' | 'unjudge' | 'reconcile';
  readonly which: number;
  /** Effects until it stands still; beyond its last it does not. */
  readonly stallAt: number;
}

const IMPRESSIONS = ['z1', 'a1', 'a2', 'twice', 'b1', 'moves'];

describe('three processes', () => {
  const step = fc.record<Step>({
    who: fc.nat({ max: 2 }),
    what: fc.constantFrom('late', 'judge', 'unjudge', 'reconcile', 'reconcile', 'reconcile'),
    which: fc.nat({ max: 5 }),
    stallAt: fc.nat({ max: 45 }),
  });

  /** Takes the steps one after the other; those behind one that stands still happen meanwhile. */
  async function play(setting: Setting, processes: readonly Process[], steps: readonly Step[]) {
    const busy = new Set<Process>();
    const queue = [...steps];
    const next = async (): Promise<void> => {
      const step = queue.shift()!;
      const process = processes[step.who]!;
      if (busy.has(process)) return;
      busy.add(process);
      const others = async (): Promise<void> => {
        while (queue.length > 0 && busy.size < processes.length) await next();
      };
      await setting.many.stalled(process, step.stallAt, () => take(setting, process, step), others);
      busy.delete(process);
    };
    while (queue.length > 0) await next();
  }

  async function take(setting: Setting, process: Process, { what, which }: Step): Promise<void> {
    const id = IMPRESSIONS[which]!;
    if (what === 'late') await lateClicks(setting, [Z, A][which % 2]!);
    else if (what === 'reconcile') await setting.many.reconcile(process);
    else await setting.many.judge(process, { [id]: what === 'judge' ? 'invalid' : 'valid' });
  }

  test('that stand still anywhere, in any order, come to the auditor’s numbers', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 10 }), async (steps) => {
        const setting = await openHours({ withZ: true });
        const third = await setting.many.start('third', warehouses[2]!);
        const processes = [setting.one, setting.other, third];
        await play(setting, processes, steps);
        await setting.many.rest(processes);
        await expectExact(setting, await invalidOf(setting));
        await open.pop()!.dispose();
      }),
      fcParams(12),
    );
  }, 900_000);

  /** What the archive's verdicts say in the order in which they were stored. */
  async function invalidOf({ many }: Setting): Promise<string[]> {
    const { verdicts } = await many.start('auditor', warehouses[0]!);
    return IMPRESSIONS.filter((id) => verdicts.table.find(id, B)?.valid === false);
  }
});
