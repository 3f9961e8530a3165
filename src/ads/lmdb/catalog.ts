/**
 * The ad catalog in one LMDB environment: memory-mapped, shared by every process of a machine.
 *
 * Owns: look-ups, imports in one transaction, signing keys, noticing other processes' changes.
 * Does not own: what a valid ad or target is (`target-url.ts`), files and modes (`environment.ts`).
 *
 * C1 Every commit that changes something raises `version`. A reader compares it at most every
 *    VERSION_CHECK_MS and then drops what it remembers: no answer is older than that.
 * C2 The version is read in a snapshot at least as old as any later look-up's, so an ad is never
 *    remembered under a version newer than itself.
 * C3 An import is one transaction: a process that dies in it leaves the catalog as it was.
 * C5 A read-only catalog looks ads up in the map file in use (`ad-map.ts`), but ads that have changed
 *    since it was made, and all ads while there is none, in LMDB (`changed-ads.ts`).
 * C4 `activeKeys` returns the same array until something changed: callers compare by identity.
 */
import { isId } from '../../event/click-event.ts';
import { type Clock, monotonicMs } from '../../platform/clock.ts';
import { assert, LedgerError } from '../../platform/errors.ts';
import type {
  Ad,
  AdCatalog,
  CatalogChange,
  ChangeCounts,
  RefusedRow,
  SigningKey,
} from '../port.ts';
import { AdCache } from './ad-cache.ts';
import { decodeAd, encodeAd } from './ad-value.ts';
import { ChangedAds, ChangedIds } from './changed-ads.ts';
import { type CatalogDatabases, openEnvironment } from './environment.ts';
import { MapInUse } from './map-in-use.ts';
import { isMapDue, writeMap } from './map-refresh.ts';
import { Meta } from './meta.ts';
import { RefusedRows } from './refused-rows.ts';

const VERSION_CHECK_MS = 200;
/** Two generations of this many ads, about 400 bytes each: 13 MB a process at the most. */
const CACHED_ADS_PER_GENERATION = 16_384;
const PROGRESS_EVERY = 10_000;
const NOTHING = Buffer.alloc(0);
/** After every id of an advertiser: the separator NUL plus one. */
const AFTER_SEPARATOR = '\u0001';

export interface LmdbCatalogOptions {
  readonly dir: string;
  readonly readOnly: boolean;
  /** Times the checks of C1 only. */
  readonly clock?: Clock;
}

export function openLmdbCatalog(options: LmdbCatalogOptions): AdCatalog {
  const databases = openEnvironment(options.dir, options.readOnly);
  return new LmdbCatalog(databases, options);
}

class LmdbCatalog implements AdCatalog {
  readonly #db: CatalogDatabases;
  readonly #dir: string;
  readonly #readOnly: boolean;
  readonly #clock: Clock;
  readonly #meta: Meta;
  readonly #changed: ChangedAds;
  readonly #refused: RefusedRows;
  readonly #map: MapInUse;
  readonly #cache = new AdCache(CACHED_ADS_PER_GENERATION);
  #version = -1;
  #checkedAtMs = Number.NEGATIVE_INFINITY;
  #keys: readonly SigningKey[] | null = null;
  #activeKeys: readonly SigningKey[] | null = null;

  constructor(db: CatalogDatabases, { dir, readOnly, clock = monotonicMs }: LmdbCatalogOptions) {
    this.#db = db;
    this.#dir = dir;
    this.#readOnly = readOnly;
    this.#clock = clock;
    this.#meta = new Meta(db.meta);
    this.#changed = new ChangedAds(db.changed, this.#meta);
    this.#refused = new RefusedRows(db.refused);
    this.#map = new MapInUse(dir, this.#changed);
  }

  find(adId: string): Ad | null {
    this.#notice();
    const mapped = this.#map.find(adId);
    if (mapped !== undefined) return mapped;
    const cached = this.#cache.get(adId);
    if (cached !== undefined) return cached;
    // The key encoding keeps one byte a character: other text could alias another ad's id.
    if (!isId(adId)) return null;
    const bytes = this.#db.ads.getBinaryFast(adId);
    if (bytes === undefined) return null;
    const ad = decodeAd(adId, { bytes: bytes, start: 0, end: bytes.length });
    this.#cache.set(ad);
    return ad;
  }

