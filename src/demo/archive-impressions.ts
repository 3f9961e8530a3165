/** Every impression that the archive holds, read from its objects and from nothing else. */
import { loadManifest, readObject } from '../archive/manifest.ts';
import { readColumns } from '../archive/parquet.ts';
import type { ObjectStore } from '../archive/port.ts';
import { LedgerError } from '../platform/errors.ts';
import type { ArchivedImpression } from './judge.ts';

const COLUMNS = ['impression_id', 'ad_id', 'class'] as const;

export async function readArchiveImpressions(
  store: ObjectStore,
): Promise<ReadonlyMap<string, ArchivedImpression>> {
  const manifest = await loadManifest(store);
  const problem = manifest.problems[0];
  if (problem !== undefined) {
    throw new LedgerError('archive_incomplete', `the archive cannot be judged: ${problem.message}`);
  }
  const impressions = new Map<string, ArchivedImpression>();
  for (const object of manifest.objects()) {
    // Dead letters are not clicks.
    if (object.hourMs === null) continue;
    const bytes = await readObject(store, object);
    for await (const batch of readColumns(object.name, bytes, COLUMNS)) {
      for (let i = 0; i < batch.rowCount; i++) {
        note(impressions, batch.impression_id[i]!, batch.ad_id[i]!, batch.class[i] === 'click');
      }
    }
  }
  return impressions;
}

function note(
  impressions: Map<string, ArchivedImpression>,
  impressionId: string,
  adId: string,
  isClick: boolean,
): void {
  const known = impressions.get(impressionId);
  const clicks = known?.clicks ?? 0;
  if (known === undefined || (isClick && clicks === 0)) {
    impressions.set(impressionId, { adId, clicks: isClick ? 1 : 0 });
  } else if (isClick) {
    impressions.set(impressionId, { adId: known.adId, clicks: clicks + 1 });
  }
}
