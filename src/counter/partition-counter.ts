/**
 * Counts one partition for whoever owns it at the moment, and says how another owner would go on.
 *
 * Owns the partition's state, its journal and the rows that wait. Does not own reading, the group's
 * committed offsets, nor the epoch: `takeover.ts` decides those and `worker.ts` writes them.
 *
 * P1 The state is a function of the log before `position`, whoever had the partition meanwhile. So a
 *    state that is behind catches up, and one that is ahead of the committed offset is right as it is.
 * P2 While it is quiet (before `quietUntil`), only rows of closed minutes go to the warehouse: they will
 *    never change again, while an open row could be lower than what the owner before has written. So a
 *    reader sees no row fall back, and a long replay holds no more rows than are open.
 * P3 What `prepare` hands over was committed to the journal, all of it, and nothing was counted since:
 *    the rows, the position and the minutes that are settled are of one moment.
 * P4 The outcomes of records before the committed offset are those that were committed with it: a state
 *    that was built from a part of the log does not know them.
 */
import { Counting } from '../counting/counting.ts';
import { noOutcomes, type OpenRow, type OutcomeTotals } from '../counting/types.ts';
import { MINUTE_MS, minuteOf } from '../counting/windows.ts';
import type { RecordBatch } from '../log/port.ts';
import { assert } from '../platform/errors.ts';
import type { CountTracer } from '../telemetry/port.ts';
import { BatchCounter } from './batch-counter.ts';
import { CounterState, type Origin } from './counter-state.ts';
import type { HeldRow } from './held-rows.ts';
import type { DeadLetterStore, JournalLog } from './port.ts';

/** Many journals lie on one disk: each is kept shorter than that of a counter which has one. */
const COMPACTION_SLACK_OF_MANY = 100_000;

export interface CountingSettings {
  readonly dedupWindowMs: number;
  readonly watermarkLagMs: number;
  readonly latenessMs: number;
  readonly maxSkewMs: number;
  readonly maxClaims: number;
}

export interface PartitionCounterParts {
  readonly partition: number;
  readonly journal: JournalLog;
  readonly counting: CountingSettings;
  readonly deadLetters: Pick<DeadLetterStore, 'put'>;
  readonly tracer: CountTracer | null;
}

/** From where an owner goes on. */
export interface Beginning {
  readonly origin: Origin;
  /** The committed offset. */
  readonly offset: number;
  /** Outcomes of the records before it. */
  readonly outcomes: OutcomeTotals;
  readonly watermarkMs: number | null;
  readonly asOfMs: number;
  readonly upserted: number;
  readonly upsertFromMs: number;
  readonly quietUntil: number;
}

/** What of the partition may go into the note: as of the last commit of the journal. */
export interface Reached {
  readonly offset: number;
  readonly outcomes: OutcomeTotals;
  readonly watermarkMs: number | null;
  readonly asOfMs: number;
  readonly upserted: number;
  readonly upsertFromMs: number;
}

/** Rows of one moment on their way to the warehouse (P3). */
export interface Prepared {
  readonly rows: readonly HeldRow[];
  readonly position: number;
  readonly settledMs: number;
  readonly readUntilMs: number;
  readonly isQuiet: boolean;
}

export class PartitionCounter {
  readonly partition: number;
  readonly #counted: BatchCounter;
  readonly #tracer: CountTracer | null;
  #begin!: Beginning;
  /** Changed rows of open minutes, while it is quiet (P2). */
  readonly #open = new Map<number, OpenRow>();
  #committed: Pick<Reached, 'offset' | 'outcomes' | 'watermarkMs'>;
  #asOfMs = 0;
  #upserted = 0;
  #upsertFromMs = 0;
  /** Everything that the log took before this time has been counted. */
  #readUntilMs = 0;
  /** B1: commits wait for each other, counting waits for them. */
  #committing: Promise<unknown> | null = null;

  private constructor(parts: PartitionCounterParts, state: CounterState) {
    this.partition = parts.partition;
    this.#tracer = parts.tracer;
    const { deadLetters, tracer } = parts;
    const { maxSkewMs } = parts.counting;
    this.#counted = new BatchCounter({ state, deadLetters, maxSkewMs, tracer });
    this.#committed = this.#snapshot();
  }

