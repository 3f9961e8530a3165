/** Everything that the archive keeps of single clicks, for those that are shown. */
import { readObject } from '../archive/manifest.ts';
import { readColumns } from '../archive/parquet.ts';
import type { ArchiveObject, ObjectStore } from '../archive/port.ts';
import { assert } from '../platform/errors.ts';

export interface ClickDetails {
  readonly impressionId: string;
  readonly adId: string;
  readonly campaignId: string;
  readonly country: string;
  readonly device: string;
  readonly class: string;
  readonly source: string;
  readonly ip: string;
  readonly userAgent: string;
  readonly referer: string;
  readonly appendedAtMs: number;
}

interface Wanted {
  readonly object: ArchiveObject;
  readonly offset: number;
}

const COLUMNS = [
  'impression_id',
  'ad_id',
  'campaign_id',
  'country',
  'device',
  'class',
  'source',
  'ip',
  'user_agent',
  'referer',
  'offset',
  'appended_at',
] as const;

/** The details of each record, in the order in which they are wanted. */
export async function readDetails(
  store: ObjectStore,
  records: readonly Wanted[],
): Promise<ClickDetails[]> {
  const details = new Map<string, ClickDetails>();
  for (const object of new Set(records.map((record) => record.object))) {
    const own = records.filter((record) => record.object === object);
    for (const [offset, found] of await detailsOf(store, object, own)) {
      details.set(keyOf({ object, offset }), found);
    }
  }
  return records.map((record) => {
    const found = details.get(keyOf(record));
    assert(found !== undefined, 'a record is not in the object that it was found in');
    return found;
  });
}

function keyOf({ object, offset }: Wanted): string {
  return `${object.name} ${offset}`;
}

async function detailsOf(
  store: ObjectStore,
  object: ArchiveObject,
  records: readonly Wanted[],
): Promise<Map<number, ClickDetails>> {
  const wanted = new Set(records.map(({ offset }) => offset));
  const found = new Map<number, ClickDetails>();
  const bytes = await readObject(store, object);
  for await (const columns of readColumns(object.name, bytes, COLUMNS)) {
    for (let i = 0; i < columns.rowCount; i++) {
      const offset = columns.offset[i]!;
      if (!wanted.has(offset)) continue;
      found.set(offset, {
        impressionId: columns.impression_id[i]!,
        adId: columns.ad_id[i]!,
        campaignId: columns.campaign_id[i]!,
        country: columns.country[i]!,
        device: columns.device[i]!,
        class: columns.class[i]!,
        source: columns.source[i]!,
        ip: columns.ip[i]!,
        userAgent: columns.user_agent[i]!,
        referer: columns.referer[i]!,
        appendedAtMs: columns.appended_at[i]!,
      });
    }
    if (found.size === wanted.size) break;
  }
  return found;
}
