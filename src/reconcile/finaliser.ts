/**
 * Makes one hour final, or restates it: recounts it and brings the result into force.
 *
 * The effects, in order, and what holds if the process dies right after each:
 *   1. attempt reserved        – the number is never used again; nothing else has happened
 *   2. minute and hour rows,   – invisible: no publication names the attempt; written anew next time
 *      and what was taken back
 *   3. day rows                – invisible for the same reason
 *   4. the hour noted, and     – they are recounted once more than needed, which changes nothing
 *      later hours with it
 *   5. final record archived   – the next run finds it and publishes the same revision
 *   6. published               – final; what is left is tidying up
 *   7. index stored and pruned – made again from the archive when it is missing
 *   8. the hour's note removed – done
 *
 * And what holds if the process is stopped before an effect for so long that its turn is lost, others
 * work on, and it wakes up and goes on (T4):
 *   1. The number is higher than theirs, but 5 or 6 is refused.
 *   2, 3. Invisible: the attempt is nobody else's.
 *   4. Hours are recounted once more.
 *   5. Refused when they have archived this revision (`object_differs`). When they have not, it lies
 *      there unpublished, and they lead on from it (`revisions.ts`).
 *   6. It loses against what they have published of the hour: their attempt is higher, and their
 *      revision not lower, since they have seen the record (W5). If they have not come to the hour yet,
 *      it counts for now: but it may lack verdicts that they took, and its day the other hours that
 *      they published. The note of effect 4 is still there (N2), and so they recount hour and day.
 *   7. Files of this process only.
 *   8. Nothing is removed (N1).
 * The lease is asserted between 4 and 5, and between 5 and 6. That is what makes 6 right: whoever
 * publishes had the turn after its note was written, so every later turn has begun with that note.
 */
import { checkArchive } from '../archive/audit.ts';
import { HOUR_MS } from '../archive/names.ts';
import { monotonicMs } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { DayState, HourState } from '../warehouse/port.ts';
import { Attempts } from './attempts.ts';
import { type FinalRecord, writeFinalRecord } from './final-record.ts';
import type { HourRecount, HourSource } from './hour-source.ts';
import type { PublishedHours } from './published-hours.ts';
import type { HourResult, ReconcilerOptions } from './reconciler.ts';
import type { RecountBefore } from './recount.ts';
import { Revisions } from './revisions.ts';
import { type HourChange, objectsOfDigest, RowsInForce } from './rows-in-force.ts';
import { type Turn, unlessOvertaken } from './turns.ts';

const DAY_MS = 24 * HOUR_MS;

export interface FinaliserOptions extends ReconcilerOptions {
  readonly source: HourSource;
  readonly published: PublishedHours;
}

export class Finaliser {
  readonly #options: FinaliserOptions;
  readonly #inForce: RowsInForce;
  readonly #revisions: Revisions;
  readonly #attempts: Attempts;

  constructor(options: FinaliserOptions) {
    this.#options = options;
    this.#inForce = new RowsInForce(options);
    this.#revisions = new Revisions({ ...options, inForce: this.#inForce });
    this.#attempts = new Attempts(options.warehouse, options.state);
  }

