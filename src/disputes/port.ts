/**
 * Disputes: an advertiser says that clicks of an ad are wrong, an operator looks and decides.
 *
 * Adapters: `sqlite/`, in the control file; `postgres/`, for several processes at once.
 *
 * D1 `open` → `resolved` (upheld or rejected) or `withdrawn`; nothing leaves those two.
 * D2 Every step has who and when. Nothing is removed or written over.
 * D3 A step is there as a whole or not at all, whoever else takes one at the same time.
 */
export type DisputeState = 'open' | 'resolved' | 'withdrawn';
export type Resolution = 'upheld' | 'rejected';

/** Who took a step. */
export interface Actor {
  readonly tokenId: string;
  readonly scope: 'read' | 'admin';
}

export interface DisputeSubject {
  readonly advertiserId: string;
  readonly adId: string;
  /** `[fromMs, toMs)` */
  readonly fromMs: number;
  readonly toMs: number;
  readonly timezone: string;
  readonly reason: string;
}

export interface DisputeEnd {
  readonly state: Exclude<DisputeState, 'open'>;
  /** Null when it was withdrawn. */
  readonly resolution: Resolution | null;
  readonly note: string;
  /** Verdicts that were taken with it. */
  readonly verdicts: number;
}

interface Step {
  readonly by: Actor;
  readonly atMs: number;
}

export interface Dispute extends DisputeSubject {
  readonly id: string;
  readonly opened: Step;
  /** Null while it is open. */
  readonly closed: (DisputeEnd & Step) | null;
}

/** Where a page ended: disputes come newest first. */
export interface DisputePosition {
  readonly openedAtMs: number;
  readonly id: string;
}

export interface DisputeStore {
  /**
   * The same subject that is open already is that dispute: asking again opens no second one, which is
   * also how to go on after an answer that was lost. Throws LedgerError `disputes_too_many`.
   */
  open(subject: DisputeSubject, by: Actor): Promise<{ dispute: Dispute; created: boolean }>;
  /** Null when there is none, or not of the advertiser that is named. */
  find(id: string, advertiserId: string | undefined): Promise<Dispute | null>;
  /** Newest first, at most `limit`, those behind `before`: whoever wants all asks page by page. */
  list(options: DisputeQuery): Promise<Dispute[]>;
  /**
   * Throws LedgerError `dispute_unknown`, or `dispute_closed` when it has ended in another way before;
   * ended in the same way, it stays as it is.
   */
  end(id: string, end: DisputeEnd, by: Actor): Promise<Dispute>;
  close(): Promise<void>;
}

export interface DisputeQuery {
  readonly advertiserId: string | undefined;
  readonly adId: string | undefined;
  readonly state: DisputeState | undefined;
  readonly before: DisputePosition | undefined;
  readonly limit: number;
}

/** Where disputes of another store are copied to. */
export interface DisputeTarget {
  /**
   * Takes a page of disputes as they are elsewhere. One that is there stays as it is, unless it is open
   * here and has ended there. Returns how many were added or ended.
   */
  restore(disputes: readonly Dispute[]): Promise<number>;
}

/** The sole right to end a dispute, over all processes. */
export interface Turn {
  /** Throws LedgerError when somebody else may have it by now. */
  assertHeld(): Promise<void>;
  release(): Promise<void>;
}
/** Null while somebody else has it. */
export type TakeTurn = (disputeId: string) => Promise<Turn | null>;

/** One verdict as it was given: `impression_id`, `valid`, `reason`; checked by whoever takes it. */
export type GivenVerdict = Readonly<Record<string, unknown>>;

export interface VerdictsTaken {
  readonly taken: number;
  readonly new: number;
  readonly unchanged: number;
  /** Starts of the final hours that the next reconcile restates, ISO 8601. */
  readonly hours: readonly string[];
}

/** Checks all, then stores those that change something; the same ones again change nothing. */
export type TakeVerdicts = (verdicts: readonly GivenVerdict[]) => Promise<VerdictsTaken>;

export interface Disputes extends Pick<DisputeStore, 'open' | 'find' | 'list'> {
  /**
   * Ends a dispute, after its verdicts were taken. Null when there is none, or not of the advertiser that
   * is named. Throws LedgerError `dispute_closed` when it has ended in another way before.
   */
  end(
    which: { id: string; advertiserId: string | undefined },
    end: Omit<DisputeEnd, 'verdicts'> & { readonly verdicts: readonly GivenVerdict[] },
    by: Actor,
  ): Promise<{ dispute: Dispute; verdicts: VerdictsTaken | null } | null>;
}
