// Proves INV-3, INV-4, INV-7 of SPEC.md.
/**
 * A worker's numbered effects, of taking partitions over and of writing: whatever dies between two of
 * them, the next owner comes to the auditor's rows, and no reader sees a row fall back on the way.
 */
import { afterEach, expect, test } from 'bun:test';
import { KIND_SEAL } from '../../src/counter/journal-codec.ts';
import type { CounterWorkerOptions } from '../../src/counter/worker.ts';
import { CounterWorld, Machine, type Process } from '../support/counter-world.ts';
import { until } from '../support/log-tools.ts';
import { Deaths, withDeaths } from './ledger-world.ts';

const PARTITIONS = [10_000, 10_001];
const worlds: CounterWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.dispose();
});

function newWorld(): CounterWorld {
  const world = new CounterWorld(PARTITIONS);
  worlds.push(world);
  return world;
}

/** A process whose effects are `deaths`. */
function startMortal(world: CounterWorld, machine: Machine, deaths: Deaths): Process {
  const { journals } = machine;
  journals.beforeAppend = (bytes) => {
    if (bytes[0] === KIND_SEAL) deaths.sync('2 journal committed', () => {});
    else if (deaths.isDead) throw new Error('dead');
  };
  return world.start(machine, {
    upsertIntervalMs: 2,
    // Its effects are counted one after the other.
    warehouse: withDeaths(world.live, deaths, { upsertLiveBatches: '4 rows upserted' }),
    deadLetters: {
      put: (letters) =>
        deaths.async('1 dead letters stored', async () => {
          for (const each of letters) world.letters.set(`${each.partition}-${each.offset}`, each);
        }),
    },
    openJournal: (partition) => deaths.async('4 new journal begun', () => journals.open(partition)),
    dropJournal: (partition) =>
      deaths.sync('3 old journal dropped', () => journals.drop(partition)),
    onGap: (gap) => deaths.async('1 gap told', async () => void world.gaps.push(gap)),
  });
}

/** The commits of a member are effects like the others. */
function withMortalCommits(process: Process, deaths: Deaths): void {
  const { member } = process;
  const commit = member.commit.bind(member);
  member.commit = (commits) => deaths.async('2, 3, 6 notes committed', () => commit(commits));
}

/** Hands out one batch at a time, so that rows go out at many positions. */
function slowly(world: CounterWorld): Partial<CounterWorkerOptions> {
  const { log } = world;
  return {
    upsertIntervalMs: 1,
    reader: {
      partitions: () => log.partitions(),
      range: (partition) => log.range(partition),
      offsetAt: (partition, timeMs) => log.offsetAt(partition, timeMs),
      close: () => log.close(),
      read: async (partition, from) => {
        await Bun.sleep(1);
        return log.read(partition, from, 1);
      },
    },
  };
}

function load(world: CounterWorld, minutes: number): void {
  for (let minute = 0; minute < minutes; minute++) {
    world.nowMs += 20_000;
    for (const partition of PARTITIONS) {
      world.appendClicks(partition, 2, { country: minute % 2 === 0 ? 'DE' : 'FR' });
    }
  }
}

interface Ending {
  readonly isDead: boolean;
  readonly effects: readonly string[];
}

/** Counts, dies at an effect, and is followed by another process: on its disk, or without it. */
async function live(at: number, when: 'before' | 'after', losesDisk: boolean): Promise<Ending> {
  const world = newWorld();
  const machine = new Machine('a');
  const deaths = new Deaths(at, when);
  const process = startMortal(world, machine, deaths);
  withMortalCommits(process, deaths);
  await world.group.shareOut();
  for (let phase = 0; phase < 3 && !deaths.isDead; phase++) {
    load(world, 9);
    await until(
      () => deaths.isDead || PARTITIONS.every((partition) => world.isCaughtUp(partition)),
      `phase ${phase}: ${world.describe()}`,
    );
  }
  // What is under way at the death is not: it fails like everything after it.
  await Bun.sleep(2);
  world.kill(process, machine);
  machine.journals.beforeAppend = () => {};
  if (losesDisk) machine.journals.lose();
  load(world, 5);
  const other = losesDisk ? new Machine('b') : machine;
  world.start(other, slowly(world));
  await world.group.shareOut();
  await world.caughtUp();
  const { rows, outcomes } = world.expected();
  const label = { at, when, losesDisk, effect: deaths.effects.at(-1) };
  expect({ ...label, rows: world.live.clicks() }).toEqual({ ...label, rows });
  expect({ ...label, outcomes: world.outcomes() }).toEqual({ ...label, outcomes });
  expect({ ...label, fallen: world.live.fallen }).toEqual({ ...label, fallen: [] });
  expect(world.group.wrong).toEqual([]);
  return { isDead: deaths.isDead, effects: deaths.effects };
}

