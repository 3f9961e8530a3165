/**
 * A counter among several: counts the partitions that the group gives it, each with a state and a
 * journal of its own, for as long as they are its own.
 *
 * Owns which partitions are counted here, and the pauses between two sharings out. Does not own the
 * group, the log or the warehouse; what one partition does is in `owned-partition.ts`, how one is taken
 * over in `takeover.ts`, and the numbered effects of writing are in `upsert-round.ts`.
 *
 * M1 Nothing is written outside of a tenure (`tenure.ts`): not after `pause` has resolved or `lost` was
 *    called, and not before `assigned`. An insert that was under way by then may still arrive: its version
 *    carries the epoch of its owner, and loses to the next one's.
 * M2 A partition that cannot go on stops alone.
 * M3 `pause` gives everything to the next owner that it can within its time. What the warehouse does not
 *    take is upserted by the next owner, from its journal or from the log (V3).
 */
import { noOutcomes, OUTCOMES, type OutcomeTotals } from '../counting/types.ts';
import type { GroupHandlers, PartitionGroup } from '../log/group.ts';
import type { ClickLogReader, LogTimes } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import type { CountTracer } from '../telemetry/port.ts';
import type { Warehouse } from '../warehouse/port.ts';
import { type CounterNote, type CounterProblem, decodeNote } from './note.ts';
import { OwnedPartition, type PartitionState } from './owned-partition.ts';
import type { CountingSettings } from './partition-counter.ts';
import type { DeadLetterStore, JournalLog } from './port.ts';
import type { LiveGap } from './takeover-notes.ts';
import { Tenure } from './tenure.ts';
import { Places, Turns } from './turns.ts';
import { UpsertRounds } from './upsert-round.ts';

export interface CounterWorkerOptions {
  readonly group: PartitionGroup;
  readonly reader: ClickLogReader & LogTimes;
  readonly warehouse: Pick<Warehouse, 'upsertLiveBatches' | 'maxLiveVersion'>;
  readonly deadLetters: Pick<DeadLetterStore, 'put'>;
  /** Opened by the worker, and closed by it; of one partition it is never open twice. */
  readonly openJournal: (partition: number) => Promise<JournalLog>;
  /** Called while it is closed: the next `openJournal` begins a new one. */
  readonly dropJournal: (partition: number) => void;
  readonly clock: Clock;
  /** `maxClaims` is for all partitions together. */
  readonly counting: CountingSettings;
  readonly upsertIntervalMs: number;
  readonly commitRecords: number;
  /** Most rows that wait for the warehouse, of all partitions together. */
  readonly maxHeldRows: number;
  /** Names this process to people who look at notes. */
  readonly holder: string;
  /** Rises when the warehouse was emptied to be built again. */
  readonly rebuildId: () => number;
  /** By partition, where the log may begin in spite of what is missing before. */
  readonly acceptedGaps: () => ReadonlyMap<number, number>;
  /** Live numbers miss clicks; told before counting goes on, possibly more than once. */
  readonly onGap: (gap: LiveGap) => Promise<void>;
  /** Each partition's counter is followed by a tracer of its own. */
  readonly newTracer?: () => CountTracer | null;
  /** Live rows have changed. */
  readonly onUpsert?: () => void;
  readonly onError?: (error: Error, what: string) => void;
  /** Longest time that `pause` takes. */
  readonly pauseMs?: number;
}

export interface WorkerPartitionStatus {
  readonly partition: number;
  readonly state: PartitionState;
  /** Next offset to be counted; null before there is a state. */
  readonly nextOffset: number | null;
  readonly committedOffset: number | null;
  readonly watermarkMs: number | null;
  readonly asOfMs: number;
  readonly problem: CounterProblem | null;
}

const PAUSE_MS = 10_000;
/** Share of a pause after which the warehouse is waited for no longer. */
const UPSERT_SHARE = 0.8;
const READS_AT_ONCE = 16;
const TAKEOVERS_AT_ONCE = 4;

export class CounterWorker implements GroupHandlers {
  readonly #options: CounterWorkerOptions;
  readonly #owned = new Map<number, OwnedPartition>();
  readonly #rounds: UpsertRounds;
  readonly #turns = new Turns();
  readonly #reads = new Places(READS_AT_ONCE);
  readonly #takeovers = new Places(TAKEOVERS_AT_ONCE);
  #tenure: Tenure | null = null;
  /** Everything that this worker does in the background. */
  #work: Promise<void> = Promise.resolve();

