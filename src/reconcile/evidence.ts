/**
 * Evidence: the raw archived clicks of an ad, each with its outcome and where it lies.
 *
 * E1 In an hour that is final, outcomes are those of the recount in force: as many clicks are `counted`
 *    as its final rows have. An hour that is about to be restated is not called final.
 * E2 Elsewhere an outcome is what can be known inside the hour, with the verdicts of now.
 * E3 One reading at a time, and few that wait: evidence reads whole objects beside the counting.
 */
import type { Manifest } from '../archive/manifest.ts';
import { HOUR_MS } from '../archive/names.ts';
import type { ArchiveObject, ObjectStore } from '../archive/port.ts';
import { LedgerError } from '../platform/errors.ts';
import type { VerdictArchive } from '../verdicts/archive.ts';
import type { Verdict } from '../verdicts/port.ts';
import {
  type AdHour,
  type AdRecord,
  type RecordPlace,
  readAdHour,
  type WantedAd,
} from './ad-hour.ts';
import { type ClickDetails, readDetails } from './click-details.ts';
import type { TakenBack } from './recount.ts';

export const EVIDENCE_OUTCOMES = ['counted', 'duplicate', 'not_billable', 'invalid'] as const;
export type EvidenceOutcome = (typeof EVIDENCE_OUTCOMES)[number];
export type OutcomeCounts = Record<EvidenceOutcome, number>;

export interface EvidencePosition extends RecordPlace {
  readonly hourMs: number;
}

export interface EvidenceQuery extends WantedAd {
  /** `[fromMs, toMs)` of `clicked_at`. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly limit: number;
  /** Last record of the page before. */
  readonly after: EvidencePosition | undefined;
}

export interface EvidenceClick extends ClickDetails, RecordPlace {
  readonly clickedAtMs: number;
  readonly outcome: EvidenceOutcome;
  readonly isFinal: boolean;
  readonly object: string;
  /** The record whose click counts instead; null when it lies in an earlier hour. */
  readonly duplicateOf: RecordPlace | null;
  readonly verdict: Verdict | null;
}

export interface EvidencePage {
  readonly clicks: readonly EvidenceClick[];
  /** Where the next page begins behind; null when there is none. A page may have fewer clicks than its limit. */
  readonly next: EvidencePosition | null;
}

export interface EvidenceOptions {
  readonly store: ObjectStore;
  readonly manifest: Manifest;
  readonly verdicts: VerdictArchive;
  /** What the recount in force of the hour has taken back; null when the hour is not final. */
  readonly takenBack: (hourMs: number) => Promise<TakenBack | null>;
  /** Records that a page looks at before it ends short; it always gets through one hour. */
  readonly maxExamined?: number;
}

interface DecidedHour extends AdHour {
  readonly hourMs: number;
  readonly takenBack: TakenBack | null;
}

const MAX_EXAMINED = 1_000_000;
const MAX_WAITING = 16;
/** Hours kept decided, for the pages of one hour; larger ones are read again. */
const KEPT_HOURS = 4;
const KEPT_RECORDS = 200_000;
const BEFORE_ALL = -1;

