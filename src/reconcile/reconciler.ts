/**
 * The reconciler: turns closed hours final, in order, and restates final hours whose raw clicks or
 * verdicts changed. Several processes may have one each; they take turns, an hour at a time (`turns.ts`).
 *
 * F1 An hour turns final only when it is closed, the archive covers it without a hole, and every one
 *    of its objects is there with its checksum.
 * F2 `final_until` never jumps over an hour: hours are published in order, one after the other.
 * F3 Running again changes nothing: an hour whose objects are those of its published revision is left
 *    alone, and one whose recount gives the same rows keeps its revision.
 * F4 Verdicts are taken while no process recounts an hour, and those that are new are searched for in
 *    final hours before anything else: an hour was counted with a verdict, or is found by the search
 *    (Q1, Q2), or is pending.
 * F5 What a turn decides rests on what it has learnt at its beginning. What others see of this process
 *    between turns (`look`) is some seconds old at most, and never called final before it is.
 *
 * What happens to one hour, and in which order, is in `finaliser.ts`.
 */
import type { Manifest } from '../archive/manifest.ts';
import { HOUR_MS } from '../archive/names.ts';
import type { ObjectStore } from '../archive/port.ts';
import type { Leases, SharedState } from '../control/port.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { VerdictArchive } from '../verdicts/archive.ts';
import type { HourState, Warehouse } from '../warehouse/port.ts';
import { digestRows, readFinalRecord } from './final-record.ts';
import { Finaliser } from './finaliser.ts';
import type { HourIndexes } from './hour-index.ts';
import { HourSource } from './hour-source.ts';
import type { PendingHours } from './pending-hours.ts';
import { PublishedHours } from './published-hours.ts';
import type { TakenBack } from './recount.ts';
import type { KeptFrom } from './rows-in-force.ts';
import type { TakenBackFiles } from './taken-back.ts';
import { BUSY, type Busy, type Patience, type Turn, Turns } from './turns.ts';
import { type SearchedVerdicts, VerdictSearch } from './verdict-search.ts';

export interface ReconcilerOptions {
  readonly store: ObjectStore;
  readonly manifest: Manifest;
  readonly warehouse: Warehouse;
  readonly indexes: HourIndexes;
  readonly leases: Leases;
  readonly state: SharedState;
  readonly pending: PendingHours;
  readonly takenBack: TakenBackFiles;
  readonly verdicts: VerdictArchive;
  readonly searched: SearchedVerdicts;
  readonly clock: Clock;
  readonly delayMs: number;
  readonly lookbackMs: number;
  /** How far before `final_until` verdicts reach. */
  readonly verdictReachMs: number;
  readonly driftAlert: number;
  /** From when on the warehouse still has every minute and hour row. */
  readonly keptFrom: () => KeptFrom;
  /** How long after its end an hour's minutes still take clicks in the stream. */
  readonly latenessMs: number;
  /** Append time through which every partition is archived without a hole. */
  readonly coveredUntilMs: () => Promise<number>;
  /** Archives what the log holds, and has the stream's rows written, before hours are compared. */
  readonly settle: () => Promise<void>;
  /**
   * Brings `manifest` up to what others have archived: all of it for a turn, for a look what costs
   * little, since looks come again and again.
   */
  readonly refresh: (why: 'turn' | 'look') => Promise<void>;
  /** How long requests wait for their turn. */
  readonly patience?: Patience;
  readonly onHour?: (result: HourResult) => void;
}

export interface HourResult {
  readonly hour: HourState;
  readonly kind: 'final' | 'restated' | 'unchanged';
  readonly driftAlert: boolean;
  readonly memoryBytes: number;
  readonly durationMs: number;
}

export interface ReconcileOptions {
  readonly untilMs?: number;
  readonly signal?: AbortSignal;
}

/** Why the next hour does not turn final, in words for `status`. */
export interface StuckHour {
  readonly hourMs: number;
  readonly code: string;
  readonly reason: string;
}

