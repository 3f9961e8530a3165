/**
 * What was done to this ledger, by whom, and how it ended: lines that are only ever added. Adapters
 * keep the lines beside the tokens: `sqlite/`, `postgres/`; what they have in common is in
 * `audit-chain.ts`.
 *
 * Owns: writing lines, the chain over them, checking it. Does not own: which acts are recorded (API
 * and commands decide), and it never holds secrets or bodies.
 *
 * A1 An act has a line `started` before it begins and a line with its outcome after it. Who cannot
 *    write the first must not act; an act without the second was cut off, and may have happened.
 * A2 Lines are numbered without holes, and each carries the SHA-256 over its content and the hash of
 *    the line before. A line that was changed, removed or put in between breaks the chain from there
 *    on. Lines that are missing at the end break nothing: compare the head with one noted elsewhere.
 * A3 A line and its number are chosen in one transaction that keeps other writers out, so that the
 *    lines of several processes make one chain.
 */
export type AuditOutcome = 'ok' | 'refused' | 'failed';

/** An act that begins: who does what to what. */
export interface AuditAct {
  /** The id of a token, `socket` (the admin socket) or `cli` (a command without a running ledger). */
  readonly actor: string;
  /** E.g. `tokens.create`. */
  readonly action: string;
  /** What it is done to: an id, an hour; empty when it is the whole ledger. */
  readonly target: string;
}

/** How an act ended. What is not known before it is added here, e.g. the id of what was made. */
export interface AuditEnd {
  readonly outcome: AuditOutcome;
  /** Code of the refusal or failure. */
  readonly code?: string | undefined;
  readonly target?: string | undefined;
  readonly detail?: string | undefined;
}

/** One act as it is listed: both of its lines together. */
export interface AuditEntry extends AuditAct {
  /** Number of its first line. */
  readonly id: number;
  readonly atMs: number;
  /** `started`: no outcome was written. */
  readonly outcome: AuditOutcome | 'started';
  readonly code: string | null;
  readonly detail: string;
  readonly endedAtMs: number | null;
}

/** The last line, whose hash stands for all lines. */
export interface AuditHead {
  readonly line: number;
  /** Hex; empty when there is no line. */
  readonly hash: string;
}

export interface AuditCheck {
  readonly head: AuditHead;
  /** The first line that is not what was written there, and why; null when all are. */
  readonly broken: { readonly line: number; readonly reason: string } | null;
}

export interface AuditLog {
  /**
   * Durable when it resolves. Throws LedgerError of kind `retry` when the line cannot be written: the
   * act must not begin.
   */
  begin(act: AuditAct): Promise<number>;
  /** Throws LedgerError `audit_end_lost` when it cannot be written: the act has happened. */
  end(id: number, end: AuditEnd): Promise<void>;
  /** Newest first, those that began before the entry `beforeId`. */
  list(options: { limit: number; beforeId?: number }): Promise<AuditEntry[]>;
  head(): Promise<AuditHead>;
  /** Checks every line; with a head that was noted before, also that it is still part of the chain. */
  verify(noted?: AuditHead): Promise<AuditCheck>;
  close(): Promise<void>;
}