for (const losesDisk of [false, true]) {
  for (const when of ['before', 'after'] as const) {
    const disk = losesDisk ? 'without its disk' : 'on its disk';
    test(`a death ${when} any effect of counting ends, ${disk}, with the auditor's rows`, async () => {
      const seen = new Set<string>();
      for (let at = 0; at < 30; at++) {
        const { isDead, effects } = await live(at, when, losesDisk);
        for (const effect of effects) seen.add(effect);
        if (!isDead) break;
        await worlds.pop()!.dispose();
      }
      expect([...seen].sort()).toEqual([
        '2 journal committed',
        '2, 3, 6 notes committed',
        '4 new journal begun',
        '4 rows upserted',
      ]);
    }, 120_000);
  }
}

test('a death at any effect of passing over a gap leaves it told, and the rest is counted', async () => {
  const seen = new Set<string>();
  for (const when of ['before', 'after'] as const) {
    for (let at = 0; at < 40; at++) {
      const world = newWorld();
      const machine = new Machine('a');
      const first = world.start(machine);
      await world.group.shareOut();
      load(world, 60);
      await world.caughtUp();
      world.kill(first, machine);
      load(world, 60);
      world.log.removeBefore(10_000, 200);
      world.accepted.set(10_000, 200);
      const deaths = new Deaths(at, when);
      const process = startMortal(world, machine, deaths);
      withMortalCommits(process, deaths);
      await world.group.shareOut();
      const isDone = (): boolean => PARTITIONS.every((partition) => world.isCaughtUp(partition));
      await until(() => deaths.isDead || isDone(), `counted: ${world.describe()}`);
      await Bun.sleep(2);
      world.kill(process, machine);
      machine.journals.beforeAppend = () => {};
      world.start(machine, slowly(world));
      await world.group.shareOut();
      await world.caughtUp();
      for (const effect of deaths.effects) seen.add(effect);
      expect(world.gaps.length).toBeGreaterThan(0);
      const { fromMs, toMs } = world.gaps[0]!;
      expect(world.gaps.every((gap) => gap.fromMs === fromMs && gap.toMs === toMs)).toBe(true);
      // All that was told to be missing may be; all else is there.
      const isTold = (name: string): boolean => {
        const [shard, minute] = JSON.parse(name) as [number, string];
        const ms = Date.parse(minute);
        return shard === 10_000 && ms >= fromMs && ms < toMs;
      };
      const kept = (rows: ReadonlyMap<string, number>) =>
        new Map([...rows].filter(([name]) => !isTold(name)));
      const { rows } = world.expected();
      expect({ at, when, rows: kept(world.live.clicks()) }).toEqual({ at, when, rows: kept(rows) });
      expect(world.note(10_000).outcomes.counted).toBe(120 + world.endOf(10_000) - 200);
      expect(world.live.fallen).toEqual([]);
      await worlds.pop()!.dispose();
      if (!deaths.isDead) break;
    }
  }
  expect([...seen]).toContain('1 gap told');
  expect([...seen]).toContain('3 old journal dropped');
}, 240_000);

test('dead letters are stored before what was counted with them, whatever dies', async () => {
  for (const when of ['before', 'after'] as const) {
    for (let at = 0; at < 30; at++) {
      const world = newWorld();
      const machine = new Machine('a');
      const deaths = new Deaths(at, when);
      world.log.appendBytes(10_000, [Buffer.from('no event'), Buffer.from([1])], world.nowMs);
      const process = startMortal(world, machine, deaths);
      withMortalCommits(process, deaths);
      await world.group.shareOut();
      const isDone = (): boolean => world.group.committed.get(10_000)?.offset === 2;
      await until(() => deaths.isDead || isDone(), 'the letters are counted');
      await Bun.sleep(2);
      world.kill(process, machine);
      if (isDone()) expect(world.letters.size).toBe(2);
      machine.journals.beforeAppend = () => {};
      world.start(machine);
      await world.group.shareOut();
      await until(isDone, 'the letters are counted by the next');
      expect([...world.letters.keys()].sort()).toEqual(['10000-0', '10000-1']);
      expect(world.note(10_000).outcomes.dead_letter).toBe(2);
      await worlds.pop()!.dispose();
      if (!deaths.isDead) break;
    }
  }
}, 120_000);
