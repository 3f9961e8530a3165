/**
 * Turns: work on final hours is done by one process at a time, and in it one piece after the other.
 *
 * Owns the lease `reconcile` and the order within this process. Does not own what the work is.
 *
 * T1 A turn begins with learning what others have done since; nothing known before is relied on.
 * T2 A turn is short, an hour mostly, and ends with its piece of work: another process can have the next.
 * T3 Whoever must wait is let in between two pieces, and waits for a bounded time.
 * T4 A lease can be lost in the midst of a turn. Each effect says in its place why one that comes too
 *    late is harmless; `assertHeld` before it makes that rare, not impossible.
 */
import { z } from 'zod';
import type { Lease, Leases, SharedState } from '../control/port.ts';
import { type Clock, monotonicMs } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';

export const LEASE_NAME = 'reconcile';
export const BUSY = Symbol('another process has the turn');
export type Busy = typeof BUSY;

export interface Turn {
  /** Number of the turn in the pending hours (N1). */
  readonly number: number;
  /** Throws LedgerError `lease_lost` when another process may have its turn by now. */
  assertHeld(): Promise<void>;
}

export interface Patience {
  /** How long a request waits for its turn. */
  readonly waitMs: number;
  /** How often it tries. */
  readonly pollMs: number;
}

export interface TurnsOptions {
  readonly leases: Leases;
  readonly state: SharedState;
  readonly clock: Clock;
  /** T1; gives the number of the turn. */
  readonly learn: () => Promise<number>;
  readonly patience?: Patience;
}

const PATIENCE: Patience = { waitMs: 120_000, pollMs: 200 };
/** While somebody wishes for a turn, others leave a gap for so many tries. */
const TRIES_IN_GAP = 3;
/** A wish is renewed while it is waited for; one that was left behind is over after this time. */
const WISH_MS = 5_000;
const WISH_KEY = 'reconcile-wish';
const wishSchema = z.strictObject({ untilMs: z.int() });

export class Turns {
  readonly #options: TurnsOptions;
  readonly #patience: Patience;
  #last: Promise<unknown> = Promise.resolve();
  #running = 0;
  /** Whether this process has the turn. */
  isOurs = false;

  constructor(options: TurnsOptions) {
    this.#options = options;
    this.#patience = options.patience ?? PATIENCE;
  }

  /** Runs `work` after what runs in this process, without the lease: it changes nothing for others. */
  after<T>(work: () => Promise<T>): Promise<T> {
    this.#running++;
    const result = this.#last.then(work).finally(() => {
      this.#running--;
    });
    this.#last = result.catch(() => {});
    return result;
  }

  /** Whether this process works on something, or has it waiting. */
  get isRunning(): boolean {
    return this.#running > 0;
  }

  /** Runs `work` in a turn; `BUSY` when another process has it. */
  tryTurn<T>(note: string, work: (turn: Turn) => Promise<T>): Promise<T | Busy> {
    return this.after(async () => {
      const lease = await this.#options.leases.tryTake(LEASE_NAME, note);
      if (lease === null) return BUSY;
      this.isOurs = true;
      try {
        return await work(await this.#begin(lease));
      } finally {
        this.isOurs = false;
        await lease.release();
      }
    });
  }

  async #begin(lease: Lease): Promise<Turn> {
    const number = await this.#options.learn();
    return { number, assertHeld: () => lease.assertHeld() };
  }

  /** Waits for a turn; `work` is begun again when it lost its lease. Throws `reconcile_busy` (T3). */
  async turn<T>(note: string, work: (turn: Turn) => Promise<T>): Promise<T> {
    const untilMs = monotonicMs() + this.#patience.waitMs;
    let wishedAtMs = Number.NEGATIVE_INFINITY;
    for (;;) {
      const result = await this.tryTurn(note, work).catch((error: unknown): Busy => {
        if (isLeaseLost(error) && monotonicMs() < untilMs) return BUSY;
        throw error;
      });
      if (result !== BUSY) return result;
      if (monotonicMs() >= untilMs) throw await this.#busy();
      if (monotonicMs() - wishedAtMs > WISH_MS / 2) {
        wishedAtMs = monotonicMs();
        await this.#options.state.set(WISH_KEY, { untilMs: this.#options.clock() + WISH_MS });
      }
      await Bun.sleep(this.#patience.pollMs);
    }
  }

  /** Between two pieces of work: leaves a gap when somebody wishes for a turn (T3). */
  async giveWay(): Promise<void> {
    const wish = await this.#options.state.get(WISH_KEY, wishSchema);
    const leftMs = (wish?.untilMs ?? 0) - this.#options.clock();
    // Clocks of machines differ: a wish from far ahead would hold up for long.
    if (leftMs > 0 && leftMs <= 2 * WISH_MS) await Bun.sleep(this.#patience.pollMs * TRIES_IN_GAP);
  }

  async #busy(): Promise<LedgerError> {
    const held = (await this.#options.leases.list()).find(({ name }) => name === LEASE_NAME);
    const who =
      held === undefined ? 'others take turns' : `${held.holder} works on it: ${held.note}`;
    return new LedgerError('reconcile_busy', `another process recounts hours; ${who}`, {
      kind: 'retry',
      hint: 'Try again in a few minutes. "clickledger status" shows what is being done.',
    });
  }
}

export function isLeaseLost(error: unknown): boolean {
  return error instanceof LedgerError && error.code === 'lease_lost';
}

/** Another process has done what we were about to do: its turn came in between. */
export function overtaken(what: string, cause: unknown): LedgerError {
  return new LedgerError('lease_lost', `${what}: another process was faster`, {
    kind: 'retry',
    hint: 'It is begun again with what the other has done.',
    cause,
  });
}

/** Runs an effect that the store or the warehouse refuses when another process was faster. */
export async function unlessOvertaken<T>(what: string, effect: () => Promise<T>): Promise<T> {
  try {
    return await effect();
  } catch (error) {
    const code = error instanceof LedgerError ? error.code : '';
    if (code === 'object_differs' || code === 'publication_overtaken') throw overtaken(what, error);
    throw error;
  }
}