export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #source: HourSource;
  readonly #published: PublishedHours;
  readonly #finaliser: Finaliser;
  readonly #turns: Turns;
  readonly verdictSearch: VerdictSearch;
  stuck: StuckHour | null = null;
  /** The hour that is worked on, for `stuck`. */
  #working: number | null = null;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#source = new HourSource(options);
    this.#published = new PublishedHours(options.warehouse);
    const [source, published] = [this.#source, this.#published];
    this.#finaliser = new Finaliser({ ...options, source, published });
    this.#turns = new Turns({ ...options, learn: () => this.#learn() });
    this.verdictSearch = new VerdictSearch({ ...options, source });
  }

  async open(): Promise<void> {
    await this.look();
  }

  /** Reads what others have published, noted and archived since, without a turn of its own (F5). */
  look(): Promise<void> {
    return this.#look('look');
  }

  async #look(why: 'turn' | 'look'): Promise<void> {
    await this.#options.pending.around(() => this.#published.load());
    await this.#options.refresh(why);
    // A recount that runs here goes through the verdicts, which must not change under it.
    if (!this.#turns.isRunning) await this.verdictSearch.learn();
  }

  /** The beginning of a turn: first its number, so that what is read then stays true (N1, N2). */
  async #learn(): Promise<number> {
    const turn = await this.#options.pending.beginTurn();
    await this.#published.load();
    await this.#options.refresh('turn');
    await this.verdictSearch.learn();
    return turn;
  }

  /** End of the last final hour, ms UTC; 0 when none is final. */
  get finalUntilMs(): number {
    return this.#published.finalUntilMs;
  }

  /** Changes with everything that is published, here or elsewhere. */
  get revisions(): number {
    return this.#published.revisions;
  }

  /** Whether this process has the turn now. */
  get hasTurn(): boolean {
    return this.#turns.isOurs;
  }

  hour(hourMs: number): HourState | undefined {
    return this.#published.get(hourMs);
  }

  /**
   * Finalises every hour that is due and restates those whose input changed. With `untilMs`, hours
   * that end by then are due without the configured delay; never before their lateness is over.
   *
   * While another process is at it, this ends with what it has done so far; with `untilMs` it waits.
   * Once `signal` is aborted no other hour is begun.
   */
  async reconcile(options: ReconcileOptions = {}): Promise<HourResult[]> {
    const results: HourResult[] = [];
    this.#working = null;
    try {
      await this.#look('turn');
      // Whoever has given way has found nothing out.
      if ((await this.#round(options, results)) !== BUSY) this.stuck = null;
    } catch (error) {
      this.#noteStuck(error);
      throw error;
    }
    return results;
  }

  async #round(
    { untilMs, signal }: ReconcileOptions,
    results: HourResult[],
  ): Promise<Busy | undefined> {
    // Most looks find nothing to do, and then nobody else need wait for us.
    if (untilMs === undefined && !(await this.#hasWork())) return undefined;
    const inTurn = <T>(note: string, work: (turn: Turn) => Promise<T>): Promise<T | Busy> =>
      untilMs === undefined ? this.#turns.tryTurn(note, work) : this.#turns.turn(note, work);
    const begun = await inTurn('looking for hours that changed', (turn) =>
      this.#prepare(untilMs, turn),
    );
    if (begun === BUSY) return BUSY;
    // Until none is left: an hour that gained an impression takes it from a later one, and both
    // would bill it until the later one is recounted too.
    while (signal?.aborted !== true) {
      const hourMs = await this.#candidate(untilMs);
      if (hourMs === null) return undefined;
      const result = await inTurn(noteOf(hourMs), (turn) => this.#workOn(hourMs, untilMs, turn));
      if (result === BUSY) return BUSY;
      if (result !== null) results.push(result);
      await this.#turns.giveWay();
    }
    return BUSY;
  }

  async #hasWork(): Promise<boolean> {
    if (this.verdictSearch.isNeeded || this.#changedHours().length > 0) return true;
    return this.#isTimeUp();
  }

  async #prepare(untilMs: number | undefined, turn: Turn): Promise<void> {
    // Not at every look: settling writes out whatever the log holds, however little.
    if (untilMs !== undefined || (await this.#isTimeUp())) {
      await this.#options.settle();
      await this.#options.refresh('turn');
    }
    await this.verdictSearch.run(this.finalUntilMs, turn); // F4
  }

  /** The hour to work on next: the first that changed, or else the next one when its time is up. */
  async #candidate(untilMs: number | undefined): Promise<number | null> {
    const [changed] = this.#changedHours();
    if (changed !== undefined) return changed;
    const hourMs = this.#nextHour();
    if (hourMs === null) return null;
    const isWanted = untilMs !== undefined && hourMs + HOUR_MS <= untilMs;
    return isWanted || (await this.#isDelayOver(hourMs)) ? hourMs : null;
  }

  /** Null when another process was there first. */
  async #workOn(
    hourMs: number,
    untilMs: number | undefined,
    turn: Turn,
  ): Promise<HourResult | null> {
    if ((await this.#candidate(untilMs)) !== hourMs) return null;
    this.#working = hourMs;
    if (hourMs >= this.finalUntilMs) await this.#requireClosed(hourMs);
    return this.#finaliser.run(hourMs, turn);
  }

  /** Recounts one hour again, whatever its input; it must be final already or be the next one due. */
  async reconcileHour(hourMs: number): Promise<HourResult> {
    if (hourMs % HOUR_MS !== 0) {
      throw new LedgerError('hour_invalid', `${hourMs} is not the start of an hour`);
    }
    return this.#turns.turn(noteOf(hourMs), async (turn) => {
      await this.#options.settle();
      await this.#options.refresh('turn');
      const next = this.#nextHour();
      if (hourMs >= this.finalUntilMs && hourMs !== next) {
        throw new LedgerError('hour_not_next', `${iso(hourMs)} cannot turn final yet`, {
          hint:
            next === null
              ? 'The archive holds no clicks yet.'
              : `Hours turn final in order and the next is ${iso(next)}; use --until.`,
        });
      }
      if (hourMs === next) await this.#requireClosed(hourMs);
      return this.#finaliser.run(hourMs, turn);
    });
  }

  /** Whether hours that were final once are not yet, because the warehouse was lost or is built again. */
  async isBehind(): Promise<boolean> {
    const hourMs = this.#nextHour();
    return hourMs !== null && (await readFinalRecord(this.#options.store, hourMs, 1)) !== null;
  }

  /** Runs `work` while no process recounts an hour; `note` says to others what it is. */
  withoutRecounts<T>(note: string, work: (turn: Turn) => Promise<T>): Promise<T> {
    return this.#turns.turn(note, work);
  }

  /**
   * What the recount in force of a final hour has taken back; null when the hour is not final, or is
   * about to be restated. Recounts the hour when the file is missing, as it is where another machine
   * has made the hour final.
   */
  async takenBack(hourMs: number): Promise<TakenBack | null> {
    const known = this.#takenBackInForce(hourMs);
    if (known !== 'missing') return known;
    return this.#turns.after(async () => {
      await this.verdictSearch.learn();
      const again = this.#takenBackInForce(hourMs);
      const hour = this.#published.get(hourMs);
      if (again !== 'missing' || hour === undefined) return again === 'missing' ? null : again;
      const count = await this.#source.recount(hourMs);
      const record = await readFinalRecord(this.#options.store, hourMs, hour.revision);
      // An earlier hour has changed and this one does not know it yet.
      if (record?.rowsDigest !== digestRows(count.rows)) return null;
      await this.#options.takenBack.write(hour, count.takenBack);
      this.#finaliser.prune(hour);
      return count.takenBack;
    });
  }

  #takenBackInForce(hourMs: number): TakenBack | 'missing' | null {
    const hour = this.#published.get(hourMs);
    if (hour === undefined || this.#options.pending.has(hourMs)) return null;
    if (hour.inputDigest !== this.#source.digest(hourMs)) return null;
    return this.#options.takenBack.read(hour) ?? 'missing';
  }

  #noteStuck(error: unknown): void {
    const hourMs = this.#working ?? this.#nextHour() ?? 0;
    const code = error instanceof LedgerError ? error.code : 'unexpected';
    this.stuck = { hourMs, code, reason: (error as Error).message };
  }

  /** Whether final hours that touch the range are known to be restated, and are not yet. */
  isChanging(fromMs: number, toMs: number): boolean {
    return this.#changedHours().some((each) => each + HOUR_MS > fromMs && each < toMs);
  }

  /** Final hours whose objects are no longer those of their revision, and those that are pending. */
  #changedHours(): number[] {
    const finalUntilMs = this.finalUntilMs;
    const changed = new Set(this.#options.pending.hours().filter((each) => each < finalUntilMs));
    for (const hourMs of this.#options.manifest.hours()) {
      if (hourMs >= finalUntilMs) break;
      if (this.#published.get(hourMs)?.inputDigest !== this.#source.digest(hourMs)) {
        changed.add(hourMs);
      }
    }
    return [...changed].sort((a, b) => a - b);
  }

  /** The hour that `final_until` stands at; before the first one, the archive's first hour. */
  #nextHour(): number | null {
    const finalUntilMs = this.finalUntilMs;
    return finalUntilMs > 0 ? finalUntilMs : (this.#options.manifest.hours()[0] ?? null);
  }

  /** Whether the clock allows the next hour to turn final; with an empty archive nobody can tell yet. */
  async #isTimeUp(): Promise<boolean> {
    const hourMs = this.#nextHour();
    return hourMs === null || (await this.#isDelayOver(hourMs));
  }

  /**
   * Whether the delay of an hour is over, or did not matter before: an hour that was final once, with
   * `--until`, is due at once when a `rebuild` that died has left it behind.
   */
  async #isDelayOver(hourMs: number): Promise<boolean> {
    const closedAtMs = this.#closedAtMs(hourMs);
    const nowMs = this.#options.clock();
    if (closedAtMs <= nowMs) return true;
    if (closedAtMs - this.#options.delayMs > nowMs) return false;
    return (await readFinalRecord(this.#options.store, hourMs, 1)) !== null;
  }

  #closedAtMs(hourMs: number): number {
    return hourMs + HOUR_MS + this.#options.latenessMs + this.#options.delayMs;
  }

  /** F1, the part about time: nothing that the log may still take can belong to the hour on time. */
  async #requireClosed(hourMs: number): Promise<void> {
    const closesAtMs = hourMs + HOUR_MS + this.#options.latenessMs;
    if (this.#options.clock() < closesAtMs) {
      throw new LedgerError('hour_open', `${iso(hourMs)} is open until ${iso(closesAtMs)}`, {
        kind: 'retry',
        hint: 'Wait until then: a final number must not change because a click was still on its way.',
      });
    }
    const coveredMs = await this.#options.coveredUntilMs();
    if (coveredMs < closesAtMs) {
      throw new LedgerError(
        'hour_not_covered',
        `${iso(hourMs)}: the archive covers the log only through ${iso(coveredMs)}, not ${iso(closesAtMs)}`,
        { kind: 'retry', hint: '"clickledger status" shows which partition is behind and why.' },
      );
    }
  }
}

function noteOf(hourMs: number): string {
  return `hour ${iso(hourMs)}`;
}

function iso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