  activeKeys(): readonly SigningKey[] {
    this.#notice();
    this.#activeKeys ??= this.keys().filter((key) => key.retiredAtMs === null);
    return this.#activeKeys;
  }

  keys(): readonly SigningKey[] {
    this.#notice();
    this.#keys ??= [...this.#db.keys.getRange({ start: '' })]
      .map(({ value }) => JSON.parse(value.toString('utf8')) as SigningKey)
      .sort((a, b) => b.createdAtMs - a.createdAtMs || (a.kid < b.kid ? 1 : -1));
    return this.#keys;
  }

  /** Holds the thread until all is committed: an import belongs in a process that serves no clicks. */
  async putAll(
    ads: Iterable<Ad>,
    onProgress?: (done: number) => void,
  ): Promise<{ added: number; changed: number; unchanged: number }> {
    const { removed: _, ...counts } = this.#changeAds((change) => {
      let done = 0;
      for (const ad of ads) {
        change.put(ad);
        done += 1;
        if (done % PROGRESS_EVERY === 0) onProgress?.(done);
      }
      onProgress?.(done);
    });
    await this.refreshIndex();
    return counts;
  }

  async apply(change: CatalogChange): Promise<ChangeCounts> {
    const { put, remove = [], refused, forgetRefusedBefore, syncState } = change;
    return this.#changeAds((ads) => {
      const refusedBefore = this.#refused.count > 0;
      for (const ad of put) {
        ads.put(ad);
        if (refusedBefore) this.#refused.remove(ad.adId);
      }
      for (const adId of remove) {
        ads.remove(adId);
        if (refusedBefore) this.#refused.remove(adId);
      }
      if (refused !== undefined) {
        for (const row of refused.rows) this.#refused.put(row, refused.round);
      }
      if (forgetRefusedBefore !== undefined) this.#refused.removeBefore(forgetRefusedBefore);
      if (syncState !== undefined) this.#meta.syncState = syncState;
    });
  }

  syncState(): string | null {
    this.#notice();
    return this.#meta.syncState;
  }

  refusedRows(limit: number): { count: number; rows: RefusedRow[] } {
    this.#notice();
    return { count: this.#refused.count, rows: this.#refused.list(limit) };
  }

  async refreshIndex(signal?: AbortSignal): Promise<boolean> {
    this.#checkedAtMs = Number.NEGATIVE_INFINITY;
    this.#notice();
    if (!isMapDue(this.#dir, this.#changed, this.count())) return false;
    return writeMap({
      dir: this.#dir,
      db: this.#db,
      changed: this.#changed,
      count: this.count(),
      transaction: (work) => this.#write(work),
      signal,
    });
  }

  /** One transaction over ads; what it changed shows to readers by the versions that it raises. */
  #changeAds(
    work: (change: { put(ad: Ad): void; remove(adId: string): void }) => void,
  ): ChangeCounts {
    return this.#write(() => {
      const counts = { added: 0, changed: 0, unchanged: 0, removed: 0 };
      const ids = new ChangedIds();
      work({
        put: (ad) => {
          const kind = this.#put(ad);
          counts[kind] += 1;
          if (kind !== 'unchanged') ids.add(ad.adId);
        },
        remove: (adId) => {
          if (!this.#remove(adId)) return;
          counts.removed += 1;
          ids.add(adId);
        },
      });
      if (ids.count > 0) {
        this.#changed.note(ids);
        this.#meta.raise('version');
        this.#meta.raise('ads_version');
      }
      return counts;
    });
  }

  #put(ad: Ad): 'added' | 'changed' | 'unchanged' {
    assert(isId(ad.adId), `an ad with the invalid id ${JSON.stringify(ad.adId)} reached the store`);
    const value = encodeAd(ad);
    const before = this.#db.ads.getBinaryFast(ad.adId);
    if (before !== undefined) {
      if (value.compare(before, 0, before.length) === 0) return 'unchanged';
      const { advertiserId } = decodeAd(ad.adId, { bytes: before, start: 0, end: before.length });
      if (advertiserId !== ad.advertiserId) {
        this.#db.byAdvertiser.removeSync(advertiserKey(advertiserId, ad.adId));
      }
    }
    const isNew = before === undefined;
    this.#db.ads.putSync(ad.adId, value);
    this.#db.byAdvertiser.putSync(advertiserKey(ad.advertiserId, ad.adId), NOTHING);
    return isNew ? 'added' : 'changed';
  }

  #remove(adId: string): boolean {
    if (!isId(adId)) return false;
    const before = this.#db.ads.getBinaryFast(adId);
    if (before === undefined) return false;
    const { advertiserId } = decodeAd(adId, { bytes: before, start: 0, end: before.length });
    this.#db.byAdvertiser.removeSync(advertiserKey(advertiserId, adId));
    return this.#db.ads.removeSync(adId);
  }

  list(options: { afterAdId?: string; limit: number; advertiserId?: string }): Ad[] {
    this.#notice();
    const { advertiserId, afterAdId = '', limit } = options;
    const after = { exclusiveStart: true, limit } as const;
    if (advertiserId === undefined) {
      return [...this.#db.ads.getRange({ start: afterAdId, ...after })].map(({ key, value }) =>
        decodeAd(key, { bytes: value, start: 0, end: value.length }),
      );
    }
    const start = advertiserKey(advertiserId, afterAdId);
    const end = advertiserId + AFTER_SEPARATOR;
    const ids = [...this.#db.byAdvertiser.getKeys({ start, end, ...after })];
    return ids.flatMap((key) => this.find(key.slice(advertiserId.length + 1)) ?? []);
  }

  count(): number {
    this.#notice();
    return (this.#db.ads.getStats() as { entryCount: number }).entryCount;
  }

  async putKey(key: SigningKey): Promise<void> {
    this.#write(() => {
      this.#db.keys.putSync(key.kid, Buffer.from(JSON.stringify(key)));
      this.#meta.raise('version');
    });
  }

  async close(): Promise<void> {
    await this.#db.root.close();
  }

  /** C1. A clock that was set back must not stop the checks. */
  #notice(): void {
    const now = this.#clock();
    const ageMs = now - this.#checkedAtMs;
    if (ageMs >= 0 && ageMs < VERSION_CHECK_MS) return;
    this.#checkedAtMs = now;
    // Without this a thread that never goes idle would keep its first snapshot for good.
    this.#db.root.resetReadTxn();
    const version = this.#meta.read('version');
    if (version !== this.#version) this.#forget(version);
    if (this.#readOnly) this.#map.notice();
  }

  #forget(version: number): void {
    this.#version = version;
    this.#cache.clear();
    this.#keys = null;
    this.#activeKeys = null;
  }

  #write<T>(action: () => T): T {
    if (this.#readOnly) {
      throw new LedgerError('catalog_read_only', 'this process opened the ad catalog read-only');
    }
    try {
      return this.#db.root.transactionSync(action);
    } catch (cause) {
      throw asWriteError(cause);
    } finally {
      // Own changes are seen at once; after a failure nothing read inside it may be remembered.
      this.#checkedAtMs = Number.NEGATIVE_INFINITY;
      this.#forget(-1);
    }
  }
}

function advertiserKey(advertiserId: string, adId: string): string {
  return `${advertiserId}\u0000${adId}`;
}

/** LMDB's own failures carry a number (`MDB_MAP_FULL`, `ENOSPC`); anything else is not ours to judge. */
function asWriteError(cause: unknown): unknown {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  if (typeof code !== 'number') return cause;
  return new LedgerError('catalog_write_failed', `the ad catalog: ${(cause as Error).message}`, {
    kind: 'retry',
    hint: 'Nothing was changed. Check the space and the health of the disk, then repeat.',
    cause,
  });
}
