/**
 * The clicks of one ad in one hour of the archive, and which of them is the one of its impression
 * that counts: the earliest, as in the recount, among the records of all ads in the hour.
 *
 * Reads every object's ads, then the rest only of objects and records that matter: of an ad without
 * clicks it makes no difference whether another advertiser has it.
 */
import { readObject } from '../archive/manifest.ts';
import { rangeOfName } from '../archive/names.ts';
import { readColumns } from '../archive/parquet.ts';
import type { ArchiveObject, ObjectStore } from '../archive/port.ts';
import { ImpressionHash } from '../counting/impression-hash.ts';
import { assert } from '../platform/errors.ts';
import { HashIndex } from '../platform/hash-index.ts';

export interface WantedAd {
  readonly adId: string;
  /** Undefined: whoever's it is. */
  readonly advertiserId: string | undefined;
}

/** Where a record lies in the log, and so in the archive. */
export interface RecordPlace {
  readonly partition: number;
  readonly offset: number;
}

/** A record of the ad, with what decides its outcome. */
export interface AdRecord extends RecordPlace {
  readonly object: ArchiveObject;
  readonly clickedAtMs: number;
  /** Number of its impression in the hour; -1 when its class is not billed. */
  readonly impression: number;
}

export interface AdHour {
  /** By partition and offset. */
  readonly records: readonly AdRecord[];
  readonly impressions: HashIndex;
  /** The record of each impression that counts, unless something else takes it back. */
  readonly firsts: readonly RecordPlace[];
  /** Records of the hour that were looked at. */
  readonly examined: number;
}

const DECIDING = ['impression_id', 'clicked_at', 'class', 'partition', 'offset'] as const;
const OWNERS = ['ad_id', 'advertiser_id'] as const;

interface First extends RecordPlace {
  readonly clickedAtMs: number;
}

/** `objects` are those of one hour. */
export async function readAdHour(
  store: ObjectStore,
  objects: readonly ArchiveObject[],
  ad: WantedAd,
): Promise<AdHour> {
  const hour = new AdHourReader(store, ad);
  const sorted = inOrderOfRecords(objects);
  for (const object of sorted) await hour.collect(object);
  if (hour.impressions.size > 0) for (const object of sorted) await hour.decide(object);
  const examined = objects.reduce((sum, { rows }) => sum + rows, 0);
  const { records, impressions, firsts } = hour;
  return { records, impressions, firsts, examined };
}

/** By partition and offset: their names sort partitions as text. */
function inOrderOfRecords(objects: readonly ArchiveObject[]): ArchiveObject[] {
  const ranges = objects.map((object) => ({ object, range: rangeOfName(object.name) }));
  ranges.sort(({ range: a }, { range: b }) => {
    assert(a !== null && b !== null, 'an object of an hour is not named after its range');
    return a.partition - b.partition || a.firstOffset - b.firstOffset;
  });
  return ranges.map(({ object }) => object);
}

class AdHourReader {
  readonly records: AdRecord[] = [];
  readonly impressions = new HashIndex();
  readonly firsts: First[] = [];
  readonly #store: ObjectStore;
  readonly #ad: WantedAd;
  readonly #hash = new ImpressionHash();

  constructor(store: ObjectStore, ad: WantedAd) {
    this.#store = store;
    this.#ad = ad;
  }

  /** Takes the ad's records of an object; most objects have none and are read no further. */
  async collect(object: ArchiveObject): Promise<void> {
    const bytes = await readObject(this.#store, object);
    const { adId, advertiserId } = this.#ad;
    const wanted = new Set<number>();
    let row = 0;
    for await (const { rowCount, ad_id, advertiser_id } of readColumns(
      object.name,
      bytes,
      OWNERS,
    )) {
      for (let i = 0; i < rowCount; i++, row++) {
        const isOwn = advertiserId === undefined || advertiser_id[i] === advertiserId;
        if (ad_id[i] === adId && isOwn) wanted.add(row);
      }
    }
    if (wanted.size === 0) return;
    row = 0;
    for await (const columns of readColumns(object.name, bytes, DECIDING)) {
      for (let i = 0; i < columns.rowCount; i++, row++) {
        if (!wanted.has(row)) continue;
        const record = {
          object,
          partition: columns.partition[i]!,
          offset: columns.offset[i]!,
          clickedAtMs: columns.clicked_at[i]!,
        };
        const isBillable = columns.class[i] === 'click';
        const impression = isBillable ? this.#numberOf(columns.impression_id[i]!) : -1;
        this.records.push({ ...record, impression });
      }
    }
  }

  #numberOf(impressionId: string): number {
    const { hash0, hash1, hash2 } = this.#hashOf(impressionId);
    return this.impressions.add(hash0, hash1, hash2);
  }

  #hashOf(impressionId: string): ImpressionHash {
    this.#hash.ofText(impressionId);
    return this.#hash;
  }

  /** Looks for earlier records of the ad's impressions, whatever ad they name. */
  async decide(object: ArchiveObject): Promise<void> {
    const bytes = await readObject(this.#store, object);
    for await (const columns of readColumns(object.name, bytes, DECIDING)) {
      for (let i = 0; i < columns.rowCount; i++) {
        if (columns.class[i] !== 'click') continue;
        const { hash0, hash1, hash2 } = this.#hashOf(columns.impression_id[i]!);
        const impression = this.impressions.find(hash0, hash1, hash2);
        if (impression < 0) continue;
        const record = {
          clickedAtMs: columns.clicked_at[i]!,
          partition: columns.partition[i]!,
          offset: columns.offset[i]!,
        };
        const first = this.firsts[impression];
        if (first === undefined || isEarlier(record, first)) this.firsts[impression] = record;
      }
    }
  }
}

/** The order of the recount: `clicked_at`, then partition and offset. */
function isEarlier(a: First, b: First): boolean {
  const order = a.clickedAtMs - b.clickedAtMs || a.partition - b.partition || a.offset - b.offset;
  return order < 0;
}
