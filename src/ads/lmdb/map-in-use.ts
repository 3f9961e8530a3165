/** A reader's view of the map in use, and of the ads that have changed since it was made. */
import type { Ad } from '../port.ts';
import { AdMap } from './ad-map.ts';
import type { ChangedAds } from './changed-ads.ts';

export class MapInUse {
  readonly #dir: string;
  readonly #changed: ChangedAds;
  readonly #changedIds = new Set<string>();
  #lastKey = '';
  #map: AdMap | null = null;
  #version = -1;

  constructor(dir: string, changed: ChangedAds) {
    this.#dir = dir;
    this.#changed = changed;
  }

  /** In a fresh snapshot. Noted ids only grow while a map is in use: what was read stays read. */
  notice(): void {
    const version = this.#changed.mapVersion;
    if (version !== this.#version) this.#open(version);
    if (this.#map !== null) this.#lastKey = this.#changed.readInto(this.#changedIds, this.#lastKey);
  }

  #open(version: number): void {
    this.#map = version === 0 ? null : AdMap.open(this.#dir, version);
    // A file that is not there yet may come: it is looked for again.
    this.#version = this.#map === null ? -1 : version;
    this.#changedIds.clear();
    this.#lastKey = '';
  }

  /** The ad; null when there is none; undefined when LMDB must be asked. */
  find(adId: string): Ad | null | undefined {
    if (this.#map === null || this.#changedIds.has(adId)) return undefined;
    return this.#map.find(adId);
  }
}
