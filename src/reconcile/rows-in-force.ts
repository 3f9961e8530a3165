/**
 * The rows in force of a final hour, also when the warehouse may have dropped them: past their time to
 * live the engine drops rows whenever it likes, part by part.
 *
 * B1 Rows are read from a tier only while it keeps all of them: minutes, then hours. After that they
 *    are recounted from what the revision was counted from, and believed only when they have the digest
 *    that the archive has of it.
 * B2 A day is summed from hour rows only while those are kept. After that it is the day in force with
 *    the hour's old rows taken out and its new ones put in; before its first publication it is the sum
 *    of its hours by B1.
 */
import { HOUR_MS, rangeOfName } from '../archive/names.ts';
import type { ArchiveObject, ObjectStore } from '../archive/port.ts';
import { assert, LedgerError } from '../platform/errors.ts';
import type { VerdictLookup } from '../verdicts/port.ts';
import type { FinalRow, HourState, Warehouse } from '../warehouse/port.ts';
import { digestRows, type FinalRecord, readFinalRecord } from './final-record.ts';
import type { HourIndexes } from './hour-index.ts';
import { digestObjects, HourSource, type ReadManifest } from './hour-source.ts';

const DAY_MS = 24 * HOUR_MS;
/** Objects of an hour that may have been added since, in all combinations of partitions. */
const MOST_TRIES = 10_000;

/** Rows that begin before these may be gone, ms UTC. */
export interface KeptFrom {
  readonly minuteMs: number;
  readonly hourMs: number;
}

export interface RowsInForceOptions {
  readonly warehouse: Pick<Warehouse, 'finalRows' | 'tierRows' | 'days'>;
  readonly store: ObjectStore;
  readonly manifest: ReadManifest;
  readonly indexes: HourIndexes;
  readonly lookbackMs: number;
  readonly verdicts: VerdictLookup;
  readonly keptFrom: () => KeptFrom;
}

type Revision = FinalRecord['hour'];
export type Published = ReadonlyMap<number, HourState>;

/** An hour's rows before and after its recount, by minute or, once those are gone, by hour. */
export interface HourChange {
  readonly before: readonly FinalRow[];
  readonly after: readonly FinalRow[];
}

export class RowsInForce {
  readonly #options: RowsInForceOptions;

  constructor(options: RowsInForceOptions) {
    this.#options = options;
  }