export class Evidence {
  readonly #options: EvidenceOptions;
  readonly #kept = new Map<string, DecidedHour>();
  #waiting = 0;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: EvidenceOptions) {
    this.#options = options;
  }

  clicks(query: EvidenceQuery): Promise<EvidencePage> {
    return this.#inTurn(() => this.#page(query));
  }

  /** How the archived clicks of an ad in a range ended. */
  outcomes(query: Omit<EvidenceQuery, 'limit' | 'after'>): Promise<OutcomeCounts> {
    return this.#inTurn(async () => {
      const counts: OutcomeCounts = { counted: 0, duplicate: 0, not_billable: 0, invalid: 0 };
      for (const hourMs of this.#hours(query)) {
        const hour = await this.#decide(hourMs, query);
        for (const record of hour.records) {
          if (isWithin(record, query)) counts[this.#outcome(hour, record)]++;
        }
      }
      return counts;
    });
  }

  /** E3 */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#waiting >= MAX_WAITING) {
      throw new LedgerError('evidence_busy', 'too many requests for evidence wait already', {
        kind: 'retry',
        hint: 'Ask again in a moment.',
      });
    }
    this.#waiting++;
    const result = this.#turn.then(work).finally(() => {
      this.#waiting--;
    });
    this.#turn = result.catch(() => {});
    return result;
  }

  #hours({ fromMs, toMs }: Pick<EvidenceQuery, 'fromMs' | 'toMs'>): number[] {
    const { manifest } = this.#options;
    return manifest.hours().filter((each) => each + HOUR_MS > fromMs && each < toMs);
  }

  async #page(query: EvidenceQuery): Promise<EvidencePage> {
    const { after, limit } = query;
    const hours = this.#hours(query).filter((each) => after === undefined || each >= after.hourMs);
    const clicks: EvidenceClick[] = [];
    let examined = 0;
    for (const [index, hourMs] of hours.entries()) {
      const hour = await this.#decide(hourMs, query);
      const behind = after?.hourMs === hourMs ? after : undefined;
      const records = hour.records.filter(
        (record) => isWithin(record, query) && (behind === undefined || isBehind(record, behind)),
      );
      const taken = records.slice(0, limit - clicks.length);
      clicks.push(...(await this.#describe(hour, taken)));
      const last = taken.at(-1);
      if (taken.length < records.length) {
        return { clicks, next: { hourMs, ...placeOf(last ?? behind ?? FIRST) } };
      }
      examined += hour.examined;
      const nextMs = hours[index + 1];
      const isFull = clicks.length >= limit || examined >= this.#maxExamined;
      if (nextMs !== undefined && isFull) return { clicks, next: { hourMs: nextMs, ...FIRST } };
    }
    return { clicks, next: null };
  }

  get #maxExamined(): number {
    return this.#options.maxExamined ?? MAX_EXAMINED;
  }

  /** The ad's records of an hour together with what its recount says, both of the same objects. */
  async #decide(hourMs: number, ad: WantedAd): Promise<DecidedHour> {
    const { store, manifest, takenBack } = this.#options;
    let objects: readonly ArchiveObject[];
    let back: TakenBack | null;
    do {
      objects = manifest.objectsOfHour(hourMs);
      back = await takenBack(hourMs);
    } while (manifest.objectsOfHour(hourMs).length !== objects.length);
    const key = JSON.stringify([hourMs, objects.length, ad.advertiserId ?? null, ad.adId]);
    const known = this.#kept.get(key);
    const read = known ?? (await readAdHour(store, objects, ad));
    const hour = { ...read, hourMs, takenBack: back };
    this.#keep(key, hour);
    return hour;
  }

  #keep(key: string, hour: DecidedHour): void {
    this.#kept.delete(key);
    if (hour.records.length > KEPT_RECORDS) return;
    this.#kept.set(key, hour);
    if (this.#kept.size > KEPT_HOURS) this.#kept.delete(this.#kept.keys().next().value!);
  }

  #outcome(hour: DecidedHour, record: AdRecord): EvidenceOutcome {
    if (record.impression < 0) return 'not_billable';
    const first = hour.firsts[record.impression]!;
    if (!isSame(first, record)) return 'duplicate';
    const words = hour.impressions.words();
    const at = record.impression * 3;
    const hash = [words[at]!, words[at + 1]!, words[at + 2]!] as const;
    if (hour.takenBack === null) {
      const isInvalid = this.#options.verdicts.table.isInvalid(hash, hour.hourMs);
      return isInvalid ? 'invalid' : 'counted';
    }
    if (hour.takenBack.seen.find(...hash) >= 0) return 'duplicate';
    return hour.takenBack.invalid.find(...hash) >= 0 ? 'invalid' : 'counted';
  }

  async #describe(hour: DecidedHour, records: readonly AdRecord[]): Promise<EvidenceClick[]> {
    const { store, verdicts } = this.#options;
    const details = await readDetails(store, records);
    const ids = details.map(({ impressionId }) => impressionId);
    const given = await verdicts.inForce(ids, hour.hourMs);
    return records.map((record, index) => {
      const detail = details[index]!;
      const outcome = this.#outcome(hour, record);
      const first = hour.firsts[record.impression];
      return {
        ...detail,
        ...placeOf(record),
        clickedAtMs: record.clickedAtMs,
        outcome,
        isFinal: hour.takenBack !== null,
        object: record.object.name,
        duplicateOf: first === undefined || isSame(first, record) ? null : placeOf(first),
        verdict: given.get(detail.impressionId) ?? null,
      };
    });
  }
}

const FIRST: RecordPlace = { partition: BEFORE_ALL, offset: BEFORE_ALL };

function placeOf({ partition, offset }: RecordPlace): RecordPlace {
  return { partition, offset };
}

function isWithin({ clickedAtMs }: AdRecord, range: { fromMs: number; toMs: number }): boolean {
  return clickedAtMs >= range.fromMs && clickedAtMs < range.toMs;
}

function isSame(a: RecordPlace, b: RecordPlace): boolean {
  return a.partition === b.partition && a.offset === b.offset;
}

function isBehind(a: RecordPlace, b: RecordPlace): boolean {
  return a.partition !== b.partition ? a.partition > b.partition : a.offset > b.offset;
}
