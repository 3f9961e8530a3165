/**
 * One hour of the archive, read for the recount: checked objects in, columns out, and the earlier
 * hours' impressions.
 */
import { createHash } from 'node:crypto';
import { type Manifest, readObject } from '../archive/manifest.ts';
import { HOUR_MS, hourOf } from '../archive/names.ts';
import { readColumns, yieldToEventLoop } from '../archive/parquet.ts';
import type { ObjectStore } from '../archive/port.ts';
import type { HourIndexes } from './hour-index.ts';
import { type HourCount, RECOUNT_COLUMNS, Recount } from './recount.ts';

export interface HourSourceOptions {
  readonly store: ObjectStore;
  readonly manifest: Manifest;
  /** Null: make every index anew, as `verify` does. */
  readonly indexes: HourIndexes | null;
  readonly lookbackMs: number;
}

export interface HourRecount extends HourCount {
  /** Every impression clicked in the hour, also those billed in an earlier one. */
  readonly impressions: Uint32Array;
  readonly memoryBytes: number;
}

export class HourSource {
  readonly #options: HourSourceOptions;
  /** Indexes made without a place to keep them. */
  readonly #made = new Map<string, Uint32Array>();

  constructor(options: HourSourceOptions) {
    this.#options = options;
  }

  /** SHA-256 over the names and checksums of the hour's objects: equal digests, equal input. */
  digest(hourMs: number): string {
    const hash = createHash('sha256');
    for (const object of this.#options.manifest.objectsOfHour(hourMs)) {
      hash.update(`${object.name} ${object.sha256}\n`);
    }
    return hash.digest('hex');
  }

  /** Recounts the hour from its objects. Throws `object_missing` or `object_damaged`. */
  async recount(hourMs: number): Promise<HourRecount> {
    const recount = await this.#load(hourMs);
    const impressions = recount.impressions();
    if (impressions.length > 0) {
      for (const earlierMs of this.earlierHours(hourMs)) {
        recount.removeSeen(await this.impressions(earlierMs));
        await yieldToEventLoop();
      }
    }
    return { ...recount.result(), impressions, memoryBytes: recount.memoryBytes };
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
    const key = `${hourMs} ${digest}`;
    const known = this.#options.indexes?.read(hourMs, digest) ?? this.#made.get(key);
    if (known !== undefined) return known;
    const words = (await this.#load(hourMs)).impressions();
    if (this.#options.indexes === null) this.#made.set(key, words);
    else await this.#options.indexes.write(hourMs, digest, words);
    return words;
  }

  async #load(hourMs: number): Promise<Recount> {
    const recount = new Recount();
    for (const object of this.#options.manifest.objectsOfHour(hourMs)) {
      const bytes = await readObject(this.#options.store, object);
      for await (const columns of readColumns(object.name, bytes, RECOUNT_COLUMNS)) {
        recount.add(columns);
      }
    }
    return recount;
  }
}
