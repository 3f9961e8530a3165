// Proves INV-3, INV-4 of SPEC.md.
/** Counters that share a log: who takes a partition over, where it goes on, and what stops it. */
import { afterEach, describe, expect, test } from 'bun:test';
import { LedgerError } from '../../src/platform/errors.ts';
import { click } from '../support/archive-fixtures.ts';
import { CounterWorld, Machine, MINUTE_MS, START_MS } from '../support/counter-world.ts';
import { until } from '../support/log-tools.ts';

const DAY_MS = 24 * 60 * MINUTE_MS;
const worlds: CounterWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.dispose();
});

function newWorld(partitions = [10_000, 10_001, 10_002]): CounterWorld {
  const world = new CounterWorld(partitions);
  worlds.push(world);
  return world;
}

/** Everything is counted, and the rows are the auditor's. */
async function expectRight(world: CounterWorld): Promise<void> {
  await world.caughtUp();
  const { rows, outcomes } = world.expected();
  expect(world.live.clicks()).toEqual(rows);
  expect(world.outcomes()).toEqual(outcomes);
  expect(world.live.fallen).toEqual([]);
  expect(world.group.wrong).toEqual([]);
}

/** Clicks for an hour and a half on every partition, so that most minutes are settled. */
function fill(world: CounterWorld, minutes = 90): void {
  for (let minute = 0; minute < minutes; minute++) {
    world.nowMs += MINUTE_MS;
    for (const partition of world.group.partitions) world.appendClicks(partition, 4);
  }
}

describe('a worker', () => {
  test('counts what the group gives it, and writes with each offset how to go on', async () => {
    const world = newWorld();
    fill(world);
    const { worker } = world.start(new Machine('a'));
    await world.group.shareOut();
    await expectRight(world);
    const note = world.note(10_001);
    expect(note).toMatchObject({
      epoch: 1,
      quietUntil: 0,
      logId: 'log-1',
      rebuildId: 0,
      holder: 'a',
    });
    // Everything but what the lag, the lateness and the minute itself keep open.
    expect(note.upsertFromMs).toBe(world.nowMs - 6 * MINUTE_MS);
    expect(note.watermarkMs).toBe(world.nowMs - 10_000);
    await until(() => world.note(10_001).asOfMs === world.nowMs, 'as of now');
    expect(worker.partitions().map(({ state, problem }) => ({ state, problem }))).toEqual(
      Array.from({ length: 3 }, () => ({ state: 'counting', problem: null })),
    );
    expect(worker.waitsFor).toBeNull();
  });

  test('puts the rows of all partitions into one insert', async () => {
    const world = newWorld(Array.from({ length: 32 }, (_, i) => 10_000 + i));
    world.start(new Machine('a'), { upsertIntervalMs: 100 });
    await world.group.shareOut();
    await until(() => world.group.committed.size === 32, 'all are taken over');
    const before = world.live.upserts;
    for (const partition of world.group.partitions) world.appendClicks(partition, 3);
    await world.caughtUp();
    expect(world.live.upserts - before).toBeLessThanOrEqual(3);
    await expectRight(world);
  });

  test('has its share of the records when one ad has 30 % of all clicks', async () => {
    const partitions = Array.from({ length: 33 }, (_, i) => 10_000 + i);
    const world = newWorld(partitions);
    const random = mulberry(Number(process.env.FC_SEED ?? 4_711));
    for (let i = 0; i < 30_000; i++) {
      const adId = random() < 0.3 ? 'hot' : `ad-${Math.floor(random() * 500)}`;
      const partition = partitions[Math.floor(random() * partitions.length)]!;
      world.append(partition, [click(`imp-${i}`, { adId, clickedAtMs: world.nowMs })]);
    }
    const workers = ['a', 'b', 'c'].map((name) => world.start(new Machine(name)).worker);
    await world.group.shareOut();
    await expectRight(world);
    for (const worker of workers) {
      const { counted } = worker.outcomes();
      expect(counted).toBeGreaterThan(10_000 * 0.9);
      expect(counted).toBeLessThan(10_000 * 1.1);
    }
  });
});