  async run(hourMs: number, turn: Turn): Promise<HourResult> {
    const startedMs = monotonicMs();
    const { warehouse, takenBack, pending, source, published } = this.#options;
    await this.#requireIntact(hourMs);
    // Nothing is waited for between the digest and the reading of the objects that it is made of.
    const inputDigest = source.digest(hourMs);
    const before = published.get(hourMs);
    const count = await source.recount(hourMs, this.#recountBefore(before, inputDigest));
    const change = await this.#inForce.changeOf(before, count.rows, published.all);
    const record = await this.#revisions.of({ hourMs, inputDigest, count, change });
    const attempt = await this.#attempts.next('hour', hourMs); // 1
    await warehouse.writeFinalHour(hourMs, attempt, count.rows); // 2
    await takenBack.write({ hourMs, attempt, inputDigest }, count.takenBack); // 2
    const day = await this.#writeDay(hourMs, attempt, change); // 3
    await pending.add([hourMs, ...(await this.#laterHours(hourMs, before, count))]); // 4
    await turn.assertHeld();
    await this.#archive(record); // 5
    const hour: HourState = { ...record.hour, attempt, inputDigest };
    for (const each of await this.#revisions.toPublish(record, before)) {
      const { drift, restatements } = each;
      const state: HourState = { ...each.hour, attempt, inputDigest };
      await turn.assertHeld();
      await unlessOvertaken(iso(hourMs), () =>
        published.publish({ hour: state, day, drift, restatements }),
      ); // 6
    }
    await this.#tidyUp(hour, count); // 7
    await pending.remove(hourMs, turn.number); // 8
    return this.#report(before, hour, { count, startedMs });
  }

  #report(
    before: HourState | undefined,
    hour: HourState,
    { count, startedMs }: { readonly count: HourRecount; readonly startedMs: number },
  ): HourResult {
    const isRestated = before !== undefined && before.revision !== hour.revision;
    const kind = before === undefined ? 'final' : isRestated ? 'restated' : 'unchanged';
    const driftAlert = kind === 'final' && hour.driftMax > this.#options.driftAlert;
    const durationMs = monotonicMs() - startedMs;
    const { memoryBytes } = count;
    const result = { hour, kind, driftAlert, memoryBytes, durationMs } as const;
    this.#options.onHour?.(result);
    return result;
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

  #archive(record: FinalRecord): Promise<void> {
    const { hourMs, revision } = record.hour;
    return unlessOvertaken(`revision ${revision} of ${iso(hourMs)}`, () =>
      writeFinalRecord(this.#options.store, record),
    );
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

  /** The day's rows, once its last hour turns final or one of its hours changes after that. */
  async #writeDay(hourMs: number, attempt: number, change: HourChange): Promise<DayState | null> {
    const { warehouse, published } = this.#options;
    const dayMs = hourMs - (hourMs % DAY_MS);
    const finalUntilMs = Math.max(published.finalUntilMs, hourMs + HOUR_MS);
    if (dayMs + DAY_MS > finalUntilMs) return null;
    const dayAttempt = await this.#attempts.next('day', dayMs);
    if (!this.#inForce.isDayKept(dayMs)) {
      const rows = await this.#inForce.dayRows(hourMs, change, published.all);
      await warehouse.writeDayRows(dayMs, dayAttempt, rows);
      return { dayMs, attempt: dayAttempt };
    }
    const attempts = new Map<number, number>();
    for (let each = dayMs; each < dayMs + DAY_MS; each += HOUR_MS) {
      const state = published.get(each);
      if (state !== undefined) attempts.set(each, state.attempt);
    }
    attempts.set(hourMs, attempt);
    await warehouse.writeFinalDay(dayMs, dayAttempt, attempts);
    return { dayMs, attempt: dayAttempt };
  }

  /** Final hours that may have billed impressions that are new in this hour: they are looked at again. */
  async #laterHours(
    hourMs: number,
    before: HourState | undefined,
    count: HourRecount,
  ): Promise<number[]> {
    const { published, source } = this.#options;
    const { finalUntilMs } = published;
    if (before === undefined && hourMs >= finalUntilMs) return [];
    const known = before === undefined ? null : await this.#impressionsOf(before);
    if (known?.length === count.impressions.length) return [];
    return source.laterHours(hourMs).filter((each) => each < finalUntilMs);
  }

  /** The impressions of a recount that may have been another machine's; null when they cannot be had. */
  async #impressionsOf({ hourMs, inputDigest }: HourState): Promise<Uint32Array | null> {
    const { indexes, manifest, source } = this.#options;
    const known = indexes.read(hourMs, inputDigest);
    if (known !== null) return known;
    // Reading one hour is less than recounting all that look back into it.
    const objects = objectsOfDigest(manifest.objectsOfHour(hourMs), inputDigest);
    return objects === null ? null : source.impressionsIn(objects);
  }

  async #tidyUp(hour: HourState, count: HourRecount): Promise<void> {
    await this.#options.indexes.write(hour.hourMs, hour.inputDigest, count.impressions);
    this.prune(hour);
  }

  /** Removes derived files of other recounts of the hour, and of hours that nothing looks back into. */
  prune(hour: HourState): void {
    const { indexes, takenBack, published, lookbackMs, verdictReachMs } = this.#options;
    const keepFromMs = published.finalUntilMs - Math.max(lookbackMs, verdictReachMs) - HOUR_MS;
    indexes.prune(keepFromMs, hour.hourMs, hour.inputDigest);
    takenBack.prune(keepFromMs, hour);
  }
}

function iso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
