/**
 * One partition while it belongs to this worker: taken over, counted, and begun again when it fails.
 *
 * Owns the partition's counter, its epoch and what it has committed to the group. Does not own when rows
 * are upserted and notes are written (`upsert-round.ts`).
 *
 * Q1 A failure is this partition's alone. It begins again from its journal, each time a bit later, and is
 *    shown with its reason until it counts.
 * Q2 What is gone on with after a sharing out is what the group still says of it: the epoch and the offset
 *    that were committed last. Otherwise somebody else has had the partition, and it is taken over anew.
 * Q3 A journal is dropped only when the note that begins the partition anew is committed.
 */
import type { Committed } from '../log/group.ts';
import type { ClickLogReader } from '../log/port.ts';
import { LedgerError } from '../platform/errors.ts';
import type { CountTracer } from '../telemetry/port.ts';
import type { LiveBatch } from '../warehouse/port.ts';
import { liveRowOf } from './held-rows.ts';
import {
  type CounterNote,
  type CounterProblem,
  decodeNote,
  encodeNote,
  problemOf,
  versionOf,
} from './note.ts';
import { type CountingSettings, PartitionCounter, type Prepared } from './partition-counter.ts';
import { type PumpParts, pump } from './partition-pump.ts';
import type { DeadLetterStore, JournalLog } from './port.ts';
import { type TakenOver, takeOver } from './takeover.ts';
import type { TakeoverParts } from './takeover-notes.ts';
import type { Tenure } from './tenure.ts';
import type { Places } from './turns.ts';

export interface OwnedParts extends Omit<TakeoverParts, 'assertOwned' | 'counting'>, PumpParts {
  readonly reader: ClickLogReader & TakeoverParts['reader'];
  readonly deadLetters: Pick<DeadLetterStore, 'put'>;
  readonly counting: CountingSettings;
  readonly openJournal: (partition: number) => Promise<JournalLog>;
  /** Makes way for a new journal; the state in the old one is of no use. */
  readonly dropJournal: (partition: number) => void;
  readonly newTracer: () => CountTracer | null;
  readonly onError: (error: Error, what: string) => void;
  readonly takeovers: Places;
}

export type PartitionState = 'taking over' | 'catching up' | 'counting' | 'stopped';

type Doing = 'taking over' | 'reading' | 'committing';

const RETRY_MS = 500;
const MAX_RETRY_MS = 60_000;
/** How often a partition that waits for somebody is looked at again. */
const LOOK_MS = 2_000;
const UNUSABLE = ['counter_state_lost', 'counter_state_unreadable', 'log_damaged'];

export class OwnedPartition {
  readonly partition: number;
  readonly #parts: OwnedParts;
  /** Set while rows may go out; the state itself may be there before and after. */
  counter: PartitionCounter | null = null;
  #state: PartitionCounter | null = null;
  #epoch = 0;
  #sequence = 0;
  committed: Committed | null = null;
  problem: CounterProblem | null = null;
  /** In what the problem came up: doing it again without one ends it. */
  #doing: Doing = 'taking over';
  /** Set by whoever finds that the partition cannot go on. */
  failure: Error | null = null;
  #failures = 0;
  /** Nothing is counted until somebody acts, or until it goes well again. */
  #isStopped = false;
  #hasReadAll = false;
  #maxClaims: number;

  constructor(parts: OwnedParts, partition: number) {
    this.#parts = parts;
    this.partition = partition;
    this.#maxClaims = parts.counting.maxClaims;
  }