describe('a partition that moves', () => {
  test('goes on where it was committed, with a higher epoch, and no row falls back', async () => {
    const world = newWorld();
    const [a, b] = [new Machine('a'), new Machine('b')];
    const first = world.start(a);
    await world.group.shareOut();
    fill(world, 20);
    await world.caughtUp();
    world.start(b);
    await world.group.shareOut(() => first.member);
    await world.group.shareOut((partition) => world.group.members[partition % 2]!);
    fill(world, 3);
    await expectRight(world);
    expect(world.note(10_001)).toMatchObject({ epoch: 2, holder: 'b' });
    // A partition that stayed goes on without being taken over.
    expect(world.note(10_000)).toMatchObject({ epoch: 1, holder: 'a' });
    await first.worker.close();
    await world.group.shareOut();
    fill(world, 3);
    await expectRight(world);
    expect(world.note(10_000)).toMatchObject({ epoch: 2, holder: 'b' });
  });

  test('is taken over anew when somebody else has had it between two sharings out', async () => {
    const world = newWorld([10_000]);
    const [a, b] = [new Machine('a'), new Machine('b')];
    const one = world.start(a);
    const other = world.start(b);
    await world.group.shareOut(() => one.member);
    fill(world, 20);
    await world.caughtUp();
    await world.group.shareOut(() => other.member);
    fill(world, 20);
    await world.caughtUp();
    await world.group.shareOut(() => one.member);
    fill(world, 20);
    await expectRight(world);
    expect(world.note(10_000)).toMatchObject({ epoch: 3, holder: 'a' });
  });

  test('without the disk of its last owner is counted from what the note needs', async () => {
    const world = newWorld([10_000]);
    const machine = new Machine('a');
    const process = world.start(machine);
    await world.group.shareOut();
    fill(world, 40);
    await world.caughtUp();
    // Days later: the log of the first ones is not needed any more, and gone.
    world.nowMs += 3 * DAY_MS;
    fill(world, 40);
    await world.caughtUp();
    world.kill(process, machine);
    machine.journals.lose();
    world.log.removeBefore(10_000, 100);
    world.start(machine);
    await world.group.shareOut();
    fill(world, 10);
    await expectRight(world);
    expect(world.gaps).toEqual([]);
  });

  test('an older state catches up in silence, whatever the distance', async () => {
    const world = newWorld([10_000]);
    const [a, b] = [new Machine('a'), new Machine('b')];
    const one = world.start(a);
    await world.group.shareOut();
    fill(world, 5);
    await world.caughtUp();
    world.kill(one, a);
    const other = world.start(b);
    await world.group.shareOut();
    fill(world, 200);
    await world.caughtUp();
    world.kill(other, b);
    world.start(a, { commitRecords: 7 });
    await world.group.shareOut();
    await until(() => world.note(10_000).epoch === 3, 'taken over');
    await expectRight(world);
  });

  test('what an owner that was replaced still writes changes nothing', async () => {
    const world = newWorld([10_000]);
    const [a, b] = [new Machine('a'), new Machine('b')];
    const held: (() => void)[] = [];
    let isHolding = false;
    const one = world.start(a, {
      warehouse: {
        maxLiveVersion: (shard) => world.live.maxLiveVersion(shard),
        upsertLiveBatches: async (batches) => {
          if (isHolding) await new Promise<void>((resolve) => held.push(resolve));
          await world.live.upsertLiveBatches(batches);
        },
      },
    });
    await world.group.shareOut();
    fill(world, 10);
    await world.caughtUp();
    isHolding = true;
    world.appendClicks(10_000, 5);
    await until(() => held.length > 0, 'an insert is under way');
    world.group.remove(one.member);
    world.start(b);
    await world.group.shareOut();
    world.appendClicks(10_000, 5);
    await expectRight(world);
    for (const go of held) go();
    await Bun.sleep(20);
    await expectRight(world);
    const { epoch } = world.note(10_000);
    fill(world, 5);
    await expectRight(world);
    expect(world.note(10_000).epoch).toBe(epoch);
  });

  test('a pause does not wait for a warehouse that hangs', async () => {
    const world = newWorld([10_000]);
    const hanging = new Machine('a');
    let hangs = true;
    const { worker } = world.start(hanging, {
      pauseMs: 50,
      warehouse: {
        maxLiveVersion: (shard) => world.live.maxLiveVersion(shard),
        upsertLiveBatches: (batches) =>
          hangs ? new Promise(() => {}) : world.live.upsertLiveBatches(batches),
      },
    });
    await world.group.shareOut();
    fill(world, 5);
    await until(() => world.group.committed.get(10_000)?.offset === 20, 'counted and committed');
    fill(world, 1);
    await until(() => worker.partitions()[0]!.nextOffset === 24, 'counted, and not committed');
    expect(world.group.committed.get(10_000)!.offset).toBe(20);
    expect(world.note(10_000)).toMatchObject({ upserted: 0, upsertFromMs: 0 });
    const startedMs = performance.now();
    await worker.pause();
    expect(performance.now() - startedMs).toBeLessThan(1_000);
    // What the group is told does not wait for the warehouse.
    expect(world.group.committed.get(10_000)!.offset).toBe(24);
    hangs = false;
    world.group.remove(world.group.members[0]!);
    world.start(new Machine('b'));
    await world.group.shareOut();
    await expectRight(world);
  });
});

