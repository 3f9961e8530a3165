/**
 * The counter: runs counting over the click log and keeps the warehouse's live rows up to date.
 *
 * Owns the counting state, its journal and the position in the log. One loop is the only one that
 * changes them. Does not own the log, the warehouse, or final numbers.
 *
 * The effects of one commit, in order, and what holds if the process dies right after each:
 *   1. dead letters stored   – they are stored again, same position, same letter (key is the position)
 *   2. journal commit        – claims, rows and position are in force; rows are not upserted yet, but
 *                              every row that is not evicted is upserted again after a restart
 *   3. rows upserted         – the same full counts may be upserted again: nothing changes
 *   4. settled rows evicted  – noted with the next commit; until then they are upserted once more
 *
 * The first error that is not "try again" stops the loop: no later commit can hide it.
 */
import { Counting } from '../counting/counting.ts';
import { noOutcomes, OUTCOMES, type Outcome } from '../counting/types.ts';
import type { ClickLogReader, LogPosition, RecordBatch } from '../log/port.ts';
import { type Clock, monotonicMs } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { sleep } from '../platform/sleep.ts';
import type { CountTracer } from '../telemetry/port.ts';
import type { Warehouse } from '../warehouse/port.ts';
import { BatchCounter } from './batch-counter.ts';
import { CounterState } from './counter-state.ts';
import { liveRowOf } from './held-rows.ts';
import { MergeReader } from './merge-reader.ts';
import type { DeadLetterStore, JournalLog } from './port.ts';
import { SLICE_MS } from './turns.ts';

export interface CounterOptions {
  readonly reader: ClickLogReader;
  readonly warehouse: Pick<Warehouse, 'upsertLive' | 'maxLiveVersion'>;
  readonly deadLetters: Pick<DeadLetterStore, 'put'>;
  /** Where the state is kept; opened by the caller, closed by the counter. */
  readonly journal: JournalLog;
  readonly clock: Clock;
  readonly counting: {
    readonly dedupWindowMs: number;
    readonly watermarkLagMs: number;
    readonly latenessMs: number;
    readonly maxSkewMs: number;
    readonly maxClaims: number;
  };
  readonly upsertIntervalMs: number;
  readonly commitRecords: number;
  readonly maxHeldRows: number;
  /** Follows sampled clicks to their rows; null: none. */
  readonly tracer?: CountTracer | null;
  /** Live rows have changed. */
  readonly onUpsert?: () => void;
  readonly onError?: (error: Error, what: string) => void;
}

const POLL_MS = 50;
const RETRY_MS = 1_000;

export interface CounterPartitionStatus {
  readonly partition: number;
  readonly nextOffset: number;
  readonly watermarkMs: number | null;
}

export class Counter {
  readonly #options: CounterOptions;
  readonly #merge: MergeReader;
  readonly #tracer: CountTracer | null;
  #counted: BatchCounter | null = null;
  #lastCommitMs = 0;
  #upserting: Promise<void> | null = null;
  #retryAtMs = 0;
  /** Wall clock before the last look that found every partition fully read. */
  #readUntilMs = 0;
  #asOfMs = 0;
  #committed: LogPosition = new Map();
  failure: Error | null = null;
  lastUpsertError: Error | null = null;

  constructor(options: CounterOptions) {
    this.#options = options;
    this.#tracer = options.tracer ?? null;
    this.#merge = new MergeReader(options.reader);
  }

  /** Loads the state; after it, every row that is not settled waits to be upserted again. */
  async open(): Promise<void> {
    const { journal, counting, warehouse, deadLetters } = this.#options;
    const state = await CounterState.open(journal, new Counting(counting));
    if (state.isNew) state.sequence = await warehouse.maxLiveVersion();
    const { maxSkewMs } = counting;
    this.#counted = new BatchCounter({ state, deadLetters, maxSkewMs, tracer: this.#tracer });
    this.#counted.hold([...state.counting.windows.rows()]);
    this.#committed = new Map(state.positions);
    this.#lastCommitMs = monotonicMs();
    try {
      await this.#findPartitions();
    } catch (error) {
      // Opened all the same, so that an operator can ask what is wrong and rebuild.
      if (!(error instanceof LedgerError)) throw error;
      this.failure = error;
    }
  }

  /** Counts until `signal` stops it; then commits and upserts what it has. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      if (this.failure !== null) throw this.failure;
      while (!signal.aborted) {
        const progressed = await this.step();
        if (!progressed) await sleep(POLL_MS, signal);
      }
      await this.#commit();
      await this.#upserting;
      await this.#upsert();
    } catch (error) {
      this.failure = error as Error;
      throw error;
    } finally {
      await this.#upserting;
      await this.#counted?.state.close();
    }
  }

  /** One slice of work; false when everything in the log is counted, or counting has to wait. */
  async step(): Promise<boolean> {
    const startedMs = monotonicMs();
    const lookedAtMs = this.#options.clock();
    await this.#findPartitions();
    let more = true;
    do {
      if (this.#mustWait()) {
        more = false;
        break;
      }
      await this.#merge.refill();
      const batch = this.#merge.next();
      if (batch === null) {
        this.#readUntilMs = lookedAtMs;
        more = false;
        break;
      }
      this.#count(batch);
      if (this.#opened().sinceCommit >= this.#options.commitRecords) await this.#commit();
    } while (monotonicMs() - startedMs < SLICE_MS);
    if (monotonicMs() - this.#lastCommitMs >= this.#options.upsertIntervalMs) {
      await this.#commit();
      this.#startUpsert();
    }
    await new Promise((resolve) => setImmediate(resolve));
    return more;
  }

  /** Counts everything that is in the log now and has the warehouse take it (for commands and tests). */
  async catchUp(): Promise<void> {
    if (this.failure !== null) throw this.failure;
    do {
      while (await this.step());
      await this.#commit();
      await this.#upserting;
      await this.#upsert();
    } while (this.heldRows === 0 && (await this.step()));
    if (this.heldRows > 0) throw this.lastUpsertError ?? new Error('rows are still held');
  }

  async close(): Promise<void> {
    await this.#upserting;
    await this.#counted?.state.close();
  }

  /** The warehouse does not keep up: stop reading, the log keeps everything. */
  #mustWait(): boolean {
    return this.heldRows >= this.#options.maxHeldRows;
  }