  get state(): PartitionState {
    if (this.#isStopped) return 'stopped';
    if (this.counter === null) return 'taking over';
    return this.counter.isQuiet || !this.#hasReadAll ? 'catching up' : 'counting';
  }

  get position(): number | null {
    return this.#state?.knownPosition ?? null;
  }

  get memory(): ReturnType<PartitionCounter['memory']> | null {
    return this.#state?.memory() ?? null;
  }

  boundClaims(maxClaims: number): void {
    this.#maxClaims = maxClaims;
    this.#state?.boundClaims(maxClaims);
  }

  /** Counts until the tenure ends. */
  async run(tenure: Tenure): Promise<void> {
    this.#hasReadAll = false;
    await this.#goOnIfOurs(tenure);
    while (tenure.isRunning) {
      try {
        this.#throwFailure();
        if (this.counter === null) await this.#parts.takeovers.run(() => this.#takeOver(tenure));
        if (this.#isStopped) await tenure.sleep(LOOK_MS);
        else await this.#count(tenure);
      } catch (error) {
        if (!tenure.isRunning) return;
        await this.#fail(error as Error, tenure);
      }
    }
  }

  /** Q2. */
  async #goOnIfOurs(tenure: Tenure): Promise<void> {
    const { counter, committed } = this;
    this.counter = null;
    if (this.#state?.isLost) await this.#closeState();
    if (counter === null || this.#state === null || committed === null) return;
    if (!tenure.isRunning) return;
    try {
      const now = (await this.#parts.group.committed()).get(this.partition);
      const epoch = decodeNote(now?.note ?? '')?.epoch;
      if (epoch === this.#epoch && now?.offset === committed.offset) this.counter = counter;
    } catch {
      // Taking it over asks again.
    }
  }

  async #takeOver(tenure: Tenure): Promise<void> {
    if (!tenure.isRunning) return;
    const parts: TakeoverParts = { ...this.#parts, assertOwned: () => tenure.assertNotOver() };
    this.#state ??= await this.#openState();
    const taken = await takeOver(parts, this.partition, this.#state);
    if (taken.kind === 'stopped') {
      if (!this.#isStopped)
        this.#report(new LedgerError(taken.problem.code, taken.problem.message));
      this.#isStopped = true;
      this.problem = taken.problem;
      return;
    }
    tenure.assertNotOver();
    await this.#begin(taken);
  }

  async #begin({ epoch, begin, committed, replayFrom }: TakenOver): Promise<void> {
    if (replayFrom !== null) {
      await this.#forget(); // 3
      this.#state ??= await this.#open();
      this.#state.startAt(replayFrom, begin.origin); // 4
    }
    this.#epoch = epoch;
    this.#sequence = 0;
    this.#state!.begin(begin);
    this.#isStopped = false;
    this.problem = null;
    this.failure = null;
    this.counter = this.#state;
    this.committed = committed;
  }

  /** A state that is new already need not be dropped. */
  async #forget(): Promise<void> {
    if (this.#state !== null && this.#state.knownPosition === null) return;
    await this.#closeState();
    this.#parts.dropJournal(this.partition);
  }

  /** Null when the journal cannot be used any more: the log has everything. */
  async #openState(): Promise<PartitionCounter | null> {
    try {
      return await this.#open();
    } catch (error) {
      if (!(error instanceof LedgerError) || !UNUSABLE.includes(error.code)) throw error;
      this.#report(error);
      return null;
    }
  }

  async #open(): Promise<PartitionCounter> {
    const { partition } = this;
    const { deadLetters, openJournal, newTracer } = this.#parts;
    const journal = await openJournal(partition);
    const counting = { ...this.#parts.counting, maxClaims: this.#maxClaims };
    try {
      const tracer = newTracer();
      return await PartitionCounter.open({ partition, journal, counting, deadLetters, tracer });
    } catch (error) {
      await journal.writer.close();
      await journal.reader.close();
      throw error;
    }
  }

  /** Counts until the tenure ends, or the warehouse is to be built again. */
  async #count(tenure: Tenure): Promise<void> {
    const counter = this.counter!;
    await pump(this.#parts, {
      counter,
      tenure,
      goesOn: () => {
        this.#throwFailure();
        return !this.#isToBeginAgain();
      },
      onRead: (isEnd) => {
        this.#clear('reading');
        if (!isEnd) return;
        this.#hasReadAll = true;
        this.#failures = 0;
      },
      onCommitFailure: (error) => this.commitFailed(counter, error),
    });
    if (tenure.isRunning) this.counter = null;
  }

  #isToBeginAgain(): boolean {
    const rebuildId = this.#state?.origin?.rebuildId;
    return rebuildId !== undefined && this.#parts.rebuildId() > rebuildId;
  }

  /** Dead letters that cannot be stored now are stored with a later commit; a lost state is opened anew. */
  commitFailed(counter: PartitionCounter, error: Error): void {
    if (counter.isLost || !isPassing(error)) this.failure = error;
    else this.#show(error, 'committing');
  }

  committedState(): void {
    this.#clear('committing');
  }

  #throwFailure(): void {
    if (this.failure !== null) throw this.failure;
  }

  /** Q1. */
  async #fail(error: Error, tenure: Tenure): Promise<void> {
    this.#show(error, this.counter === null ? 'taking over' : 'reading');
    this.#report(error);
    const isUsable = this.#state !== null && !this.#state.isLost && this.failure === null;
    this.failure = null;
    if (error instanceof LedgerError && error.code === 'partition_lost') return tenure.end();
    // The log or the group could not be asked: what is counted stays as it is.
    const goesOn = isUsable && isPassing(error);
    if (!goesOn) {
      this.#isStopped ||= !isPassing(error);
      if (this.counter !== null) await this.#tellProblem(tenure);
      await this.#closeState();
    }
    const backoffMs = Math.min(MAX_RETRY_MS, RETRY_MS * 2 ** this.#failures++);
    await tenure.sleep(isPassing(error) ? Math.min(backoffMs, 8 * RETRY_MS) : backoffMs);
  }

  #show(error: Error, doing: Doing): void {
    this.#doing = doing;
    const code = error instanceof LedgerError ? error.code : 'counter_failed';
    this.problem = problemOf(code, `partition ${this.partition}: ${error.message}`);
  }

