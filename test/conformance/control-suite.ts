// Proves INV-13 of SPEC.md.
/** What every adapter of leases and shared state must do. Runs against the real adapters, no fakes. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { z } from 'zod';
import type { Leases, SharedState } from '../../src/control/port.ts';

export interface ControlUnderTest {
  readonly leases: Leases;
  readonly state: SharedState;
  /** Another instance on the same state, as a restarted process has it. */
  reopenState(): Promise<SharedState>;
  remove(): Promise<void>;
}

const numbers = z.record(z.string(), z.int());
const ANYTHING = z.unknown();

export function controlSuite(adapter: string, open: () => Promise<ControlUnderTest>): void {
  let subject: ControlUnderTest;
  beforeEach(async () => {
    subject = await open();
  });
  afterEach(() => subject.remove());

  describe(`leases: ${adapter}`, () => {
    test('a lease that is held is not given out again, also within a process (L1)', async () => {
      const lease = await subject.leases.tryTake('reconcile', 'hour 1');
      expect(lease?.name).toBe('reconcile');
      await lease!.assertHeld();
      expect(await subject.leases.tryTake('reconcile', 'hour 2')).toBeNull();
      await lease!.assertHeld();
      await lease!.release();
    });

    test('of many that take it at once, one gets it (L1)', async () => {
      const takers = Array.from({ length: 10 }, () => subject.leases.tryTake('reconcile', 'x'));
      const taken = (await Promise.all(takers)).filter((lease) => lease !== null);
      expect(taken).toHaveLength(1);
    });

    test('leases of different names do not know of each other', async () => {
      const reconcile = await subject.leases.tryTake('reconcile', '');
      const webhooks = await subject.leases.tryTake('webhooks', '');
      await reconcile!.release();
      await webhooks!.assertHeld();
    });

    test('a lease that was given back is free, and its epoch rises with every taking (L2)', async () => {
      const epochs: number[] = [];
      for (let round = 0; round < 3; round++) {
        const lease = await subject.leases.tryTake('reconcile', '');
        epochs.push(lease!.epoch);
        await lease!.release();
        await lease!.release();
      }
      expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
    });

    test('whoever gave it back does not hold it, also while another does', async () => {
      const first = await subject.leases.tryTake('reconcile', '');
      await first!.release();
      await expect(first!.assertHeld()).rejects.toMatchObject({
        code: 'lease_lost',
        kind: 'retry',
      });
      const second = await subject.leases.tryTake('reconcile', '');
      await expect(first!.assertHeld()).rejects.toMatchObject({ code: 'lease_lost' });
      await first!.release();
      await second!.assertHeld();
    });

    test('those that are held are listed with holder and note', async () => {
      const lease = await subject.leases.tryTake('reconcile', 'hour 2026-11-30T10:00:00.000Z');
      const other = await subject.leases.tryTake('webhooks', '');
      await other!.release();
      expect(await subject.leases.list()).toEqual([
        {
          name: 'reconcile',
          holder: 'this process',
          note: 'hour 2026-11-30T10:00:00.000Z',
          epoch: lease!.epoch,
          untilMs: expect.any(Number),
        },
      ]);
    });
  });

  describe(`shared state: ${adapter}`, () => {
    test('a value that was set is there, also for another instance', async () => {
      const value = { text: 'Zürich "x"', list: [1, 2.5, null], nested: { yes: true } };
      await subject.state.set('flush', value);
      expect(await subject.state.get('flush', ANYTHING)).toEqual(value);
      expect(await (await subject.reopenState()).get('flush', ANYTHING)).toEqual(value);
    });

    test('a key that was never set has no value, which is not null', async () => {
      expect(await subject.state.get('flush', ANYTHING)).toBeUndefined();
      await subject.state.set('flush', null);
      expect(await subject.state.get('flush', ANYTHING)).toBeNull();
    });

    test('the value that was set last counts', async () => {
      for (const value of [1, 'two', [3]]) await subject.state.set('flush', value);
      expect(await subject.state.get('flush', ANYTHING)).toEqual([3]);
    });

    test('a change starts from no value, and then from the one before', async () => {
      const add = (key: string) =>
        subject.state.update('pending-hours', numbers, (old = {}) => ({ ...old, [key]: 1 }));
      expect(await add('a')).toEqual({ a: 1 });
      expect(await add('b')).toEqual({ a: 1, b: 1 });
      expect(await subject.state.get('pending-hours', numbers)).toEqual({ a: 1, b: 1 });
    });

    test('changes at the same time do not lose each other, on a key that is new', async () => {
      const other = await subject.reopenState();
      const add = (at: number) =>
        (at % 2 === 0 ? subject.state : other).update('pending-hours', numbers, (old = {}) => {
          return { ...old, [`k${at}`]: at, sum: (old.sum ?? 0) + 1 };
        });
      await Promise.all(Array.from({ length: 20 }, (_, at) => add(at)));
      const value = await subject.state.get('pending-hours', numbers);
      expect(value?.sum).toBe(20);
      expect(Object.keys(value ?? {})).toHaveLength(21);
    });

    test('a change that throws changes nothing, and its own error comes out', async () => {
      await subject.state.set('pending-hours', { a: 1 });
      const failure = new Error('no');
      const change = subject.state.update('pending-hours', numbers, () => {
        throw failure;
      });
      await expect(change).rejects.toBe(failure);
      expect(await subject.state.get('pending-hours', numbers)).toEqual({ a: 1 });
    });

    test('a value of another shape is refused, never taken for none', async () => {
      await subject.state.set('pending-hours', ['x']);
      const reading = subject.state.get('pending-hours', numbers);
      await expect(reading).rejects.toMatchObject({ code: 'state_unreadable' });
      const change = subject.state.update('pending-hours', numbers, () => ({}));
      await expect(change).rejects.toMatchObject({ code: 'state_unreadable' });
    });
  });
}
