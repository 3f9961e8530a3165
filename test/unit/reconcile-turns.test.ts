// Proves INV-13 of SPEC.md.
/** Turns of reconcilers, the hours that they note for each other, and the numbers that they reserve. */
import { describe, expect, test } from 'bun:test';
import { LedgerError } from '../../src/platform/errors.ts';
import { Attempts } from '../../src/reconcile/attempts.ts';
import { PendingHours } from '../../src/reconcile/pending-hours.ts';
import { BUSY, Turns } from '../../src/reconcile/turns.ts';
import { MemoryState } from '../support/memory-state.ts';
import { SharedLeases } from '../support/shared-leases.ts';

const HOUR_MS = 3_600_000;
const NOON_MS = Date.UTC(2026, 10, 30, 12);

function world() {
  const leases = new SharedLeases();
  const state = new MemoryState();
  const open = (holder: string, patience = { waitMs: 2_000, pollMs: 1 }): Turns => {
    const learn = () => new PendingHours(state).beginTurn();
    return new Turns({ leases: leases.of(holder), state, clock: () => NOON_MS, learn, patience });
  };
  return { leases, state, open };
}

describe('a turn', () => {
  test('is one process’s alone, and the next can have it when it has ended', async () => {
    const { open } = world();
    const [one, other] = [open('one'), open('other')];
    const inside = await one.tryTurn('hour 1', () => other.tryTurn('hour 2', async () => 'worked'));
    expect(inside).toBe(BUSY);
    expect(await other.tryTurn('hour 2', async () => 'worked')).toBe('worked');
  });

  test('is given back when the work fails', async () => {
    const { open } = world();
    const failing = open('one').tryTurn('hour 1', async () => {
      throw new Error('no');
    });
    await expect(failing).rejects.toThrow('no');
    expect(await open('other').tryTurn('hour 1', async () => 'worked')).toBe('worked');
  });

  test('comes after what runs in this process already', async () => {
    const turns = world().open('one');
    const order: string[] = [];
    const slow = turns.tryTurn('hour 1', async () => {
      await Bun.sleep(5);
      order.push('first');
    });
    const next = turns.turn('hour 2', async () => {
      order.push('second');
    });
    await Promise.all([slow, next]);
    expect(order).toEqual(['first', 'second']);
  });

  test('that is waited for comes as soon as the other has ended', async () => {
    const { open } = world();
    const ending = Promise.withResolvers<void>();
    const long = open('one').tryTurn('hour 1', () => ending.promise);
    const waiting = open('other').turn('hour 2', async () => 'worked');
    await Bun.sleep(5);
    ending.resolve();
    await long;
    expect(await waiting).toBe('worked');
  });

  test('names the holder and its hour when it was waited for too long', async () => {
    const { open } = world();
    const ending = Promise.withResolvers<void>();
    const long = open('one').tryTurn('hour 2026-11-30T10:00:00.000Z', () => ending.promise);
    const failure = await open('other', { waitMs: 10, pollMs: 1 })
      .turn('hour 2', async () => 'worked')
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'reconcile_busy', kind: 'retry' });
    expect((failure as Error).message).toContain('one works on it: hour 2026-11-30T10:00:00.000Z');
    ending.resolve();
    await long;
  });

  test('that was lost is begun again for whoever waits for it', async () => {
    const { leases, open } = world();
    let begun = 0;
    const result = await open('one').turn('hour 1', async (turn) => {
      if (++begun === 1) leases.letRunOut();
      await turn.assertHeld();
      return 'worked';
    });
    expect([result, begun]).toEqual(['worked', 2]);
  });

  test('is let in between two of another process that has more to do', async () => {
    const { open } = world();
    const busy = open('one', { waitMs: 2_000, pollMs: 5 });
    let isDone = false;
    let pieces = 0;
    const waiting = open('other', { waitMs: 2_000, pollMs: 2 })
      .turn('taking verdicts', async () => 'worked')
      .finally(() => {
        isDone = true;
      });
    while (!isDone && pieces < 50) {
      await busy.tryTurn('hour', () => Bun.sleep(2));
      await busy.giveWay();
      pieces++;
    }
    expect(await waiting).toBe('worked');
    expect(pieces).toBeLessThan(5);
  });
});

