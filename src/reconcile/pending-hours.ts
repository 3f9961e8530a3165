/**
 * Final hours that must be recounted: an earlier hour gained clicks, a verdict came, or a publication
 * of them was begun and nobody knows how it ended. Shared by all processes, and kept until they have
 * been: a restart in between must not forget them.
 *
 * N1 An hour is taken out only in the turn in which it was recounted. A process that has lost its
 *    turn takes nothing out: what it has counted may lack what was noted, or judged, since.
 * N2 So an hour whose publication was begun in an earlier turn is still here when a turn begins, and
 *    stays until it is recounted in a later one: however late that publication arrives.
 */
import { z } from 'zod';
import type { SharedState } from '../control/port.ts';

const KEY = 'pending-hours';

interface Pending {
  /** Rises with every turn that begins. */
  readonly turn: number;
  /** Rises with every change, so that an old value is never taken for a newer one. */
  readonly version: number;
  readonly hours: readonly number[];
}

const NONE: Pending = { turn: 0, version: 0, hours: [] };
const hoursSchema = z.array(z.int());
const schema: z.ZodType<Pending> = z.union([
  z.strictObject({ turn: z.int(), version: z.int(), hours: hoursSchema }),
  // As one process alone kept them.
  hoursSchema.transform((hours) => ({ ...NONE, hours })),
]);

export class PendingHours {
  readonly #state: SharedState;
  #known = NONE;
  #hours = new Set<number>();

  constructor(state: SharedState) {
    this.#state = state;
  }

  /** Ascending, as they were read last. */
  hours(): number[] {
    return [...this.#hours].sort((a, b) => a - b);
  }

  has(hourMs: number): boolean {
    return this.#hours.has(hourMs);
  }

  /** Reads what others have noted. */
  async load(): Promise<void> {
    const read = (await this.#state.get(KEY, schema)) ?? NONE;
    if (read.version >= this.#known.version) this.#take(read);
  }

  /**
   * Reads what others have published, and knows afterwards of every hour that was noted before it or behind it.
   * An hour that gained an impression may be among what is read, and the later hour that still has it not.
   */
  async around(read: () => Promise<void>): Promise<void> {
    await this.load();
    const before = this.#hours;
    await read();
    await this.load();
    this.#hours = new Set([...before, ...this.#hours]);
  }

  /** Begins a turn: whoever had one before takes nothing out any more (N1). */
  async beginTurn(): Promise<number> {
    const { turn } = await this.#update((old) => ({ ...old, turn: old.turn + 1 }));
    return turn;
  }

  async add(hours: readonly number[]): Promise<void> {
    await this.#update((old) => ({ ...old, hours: [...new Set([...old.hours, ...hours])] }));
  }

  /** Takes an hour out that was recounted in this turn (N1). */
  async remove(hourMs: number, turn: number): Promise<void> {
    await this.#update((old) =>
      old.turn === turn ? { ...old, hours: old.hours.filter((each) => each !== hourMs) } : old,
    );
  }

  async #update(change: (old: Pending) => Pending): Promise<Pending> {
    const changed = await this.#state.update(KEY, schema, (old = NONE) => {
      return { ...change(old), version: old.version + 1 };
    });
    this.#take(changed);
    return changed;
  }

  #take(value: Pending): void {
    this.#known = value;
    this.#hours = new Set(value.hours);
  }
}
