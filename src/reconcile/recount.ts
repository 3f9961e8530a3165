/**
 * The recount of one hour: every archived record of the hour through the same counting module as the
 * stream, with no lateness and no dedup window, minus impressions that were clicked in an earlier
 * hour of the look-back, minus those that a verdict calls invalid.
 *
 * Pure but for what it is handed to read: the same objects, earlier hours and verdicts give the same rows.
 */
import { Counting } from '../counting/counting.ts';
import { ImpressionHash } from '../counting/impression-hash.ts';
import { emptyRecord, type OpenRow } from '../counting/types.ts';
import { MINUTE_MS } from '../counting/windows.ts';
import { decodeRowKey, type RowKey } from '../event/codec.ts';
import { assert } from '../platform/errors.ts';
import { HashIndex } from '../platform/hash-index.ts';
import type { FinalRow } from '../warehouse/port.ts';
import { type RowKeyFields, RowKeys } from './row-keys.ts';

/** A batch of archived records, by column; times in ms UTC. */
export interface RecountColumns {
  readonly rowCount: number;
  readonly impression_id: ArrayLike<string>;
  readonly ad_id: ArrayLike<string>;
  readonly advertiser_id: ArrayLike<string>;
  readonly campaign_id: ArrayLike<string>;
  readonly clicked_at: ArrayLike<number>;
  readonly country: ArrayLike<string>;
  readonly device: ArrayLike<string>;
  readonly class: ArrayLike<string>;
  readonly partition: ArrayLike<number>;
  readonly offset: ArrayLike<number>;
}

export const RECOUNT_COLUMNS = [
  'impression_id',
  'ad_id',
  'advertiser_id',
  'campaign_id',
  'clicked_at',
  'country',
  'device',
  'class',
  'partition',
  'offset',
] as const;

export interface HourCount {
  /** Minute rows with clicks, sorted by advertiser, ad and time. */
  readonly rows: readonly FinalRow[];
  /** Outcomes of the hour's records; they sum to `records`. */
  readonly records: number;
  readonly counted: number;
  readonly duplicate: number;
  readonly notBillable: number;
  /** Clicks that would count but for a verdict. */
  readonly invalid: number;
  /** Counted clicks per advertiser. */
  readonly byAdvertiser: ReadonlyMap<string, number>;
}

/** Hashes of impressions whose click in the hour was taken back. */
export interface TakenBack {
  /** An earlier hour has the impression: its click is the one that counts. */
  readonly seen: HashIndex;
  /** A verdict calls it invalid. */
  readonly invalid: HashIndex;
}

/** An earlier recount of the same hour, to tell what verdicts have changed since. */
export interface RecountBefore {
  readonly takenBack: TakenBack;
  /** Hashes of the hour's impressions then; null when they are those of now. */
  readonly impressions: Uint32Array | null;
}

/** Names an ad of an advertiser in a set or map. */
export function adKeyOf({ advertiserId, adId }: Pick<FinalRow, 'advertiserId' | 'adId'>): string {
  return JSON.stringify([advertiserId, adId]);
}

/** Everything in one hour, whatever its order: no record is late and none expires. */
const RECOUNT_OPTIONS = {
  dedupWindowMs: Number.POSITIVE_INFINITY,
  watermarkLagMs: 0,
  latenessMs: Number.POSITIVE_INFINITY,
  maxClaims: Number.POSITIVE_INFINITY,
};
/** Minutes of an hour. */
const MINUTES = 60;