describe('a partition stops, the others go on,', () => {
  async function withLoss(): Promise<{ world: CounterWorld; machine: Machine }> {
    const world = newWorld([10_000, 10_001]);
    const machine = new Machine('a');
    const process = world.start(machine);
    await world.group.shareOut();
    fill(world, 20);
    await world.caughtUp();
    world.kill(process, machine);
    fill(world, 20);
    // More than was counted is gone.
    world.log.removeBefore(10_000, 120);
    world.start(machine);
    await world.group.shareOut();
    await until(
      () => world.group.committed.has(10_000) && world.note(10_000).problem !== null,
      'it stops',
    );
    return { world, machine };
  }

  test('when the log has lost what was not counted, until somebody accepts it', async () => {
    const { world } = await withLoss();
    const [process] = world.group.members;
    const { problem, upsertFromMs } = world.note(10_000);
    expect(problem).toMatchObject({ code: 'offset_out_of_retention', firstOffset: 120 });
    const appendedMs = START_MS + 31 * MINUTE_MS;
    const wholeFromMs = appendedMs + 11 * MINUTE_MS;
    expect(problem).toMatchObject({ fromMs: upsertFromMs, toMs: wholeFromMs });
    expect(world.gaps).toEqual([
      { partition: 10_000, fromMs: upsertFromMs, toMs: wholeFromMs, atMs: world.nowMs },
    ]);
    await world.caughtUp([10_001]);
    expect(world.group.committed.get(10_000)!.offset).toBe(80);
    // Another beginning than the one that was shown does not count.
    world.accepted.set(10_000, 119);
    await Bun.sleep(30);
    expect(world.note(10_000).problem).not.toBeNull();
    world.accepted.set(10_000, 120);
    await until(() => world.note(10_000).problem === null, 'it goes on');
    fill(world, 30);
    await world.caughtUp();
    expect(process!.status().partitions).toEqual([10_000, 10_001]);
    // Every minute that the log has in full is the auditor's, no other one was touched.
    const { rows } = world.expected();
    const isWhole = (name: string): boolean => {
      const [shard, minute] = JSON.parse(name) as [number, string];
      const ms = Date.parse(minute);
      return shard === 10_001 || ms >= wholeFromMs || ms < START_MS + 21 * MINUTE_MS;
    };
    expect(new Map([...world.live.clicks()])).toEqual(
      new Map([...rows].filter(([name]) => isWhole(name))),
    );
    expect(world.live.fallen).toEqual([]);
    expect(world.gaps.length).toBe(2);
  });

  test('but not when all rows of what is gone are in the warehouse', async () => {
    const world = newWorld([10_000]);
    const [a, b] = [new Machine('a'), new Machine('b')];
    const one = world.start(a);
    await world.group.shareOut();
    fill(world, 20);
    await world.caughtUp();
    world.kill(one, a);
    // A partition in which nothing happened for so long that the log has dropped all of it.
    world.log.removeBefore(10_000, 80);
    world.nowMs += 8 * DAY_MS;
    world.start(b);
    await world.group.shareOut();
    fill(world, 20);
    await world.caughtUp();
    const minutes = (rows: ReadonlyMap<string, number>) => rows.size;
    // The first minutes after it are left to the recount: the log may hold only a part of them.
    expect(minutes(world.live.clicks())).toBe(minutes(world.expected().rows) - 11);
    expect(world.gaps).toEqual([]);
    expect(world.live.fallen).toEqual([]);
  });

  test('and goes on without asking when somebody has the state after all', async () => {
    const world = newWorld([10_000]);
    const [keeper, other] = [new Machine('keeper'), new Machine('other')];
    const one = world.start(keeper);
    await world.group.shareOut();
    fill(world, 20);
    await world.caughtUp();
    // It counts on, and dies before it could say so to the group.
    world.group.failure = new LedgerError('log_unavailable', 'no broker', { kind: 'retry' });
    fill(world, 20);
    await until(() => one.worker.partitions()[0]!.nextOffset === 160, 'all is counted');
    await Bun.sleep(30);
    world.kill(one, keeper);
    world.group.failure = null;
    world.log.removeBefore(10_000, 120);
    const two = world.start(other);
    await world.group.shareOut();
    await until(() => world.note(10_000).problem !== null, 'it stops');
    world.kill(two, other);
    world.start(keeper);
    await world.group.shareOut();
    await expectRight(world);
    expect(world.note(10_000).problem).toBeNull();
  });

  test('when the log is another one, until everything is built again', async () => {
    const world = newWorld([10_000]);
    const machine = new Machine('a');
    const process = world.start(machine);
    await world.group.shareOut();
    fill(world, 5);
    await world.caughtUp();
    world.kill(process, machine);
    world.group.logId = 'log-2';
    const { worker } = world.start(machine);
    await world.group.shareOut();
    await until(() => world.note(10_000).problem?.code === 'log_replaced', 'it stops');
    expect(worker.partitions()[0]).toMatchObject({
      state: 'stopped',
      problem: { code: 'log_replaced' },
    });
    world.live.clear();
    world.rebuildId = 1;
    await until(() => world.note(10_000).logId === 'log-2', 'it begins anew');
    fill(world, 5);
    await expectRight(world);
  });

  test('when the note is not of this version, and the note is left alone', async () => {
    const world = newWorld([10_000, 10_001]);
    const committed = { offset: 3, note: '{"version":2}' };
    world.group.committed.set(10_000, committed);
    fill(world, 5);
    const { worker } = world.start(new Machine('a'));
    await world.group.shareOut();
    await world.caughtUp([10_001]);
    await until(() => worker.partitions()[0]?.problem?.code === 'note_unreadable', 'it stops');
    expect(world.group.committed.get(10_000)).toEqual(committed);
  });

  test('when its log is damaged, and says so in its note', async () => {
    const world = newWorld([10_000, 10_001]);
    let isDamaged = true;
    const { worker } = world.start(new Machine('a'), {
      reader: Object.assign(Object.create(world.log) as typeof world.log, {
        partitions: () => world.log.partitions(),
        range: (partition: number) => world.log.range(partition),
        offsetAt: (partition: number, ms: number) => world.log.offsetAt(partition, ms),
        read: async (partition: number, from: number, bytes: number) => {
          if (isDamaged && partition === 10_000 && from >= 8) {
            throw new LedgerError('log_damaged', 'a batch does not check');
          }
          return world.log.read(partition, from, isDamaged ? 1 : bytes);
        },
      }),
    });
    fill(world, 5);
    await world.group.shareOut();
    await world.caughtUp([10_001]);
    await until(() => world.note(10_000).problem?.code === 'log_damaged', 'its note says so');
    await until(() => worker.partitions()[0]!.state === 'stopped', 'it counts as stopped');
    expect(worker.partitions()[0]!.problem?.code).toBe('log_damaged');
    expect(worker.waitsFor).toBeNull();
    isDamaged = false;
    await expectRight(world);
  });
});

