/**
 * The ledger as the API, the metrics and the operators' commands see it: one process that does
 * everything (`Ledger`), or what a role of its own knows of all the others (`RoleLedger`).
 */
import type { LiveGap } from '../api/history.ts';
import type { ArchiverStatus } from '../archive/archiver.ts';
import type { CounterPartitionStatus } from '../counter/counter.ts';
import type { Outcome } from '../counting/types.ts';
import type { Evidence } from '../reconcile/evidence.ts';
import type { Reconciler, StuckHour } from '../reconcile/reconciler.ts';
import type { LedgerParts } from './ledger-parts.ts';

/** How far counting is. */
export interface StreamView {
  /** Every record that the log took before this time is in the warehouse's live rows. */
  readonly asOfMs: number;
  readonly heldRows: number;
  readonly lastUpsertError: Error | null;
  watermarkMs(): number | null;
  partitions(): CounterPartitionStatus[];
  outcomes(): Record<Outcome, number>;
  memory(): { claims: number; claimBytes: number; openRows: number; forgotten: number };
}

/** How far archiving is. */
export interface ArchiveView {
  /** The append time before which every record of every partition is archived. */
  coveredUntilMs(): Promise<number>;
  status(): ArchiverStatus;
}

export interface LedgerView {
  readonly parts: LedgerParts;
  readonly counter: StreamView;
  readonly reconciler: Reconciler;
  readonly evidence: Evidence;
  /** Why clicks are not being counted; null while they are. */
  readonly counterProblem: Error | null;
  /** Why the next hour does not turn final; null when nothing is wrong. */
  readonly stuck: StuckHour | null;
  /** Stretches whose clicks the live numbers miss. */
  readonly liveGaps: readonly LiveGap[];
  /** Whether the warehouse holds less than it did before `rebuild`. */
  readonly isRebuilding: boolean;
  /** Rises whenever live rows change. */
  readonly upserts: number;
  /** Rises with every hour that is published. */
  readonly publications: number;
  /** Rises when the warehouse begins to be built again. */
  readonly rebuilds: number;
  /** Runs `work` before or after a `rebuild`, never during one. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /** Drops state and warehouse and builds them again from archive and log. */
  rebuild(progress: (message: string) => void): Promise<{ records: number; hours: number }>;
}
