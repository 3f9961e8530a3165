/**
 * What the rest of the project knows of verdicts: fraud's later word that the click on an impression
 * is invalid, or valid after all.
 */

/** One line of verdicts as it was given; checked by whoever takes it. */
export interface VerdictRow {
  /** Line in the file or body, from 1. */
  readonly line: number;
  /** `impression_id`, `valid` (true or false) and `reason` (up to 200 characters). */
  readonly record: Readonly<Record<string, unknown>>;
  /** Why the line could not be read at all; the record is empty then. */
  readonly problem?: string;
}

/** A verdict that is well formed. */
export interface NewVerdict {
  readonly impressionId: string;
  readonly valid: boolean;
  readonly reason: string;
}

/** A verdict as the archive has it. */
export interface Verdict {
  readonly valid: boolean;
  readonly reason: string;
  /** When it was taken, ms UTC. */
  readonly atMs: number;
}

export interface VerdictsTaken {
  /** Lines given. */
  readonly taken: number;
  /** Verdicts that were stored, because they differ from what was in force. */
  readonly new: number;
  /** Lines that said what was in force already, or what a later line replaced. */
  readonly unchanged: number;
  /** Final hours that the next reconcile restates, their starts in ms UTC, ascending. */
  readonly hoursMs: readonly number[];
}

export type VerdictProgress = (message: string, done?: number, total?: number) => void;

export interface Verdicts {
  /**
   * Checks all rows, then stores those that change something. Throws LedgerError `verdicts_invalid`
   * with the wrong lines before the first is stored. Taking the same rows again stores nothing.
   */
  take(
    rows: AsyncIterable<VerdictRow> | Iterable<VerdictRow>,
    progress: VerdictProgress,
  ): Promise<VerdictsTaken>;
}

/** What the recount asks: which impressions are invalid in an hour. */
export interface VerdictLookup {
  /** Throws a LedgerError when verdicts are known to be missing: no hour may be counted without them. */
  requireWhole(): void;
  /**
   * Calls `visit` with the hash of every impression whose verdict in force for the hour is invalid.
   * Gives way between: there may be millions, at every recount, beside the counting.
   */
  forEachInvalid(
    hourMs: number,
    visit: (hash0: number, hash1: number, hash2: number) => void,
  ): Promise<void>;
}

/** For counts that know of no verdicts. */
export const NO_VERDICTS: VerdictLookup = {
  requireWhole: () => undefined,
  forEachInvalid: async () => undefined,
};
