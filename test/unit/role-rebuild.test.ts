// Proves INV-8 of SPEC.md.
/** Emptying the warehouse that several processes answer from, and knowing when it is whole again. */
import { describe, expect, test } from 'bun:test';
import { LedgerError } from '../../src/platform/errors.ts';
import { RoleRebuild } from '../../src/roles/role-rebuild.ts';
import { SharedFacts } from '../../src/roles/shared-facts.ts';
import { MemoryState } from '../support/memory-state.ts';

const HOUR_MS = 3_600_000;

/** Processes that share facts; each effect of a rebuild is noted in `done`. */
class World {
  readonly state = new MemoryState();
  readonly facts = new SharedFacts(this.state);
  readonly done: string[] = [];
  finalUntilMs = 5 * HOUR_MS;
  /** Building of the warehouse that the counters have begun. */
  counted = 0;
  /** What happens when the tables are emptied. */
  onReset: () => void = () => {};
  isHeld = true;

  process(holdMs = -2_000): RoleRebuild {
    const world = this;
    const assertHeld = async (): Promise<void> => {
      if (!world.isHeld) throw new LedgerError('lease_lost', 'lost', { kind: 'retry' });
    };
    return new RoleRebuild({
      facts: world.facts,
      holdMs,
      reconciler: {
        get finalUntilMs() {
          return world.finalUntilMs;
        },
        withoutRecounts: (_note, work) => work({ number: 1, assertHeld }),
      },
      warehouse: {
        async reset() {
          world.done.push(`emptied at ${JSON.stringify(await world.facts.rebuild())}`);
          world.onReset();
          world.finalUntilMs = 0;
        },
      },
      counter: {
        asOfMs: 1,
        get rebuildId() {
          return world.counted;
        },
        isOfRebuild: (id) => world.counted >= id,
      },
    });
  }
}

describe('a rebuild by roles', () => {
  test('tells the counters after the last table is empty, never before', async () => {
    const world = new World();
    const begun = await world.process().begin();
    expect(world.done).toEqual([`emptied at {"id":0,"untilMs":${5 * HOUR_MS},"isToEmpty":true}`]);
    expect(begun).toEqual({ id: 1, untilMs: 5 * HOUR_MS, isToEmpty: false });
  });

  test('tells counters something new also where the facts come from an old backup', async () => {
    const world = new World();
    world.counted = 7;
    expect((await world.process().begin()).id).toBe(8);
  });

  test('is over when counters have begun anew and all that was final is so again', async () => {
    const world = new World();
    await world.process().begin();
    const other = world.process(HOUR_MS);
    const isOver = async (): Promise<boolean> => {
      await other.look();
      await other.endIfWhole(other.fact);
      return !other.isRunning;
    };
    expect(await isOver()).toBe(false);
    world.counted = 1;
    expect(await isOver()).toBe(false);
    world.finalUntilMs = 5 * HOUR_MS;
    expect(await isOver()).toBe(true);
    expect((await world.facts.rebuild()).untilMs).toBeNull();
  });

  test('is not over while the tables are still full', async () => {
    const world = new World();
    await world.facts.beginRebuild(world.finalUntilMs);
    const other = world.process(HOUR_MS);
    await other.look();
    await other.endIfWhole(other.fact);
    expect(other.isRunning).toBe(true);
  });

  test('that died while the tables were emptied is taken up once, and reaches what was final', async () => {
    const world = new World();
    world.onReset = () => {
      throw new Error('killed');
    };
    await expect(world.process().begin()).rejects.toThrow('killed');
    world.finalUntilMs = 0;
    world.onReset = () => {};
    await world.process().takeUp();
    await world.process().takeUp();
    expect(world.done.length).toBe(2);
    expect(await world.facts.rebuild()).toEqual({
      ...{ id: 1, untilMs: 5 * HOUR_MS, isToEmpty: false },
    });
  });

  test('empties nothing when the turn was lost meanwhile', async () => {
    const world = new World();
    world.isHeld = false;
    await expect(world.process().begin()).rejects.toMatchObject({ code: 'lease_lost' });
    expect(world.done).toEqual([]);
  });

  test('is taken for running by a process that has not read the facts lately', async () => {
    const world = new World();
    const asleep = world.process(50);
    expect(asleep.isRunning).toBe(true);
    await asleep.look();
    expect(asleep.isRunning).toBe(false);
    await Bun.sleep(60);
    expect(asleep.isRunning).toBe(true);
  });
});
