/**
 * Counts batches of records into a state, commits it, and holds the rows that wait for the warehouse:
 * what a counter of a whole log and the counter of one partition have in common.
 *
 * Owns the state, the held rows and what was set aside since the last commit. Does not own reading,
 * nor when to commit and to upsert.
 *
 * B1 Nobody counts while `commit` runs: what it makes durable is what has been counted by then.
 * B2 When the dead letters cannot be stored nothing is committed, and the same commit can be tried again.
 *    When the journal fails the state `isLost`, and must be opened anew from its last commit.
 */
import type { OpenRow, Outcome } from '../counting/types.ts';
import type { RecordBatch } from '../log/port.ts';
import type { CountTracer } from '../telemetry/port.ts';
import type { CounterState } from './counter-state.ts';
import { HeldRows } from './held-rows.ts';
import type { DeadLetter, DeadLetterStore } from './port.ts';
import { RecordSource } from './record-source.ts';

export interface BatchCounterParts {
  readonly state: CounterState;
  readonly deadLetters: Pick<DeadLetterStore, 'put'>;
  readonly maxSkewMs: number;
  readonly tracer: CountTracer | null;
}

export class BatchCounter {
  readonly state: CounterState;
  readonly held = new HeldRows();
  /** Records counted since the last commit. */
  sinceCommit = 0;
  isLost = false;
  readonly #parts: BatchCounterParts;
  readonly #source: RecordSource;
  #letters: DeadLetter[] = [];

  constructor(parts: BatchCounterParts) {
    this.#parts = parts;
    this.state = parts.state;
    this.#source = new RecordSource(parts.maxSkewMs);
  }

  /** Counts records `[from, to)` of the batch; `isTraced` is false for a replay. */
  count(batch: RecordBatch, { from, to }: { from: number; to: number }, isTraced = true): void {
    const { state } = this;
    const tracer = isTraced ? this.#parts.tracer : null;
    for (let i = from; i < to; i++) {
      const reason = this.#source.read(batch, i);
      if (reason === null) {
        const outcome = state.counting.apply(this.#source.record);
        state.tally(batch.partition, outcome);
        if (tracer?.isSampled(this.#source.record.hash2)) this.#trace(tracer, batch, outcome);
        continue;
      }
      const { partition, appendedAtMs } = batch;
      const bytes = Buffer.from(
        batch.bytes.subarray(batch.bounds[2 * i]!, batch.bounds[2 * i + 1]!),
      );
      this.#letters.push({ partition, offset: batch.firstOffset + i, appendedAtMs, reason, bytes });
      state.tally(partition, 'dead_letter');
    }
    state.positions.set(batch.partition, batch.firstOffset + to);
    this.sinceCommit += to - from;
  }

  #trace(tracer: CountTracer, batch: RecordBatch, outcome: Outcome): void {
    const { partition, offset, clickedAtMs } = this.#source.record;
    const impressionId = this.#source.impressionId(batch);
    const { appendedAtMs } = batch;
    tracer.counted({ impressionId, clickedAtMs, partition, offset, appendedAtMs, outcome });
  }

  get hasWork(): boolean {
    return this.sinceCommit > 0 || this.state.hasPendingWork;
  }

  /** Makes durable what was counted; returns the rows that changed. */
  async commit(): Promise<OpenRow[]> {
    const { tracer, deadLetters } = this.#parts;
    tracer?.committing();
    if (this.#letters.length > 0) await deadLetters.put(this.#letters); // 1
    this.#letters = [];
    this.isLost = true;
    const changed = this.state.counting.windows.takeChanged();
    await this.state.commit(changed); // 2
    this.isLost = false;
    tracer?.committed();
    this.sinceCommit = 0;
    return changed;
  }

  /** Holds rows for the warehouse, each once, but for minutes that were only partly counted or are there in full. */
  hold(rows: readonly OpenRow[]): void {
    const { upsertFrom } = this.state;
    this.held.add(rows.filter((row) => row.minuteMs >= (upsertFrom.get(row.shard) ?? 0)));
  }
}
