/**
 * Writes a new map of the ads while ads go on changing.
 *
 *    1 `map_pending` is committed. From here on changes are noted for the new map; died here, they are
 *      noted in vain until the next map, or until they are too many.
 *    2 The file is written from one slice of ads after the other, each as it is by then, and gets its
 *      name when it is synced. Whatever changed in between is noted, so it does not matter which
 *      version of it the file has. Died here, a file lies there that nobody uses; the next map removes it.
 *    3 `map_version` is committed, and what was noted before 1 forgotten. Readers move on to the file.
 *    4 Older files are removed. Died before that, the next map removes them.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { AdMapWriter, mapFileName, removeOtherMaps } from './ad-map.ts';
import { type ChangedAds, MAX_CHANGED } from './changed-ads.ts';
import type { CatalogDatabases } from './environment.ts';

/** Ads between two moments at which other work of the thread gets its turn: about 10 ms. */
const SLICE_ADS = 4_096;
/** A small catalog's map costs nothing; a large one's is written when many ads have changed. */
const SMALL_CATALOG_ADS = 10_000;
const DUE_CHANGED = MAX_CHANGED / 4;

export function isMapDue(dir: string, changed: ChangedAds, count: number): boolean {
  if (count === 0 && changed.mapVersion === 0) return false;
  const version = changed.mapVersion;
  if (version === 0 || !existsSync(join(dir, mapFileName(version)))) return true;
  return changed.count > (count <= SMALL_CATALOG_ADS ? 0 : DUE_CHANGED);
}

export interface MapRefresh {
  readonly dir: string;
  readonly db: CatalogDatabases;
  readonly changed: ChangedAds;
  readonly count: number;
  readonly transaction: <T>(work: () => T) => T;
  readonly signal: AbortSignal | undefined;
}

/** Whether the new map is in use; it is not when too many ads changed meanwhile, or when aborted. */
export async function writeMap(refresh: MapRefresh): Promise<boolean> {
  const { dir, changed, transaction } = refresh;
  const version = transaction(() => changed.begin()); // 1
  const writer = new AdMapWriter(dir, version, refresh.count);
  try {
    if (!(await writeAds(refresh, writer))) return false;
    await writer.finish(); // 2
  } finally {
    writer.abandon();
  }
  if (!transaction(() => changed.use(version))) return false; // 3
  removeOtherMaps(dir, version); // 4
  return true;
}

async function writeAds({ db, signal }: MapRefresh, writer: AdMapWriter): Promise<boolean> {
  for (let after = ''; signal?.aborted !== true; ) {
    db.root.resetReadTxn();
    const slice = db.ads.getRange({ start: after, exclusiveStart: true, limit: SLICE_ADS });
    let last = after;
    for (const { key, value } of slice) {
      if (!writer.add(key, value)) return false;
      last = key;
    }
    if (last === after) return true;
    after = last;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return false;
}