  static async open(parts: PartitionCounterParts): Promise<PartitionCounter> {
    const counting = new Counting(parts.counting);
    const state = await CounterState.open(parts.journal, counting, COMPACTION_SLACK_OF_MANY);
    return new PartitionCounter(parts, state);
  }

  /** What the state was counted from; null for one that is new. */
  get origin(): Origin | null {
    return this.#counted.state.origin;
  }

  /** Offset of the next record to be counted; null for a state that is new. */
  get knownPosition(): number | null {
    return this.#counted.state.positions.get(this.partition) ?? null;
  }

  get position(): number {
    const position = this.knownPosition;
    assert(position !== null, 'a partition is counted from a known position');
    return position;
  }

  /** Begins a new state at `offset`. */
  startAt(offset: number, origin: Origin): void {
    const { state } = this.#counted;
    assert(state.isNew, 'only a new state begins anywhere');
    state.origin = origin;
    state.positions.set(this.partition, offset);
    state.outcomes.set(this.partition, noOutcomes());
    state.isNew = false;
  }

  /** Goes on for an owner; every row that is not settled goes to the warehouse again, under its epoch. */
  begin(begin: Beginning): void {
    const { state } = this.#counted;
    this.#begin = begin;
    state.origin = begin.origin;
    this.#upsertFromMs = begin.upsertFromMs;
    this.#upserted = begin.upserted;
    this.#asOfMs = begin.asOfMs;
    this.#readUntilMs = 0;
    state.upsertFrom.set(this.partition, begin.upsertFromMs);
    if (this.position === begin.offset) this.#adoptOutcomes();
    this.#committed = this.#snapshot();
    this.#counted.held.take();
    this.#open.clear();
    this.#hold([...state.counting.windows.rows()].filter(({ isChanged }) => !isChanged));
    this.#releaseClosed();
  }

  /** Whether it still catches up with what another owner has written. */
  get isQuiet(): boolean {
    return this.position < this.#begin.quietUntil;
  }

  /** Counts at most `most` records of the batch; true when the whole batch is counted. */
  count(batch: RecordBatch, most: number): boolean {
    assert(this.#committing === null, 'nothing is counted during a commit');
    const { position } = this;
    const from = position - batch.firstOffset;
    assert(from >= 0, 'the log has no holes');
    if (from >= batch.count) return true;
    const { offset, quietUntil } = this.#begin;
    // P4: the outcomes are put right exactly there, and traces begin where nobody has counted yet.
    let to = Math.min(batch.count, from + most);
    if (offset > position) to = Math.min(to, offset - batch.firstOffset);
    if (quietUntil > position) to = Math.min(to, quietUntil - batch.firstOffset);
    this.#counted.count(batch, { from, to }, position >= offset);
    if (batch.firstOffset + to === offset) this.#adoptOutcomes();
    if (to < batch.count) return false;
    this.#readUntilMs = Math.max(this.#readUntilMs, batch.appendedAtMs);
    return true;
  }

  /** There was nothing new at `lookedAtMs`. */
  sawEnd(lookedAtMs: number): void {
    this.#readUntilMs = Math.max(this.#readUntilMs, lookedAtMs);
  }

  #adoptOutcomes(): void {
    this.#counted.state.outcomes.set(this.partition, { ...this.#begin.outcomes });
  }

  /** The state cannot be gone on with: it must be opened anew. */
  get isLost(): boolean {
    return this.#counted.isLost;
  }

  get sinceCommit(): number {
    return this.#counted.sinceCommit;
  }

  get isCommitting(): boolean {
    return this.#committing !== null;
  }

  /** Resolves when nothing stands in the way of counting; rejects like the commit that did. */
  async idle(): Promise<void> {
    while (this.#committing !== null) await this.#committing;
  }

  /** Makes what is counted durable; the rows that changed wait for the warehouse from then on. */
  commit(): Promise<void> {
    return this.#alone(() => this.#commit());
  }

  async #alone<T>(work: () => Promise<T>): Promise<T> {
    await this.idle();
    const running = work().finally(() => {
      this.#committing = null;
    });
    this.#committing = running;
    return running;
  }