export class Recount {
  readonly #counting = new Counting(RECOUNT_OPTIONS);
  readonly #hash = new ImpressionHash();
  readonly #rowKeys = new RowKeys();
  readonly #fields: RowKeyFields = {
    advertiserId: '',
    campaignId: '',
    adId: '',
    country: '',
    device: '',
  };
  readonly #record = emptyRecord();
  #records = 0;
  #counted = 0;
  #duplicate = 0;
  #notBillable = 0;
  readonly #seen = new HashIndex();
  readonly #invalid = new HashIndex();
  /** Row key of each invalid click, by its number in `#invalid`. */
  readonly #invalidKeys: string[] = [];

  add(columns: RecountColumns): void {
    const record = this.#record;
    for (let i = 0; i < columns.rowCount; i++) {
      this.#hash.ofText(columns.impression_id[i]!);
      record.hash0 = this.#hash.hash0;
      record.hash1 = this.#hash.hash1;
      record.hash2 = this.#hash.hash2;
      record.partition = columns.partition[i]!;
      record.offset = columns.offset[i]!;
      record.clickedAtMs = columns.clicked_at[i]!;
      record.billable = columns.class[i] === 'click';
      const fields = this.#fields;
      fields.advertiserId = columns.advertiser_id[i]!;
      fields.campaignId = columns.campaign_id[i]!;
      fields.adId = columns.ad_id[i]!;
      fields.country = columns.country[i]!;
      fields.device = columns.device[i]!;
      record.rowKey = this.#rowKeys.of(fields);
      this.#tally();
    }
  }

  #tally(): void {
    this.#records++;
    const outcome = this.#counting.apply(this.#record);
    if (outcome === 'counted') this.#counted++;
    else if (outcome === 'duplicate') this.#duplicate++;
    else if (outcome === 'not_billable') this.#notBillable++;
    else assert(false, `the recount gave the outcome ${outcome}`);
  }

  /** Hashes of every impression clicked in the hour: three words each, for later hours' look-back. */
  impressions(): Uint32Array {
    const { claims } = this.#counting;
    const words = new Uint32Array(claims.size * 3);
    let at = 0;
    claims.forEach((claim) => {
      words[at] = claim.hash0;
      words[at + 1] = claim.hash1;
      words[at + 2] = claim.hash2;
      at += 3;
    });
    return words;
  }

  /** Takes back clicks on impressions that an earlier hour has: theirs was the earlier click. */
  removeSeen(earlier: Uint32Array): void {
    for (let at = 0; at < earlier.length; at += 3) {
      const row = this.#takeBack(earlier[at]!, earlier[at + 1]!, earlier[at + 2]!);
      if (row === null) continue;
      this.#seen.add(earlier[at]!, earlier[at + 1]!, earlier[at + 2]!);
      this.#counted--;
      this.#duplicate++;
    }
  }

  /**
   * Takes back the click on an impression that a verdict calls invalid. After `removeSeen`: a click
   * that an earlier hour has is a duplicate whatever becomes of the earlier one, since the impression
   * stays used up.
   */
  removeInvalid(hash0: number, hash1: number, hash2: number): void {
    const row = this.#takeBack(hash0, hash1, hash2);
    if (row === null) return;
    this.#invalid.add(hash0, hash1, hash2);
    this.#invalidKeys.push(row.rowKey);
    this.#counted--;
  }

  /** The row that had counted the impression's click, or null when none counts it. */
  #takeBack(hash0: number, hash1: number, hash2: number): OpenRow | null {
    const { claims, windows } = this.#counting;
    if (!claims.find(hash0, hash1, hash2)) return null;
    const row = windows.byId(claims.foundRowId);
    if (row === undefined) return null;
    windows.add(row, -1);
    claims.unassignFound();
    return row;
  }

  /** What was taken back, and why. */
  get takenBack(): TakenBack {
    return { seen: this.#seen, invalid: this.#invalid };
  }

  /**
   * Ads (`adKeyOf`) whose clicks a verdict has changed since an earlier recount: clicks that it had
   * counted and are invalid now, and clicks that were invalid and count again.
   */
  adsOfVerdicts(before: RecountBefore): Set<string> {
    const ads = new Set<string>();
    for (const rowKey of this.#madeInvalid(before)) ads.add(adKeyOf(decodeRowKey(rowKey)));
    const { claims, windows } = this.#counting;
    const were = before.takenBack.invalid.words();
    for (let at = 0; at < were.length; at += 3) {
      if (!claims.find(were[at]!, were[at + 1]!, were[at + 2]!)) continue;
      const row = windows.byId(claims.foundRowId);
      if (row !== undefined) ads.add(adKeyOf(decodeRowKey(row.rowKey)));
    }
    return ads;
  }

  /** Row keys of clicks that were there before and not invalid: a late click may come invalid already. */
  #madeInvalid({ takenBack, impressions }: RecountBefore): Set<string> {
    const words = this.#invalid.words();
    const fresh = new Set<number>();
    for (const number of this.#invalidKeys.keys()) {
      const at = number * 3;
      const wasInvalid = takenBack.invalid.find(words[at]!, words[at + 1]!, words[at + 2]!) >= 0;
      if (!wasInvalid) fresh.add(number);
    }
    if (fresh.size === 0 || impressions === null) return this.#keysOf(fresh);
    const known = new Set<number>();
    for (let at = 0; at < impressions.length; at += 3) {
      const hash1 = impressions[at + 1]!;
      const number = this.#invalid.find(impressions[at]!, hash1, impressions[at + 2]!);
      if (fresh.has(number)) known.add(number);
    }
    return this.#keysOf(known);
  }

  #keysOf(numbers: ReadonlySet<number>): Set<string> {
    return new Set([...numbers].map((number) => this.#invalidKeys[number]!));
  }

  /** Bytes of the largest thing that it holds. */
  get memoryBytes(): number {
    return this.#counting.claims.memoryBytes;
  }

  result(): HourCount {
    const byAdvertiser = new Map<string, number>();
    const open = [...this.#counting.windows.rows()].filter((row) => row.clicks !== 0);
    let sum = 0;
    for (const { clicks } of open) {
      assert(clicks > 0, 'a row counts fewer than no clicks');
      sum += clicks;
    }
    assert(sum === this.#counted, 'rows and outcomes disagree');
    const rows = sortedRows(open);
    for (const { advertiserId, clicks } of rows) {
      byAdvertiser.set(advertiserId, (byAdvertiser.get(advertiserId) ?? 0) + clicks);
    }
    const [records, counted, duplicate, notBillable, invalid] = [
      this.#records,
      this.#counted,
      this.#duplicate,
      this.#notBillable,
      this.#invalid.size,
    ];
    const outcomes = counted + duplicate + notBillable + invalid;
    assert(outcomes === records, 'outcomes do not sum to the records');
    return { rows, records, counted, duplicate, notBillable, invalid, byAdvertiser };
  }
}

/**
 * The rows in the order of `compareRows`. An hour has millions of rows of a few thousand keys: the
 * texts are compared once per key, the rows by one number each.
 */
function sortedRows(open: readonly OpenRow[]): FinalRow[] {
  const keys = new Map<string, RowKey>();
  for (const { rowKey } of open) {
    if (!keys.has(rowKey)) keys.set(rowKey, decodeRowKey(rowKey));
  }
  // Before the minute come advertiser and ad, behind it the rest: one rank for each side.
  const front = ranks(keys, ({ advertiserId, adId }) => [advertiserId, adId]);
  const back = ranks(keys, ({ country, device, campaignId }) => [country, device, campaignId]);
  const backs = Math.max(0, ...back.values()) + 1;
  const startMs = open.reduce((least, row) => Math.min(least, row.minuteMs), Infinity);
  const keyed = open.map(({ rowKey, minuteMs, clicks }) => {
    const minute = (minuteMs - startMs) / MINUTE_MS;
    const order = (front.get(rowKey)! * MINUTES + minute) * backs + back.get(rowKey)!;
    return { order, row: { ...keys.get(rowKey)!, minuteMs, clicks } };
  });
  return keyed.sort((a, b) => a.order - b.order).map(({ row }) => row);
}

/** The place of each key among all, by the fields named; equal fields, equal place. */
function ranks(
  keys: ReadonlyMap<string, RowKey>,
  fieldsOf: (key: RowKey) => readonly string[],
): Map<string, number> {
  const entries = [...keys].map(([rowKey, key]) => ({ rowKey, fields: fieldsOf(key) }));
  const compareFields = (a: readonly string[], b: readonly string[]): number =>
    a.reduce((result, field, at) => result || compare(field, b[at]!), 0);
  entries.sort((a, b) => compareFields(a.fields, b.fields));
  const places = new Map<string, number>();
  let place = 0;
  for (const [at, { rowKey, fields }] of entries.entries()) {
    if (at > 0 && compareFields(entries[at - 1]!.fields, fields) !== 0) place++;
    places.set(rowKey, place);
  }
  return places;
}

export function compareRows(a: FinalRow, b: FinalRow): number {
  return (
    compare(a.advertiserId, b.advertiserId) ||
    compare(a.adId, b.adId) ||
    a.minuteMs - b.minuteMs ||
    compare(a.country, b.country) ||
    compare(a.device, b.device) ||
    compare(a.campaignId, b.campaignId)
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