test('a rebuild drops every state and counts from the beginning of the log', async () => {
  const world = newWorld();
  world.start(new Machine('a'));
  world.start(new Machine('b'));
  await world.group.shareOut();
  fill(world, 20);
  await world.caughtUp();
  world.live.clear();
  world.rebuildId = 7;
  await until(
    () => world.group.partitions.every((each) => world.note(each).rebuildId === 7),
    'anew',
  );
  fill(world, 5);
  await expectRight(world);
  // A worker that does not know of the rebuild yet does not undo it.
  const late = world.start(new Machine('c'), { rebuildId: () => 0 });
  await world.group.shareOut(() => late.member);
  fill(world, 5);
  await expectRight(world);
  expect(world.note(10_000).rebuildId).toBe(7);
});

test('rows of an earlier way of counting do not fall while a new group counts the log', async () => {
  const world = newWorld([10_000]);
  const machine = new Machine('a');
  const process = world.start(machine);
  await world.group.shareOut();
  fill(world, 30);
  await world.caughtUp();
  world.kill(process, machine);
  // Another group, and nothing that it has committed: the rows are there.
  world.group.committed.clear();
  world.start(new Machine('b'), { commitRecords: 9 });
  await world.group.shareOut();
  await expectRight(world);
  expect(world.note(10_000).epoch).toBe(2);
});

