/**
 * Numbers of attempts, of which no two writers get the same: rows of two under one number would be
 * counted twice.
 *
 * The warehouse knows the highest number in use; two processes could read the same. So a number is
 * reserved in the shared state, in one step, before anything is written under it. Reserved later means
 * higher, so that of two publications the one whose turn came later is in force (W5 of the warehouse).
 *
 * Numbers are counted by hour and by day, not for all together: queries are shortest where most hours
 * have the same. A value of the shared state holds those of one UTC day; there is one for each day that
 * was ever counted, of a few hundred bytes.
 */
import { z } from 'zod';
import type { SharedState } from '../control/port.ts';
import type { Warehouse } from '../warehouse/port.ts';

const DAY_MS = 24 * 3_600_000;
/** Highest number that was given out, by unit. */
const schema = z.record(z.string(), z.int());

export class Attempts {
  readonly #warehouse: Pick<Warehouse, 'nextAttempt'>;
  readonly #state: SharedState;

  constructor(warehouse: Pick<Warehouse, 'nextAttempt'>, state: SharedState) {
    this.#warehouse = warehouse;
    this.#state = state;
  }

  next(tier: 'hour' | 'day', startMs: number): Promise<number> {
    return this.#warehouse.nextAttempt(tier, startMs, (highest) =>
      this.#reserve(tier, startMs, highest),
    );
  }

  async #reserve(tier: 'hour' | 'day', startMs: number, highest: number): Promise<number> {
    const at = new Date(startMs).toISOString();
    const key = `attempts-${new Date(startMs - (startMs % DAY_MS)).toISOString().slice(0, 10)}`;
    const unit = tier === 'day' ? 'day' : `hour-${at.slice(11, 13)}`;
    const reserved = await this.#state.update(key, schema, (old = {}) => {
      return { ...old, [unit]: Math.max(highest, old[unit] ?? 0) + 1 };
    });
    return reserved[unit]!;
  }
}
