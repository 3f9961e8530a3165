/**
 * Emptying the warehouse of roles, to have it built again by all of them.
 *
 * R1 It is emptied in a turn of the reconcilers: nobody writes an hour then.
 * R2 Nobody answers out of a warehouse that is emptied. Whoever has not read lately whether it is, takes it
 *    for emptied; so every process has stopped answering when `SEEN_MS` have passed since the note.
 * R3 Counters are told after the last table is empty: rows that they write before are gone, and written again.
 *
 * The effects, and what holds if the process dies right after each:
 *   1. emptying noted – nobody answers; the next reconciler begins with 1 again (`takeUp`)
 *   2. tables emptied – the same
 *   3. counters told  – hours turn final again, and counters read the log again, by themselves
 */
import { monotonicMs } from '../platform/clock.ts';
import type { Reconciler } from '../reconcile/reconciler.ts';
import type { Turn } from '../reconcile/turns.ts';
import type { Warehouse } from '../warehouse/port.ts';
import type { RebuildFact, SharedFacts } from './shared-facts.ts';

export interface RoleRebuildParts {
  readonly facts: Pick<SharedFacts, 'rebuild' | 'beginRebuild' | 'noteEmptied' | 'endRebuild'>;
  readonly reconciler: Pick<Reconciler, 'finalUntilMs' | 'withoutRecounts'>;
  readonly warehouse: Pick<Warehouse, 'reset'>;
  /** How far counting is; as old as the last look at it. */
  readonly counter: {
    readonly asOfMs: number;
    /** The newest that one of the counters has begun for. */
    readonly rebuildId: number;
    isOfRebuild(id: number): boolean;
  };
  /** How long what was read is believed; for tests. */
  readonly holdMs?: number;
}

const HOLD_MS = 8_000;
/** Clocks do not matter here, but how long a request may take does. */
const SEEN_AFTER_HOLD_MS = 2_000;

export class RoleRebuild {
  readonly #parts: RoleRebuildParts;
  readonly #holdMs: number;
  #fact: RebuildFact = { id: 0, untilMs: null, isToEmpty: false };
  #readAtMs = Number.NEGATIVE_INFINITY;

  constructor(parts: RoleRebuildParts) {
    this.#parts = parts;
    this.#holdMs = parts.holdMs ?? HOLD_MS;
  }

  async look(): Promise<void> {
    const askedAtMs = monotonicMs();
    this.#fact = await this.#parts.facts.rebuild();
    this.#readAtMs = askedAtMs;
  }

  get fact(): RebuildFact {
    return this.#fact;
  }

  /** R2: or nobody can tell. */
  get isRunning(): boolean {
    return this.#fact.untilMs !== null || monotonicMs() - this.#readAtMs > this.#holdMs;
  }

  /** Ends it when it is over. What is known of hours and counting must have been read after `told`. */
  async endIfWhole(told: RebuildFact): Promise<void> {
    if (this.#isWhole(told)) this.#fact = await this.#parts.facts.endRebuild(told.id);
  }

  /** Counters have begun anew, and what was final is final again. */
  #isWhole({ id, untilMs, isToEmpty }: RebuildFact): boolean {
    const { reconciler, counter } = this.#parts;
    if (untilMs === null || isToEmpty || reconciler.finalUntilMs < untilMs) return false;
    return counter.asOfMs > 0 && counter.isOfRebuild(id);
  }

  /** Empties the warehouse. */
  begin(): Promise<RebuildFact> {
    return this.#parts.reconciler.withoutRecounts('rebuild', (turn) => this.#empty(turn));
  }

  /** Takes up one whose process died before the counters were told. */
  async takeUp(): Promise<void> {
    const { facts, reconciler } = this.#parts;
    if (!(await facts.rebuild()).isToEmpty) return;
    await reconciler.withoutRecounts('rebuild', async (turn) => {
      if ((await facts.rebuild()).isToEmpty) await this.#empty(turn);
    });
  }

  async #empty(turn: Turn): Promise<RebuildFact> {
    const { facts, reconciler, warehouse, counter } = this.#parts;
    const begun = await facts.beginRebuild(reconciler.finalUntilMs); // 1
    await Bun.sleep(this.#holdMs + SEEN_AFTER_HOLD_MS); // R2
    await turn.assertHeld(); // R1
    await warehouse.reset(); // 2
    return facts.noteEmptied(begun, counter.rebuildId); // 3
  }
}