  constructor(options: CounterWorkerOptions) {
    this.#options = options;
    const { group, warehouse } = options;
    this.#rounds = new UpsertRounds({
      group,
      warehouse,
      onUpsert: () => options.onUpsert?.(),
      onError: (error, what) => options.onError?.(error, what),
    });
  }

  /** Joins the group; partitions come when it gives some. */
  start(): void {
    this.#options.group.join(this);
  }

  async assigned(partitions: readonly number[]): Promise<void> {
    this.#tenure?.end();
    const tenure = new Tenure();
    this.#tenure = tenure;
    const before = this.#work;
    this.#work = before
      .then(() => this.#begin(tenure, partitions))
      .catch((error: Error) => this.#options.onError?.(error, 'counting'));
  }

  /** M3. */
  async pause(): Promise<void> {
    const tenure = this.#tenure;
    if (tenure === null) return;
    tenure.pause();
    const pauseMs = this.#options.pauseMs ?? PAUSE_MS;
    const round = this.#rounds.round(tenure, this.#all);
    // Whatever comes next waits for a round that outlasts the pause.
    this.#work = Promise.all([this.#work, round]).then(() => {});
    const isDone = await within(pauseMs * UPSERT_SHARE, round);
    if (!isDone) {
      await within(pauseMs * (1 - UPSERT_SHARE), this.#rounds.commitOnly(tenure, this.#all()));
    }
    tenure.end();
  }

  readonly #all = (): OwnedPartition[] => [...this.#owned.values()];

  lost(): void {
    this.#tenure?.end();
  }

  /** Gives everything back and closes what is open. */
  async close(): Promise<void> {
    await this.#options.group.leave();
    this.#tenure?.end();
    // An insert that hangs is nobody's any more.
    await within(this.#options.pauseMs ?? PAUSE_MS, this.#work);
    for (const owned of this.#owned.values()) await owned.close();
    this.#owned.clear();
  }

  async #begin(tenure: Tenure, partitions: readonly number[]): Promise<void> {
    if (!tenure.isRunning) return;
    for (const [partition, owned] of this.#owned) {
      if (partitions.includes(partition)) continue;
      this.#owned.delete(partition);
      await owned.close();
    }
    for (const partition of partitions) {
      if (!this.#owned.has(partition)) this.#owned.set(partition, this.#newPartition(partition));
    }
    const share = Math.floor(this.#options.counting.maxClaims / Math.max(1, this.#owned.size));
    for (const owned of this.#owned.values()) owned.boundClaims(share);
    const counting = [...this.#owned.values()].map((owned) => owned.run(tenure));
    await Promise.all([...counting, this.#upsertAgainAndAgain(tenure)]);
  }

  #newPartition(partition: number): OwnedPartition {
    const { onError, newTracer, ...options } = this.#options;
    return new OwnedPartition(
      {
        ...options,
        newTracer: () => newTracer?.() ?? null,
        onError: (error, what) => onError?.(error, what),
        mustWait: () => this.heldRows >= this.#options.maxHeldRows,
        turns: this.#turns,
        reads: this.#reads,
        takeovers: this.#takeovers,
      },
      partition,
    );
  }

  async #upsertAgainAndAgain(tenure: Tenure): Promise<void> {
    while (tenure.isRunning) {
      await tenure.sleep(this.#options.upsertIntervalMs);
      if (tenure.isRunning) await this.#rounds.round(tenure, this.#all);
    }
  }

  get lastUpsertError(): Error | null {
    return this.#rounds.lastUpsertError;
  }

  get heldRows(): number {
    let rows = 0;
    for (const { counter } of this.#owned.values()) rows += counter?.heldRows ?? 0;
    return rows;
  }

  /** How often partitions were shared out since the start. */
  get rebalances(): number {
    return this.#options.group.status().rebalances;
  }

  partitions(): WorkerPartitionStatus[] {
    const all = [...this.#owned.values()].sort((a, b) => a.partition - b.partition);
    return all.map(({ partition, state, position, committed, problem }) => {
      const note = noteOf(committed);
      return {
        partition,
        state,
        nextOffset: position,
        committedOffset: committed?.offset ?? null,
        watermarkMs: note?.watermarkMs ?? null,
        asOfMs: note?.asOfMs ?? 0,
        problem,
      };
    });
  }

  /** Before this time the log took no record of our partitions that is not in the live rows. */
  get asOfMs(): number {
    const all = this.partitions().map(({ asOfMs }) => asOfMs);
    return all.length === 0 ? 0 : Math.min(...all);
  }

  /** Records of our partitions by outcome, as they are committed. */
  outcomes(): OutcomeTotals {
    const sums = noOutcomes();
    for (const { committed } of this.#owned.values()) {
      const outcomes = noteOf(committed)?.outcomes;
      for (const outcome of OUTCOMES) sums[outcome] += outcomes?.[outcome] ?? 0;
    }
    return sums;
  }

  memory(): { claims: number; claimBytes: number; openRows: number; forgotten: number } {
    const sums = { claims: 0, claimBytes: 0, openRows: 0, forgotten: 0 };
    for (const { memory } of this.#owned.values()) {
      if (memory === null) continue;
      sums.claims += memory.claims;
      sums.claimBytes += memory.claimBytes;
      sums.openRows += memory.openRows;
      sums.forgotten += memory.forgotten;
    }
    return sums;
  }

  /** What stands in the way of counting, in words; null when nothing does. */
  get waitsFor(): string | null {
    const { waitsFor } = this.#options.group.status();
    if (waitsFor !== null) return waitsFor;
    if (this.#tenure === null || !this.#tenure.isRunning) return 'partitions are being shared out';
    const all = this.partitions();
    const coming = all.filter(({ state }) => state === 'taking over');
    if (coming.length === 0) return null;
    const why = coming.find(({ problem }) => problem !== null)?.problem?.message;
    return `${coming.length} of ${all.length} partitions are being taken over${why === undefined ? '' : `: ${why}`}`;
  }
}

function noteOf(committed: { readonly note: string } | null): CounterNote | null {
  return committed === null ? null : decodeNote(committed.note);
}

/** Waits for the work, but not for longer; whether it has ended. */
async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  const isDone = await Promise.race([work.then(() => true), late]);
  clearTimeout(timer);
  return isDone;
}