  async #commit(): Promise<void> {
    if (this.#counted.hasWork) this.#hold(await this.#counted.commit());
    this.#committed = this.#snapshot();
    this.#releaseClosed();
  }

  #snapshot(): Pick<Reached, 'offset' | 'outcomes' | 'watermarkMs'> {
    const { state } = this.#counted;
    const watermarkMs = state.counting.watermarks.of(this.partition);
    return {
      offset: this.knownPosition ?? 0,
      outcomes: { ...(state.outcomes.get(this.partition) ?? noOutcomes()) },
      watermarkMs: Number.isFinite(watermarkMs) ? watermarkMs : null,
    };
  }

  #hold(rows: readonly OpenRow[]): void {
    if (!this.isQuiet) {
      this.#counted.hold(rows);
      return;
    }
    for (const row of rows) if (row.minuteMs >= this.#upsertFromMs) this.#open.set(row.id, row);
  }

  /** P2. */
  #releaseClosed(): void {
    if (this.#open.size === 0) return;
    const closedMs = this.isQuiet ? this.#closedUntilMs : Number.POSITIVE_INFINITY;
    const closed = [...this.#open.values()].filter((row) => row.minuteMs + MINUTE_MS <= closedMs);
    for (const { id } of closed) this.#open.delete(id);
    this.#counted.hold(closed);
  }

  get #closedUntilMs(): number {
    return this.#counted.state.counting.closedUntilMs(this.partition);
  }

  /** Commits, and hands over what the warehouse should have; give it back, or `settle` it. */
  prepare(): Promise<Prepared> {
    return this.#alone(async () => {
      await this.#commit();
      return {
        rows: this.#counted.held.take(),
        position: this.#committed.offset,
        settledMs: this.#closedUntilMs,
        readUntilMs: this.#readUntilMs,
        isQuiet: this.isQuiet,
      };
    });
  }

  upserting(): void {
    this.#tracer?.upserting();
  }

  giveBack({ rows }: Prepared): void {
    this.#tracer?.upserted(false);
    this.#counted.held.giveBack(rows);
  }

  /** The warehouse has acknowledged the rows, and all that came before them. */
  settle(prepared: Prepared): void {
    this.#tracer?.upserted(true);
    const { state } = this.#counted;
    if (!prepared.isQuiet) {
      this.#asOfMs = Math.max(this.#asOfMs, prepared.readUntilMs);
      this.#upserted = Math.max(this.#upserted, prepared.position);
    }
    if (!Number.isFinite(prepared.settledMs)) return;
    state.evict(new Map([[this.partition, prepared.settledMs]]));
    this.#upsertFromMs = Math.max(this.#upsertFromMs, minuteOf(Math.max(0, prepared.settledMs)));
    state.upsertFrom.set(this.partition, this.#upsertFromMs);
  }

  /** What another owner could go on from (P1, P4). */
  reached(): Reached {
    const { offset, outcomes, watermarkMs } = this.#begin;
    const isBehind = this.#committed.offset < offset;
    const known = isBehind ? { offset, outcomes, watermarkMs } : this.#committed;
    const { asOfMs, upserted, upsertFromMs } = this;
    return { ...known, asOfMs, upserted, upsertFromMs };
  }

  get asOfMs(): number {
    return this.#asOfMs;
  }

  get upserted(): number {
    return this.#upserted;
  }

  get upsertFromMs(): number {
    return this.#upsertFromMs;
  }

  get quietUntil(): number {
    return this.#begin.quietUntil;
  }

  get heldRows(): number {
    return this.#counted.held.size;
  }

  memory(): { claims: number; claimBytes: number; openRows: number; forgotten: number } {
    const { counting } = this.#counted.state;
    const { claims, windows, forgotten } = counting;
    return {
      claims: claims.size,
      claimBytes: claims.memoryBytes,
      openRows: windows.size,
      forgotten,
    };
  }

  boundClaims(maxClaims: number): void {
    this.#counted.state.counting.boundClaims(maxClaims);
  }

  /** Writes nothing more. */
  async close(): Promise<void> {
    await this.#committing?.catch(() => {});
    await this.#counted.state.close();
  }
}
