/**
 * The counter's state: what counting holds, the position in the log, the totals by outcome, and
 * their journal.
 *
 * S1 `commit` writes new claims, changed rows and positions as one journal commit (J1).
 * S2 The journal is kept short by compaction: some sections of the claim table are written with each
 *    commit until all are, then all open rows; then everything before that began is dropped.
 */
import type { Claim } from '../counting/claim-words.ts';
import { SECTIONS } from '../counting/claims.ts';
import type { Counting } from '../counting/counting.ts';
import { noOutcomes, type OpenRow, type Outcome, type OutcomeTotals } from '../counting/types.ts';
import { CounterJournal } from './journal.ts';
import { ClaimBuffer, encodeRows, readClaims, readRows, type Seal } from './journal-codec.ts';
import type { JournalLog } from './port.ts';

/** Compaction begins when the journal holds this many claims more than twice the live ones. */
export const COMPACTION_SLACK = 2_000_000;
const SECTIONS_PER_COMMIT = 32;

/** What a state was counted from. */
export interface Origin {
  readonly logId: string;
  readonly rebuildId: number;
}

export class CounterState {
  readonly counting: Counting;
  readonly positions = new Map<number, number>();
  readonly outcomes = new Map<number, OutcomeTotals>();
  /** See `Seal.upsertFrom`. */
  readonly upsertFrom = new Map<number, number>();
  /** Version of the rows upserted last. */
  sequence = 0;
  isNew = true;
  /** See `Seal.origin`. */
  origin: Origin | null = null;
  readonly #compactionSlack: number;
  #journal!: CounterJournal;
  readonly #newClaims = new ClaimBuffer();
  readonly #evictedUntil = new Map<number, number>();
  #evictionPending = false;
  #journalClaims = 0;
  #journalFrom = 0;
  #compaction: { nextSection: number; from: number } | null = null;

  private constructor(counting: Counting, compactionSlack: number) {
    this.counting = counting;
    this.#compactionSlack = compactionSlack;
  }

  static async open(
    log: JournalLog,
    counting: Counting,
    compactionSlack = COMPACTION_SLACK,
  ): Promise<CounterState> {
    const state = new CounterState(counting, compactionSlack);
    state.#journal = await CounterJournal.open(log, {
      claims: (part) => readClaims(part, (claim) => state.#restoreClaim(claim)),
      rows: (part) => readRows(part, (row) => state.counting.windows.restore(row)),
      seal: (seal) => state.#restoreSeal(seal),
    });
    state.counting.onClaim = (claim) => state.#newClaims.push(claim);
    return state;
  }

  #restoreClaim(claim: Readonly<Claim>): void {
    this.counting.restoreClaim(claim);
    this.#journalClaims++;
  }

  #restoreSeal(seal: Seal): void {
    this.isNew = false;
    this.sequence = seal.sequence;
    this.origin = seal.origin;
    this.#journalFrom = seal.journalFrom;
    this.counting.forgotten = seal.forgotten;
    this.counting.windows.reserveIds(seal.nextRowId);
    for (const [key, offset] of Object.entries(seal.positions))
      this.positions.set(Number(key), offset);
    for (const [key, largest] of Object.entries(seal.largest)) {
      this.counting.watermarks.observe(Number(key), largest);
    }
    for (const [key, totals] of Object.entries(seal.outcomes)) {
      this.outcomes.set(Number(key), { ...noOutcomes(), ...totals });
    }
    for (const [key, fromMs] of Object.entries(seal.upsertFrom))
      this.upsertFrom.set(Number(key), fromMs);
    for (const [key, untilMs] of Object.entries(seal.evictedUntil)) {
      this.#evictedUntil.set(Number(key), untilMs);
      this.counting.windows.evict(Number(key), untilMs);
    }
  }

  /** Notes where a partition's counting began: a log that was trimmed holds its first minutes partly. */
  beginPartition(partition: number, offset: number, appendedAtMs: number): void {
    if (this.outcomes.has(partition)) return;
    this.outcomes.set(partition, noOutcomes());
    if (offset > 0) this.upsertFrom.set(partition, appendedAtMs);
  }

  tally(partition: number, outcome: Outcome): void {
    this.outcomes.get(partition)![outcome]++;
  }

  /** Whether there is something to commit besides newly counted records. */
  get hasPendingWork(): boolean {
    return this.#evictionPending || this.#compaction !== null;
  }

  /** Makes everything counted so far durable, together with the position (S1). */
  async commit(changed: readonly OpenRow[]): Promise<void> {
    this.#journalClaims += this.#newClaims.count;
    const parts = [...this.#newClaims.takeParts(), ...encodeRows(changed)];
    const finished = this.#compact(parts);
    this.#evictionPending = false;
    await this.#journal.commit(parts, this.#seal());
    if (finished) this.#journal.trim(this.#journalFrom);
  }

  /** S2. Adds this commit's share of a compaction; true when it completes one. */
  #compact(parts: Buffer[]): boolean {
    const { claims, windows } = this.counting;
    if (this.#compaction === null) {
      if (this.#journalClaims <= 2 * claims.size + this.#compactionSlack) return false;
      claims.sweep(this.counting.keepClaimsAfterMs);
      this.#compaction = { nextSection: 0, from: this.#journal.nextOffset };
      this.#journalClaims = 0;
    }
    const until = Math.min(SECTIONS, this.#compaction.nextSection + SECTIONS_PER_COMMIT);
    const buffer = new ClaimBuffer();
    for (; this.#compaction.nextSection < until; this.#compaction.nextSection++) {
      claims.forEachOf(this.#compaction.nextSection, (claim) => buffer.push(claim));
    }
    this.#journalClaims += buffer.count;
    parts.push(...buffer.takeParts());
    if (until < SECTIONS) return false;
    parts.push(...encodeRows(windows.rows()));
    this.#journalFrom = this.#compaction.from;
    this.#compaction = null;
    return true;
  }

  #seal(): Omit<Seal, 'partsFrom'> {
    const object = <V>(map: ReadonlyMap<number, V>): Record<string, V> => Object.fromEntries(map);
    this.sequence++;
    return {
      sequence: this.sequence,
      positions: object(this.positions),
      largest: object(this.counting.watermarks.entries()),
      outcomes: object(this.outcomes),
      evictedUntil: object(this.#evictedUntil),
      upsertFrom: object(this.upsertFrom),
      nextRowId: this.counting.windows.nextRowId,
      forgotten: this.counting.forgotten,
      journalFrom: this.#journalFrom,
      origin: this.origin,
    };
  }

  /** Per shard, the end of the minutes that are closed now: their rows never change again. */
  settledNow(): Map<number, number> {
    const settled = new Map<number, number>();
    for (const partition of this.positions.keys()) {
      const untilMs = this.counting.closedUntilMs(partition);
      if (Number.isFinite(untilMs)) settled.set(partition, untilMs);
    }
    return settled;
  }

  /** Drops rows that are settled and whose last count the warehouse has acknowledged. */
  evict(settled: ReadonlyMap<number, number>): void {
    for (const [partition, untilMs] of settled) {
      if (this.counting.windows.evict(partition, untilMs).length === 0) continue;
      this.#evictedUntil.set(partition, untilMs);
      this.#evictionPending = true;
    }
  }

  async close(): Promise<void> {
    await this.#journal.close();
  }
}