describe('pending hours', () => {
  test('noted by one process are seen by another, and kept over a restart', async () => {
    const { state } = world();
    const [one, other] = [new PendingHours(state), new PendingHours(state)];
    await one.add([HOUR_MS, 0]);
    await other.load();
    expect(other.hours()).toEqual([0, HOUR_MS]);
    await other.add([2 * HOUR_MS]);
    await one.load();
    expect(one.hours()).toEqual([0, HOUR_MS, 2 * HOUR_MS]);
  });

  test('are known also when they are noted, or recounted, while publications are read', async () => {
    const state = new MemoryState();
    const [api, reconciler] = [new PendingHours(state), new PendingHours(state)];
    const turn = await reconciler.beginTurn();
    await reconciler.add([0]);
    await api.around(async () => {
      await reconciler.remove(0, turn);
      await reconciler.add([HOUR_MS]);
    });
    expect(api.hours()).toEqual([0, HOUR_MS]);
    await api.around(async () => {});
    expect(api.hours()).toEqual([HOUR_MS]);
  });

  test('are taken out only in the turn in which they were recounted (N1)', async () => {
    const { state } = world();
    const [stalled, other] = [new PendingHours(state), new PendingHours(state)];
    const turn = await stalled.beginTurn();
    await stalled.add([0]);
    const next = await other.beginTurn();
    expect(other.has(0)).toBe(true);
    await stalled.remove(0, turn);
    await other.load();
    expect(other.has(0)).toBe(true);
    await other.remove(0, next);
    expect(other.has(0)).toBe(false);
  });

  test('as one process alone kept them are read', async () => {
    const { state } = world();
    await state.set('pending-hours', [HOUR_MS]);
    const pending = new PendingHours(state);
    await pending.load();
    expect(pending.hours()).toEqual([HOUR_MS]);
  });

  test('that were read before a change do not replace what it left', async () => {
    const { state } = world();
    const pending = new PendingHours(state);
    await pending.add([0]);
    const reading = pending.load();
    await pending.add([HOUR_MS]);
    await reading;
    expect(pending.hours()).toEqual([0, HOUR_MS]);
  });
});

describe('attempts', () => {
  /** A warehouse whose table of attempts another process fills behind our back. */
  const warehouseOf = (highest: () => number) => ({
    nextAttempt: async (
      _tier: 'hour' | 'day',
      _startMs: number,
      reserve?: (known: number) => Promise<number>,
    ) => {
      if (reserve === undefined) throw new LedgerError('not_shared', 'nothing is reserved');
      return reserve(highest());
    },
  });

  test('of many processes have no number twice, though all read the same highest one', async () => {
    const { state } = world();
    const all = Array.from(
      { length: 5 },
      () =>
        new Attempts(
          warehouseOf(() => 4),
          state,
        ),
    );
    const numbers = await Promise.all(all.map((each) => each.next('hour', NOON_MS)));
    expect(numbers.sort()).toEqual([5, 6, 7, 8, 9]);
  });

  test('are counted for each hour and each day by itself', async () => {
    const { state } = world();
    const attempts = new Attempts(
      warehouseOf(() => 0),
      state,
    );
    expect(await attempts.next('hour', NOON_MS)).toBe(1);
    expect(await attempts.next('hour', NOON_MS + HOUR_MS)).toBe(1);
    expect(await attempts.next('hour', NOON_MS + 24 * HOUR_MS)).toBe(1);
    expect(await attempts.next('day', NOON_MS - 12 * HOUR_MS)).toBe(1);
    expect(await attempts.next('hour', NOON_MS)).toBe(2);
  });

  test('go on behind those of a warehouse that was moved here', async () => {
    const { state } = world();
    let highest = 0;
    const attempts = new Attempts(
      warehouseOf(() => highest),
      state,
    );
    expect(await attempts.next('hour', NOON_MS)).toBe(1);
    highest = 7;
    expect(await attempts.next('hour', NOON_MS)).toBe(8);
  });
});
