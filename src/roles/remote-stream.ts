/** Counting as a process sees it that does not count: what the counters have committed. */
import type { CounterPartitionStatus } from '../counter/counter.ts';
import { CounterProgress, type CounterProgressParts } from '../counter/progress.ts';
import type { Outcome } from '../counting/types.ts';
import { LedgerError } from '../platform/errors.ts';
import type { StreamView } from './ledger-view.ts';

/** What a counter holds in memory is its own affair, and in its own metrics. */
const NO_MEMORY = { claims: 0, claimBytes: 0, openRows: 0, forgotten: 0 };

export class RemoteStream implements StreamView {
  readonly #parts: CounterProgressParts;
  readonly #progress: CounterProgress;
  readonly heldRows = 0;
  readonly lastUpsertError = null;

  constructor(parts: CounterProgressParts) {
    this.#parts = parts;
    this.#progress = new CounterProgress(parts);
  }

  /** Looks again; whether live rows have come since. An offset is committed before its rows are. */
  poll(): Promise<boolean> {
    return this.#progress.poll();
  }

  get asOfMs(): number {
    return this.#progress.asOfMs;
  }

  get rebuildId(): number {
    return Math.max(0, ...this.#progress.partitions().map(({ rebuildId }) => rebuildId ?? 0));
  }

  isOfRebuild(rebuildId: number): boolean {
    return this.#progress.isOfRebuild(rebuildId);
  }

  get problem(): Error | null {
    const problems = this.#progress.problems();
    const [first] = problems;
    if (first === undefined) return null;
    const all = `${problems.length} of ${this.#progress.partitions().length} partitions have stopped`;
    return new LedgerError(first.problem.code, `${all}; ${first.problem.message}`, {
      hint: '"clickledger counter gaps" lists them.',
    });
  }

  watermarkMs(): number | null {
    return this.#progress.watermarkMs();
  }

  partitions(): CounterPartitionStatus[] {
    return this.#progress
      .partitions()
      .map(({ partition, nextOffset, firstOffset, watermarkMs }) => {
        return { partition, nextOffset: nextOffset ?? firstOffset, watermarkMs };
      });
  }

  outcomes(): Record<Outcome, number> {
    return this.#progress.outcomes();
  }

  memory(): ReturnType<StreamView['memory']> {
    return NO_MEMORY;
  }

  close(): Promise<void> {
    return this.#parts.group.close();
  }
}
