// Proves INV-3, INV-4 of SPEC.md.
/**
 * Counters of a group under random schedules of sharing out, dying, losing disks, stalling inserts and
 * retention: whatever happens, the rows are those of one counter over the whole log, and no reader has
 * seen a row fall back on the way.
 */
import { expect, test } from 'bun:test';
import fc from 'fast-check';
import type { ClickEvent } from '../../src/event/click-event.ts';
import type { LiveBatch } from '../../src/warehouse/port.ts';
import { click } from '../support/archive-fixtures.ts';
import { CounterWorld, Machine, MINUTE_MS, type Process } from '../support/counter-world.ts';
import { fcParams } from '../support/seed.ts';

const PARTITIONS = [10_000, 10_001, 10_002, 10_003];
const MACHINES = 3;

/** Clicks mostly of now, sometimes up to 3 or up to 20 minutes old, sometimes on an impression seen before. */
const clickSpec = fc.record({
  partition: fc.nat({ max: PARTITIONS.length - 1 }),
  ageMs: fc.oneof(
    { weight: 6, arbitrary: fc.nat({ max: 5_000 }) },
    { weight: 2, arbitrary: fc.nat({ max: 3 * MINUTE_MS }) },
    { weight: 1, arbitrary: fc.nat({ max: 20 * MINUTE_MS }) },
  ),
  again: fc.boolean(),
  country: fc.constantFrom('DE', 'FR'),
  isHead: fc.nat({ max: 9 }).map((n) => n === 0),
});

const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      clicks: fc.array(clickSpec, { minLength: 1, maxLength: 40, size: 'max' }),
      laterMs: fc.nat({ max: 4 * MINUTE_MS }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('share out' as const), by: fc.nat() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        'start' as const,
        'die' as const,
        'lose disk' as const,
        'lost' as const,
      ),
      machine: fc.nat({ max: MACHINES - 1 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('stall' as const), inserts: fc.nat({ max: 3 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('release' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('warehouse fails' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('retention' as const) }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('wait' as const), ms: fc.nat({ max: 25 }) }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

class Schedule {
  readonly world = new CounterWorld(PARTITIONS);
  readonly #machines = Array.from({ length: MACHINES }, (_, i) => new Machine(`machine-${i}`));
  readonly #running = new Map<Machine, Process>();
  /** Inserts of which nobody knows whether they will arrive. */
  readonly #stalled: (() => void)[] = [];
  #toStall = 0;
  #toFail = 0;
  #impressions = 0;

  async play(steps: readonly Step[]): Promise<void> {
    this.#start(this.#machines[0]!);
    await this.world.group.shareOut();
    for (const each of steps) await this.#do(each);
    this.#release();
    for (const machine of this.#machines) this.#start(machine);
    await this.world.group.shareOut();
    await this.world.caughtUp();
    this.#release();
    await Bun.sleep(5);
  }

  async #do(each: Step): Promise<void> {
    switch (each.kind) {
      case 'append':
        this.world.nowMs += each.laterMs;
        for (const one of each.clicks) this.#append(one);
        return;
      case 'share out':
        return this.world.group.shareOut((partition) => {
          const { members } = this.world.group;
          return members[(partition + each.by) % members.length]!;
        });
      case 'wait':
        return Bun.sleep(each.ms);
      case 'stall':
        this.#toStall += each.inserts;
        return;
      case 'release':
        return this.#release();
      case 'warehouse fails':
        this.#toFail++;
        return;
      case 'retention':
        return this.#retention();
      default:
        return this.#happensTo(this.#machines[each.machine]!, each.kind);
    }
  }

  async #happensTo(machine: Machine, kind: 'start' | 'die' | 'lose disk' | 'lost'): Promise<void> {
    const process = this.#running.get(machine);
    if (kind === 'start' || process === undefined) return this.#start(machine);
    if (kind === 'lost') {
      // It was believed dead, and joins again.
      this.world.group.remove(process.member);
      process.worker.lost();
      this.world.group.add(process.member);
      process.member.fenced = false;
      return;
    }
    this.world.kill(process, machine);
    this.#running.delete(machine);
    if (kind === 'lose disk') machine.journals.lose();
  }

  #start(machine: Machine): void {
    if (this.#running.has(machine)) return;
    const { live } = this.world;
    const process = this.world.start(machine, {
      pauseMs: 30,
      commitRecords: 13,
      warehouse: {
        maxLiveVersion: (shard) => live.maxLiveVersion(shard),
        upsertLiveBatches: (batches) => this.#insert(batches),
      },
    });
    this.#running.set(machine, process);
  }

  async #insert(batches: readonly LiveBatch[]): Promise<void> {
    if (this.#toFail > 0) {
      this.#toFail--;
      throw new Error('the warehouse fails');
    }
    if (this.#toStall > 0) {
      this.#toStall--;
      await new Promise<void>((resolve) => this.#stalled.push(resolve));
    }
    await this.world.live.upsertLiveBatches(batches);
  }

  #release(): void {
    this.#toStall = 0;
    for (const go of this.#stalled.splice(0)) go();
  }

  /** What every owner could need stays: the notes say what that is. */
  async #retention(): Promise<void> {
    const { group, log } = this.world;
    for (const partition of PARTITIONS) {
      const committed = group.committed.get(partition);
      if (committed === undefined) continue;
      const { upsertFromMs } = this.world.note(partition);
      const needed = await log.offsetAt(partition, upsertFromMs - 60 * MINUTE_MS);
      log.removeBefore(partition, Math.min(needed, committed.offset));
    }
  }

  /** A click that comes again is later than all before, so that no row ever gives one back. */
  #append(spec: Extract<Step, { kind: 'append' }>['clicks'][number]): void {
    const partition = PARTITIONS[spec.partition]!;
    const { nowMs } = this.world;
    const clickedAtMs = nowMs - spec.ageMs;
    const known = this.#last.get(partition);
    const isAgain = spec.again && known !== undefined && known.clickedAtMs <= clickedAtMs;
    const event: ClickEvent = click(isAgain ? known.impressionId : `imp-${this.#impressions++}`, {
      clickedAtMs,
      country: spec.country,
      class: spec.isHead ? 'head' : 'click',
    });
    this.world.append(partition, [event]);
    if (isAgain || !spec.isHead) this.#last.set(partition, event);
  }

  readonly #last = new Map<number, ClickEvent>();
}

test('whatever happens to its members, a group has the rows of one counter, and none falls back', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 60, size: 'max' }),
      async (steps) => {
        const schedule = new Schedule();
        const { world } = schedule;
        try {
          await schedule.play(steps);
          const { rows, outcomes } = world.expected();
          expect(Object.fromEntries([...world.live.clicks()].sort())).toEqual(
            Object.fromEntries([...rows].sort()),
          );
          expect(world.outcomes()).toEqual(outcomes);
          expect(world.live.fallen).toEqual([]);
          expect(world.group.wrong).toEqual([]);
          expect(world.gaps).toEqual([]);
        } finally {
          await world.dispose();
        }
      },
    ),
    { ...fcParams(40), endOnFailure: true },
  );
}, 240_000);