  /** What the recount `now` of a final hour changes; both sides are by hour when minutes are gone. */
  async changeOf(
    state: HourState | undefined,
    now: readonly FinalRow[],
    published: Published,
  ): Promise<HourChange> {
    if (state === undefined) return { before: [], after: now };
    const { warehouse, keptFrom } = this.#options;
    const { hourMs } = state;
    const { minuteMs, hourMs: hoursFromMs } = keptFrom();
    if (hourMs >= minuteMs) return { before: await warehouse.finalRows(hourMs), after: now };
    if (hourMs >= hoursFromMs) {
      return { before: await warehouse.tierRows('hour', hourMs), after: byUnit(now, hourMs) };
    }
    return { before: await this.#recountOf(state, published, now), after: now };
  }

  /** The rows of a revision that the warehouse has lost; null when they cannot be had again. */
  async ofLost({ hour }: FinalRecord, published: Published): Promise<readonly FinalRow[] | null> {
    try {
      return await this.#recountOf(hour, published);
    } catch (error) {
      if (error instanceof LedgerError && error.code === 'hour_expired') return null;
      throw error;
    }
  }

  isDayKept(dayMs: number): boolean {
    return dayMs >= this.#options.keptFrom().hourMs;
  }

  /** B2, after this change of the hour. */
  async dayRows(hourMs: number, change: HourChange, published: Published): Promise<FinalRow[]> {
    const dayMs = hourMs - (hourMs % DAY_MS);
    const { warehouse } = this.#options;
    const sums = new UnitSums(dayMs);
    if ((await warehouse.days(dayMs, dayMs + DAY_MS)).length > 0) {
      sums.add(await warehouse.tierRows('day', dayMs), 1);
      sums.add(change.before, -1);
    } else {
      for (let each = dayMs; each < dayMs + DAY_MS; each += HOUR_MS) {
        const state = published.get(each);
        if (each === hourMs || state === undefined || state.counted === 0) continue;
        sums.add(await this.#recountOf(state, published), 1);
      }
    }
    sums.add(change.after, 1);
    return sums.rows();
  }

  /** B1: the rows of the revision in force, which are those of `now` when it has changed nothing. */
  async #recountOf(
    state: Revision,
    published: Published,
    now?: readonly FinalRow[],
  ): Promise<readonly FinalRow[]> {
    const { hourMs, revision } = state;
    const record = await readFinalRecord(this.#options.store, hourMs, revision);
    const isInForce = (rows: readonly FinalRow[]): boolean =>
      digestRows(rows) === record?.rowsDigest;
    if (now !== undefined && isInForce(now)) return now;
    // Its earlier hours as they are, or as they were when the revision was made.
    for (const atMs of [Number.POSITIVE_INFINITY, state.finalAtMs]) {
      const { rows } = await (await this.#sourceAsOf(state, atMs, published)).recount(hourMs);
      if (isInForce(rows)) return rows;
    }
    const at = new Date(hourMs).toISOString();
    throw new LedgerError('hour_expired', `${at} changed, and its old numbers cannot be had`, {
      hint: 'Its rows are past their time to live and the archive does not give them again; its day stays as it is. "clickledger verify" and the final records of the hour show what is there.',
    });
  }

  /** Reads the hour from the objects of its revision, and earlier hours from theirs at `atMs`. */
  async #sourceAsOf(state: Revision, atMs: number, published: Published): Promise<HourSource> {
    const { manifest, lookbackMs } = this.#options;
    const objects = new Map<number, readonly ArchiveObject[]>();
    const pin = (hourMs: number, digest: string): void => {
      const found = objectsOfDigest(manifest.objectsOfHour(hourMs), digest);
      if (found !== null) objects.set(hourMs, found);
    };
    pin(state.hourMs, state.inputDigest);
    for (let each = state.hourMs - HOUR_MS; each > state.hourMs - lookbackMs - HOUR_MS; ) {
      const earlier = published.get(each);
      if (earlier !== undefined) pin(each, await this.#digestAt(earlier, atMs));
      each -= HOUR_MS;
    }
    return new HourSource({
      ...this.#options,
      manifest: {
        hours: () => manifest.hours(),
        objectsOfHour: (hourMs) => [...(objects.get(hourMs) ?? manifest.objectsOfHour(hourMs))],
        objectCount: (hourMs) => objects.get(hourMs)?.length ?? manifest.objectCount(hourMs),
      },
    });
  }

  /** The input of the newest revision that was made by `atMs`. */
  async #digestAt(state: HourState, atMs: number): Promise<string> {
    if (state.finalAtMs <= atMs) return state.inputDigest;
    for (let revision = state.revision - 1; revision > 0; revision--) {
      const record = await readFinalRecord(this.#options.store, state.hourMs, revision);
      if (record !== null && record.hour.finalAtMs <= atMs) return record.hour.inputDigest;
    }
    return state.inputDigest;
  }
}

/**
 * The objects that the digest was made of, or null. A partition's objects come in the order of their
 * offsets: what was there before is the beginning of each partition's objects of now.
 */
export function objectsOfDigest(
  objects: readonly ArchiveObject[],
  digest: string,
): readonly ArchiveObject[] | null {
  const places = objects.map((object) => {
    const range = rangeOfName(object.name);
    assert(range !== null, 'an object of an hour is not named after its range');
    return { object, ...range };
  });
  const partitions = [...new Set(places.map(({ partition }) => partition))];
  const firstsOf = (partition: number): number[] =>
    places
      .filter((place) => place.partition === partition)
      .map(({ firstOffset }) => firstOffset)
      .sort((a, b) => a - b);
  const firsts = partitions.map(firstsOf);
  // Fewest left out first: mostly a single object is new.
  const queue = [firsts.map(({ length }) => length)];
  const seen = new Set([String(queue[0])]);
  for (let at = 0; at < queue.length && at < MOST_TRIES; at++) {
    const lengths = queue[at]!;
    const kept = places.filter(({ partition, firstOffset }) => {
      const index = partitions.indexOf(partition);
      return firsts[index]!.indexOf(firstOffset) < lengths[index]!;
    });
    const found = kept.map(({ object }) => object);
    if (digestObjects(found) === digest) return found;
    for (const [index, length] of lengths.entries()) {
      const fewer = lengths.with(index, length - 1);
      if (length === 0 || seen.has(String(fewer))) continue;
      seen.add(String(fewer));
      queue.push(fewer);
    }
  }
  return null;
}

/** Rows summed into one unit, which starts at `startMs`. */
function byUnit(rows: readonly FinalRow[], startMs: number): FinalRow[] {
  const sums = new UnitSums(startMs);
  sums.add(rows, 1);
  return sums.rows();
}

class UnitSums {
  readonly #startMs: number;
  readonly #rows = new Map<string, { row: FinalRow; clicks: number }>();

  constructor(startMs: number) {
    this.#startMs = startMs;
  }

  add(rows: readonly FinalRow[], sign: 1 | -1): void {
    for (const row of rows) {
      const { advertiserId, campaignId, adId, country, device, clicks } = row;
      const key = JSON.stringify([advertiserId, campaignId, adId, country, device]);
      const known = this.#rows.get(key);
      if (known === undefined) this.#rows.set(key, { row, clicks: sign * clicks });
      else known.clicks += sign * clicks;
    }
  }

  rows(): FinalRow[] {
    const rows: FinalRow[] = [];
    for (const { row, clicks } of this.#rows.values()) {
      assert(clicks >= 0, 'an hour had more clicks than its day');
      if (clicks > 0) rows.push({ ...row, minuteMs: this.#startMs, clicks });
    }
    return rows;
  }
}
