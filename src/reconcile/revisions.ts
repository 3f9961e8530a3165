/** Which revision a recount makes of an hour, and which revisions the warehouse does not know yet. */
import type { ObjectStore } from '../archive/port.ts';
import type { Clock } from '../platform/clock.ts';
import type { HourState, Restatement, Warehouse } from '../warehouse/port.ts';
import { compareWithLive, restate } from './compare.ts';
import { digestRows, type FinalRecord, readFinalRecord } from './final-record.ts';
import type { HourRecount } from './hour-source.ts';
import type { PublishedHours } from './published-hours.ts';
import { adKeyOf } from './recount.ts';
import type { HourChange, RowsInForce } from './rows-in-force.ts';

export interface RevisionsOptions {
  readonly store: ObjectStore;
  readonly warehouse: Pick<Warehouse, 'liveTotals'>;
  readonly clock: Clock;
  readonly inForce: RowsInForce;
  readonly published: PublishedHours;
}

/** A recount of an hour, and what it was made of. */
export interface Counted {
  readonly hourMs: number;
  readonly inputDigest: string;
  readonly count: HourRecount;
  readonly change: HourChange;
}

export class Revisions {
  readonly #options: RevisionsOptions;

  constructor(options: RevisionsOptions) {
    this.#options = options;
  }

  /**
   * The record of the revision to publish: an archived one with these very rows (published already,
   * interrupted after effect 5, or found again by `rebuild`), or a new one behind the newest.
   */
  async of(counted: Counted): Promise<FinalRecord> {
    const { hourMs, count } = counted;
    const published = this.#options.published.get(hourMs)?.revision ?? 0;
    // Of revisions that were archived and never became visible: they lead on from the rows before.
    const unpublished: Restatement[] = [];
    let newest: FinalRecord | null = null;
    for (let revision = 1; ; revision++) {
      const known = await readFinalRecord(this.#options.store, hourMs, revision);
      if (known === null) break;
      newest = known;
      if (revision > published) unpublished.push(...known.restatements);
    }
    if (newest?.rowsDigest === digestRows(count.rows)) return newest;
    return this.#next(counted, newest, unpublished);
  }

  async #next(
    { hourMs, inputDigest, count, change }: Counted,
    newest: FinalRecord | null,
    unpublished: readonly Restatement[],
  ): Promise<FinalRecord> {
    const { published, inForce, warehouse, clock } = this.#options;
    const state = published.get(hourMs);
    const revision = (newest?.hour.revision ?? 0) + 1;
    const was = state ?? newest?.hour;
    const restated = hourMs < published.finalUntilMs || was !== undefined;
    const cause = !restated ? 'first' : causeOf(was, inputDigest, count);
    const finalAtMs = clock();
    const live = await warehouse.liveTotals(hourMs);
    const { drift, driftMax, liveClicks } = compareWithLive(
      hourMs,
      revision,
      live,
      count.byAdvertiser,
    );
    const { records, counted, duplicate, notBillable, invalid } = count;
    const outcomes = { records, counted, duplicate, notBillable, invalid };
    // A warehouse that was lost has no rows of a revision that the archive knows.
    const lost = state === undefined ? newest : null;
    const rows = lost === null ? change.before : await inForce.ofLost(lost, published.all);
    const before = { rows: rows ?? [], restatements: lost === null ? unpublished : [] };
    const restatements =
      restated && rows !== null
        ? restate({ hourMs, revision, cause, atMs: finalAtMs }, before, change.after)
        : [];
    return {
      rowsDigest: digestRows(count.rows),
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
  async toPublish(record: FinalRecord, before: HourState | undefined): Promise<FinalRecord[]> {
    const records: FinalRecord[] = [];
    for (let revision = (before?.revision ?? 0) + 1; revision < record.hour.revision; revision++) {
      const { store } = this.#options;
      const earlier = await readFinalRecord(store, record.hour.hourMs, revision);
      if (earlier !== null) records.push(earlier);
    }
    const isNew = (before?.revision ?? 0) < record.hour.revision;
    return [...records, isNew ? record : { ...record, drift: [], restatements: [] }];
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