  #clear(doing: Doing): void {
    if (this.problem !== null && this.#doing === doing) this.problem = null;
  }

  /** For those who see the notes only; what cannot be written now is written by the next owner. */
  async #tellProblem(tenure: Tenure): Promise<void> {
    this.counter = null;
    const last = decodeNote(this.committed?.note ?? '');
    if (tenure.isOver || this.committed === null || last === null) return;
    const { offset } = this.committed;
    const told = encodeNote({ ...last, problem: this.problem });
    try {
      await this.#parts.group.commit(new Map([[this.partition, { offset, note: told }]]));
    } catch (error) {
      this.#report(error as Error);
    }
  }

  #report(error: Error): void {
    this.#parts.onError(error, `counting partition ${this.partition}`);
  }

  /** What another owner would go on from. */
  commitment(counter: PartitionCounter): Committed {
    const { offset, ...reached } = counter.reached();
    const note: CounterNote = {
      ...reached,
      ...counter.origin!,
      version: 1,
      epoch: this.#epoch,
      quietUntil: counter.quietUntil > offset ? counter.quietUntil : 0,
      holder: this.#parts.holder,
      problem: null,
    };
    return { offset, note: encodeNote(note) };
  }

  /** The rows with a version that is higher than any before. */
  batchOf({ rows }: Prepared): LiveBatch {
    return { rows: rows.map(liveRowOf), version: versionOf(this.#epoch, ++this.#sequence) };
  }

  async #closeState(): Promise<void> {
    const state = this.#state;
    this.#state = null;
    this.counter = null;
    await state?.close();
  }

  /** Writes nothing more; the journal stays for the next time. */
  async close(): Promise<void> {
    await this.#closeState();
  }
}

function isPassing(error: Error): boolean {
  return error instanceof LedgerError && error.kind === 'retry';
}
