/**
 * The reconciler: turns closed hours final, in order, and restates final hours whose raw clicks or
 * verdicts changed.
 *
 * F1 An hour turns final only when it is closed, the archive covers it without a hole, and every one
 *    of its objects is there with its checksum.
 * F2 `final_until` never jumps over an hour: hours are published in order, one after the other.
 * F3 Running again changes nothing: an hour whose objects are those of its published revision is left
 *    alone, and one whose recount gives the same rows keeps its revision.
 * F4 Verdicts are taken while no hour is recounted, and those that are new are searched for in final
 *    hours before anything else: an hour was counted with a verdict, or is found by the search.
 *
 * The effects for one hour, in order, and what holds if the process dies right after each:
 *   1. attempt reserved        – the number is never used again; nothing else has happened
 *   2. minute and hour rows,   – invisible: no publication names the attempt; written anew next time
 *      and what was taken back
 *   3. day rows                – invisible for the same reason
 *   4. later hours noted       – they are recounted once more than needed, which changes nothing
 *   5. final record archived   – the next run finds it and publishes the same revision
 *   6. published               – final; what is left is tidying up
 *   7. index stored and pruned – made again from the archive when it is missing
 */
import { checkArchive } from '../archive/audit.ts';
import type { Manifest } from '../archive/manifest.ts';
import { HOUR_MS } from '../archive/names.ts';
import type { ObjectStore } from '../archive/port.ts';
import { type Clock, monotonicMs } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { VerdictArchive } from '../verdicts/archive.ts';
import type {
  DayState,
  HourState,
  Publication,
  Restatement,
  Warehouse,
} from '../warehouse/port.ts';
import { compareWithLive, restate } from './compare.ts';
import { digestRows, type FinalRecord, readFinalRecord, writeFinalRecord } from './final-record.ts';
import type { HourIndexes } from './hour-index.ts';
import { type HourRecount, HourSource } from './hour-source.ts';
import type { PendingHours } from './pending-hours.ts';
import { adKeyOf, type RecountBefore, type TakenBack } from './recount.ts';
import { type HourChange, type KeptFrom, RowsInForce } from './rows-in-force.ts';
import type { TakenBackFiles } from './taken-back.ts';
import { type SearchedVerdicts, VerdictSearch } from './verdict-search.ts';

const DAY_MS = 24 * HOUR_MS;

export interface ReconcilerOptions {
  readonly store: ObjectStore;
  readonly manifest: Manifest;
  readonly warehouse: Warehouse;
  readonly indexes: HourIndexes;
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
  readonly onHour?: (result: HourResult) => void;
}