test('while the warehouse is away counting goes on, and all rows arrive when it is back', async () => {
  const world = newWorld([10_000, 10_001]);
  const { worker } = world.start(new Machine('a'));
  await world.group.shareOut();
  await until(() => world.group.committed.size === 2, 'taken over');
  world.live.failure = new LedgerError('warehouse_unavailable', 'away', { kind: 'retry' });
  fill(world, 30);
  await until(() => world.group.committed.get(10_000)!.offset === 120, 'counting goes on');
  expect(worker.lastUpsertError?.message).toBe('away');
  expect(worker.heldRows).toBeGreaterThan(0);
  expect(world.note(10_000)).toMatchObject({ upserted: 0, upsertFromMs: 0 });
  world.live.failure = null;
  await expectRight(world);
});

test('with all rows that it may hold it stops reading, and loses nothing', async () => {
  const world = newWorld([10_000, 10_001]);
  const { worker } = world.start(new Machine('a'), { maxHeldRows: 20, commitRecords: 1 });
  await world.group.shareOut();
  await until(() => world.group.committed.size === 2, 'taken over');
  world.live.failure = new LedgerError('warehouse_unavailable', 'away', { kind: 'retry' });
  for (let i = 0; i < 100; i++) world.appendClicks(10_000, 1, { adId: `ad-${i}` });
  await until(() => worker.heldRows >= 20, 'all rows are held');
  await Bun.sleep(30);
  expect(worker.partitions()[0]!.nextOffset).toBeLessThan(100);
  world.live.failure = null;
  await expectRight(world);
});

test('dead letters that cannot be stored hold up their partition, and none is lost', async () => {
  const world = newWorld([10_000, 10_001]);
  let failure: Error | null = new LedgerError('control_unavailable', 'away', { kind: 'retry' });
  const stored: number[] = [];
  const { worker } = world.start(new Machine('a'), {
    commitRecords: 3,
    deadLetters: {
      put: async (letters) => {
        if (failure !== null) throw failure;
        stored.push(...letters.map(({ offset }) => offset));
      },
    },
  });
  await world.group.shareOut();
  world.appendClicks(10_000, 2);
  world.log.appendBytes(10_000, [Buffer.from('no event')], world.nowMs);
  world.appendClicks(10_001, 9);
  await world.caughtUp([10_001]);
  await until(() => worker.partitions()[0]!.problem?.code === 'control_unavailable', 'it says so');
  failure = null;
  await until(() => world.group.committed.get(10_000)!.offset === 3, 'it goes on');
  expect(stored).toEqual([2]);
  expect(world.note(10_000).outcomes).toMatchObject({ counted: 2, dead_letter: 1 });
});

test('a journal that cannot be read is built again from the log', async () => {
  const world = newWorld([10_000]);
  const machine = new Machine('a');
  const process = world.start(machine);
  await world.group.shareOut();
  fill(world, 10);
  await world.caughtUp();
  world.kill(process, machine);
  const journal = await machine.journals.open(10_000);
  await new Promise((resolve) => journal.writer.append(Buffer.from([9]), 1, resolve));
  await new Promise((resolve) => journal.writer.append(Buffer.from([3, 9]), 2, resolve));
  await journal.writer.close();
  world.start(machine);
  await world.group.shareOut();
  fill(world, 5);
  await expectRight(world);
  expect(
    world.errors.some((error) => (error as LedgerError).code === 'counter_state_unreadable'),
  ).toBe(true);
});

function mulberry(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
