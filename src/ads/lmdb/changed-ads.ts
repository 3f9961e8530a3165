/**
 * Which ads have changed since the map file in use was made (`ad-map.ts`).
 *
 * The file of a large catalog takes long to write, so a change of a few ads must not ask for a new
 * one: readers answer these few out of LMDB, and all others out of the file.
 *
 * K1 With a map in use or being written, every transaction that changes ads notes their ids under its
 *    ads version: map and noted ids together are never behind the ads.
 * K2 More than MAX_CHANGED ids: the map is given up in that same transaction and nothing more is
 *    noted. A first load writes millions of ads; readers do without a map until it is through.
 */
import type { Database } from 'lmdb';
import type { Meta } from './meta.ts';

export const MAX_CHANGED = 65_536;
const VERSION_DIGITS = 12;
const NOTHING = Buffer.alloc(0);

const prefixOf = (version: number): string => version.toString(16).padStart(VERSION_DIGITS, '0');

/** The ids that one transaction changes; beyond what could be noted it only counts. */
export class ChangedIds {
  readonly ids: string[] = [];
  count = 0;

  add(adId: string): void {
    if (this.count++ < MAX_CHANGED) this.ids.push(adId);
  }
}

export class ChangedAds {
  readonly #db: Database<Buffer, string>;
  readonly #meta: Meta;

  constructor(db: Database<Buffer, string>, meta: Meta) {
    this.#db = db;
    this.#meta = meta;
  }

  get count(): number {
    return this.#meta.read('changed_count');
  }

  /** Of the map in use; 0 for none. Older releases wrote one for every version and noted nothing. */
  get mapVersion(): number {
    return this.#meta.find('map_version') ?? this.#meta.read('ads_version');
  }

  /** K1, K2; within the transaction that changed them, before it raises `ads_version`. */
  note(changed: ChangedIds): void {
    const mapVersion = this.mapVersion;
    if (mapVersion === 0 && this.#meta.read('map_pending') === 0) return;
    const count = this.count + changed.count;
    if (count > MAX_CHANGED) {
      this.#forgetMaps();
      return;
    }
    // From now on the map in use is the named one, whatever version the ads have.
    this.#meta.write('map_version', mapVersion);
    this.#meta.write('changed_count', count);
    const prefix = prefixOf(this.#meta.read('ads_version') + 1);
    for (const adId of changed.ids) this.#db.putSync(prefix + adId, NOTHING);
  }

  #forgetMaps(): void {
    this.#meta.write('map_version', 0);
    this.#meta.write('map_pending', 0);
    this.#meta.write('changed_count', 0);
    this.#db.clearSync();
  }

  /** Within a transaction: from here on changes are noted for the map of this version. */
  begin(): number {
    const version = this.#meta.read('ads_version');
    this.#meta.write('map_version', this.mapVersion);
    this.#meta.write('map_pending', version);
    return version;
  }

  /** Within a transaction: takes the written map into use, unless it was given up meanwhile. */
  use(version: number): boolean {
    if (this.#meta.read('map_pending') !== version) return false;
    this.#meta.write('map_pending', 0);
    this.#meta.write('map_version', version);
    const older = [...this.#db.getKeys({ start: '', end: prefixOf(version + 1) })];
    for (const key of older) this.#db.removeSync(key);
    this.#meta.write('changed_count', this.count - older.length);
    return true;
  }

  /** Adds what was noted after `lastKey` to `ids`; returns the new last key. */
  readInto(ids: Set<string>, lastKey: string): string {
    let last = lastKey;
    for (const key of this.#db.getKeys({ start: lastKey, exclusiveStart: true })) {
      ids.add(key.slice(VERSION_DIGITS));
      last = key;
    }
    return last;
  }
}