  #opened(): BatchCounter {
    if (this.#counted === null) throw new Error('the counter is not open');
    return this.#counted;
  }

  async #findPartitions(): Promise<void> {
    const { state } = this.#opened();
    for (const partition of await this.#options.reader.partitions()) {
      if (this.#merge.progress.has(partition)) continue;
      const range = await this.#options.reader.range(partition);
      const position = state.positions.get(partition);
      if (position !== undefined && position > range.endOffset) {
        throw new LedgerError(
          'position_ahead_of_log',
          `partition ${partition}: counted up to ${position}, but the log ends at ${range.endOffset}`,
          {
            hint: 'The log is not the one that was counted. Put it back, or run "clickledger rebuild".',
          },
        );
      }
      this.#merge.add(partition, position ?? range.firstOffset);
    }
  }

  #count(batch: RecordBatch): void {
    const counted = this.#opened();
    const { nextOffset } = this.#merge.progress.get(batch.partition)!;
    const from = Math.max(0, nextOffset - batch.firstOffset);
    counted.state.beginPartition(batch.partition, batch.firstOffset + from, batch.appendedAtMs);
    counted.count(batch, { from, to: batch.count });
    this.#merge.done(batch);
  }

  async #commit(): Promise<void> {
    const counted = this.#opened();
    this.#lastCommitMs = monotonicMs();
    if (counted.hasWork) {
      counted.hold(await counted.commit()); // 1, 2
    }
    this.#committed = new Map(counted.state.positions);
    if (this.heldRows === 0 && this.#upserting === null) {
      this.#asOfMs = Math.max(this.#asOfMs, this.#readUntilMs);
    }
  }

  #startUpsert(): void {
    if (this.#upserting !== null || this.heldRows === 0) return;
    if (monotonicMs() < this.#retryAtMs) return;
    this.#upserting = this.#upsert().finally(() => {
      this.#upserting = null;
    });
  }

  async #upsert(): Promise<void> {
    if (this.heldRows === 0) return;
    const { state, held } = this.#opened();
    const rows = held.take();
    const settled = state.settledNow();
    const readUntilMs = this.#readUntilMs;
    this.#tracer?.upserting();
    try {
      await this.#options.warehouse.upsertLive(rows.map(liveRowOf), ++state.sequence); // 3
    } catch (error) {
      this.#tracer?.upserted(false);
      held.giveBack(rows);
      this.lastUpsertError = error as Error;
      this.#retryAtMs = monotonicMs() + RETRY_MS;
      this.#options.onError?.(error as Error, 'upsert of live rows');
      return;
    }
    this.#tracer?.upserted(true);
    this.lastUpsertError = null;
    this.#asOfMs = Math.max(this.#asOfMs, readUntilMs);
    this.#options.onUpsert?.();
    state.evict(settled); // 4
  }

  /** Every record that the log took before this time is in the warehouse's live rows. */
  get asOfMs(): number {
    return this.#asOfMs;
  }

  /** Next offset per partition as of the last commit: what a restart would begin at. */
  get committedPositions(): LogPosition {
    return this.#committed;
  }

  get heldRows(): number {
    return this.#counted?.held.size ?? 0;
  }

  /** Records by outcome since the beginning of the log. */
  outcomes(): Record<Outcome, number> {
    const sums = noOutcomes();
    for (const totals of this.#counted?.state.outcomes.values() ?? []) {
      for (const outcome of OUTCOMES) sums[outcome] += totals[outcome];
    }
    return sums;
  }

  /** Event time that the counter has reached; null when every partition is idle. */
  watermarkMs(): number | null {
    const watermarks = this.#counted?.state.counting.watermarks;
    return watermarks?.overall((partition) => this.#merge.isIdle(partition)) ?? null;
  }

  partitions(): CounterPartitionStatus[] {
    const state = this.#counted?.state;
    if (state === undefined) return [];
    return [...state.positions].map(([partition, nextOffset]) => {
      const watermarkMs = state.counting.watermarks.of(partition);
      return {
        partition,
        nextOffset,
        watermarkMs: Number.isFinite(watermarkMs) ? watermarkMs : null,
      };
    });
  }

  memory(): { claims: number; claimBytes: number; openRows: number; forgotten: number } {
    const counting = this.#counted?.state.counting;
    return {
      claims: counting?.claims.size ?? 0,
      claimBytes: counting?.claims.memoryBytes ?? 0,
      openRows: counting?.windows.size ?? 0,
      forgotten: counting?.forgotten ?? 0,
    };
  }
}
