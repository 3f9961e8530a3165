/**
 * What an operator can ask of the ledger, over the admin API of a running one or, when none runs,
 * of one that a command opens for itself. Every type here goes over the wire as JSON.
 */
import type { Difference } from '../reconcile/verify.ts';
import type { VerdictRow } from '../verdicts/port.ts';
import type { HourState } from '../warehouse/port.ts';

export interface PartitionStatus {
  readonly partition: number;
  readonly logFirstOffset: number;
  readonly logEndOffset: number;
  readonly countedOffset: number;
  readonly archivedOffset: number;
  /** Records in the log that are not counted yet. */
  readonly backlog: number;
  /** Append time of the oldest of them, ms UTC; null when there is none. */
  readonly oldestUncountedAtMs: number | null;
  readonly watermarkMs: number | null;
}

/** What the click workers say of the last minute, as far as somebody has asked before. */
export interface ClickStatus {
  readonly workers: number;
  readonly workersAnswering: number;
  /** Billable clicks taken; null until there are two samples. */
  readonly perSecond: number | null;
  /** From taking a click to its redirect; null when there was none. */
  readonly redirectP50Ms: number | null;
  readonly redirectP99Ms: number | null;
}

export interface LedgerStatus {
  readonly version: string;
  readonly nowMs: number;
  readonly partitions: readonly PartitionStatus[];
  /** Records by outcome since the beginning of the log. */
  readonly outcomes: Readonly<Record<string, number>>;
  readonly asOfMs: number;
  readonly finalUntilMs: number;
  /** The last final hours, newest first. */
  readonly recentHours: readonly HourState[];
  /** Why the next hour does not turn final; null when nothing is wrong. */
  readonly stuck: {
    readonly hourMs: number;
    readonly code: string;
    readonly reason: string;
  } | null;
  /** Dead letters that wait, by reason. */
  readonly deadLetters: Readonly<Record<string, number>>;
  readonly counter: {
    readonly claims: number;
    readonly claimBytes: number;
    readonly openRows: number;
    readonly heldRows: number;
    readonly forgotten: number;
  };
  /** Everything that needs an operator, one sentence each; empty when all is well. */
  readonly problems: readonly string[];
  /** Null when no click worker answers. */
  readonly clicks: ClickStatus | null;
  readonly rssBytes: number;
}

export interface ReconcileOutcome {
  readonly hours: readonly {
    readonly hour: HourState;
    readonly kind: 'final' | 'restated' | 'unchanged';
    readonly driftAlert: boolean;
  }[];
  readonly finalUntilMs: number;
}

export interface IngestOutcome {
  readonly taken: number;
}

export interface VerdictsOutcome {
  /** Lines given. */
  readonly taken: number;
  /** Verdicts that were stored, because they differ from what was in force. */
  readonly new: number;
  readonly unchanged: number;
  /** Starts of the final hours that the next reconcile restates, ISO 8601. */
  readonly hours: readonly string[];
}

export interface DeadLetterView {
  readonly id: string;
  readonly partition: number;
  readonly offset: number;
  readonly appendedAtMs: number;
  readonly reason: string;
  readonly redrivenAtMs: number | null;
  readonly sizeBytes: number;
  /** The record's bytes, base64; only when one letter is shown. */
  readonly bytes?: string;
  /** The decoded event when the bytes can be decoded; only when one letter is shown. */
  readonly event?: Readonly<Record<string, unknown>> | null;
}

export interface VerifyOutcome {
  readonly hours: number;
  readonly rows: number;
  readonly clicks: number;
  readonly differences: readonly Difference[];
  /** Problems of the archive itself: holes, missing or damaged objects. */
  readonly archiveProblems: readonly string[];
}

export interface RebuildOutcome {
  readonly records: number;
  readonly hours: number;
  readonly finalUntilMs: number;
}

/** One line of progress of a long action. */
export type Progress = (message: string, done?: number, total?: number) => void;

/** A recorded click as `ingest` takes it, one row of a file; checked by the ledger, not the caller. */
export interface IngestRow {
  /** Line in the file, from 1. */
  readonly line: number;
  readonly record: Readonly<Record<string, unknown>>;
  /** Why the line could not be read at all; the record is empty then. */
  readonly problem?: string;
}

export interface LedgerAdmin {
  status(): Promise<LedgerStatus>;
  /** With neither option: everything that is closed by now. Times in ms UTC. */
  reconcile(
    options: { hourMs?: number; untilMs?: number },
    progress: Progress,
  ): Promise<ReconcileOutcome>;
  /**
   * Takes recorded clicks into the log. All rows are checked before the first is logged; throws
   * LedgerError `ingest_invalid` with the wrong lines otherwise.
   */
  ingest(rows: AsyncIterable<IngestRow>, progress: Progress): Promise<IngestOutcome>;
  /**
   * Takes verdicts on impressions (`impression_id`, `valid`, `reason`). All rows are checked before the
   * first is stored; throws LedgerError `verdicts_invalid` with the wrong lines otherwise.
   */
  verdicts(
    rows: AsyncIterable<VerdictRow> | Iterable<VerdictRow>,
    progress: Progress,
  ): Promise<VerdictsOutcome>;
  deadLetters(options: { limit: number; waitingOnly: boolean }): Promise<DeadLetterView[]>;
  deadLetter(id: string): Promise<DeadLetterView>;
  /** Appends waiting letters to the log again: one, or all of a reason, or all. Returns how many. */
  redrive(which: { id?: string; reason?: string; all?: boolean }): Promise<{ redriven: number }>;
  verify(progress: Progress): Promise<VerifyOutcome>;
  rebuild(progress: Progress): Promise<RebuildOutcome>;
}
