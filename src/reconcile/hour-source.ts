/**
 * One hour of the archive, read for the recount: checked objects in, columns out, the earlier hours'
 * impressions, and the verdicts that apply to the hour.
 */
import { createHash } from 'node:crypto';
import { type Manifest, readObject } from '../archive/manifest.ts';
import { HOUR_MS, hourOf } from '../archive/names.ts';
import { readColumns, yieldToEventLoop } from '../archive/parquet.ts';
import type { ArchiveObject, ObjectStore } from '../archive/port.ts';
import type { VerdictLookup } from '../verdicts/port.ts';
import type { HourIndexes } from './hour-index.ts';
import {
  type HourCount,
  RECOUNT_COLUMNS,
  Recount,
  type RecountBefore,
  type TakenBack,
} from './recount.ts';

/** Of hashes, three words each, between two turns of the event loop: an hour may have millions. */
const WORDS_PER_TURN = 3 * 100_000;

export type ReadManifest = Pick<Manifest, 'hours' | 'objectsOfHour' | 'objectCount'>;

export interface HourSourceOptions {
  readonly store: ObjectStore;
  readonly manifest: ReadManifest;
  /** Null: make every index anew, as `verify` does. */
  readonly indexes: HourIndexes | null;
  readonly lookbackMs: number;
  readonly verdicts: VerdictLookup;
}

export interface HourRecount extends HourCount {
  /** Every impression clicked in the hour, also those billed in an earlier one. */
  readonly impressions: Uint32Array;
  readonly takenBack: TakenBack;
  /**
   * Ads (`adKeyOf`) whose clicks a verdict changed since the recount that it was compared with; null
   * when there was none to compare with.
   */
  readonly adsOfVerdicts: ReadonlySet<string> | null;
  readonly memoryBytes: number;
}

export class HourSource {
  readonly #options: HourSourceOptions;
  /** Indexes made without a place to keep them, as far back as the hour that was counted last looks. */
  readonly #made = new Map<number, { readonly digest: string; readonly words: Uint32Array }>();
  /** All hours are asked at every look for changes: years of them would be hashed while counting waits. */
  readonly #digests = new Map<number, { readonly count: number; readonly digest: string }>();

  constructor(options: HourSourceOptions) {
    this.#options = options;
  }

  /** Of the hour's objects: equal digests, equal input. */
  digest(hourMs: number): string {
    const { manifest } = this.#options;
    const count = manifest.objectCount(hourMs);
    const known = this.#digests.get(hourMs);
    if (known?.count === count) return known.digest;
    const digest = digestObjects(manifest.objectsOfHour(hourMs));
    this.#digests.set(hourMs, { count, digest });
    return digest;
  }

  /**
   * Recounts the hour from its objects. Throws `object_missing` or `object_damaged`. `before` is the
   * recount in force, when there is one and it is remembered.
   */
  async recount(hourMs: number, before: RecountBefore | null = null): Promise<HourRecount> {
    const { verdicts } = this.#options;
    verdicts.requireWhole();
    this.#forgetBefore(hourOf(hourMs - this.#options.lookbackMs));
    const recount = await this.#load(this.#options.manifest.objectsOfHour(hourMs));
    const impressions = recount.impressions();
    if (impressions.length > 0) {
      for (const earlierMs of this.earlierHours(hourMs)) {
        const earlier = await this.impressions(earlierMs);
        for (let at = 0; at < earlier.length; at += WORDS_PER_TURN) {
          recount.removeSeen(earlier.subarray(at, at + WORDS_PER_TURN));
          await yieldToEventLoop();
        }
      }
    }
    await verdicts.forEachInvalid(hourMs, (...hash) => recount.removeInvalid(...hash));
    return {
      ...recount.result(),
      impressions,
      takenBack: recount.takenBack,
      adsOfVerdicts: before === null ? null : recount.adsOfVerdicts(before),
      memoryBytes: recount.memoryBytes,
    };
  }

  /** Hours with clicks inside the look-back of `hourMs`. */
  earlierHours(hourMs: number): number[] {
    const fromMs = hourOf(hourMs - this.#options.lookbackMs);
    return this.#options.manifest.hours().filter((each) => each >= fromMs && each < hourMs);
  }

  /** Hours with clicks that look back into `hourMs`. */
  laterHours(hourMs: number): number[] {
    const untilMs = hourMs + this.#options.lookbackMs + HOUR_MS;
    return this.#options.manifest.hours().filter((each) => each > hourMs && each < untilMs);
  }

  /** Impressions clicked in an hour, from its index or from its objects. */
  async impressions(hourMs: number): Promise<Uint32Array> {
    const digest = this.digest(hourMs);
    const made = this.#made.get(hourMs);
    const known = this.#options.indexes?.read(hourMs, digest);
    if (known !== undefined && known !== null) return known;
    if (made?.digest === digest) return made.words;
    const words = await this.impressionsIn(this.#options.manifest.objectsOfHour(hourMs));
    if (this.#options.indexes === null) this.#made.set(hourMs, { digest, words });
    else await this.#options.indexes.write(hourMs, digest, words);
    return words;
  }

  /** Years of impressions do not fit in memory: `verify` goes through all hours in their order. */
  #forgetBefore(fromMs: number): void {
    for (const hourMs of this.#made.keys()) if (hourMs < fromMs) this.#made.delete(hourMs);
  }

  /** Impressions clicked in some objects of an hour. */
  async impressionsIn(objects: readonly ArchiveObject[]): Promise<Uint32Array> {
    return (await this.#load(objects)).impressions();
  }

  async #load(objects: readonly ArchiveObject[]): Promise<Recount> {
    const recount = new Recount();
    for (const object of objects) {
      const bytes = await readObject(this.#options.store, object);
      for await (const columns of readColumns(object.name, bytes, RECOUNT_COLUMNS)) {
        recount.add(columns);
      }
    }
    return recount;
  }
}

/** SHA-256 over names and checksums, in the order of `objectsOfHour`. */
export function digestObjects(objects: readonly ArchiveObject[]): string {
  const hash = createHash('sha256');
  for (const object of objects) hash.update(`${object.name} ${object.sha256}\n`);
  return hash.digest('hex');
}