export interface HourResult {
  readonly hour: HourState;
  readonly kind: 'final' | 'restated' | 'unchanged';
  readonly driftAlert: boolean;
  readonly memoryBytes: number;
  readonly durationMs: number;
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
  readonly #inForce: RowsInForce;
  readonly verdictSearch: VerdictSearch;
  #published = new Map<number, HourState>();
  #turn: Promise<unknown> = Promise.resolve();
  stuck: StuckHour | null = null;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
    this.#source = new HourSource(options);
    this.#inForce = new RowsInForce(options);
    this.verdictSearch = new VerdictSearch({ ...options, source: this.#source });
  }

  async open(): Promise<void> {
    const hours = await this.#options.warehouse.hours(0, Number.MAX_SAFE_INTEGER);
    this.#published = new Map(hours.map((hour) => [hour.hourMs, hour]));
  }

  /** End of the last final hour, ms UTC; 0 when none is final. */
  get finalUntilMs(): number {
    let last = Number.NEGATIVE_INFINITY;
    for (const hourMs of this.#published.keys()) if (hourMs > last) last = hourMs;
    return Number.isFinite(last) ? last + HOUR_MS : 0;
  }

  hour(hourMs: number): HourState | undefined {
    return this.#published.get(hourMs);
  }

  /**
   * Finalises every hour that is due and restates those whose input changed. With `untilMs`, hours
   * that end by then are due without the configured delay; never before their lateness is over.
   */
  reconcile(options: { untilMs?: number } = {}): Promise<HourResult[]> {
    return this.#exclusively(async () => {
      // Not at every look: settling writes out whatever the log holds, however little.
      if (options.untilMs !== undefined || (await this.#isTimeUp())) await this.#options.settle();
      const results: HourResult[] = [];
      try {
        await this.verdictSearch.run(this.finalUntilMs); // F4
        // Until none is left: an hour that gained an impression takes it from a later one, and both
        // would bill it until the later one is recounted too.
        for (let hours = this.#changedHours(); hours.length > 0; hours = this.#changedHours()) {
          for (const hourMs of hours) results.push(await this.#recount(hourMs));
        }
        for (;;) {
          const hourMs = this.#nextHour();
          if (hourMs === null || !(await this.#isDue(hourMs, options.untilMs))) break;
          results.push(await this.#recount(hourMs));
        }
        this.stuck = null;
      } catch (error) {
        this.#noteStuck(error);
        throw error;
      }
      return results;
    });
  }

  /** Recounts one hour again, whatever its input; it must be final already or be the next one due. */
  reconcileHour(hourMs: number): Promise<HourResult> {
    return this.#exclusively(async () => {
      if (hourMs % HOUR_MS !== 0) {
        throw new LedgerError('hour_invalid', `${hourMs} is not the start of an hour`);
      }
      await this.#options.settle();
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
      return this.#recount(hourMs);
    });
  }

  /** Whether hours that were final once are not yet, because the warehouse was lost or is built again. */
  async isBehind(): Promise<boolean> {
    const hourMs = this.#nextHour();
    return hourMs !== null && (await readFinalRecord(this.#options.store, hourMs, 1)) !== null;
  }

  /** Runs `work` while no hour is being recounted. */
  withoutRecounts<T>(work: () => Promise<T>): Promise<T> {
    return this.#exclusively(work);
  }

  /**
   * What the recount in force of a final hour has taken back; null when the hour is not final, or is
   * about to be restated. Recounts the hour when the file is missing.
   */
  async takenBack(hourMs: number): Promise<TakenBack | null> {
    const known = this.#takenBackInForce(hourMs);
    if (known !== 'missing') return known;
    return this.#exclusively(async () => {
      const again = this.#takenBackInForce(hourMs);
      const hour = this.#published.get(hourMs);
      if (again !== 'missing' || hour === undefined) return again === 'missing' ? null : again;
      const count = await this.#source.recount(hourMs);
      const record = await readFinalRecord(this.#options.store, hourMs, hour.revision);
      // An earlier hour has changed and this one does not know it yet.
      if (record?.rowsDigest !== digestRows(count.rows)) return null;
      await this.#options.takenBack.write(hour, count.takenBack);
      return count.takenBack;
    });
  }

  #takenBackInForce(hourMs: number): TakenBack | 'missing' | null {
    const hour = this.#published.get(hourMs);
    if (hour === undefined || this.#options.pending.has(hourMs)) return null;
    if (hour.inputDigest !== this.#source.digest(hourMs)) return null;
    return this.#options.takenBack.read(hour) ?? 'missing';
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => {});
    return result;
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

  #working: number | null = null;

  /** Final hours whose objects are no longer those of their revision, and those noted by effect 4. */
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

  async #isDue(hourMs: number, untilMs: number | undefined): Promise<boolean> {
    const isWanted = untilMs !== undefined && hourMs + HOUR_MS <= untilMs;
    if (!isWanted && !(await this.#isDelayOver(hourMs))) return false;
    await this.#requireClosed(hourMs);
    return true;
  }

  /** F1, the part about time: nothing that the log may still take can belong to the hour on time. */
  async #requireClosed(hourMs: number): Promise<void> {
    this.#working = hourMs;
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

  /** F1, the part about objects. */
  async #requireIntact(hourMs: number): Promise<void> {
    const problems = await checkArchive(this.#options.store, this.#options.manifest, [hourMs]);
    const first = problems.find((problem) => problem.kind !== 'orphan');
    if (first === undefined) return;
    throw new LedgerError('archive_damaged', `${iso(hourMs)}: ${first.message}`, {
      hint: 'Put the object back from a copy; the hour stays as it is until the archive is whole.',
    });
  }

  async #recount(hourMs: number): Promise<HourResult> {
    const startedMs = monotonicMs();
    const { warehouse, indexes, pending, takenBack } = this.#options;
    this.#working = hourMs;
    await this.#requireIntact(hourMs);
    const inputDigest = this.#source.digest(hourMs);
    const before = this.#published.get(hourMs);
    const count = await this.#source.recount(hourMs, this.#recountBefore(before, inputDigest));
    const change = await this.#inForce.changeOf(before, count.rows, this.#published);
    const record = await this.#revise(hourMs, inputDigest, count, change);
    const attempt = await warehouse.nextAttempt('hour', hourMs); // 1
    await warehouse.writeFinalHour(hourMs, attempt, count.rows); // 2
    await takenBack.write({ hourMs, attempt, inputDigest }, count.takenBack); // 2
    const day = await this.#writeDay(hourMs, attempt, change); // 3
    if (before !== undefined || hourMs < this.finalUntilMs) this.#noteLater(hourMs, count); // 4
    await writeFinalRecord(this.#options.store, record); // 5
    const hour: HourState = { ...record.hour, attempt, inputDigest };
    for (const each of await this.#unpublished(record, before)) {
      const { drift, restatements } = each;
      const state: HourState = { ...each.hour, attempt, inputDigest };
      await this.#publish({ hour: state, day, drift, restatements }); // 6
    }
    await indexes.write(hourMs, inputDigest, count.impressions); // 7
    const keepFromMs = this.#keepFromMs();
    indexes.prune(keepFromMs, hourMs, inputDigest);
    takenBack.prune(keepFromMs, hour);
    pending.remove(hourMs);
    const kind = before === undefined ? 'final' : changed(before, hour) ? 'restated' : 'unchanged';
    const driftAlert = kind === 'final' && hour.driftMax > this.#options.driftAlert;
    const durationMs = monotonicMs() - startedMs;
    const { memoryBytes } = count;
    const result = { hour, kind, driftAlert, memoryBytes, durationMs } as const;
    this.#options.onHour?.(result);
    return result;
  }

  /** What is remembered of the recount in force, in derived files; null when there is nothing. */
  #recountBefore(before: HourState | undefined, inputDigest: string): RecountBefore | null {
    const { takenBack, indexes } = this.#options;
    const back = before === undefined ? null : takenBack.read(before);
    if (before === undefined || back === null) return null;
    const isSame = before.inputDigest === inputDigest;
    const impressions = isSame ? null : indexes.read(before.hourMs, before.inputDigest);
    return { takenBack: back, impressions };
  }

  /** Hours before it are neither looked back into nor reached by verdicts. */
  #keepFromMs(): number {
    const { lookbackMs, verdictReachMs } = this.#options;
    return this.finalUntilMs - Math.max(lookbackMs, verdictReachMs) - HOUR_MS;
  }

  /**
   * The record of the revision to publish: an archived one with these very rows (published already,
   * interrupted after effect 5, or found again by `rebuild`), or a new one behind the newest.
   */
  async #revise(
    hourMs: number,
    inputDigest: string,
    count: HourRecount,
    change: HourChange,
  ): Promise<FinalRecord> {
    const rowsDigest = digestRows(count.rows);
    const published = this.#published.get(hourMs)?.revision ?? 0;
    // Of revisions that were archived and never became visible: they lead on from the rows before.
    const unpublished: Restatement[] = [];
    let newest: FinalRecord | null = null;
    for (let revision = 1; ; revision++) {
      const known = await readFinalRecord(this.#options.store, hourMs, revision);
      if (known === null) break;
      newest = known;
      if (revision > published) unpublished.push(...known.restatements);
    }
    if (newest?.rowsDigest === rowsDigest) return newest;
    const revision = (newest?.hour.revision ?? 0) + 1;
    const was = this.#published.get(hourMs) ?? newest?.hour;
    const restated = hourMs < this.finalUntilMs || was !== undefined;
    const cause = !restated ? 'first' : causeOf(was, inputDigest, count);
    const finalAtMs = this.#options.clock();
    const live = await this.#options.warehouse.liveTotals(hourMs);
    const { drift, driftMax, liveClicks } = compareWithLive(
      hourMs,
      revision,
      live,
      count.byAdvertiser,
    );
    const { records, counted, duplicate, notBillable, invalid } = count;
    const outcomes = { records, counted, duplicate, notBillable, invalid };
    // A warehouse that was lost has no rows of a revision that the archive knows.
    const lost = published === 0 ? newest : null;
    const rows = lost === null ? change.before : await this.#inForce.ofLost(lost, this.#published);
    const before = { rows: rows ?? [], restatements: lost === null ? unpublished : [] };
    const restatements =
      restated && rows !== null
        ? restate({ hourMs, revision, cause, atMs: finalAtMs }, before, change.after)
        : [];
    return {
      rowsDigest,
      hour: { hourMs, revision, finalAtMs, cause, ...outcomes, liveClicks, driftMax, inputDigest },
      drift,
      // Late clicks and a verdict may come together: each ad is told what happened to it.
      restatements: restatements.map((each) =>
        count.adsOfVerdicts?.has(adKeyOf(each)) ? { ...each, cause: 'verdict' } : each,
      ),
    };
  }

  /**
   * The record, and before it those of earlier revisions that the warehouse does not know (after
   * `rebuild`, or a death after effect 5): published in order, under the one attempt whose rows are the
   * newest, so that every revision's drift and restatements are seen.
   */
  async #unpublished(record: FinalRecord, before: HourState | undefined): Promise<FinalRecord[]> {
    const records: FinalRecord[] = [];
    for (let revision = (before?.revision ?? 0) + 1; revision < record.hour.revision; revision++) {
      const earlier = await readFinalRecord(this.#options.store, record.hour.hourMs, revision);
      if (earlier !== null) records.push(earlier);
    }
    const isNew = (before?.revision ?? 0) < record.hour.revision;
    return [...records, isNew ? record : { ...record, drift: [], restatements: [] }];
  }

  /** The day's rows, once its last hour turns final or one of its hours changes after that. */
  async #writeDay(hourMs: number, attempt: number, change: HourChange): Promise<DayState | null> {
    const dayMs = hourMs - (hourMs % DAY_MS);
    const finalUntilMs = Math.max(this.finalUntilMs, hourMs + HOUR_MS);
    if (dayMs + DAY_MS > finalUntilMs) return null;
    const { warehouse } = this.#options;
    const dayAttempt = await warehouse.nextAttempt('day', dayMs);
    if (!this.#inForce.isDayKept(dayMs)) {
      const rows = await this.#inForce.dayRows(hourMs, change, this.#published);
      await warehouse.writeDayRows(dayMs, dayAttempt, rows);
      return { dayMs, attempt: dayAttempt };
    }
    const attempts = new Map<number, number>();
    for (let each = dayMs; each < dayMs + DAY_MS; each += HOUR_MS) {
      const state = this.#published.get(each);
      if (state !== undefined) attempts.set(each, state.attempt);
    }
    attempts.set(hourMs, attempt);
    await warehouse.writeFinalDay(dayMs, dayAttempt, attempts);
    return { dayMs, attempt: dayAttempt };
  }

  /** Impressions that are new in this hour may have been billed later: those hours are looked at again. */
  #noteLater(hourMs: number, count: HourRecount): void {
    const before = this.#published.get(hourMs);
    const known = before && this.#options.indexes.read(hourMs, before.inputDigest);
    if (known !== undefined && known !== null && known.length === count.impressions.length) return;
    const finalUntilMs = this.finalUntilMs;
    const later = this.#source.laterHours(hourMs).filter((each) => each < finalUntilMs);
    this.#options.pending.add(later);
  }

  async #publish(publication: Publication): Promise<void> {
    await this.#options.warehouse.publish(publication);
    this.#published.set(publication.hour.hourMs, publication.hour);
  }
}

function causeOf(
  before: Pick<HourState, 'inputDigest' | 'invalid'> | undefined,
  inputDigest: string,
  { adsOfVerdicts, invalid }: HourRecount,
): string {
  if (before?.inputDigest !== inputDigest) return 'late_clicks';
  // Without the file of what was taken back before, the number of invalid clicks must tell.
  const byVerdict = adsOfVerdicts === null ? invalid !== before.invalid : adsOfVerdicts.size > 0;
  return byVerdict ? 'verdict' : 'earlier_hour_changed';
}

function changed(before: HourState, after: HourState): boolean {
  return before.revision !== after.revision;
}

function iso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
