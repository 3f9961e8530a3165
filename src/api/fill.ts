/**
 * Pages with a row for every bucket, clicks or not.
 *
 * The full set of rows is a grid, buckets by ads, in the order that rows have anyway. A page is a
 * stretch of the grid: it asks the warehouse for the buckets it touches, which bounds the rows, and
 * puts zeros where no row came back. The position is a number of cells.
 */
import { assert, LedgerError } from '../platform/errors.ts';
import { bucketsOf, formatInZone } from '../warehouse/buckets.ts';
import type { MetricsPage, MetricsQuery, MetricsRow, Warehouse } from '../warehouse/port.ts';

export async function filledPage(
  warehouse: Pick<Warehouse, 'metrics'>,
  query: MetricsQuery,
  finalUntilMs: number,
): Promise<MetricsPage> {
  const { granularity, timezone, limit } = query;
  const buckets = bucketsOf(granularity, timezone, query.fromMs, query.toMs);
  const ads = query.groupBy.includes('ad') ? adsOf(query) : [undefined];
  if (ads.length === 0) return { rows: [], next: undefined };
  const cells = buckets.count * ads.length;
  const begin = cellOf(query.after, cells);
  const end = Math.min(cells, begin + limit);
  const first = Math.floor(begin / ads.length);
  const last = Math.floor((end - 1) / ads.length);
  const page = await warehouse.metrics(
    {
      ...query,
      fromMs: Math.max(query.fromMs, buckets.startMs(first)),
      toMs: Math.min(query.toMs, buckets.startMs(last + 1)),
      limit: (last - first + 1) * ads.length,
      after: undefined,
    },
    finalUntilMs,
  );
  assert(page.next === undefined, 'the buckets of a page have at most as many rows as cells');
  const clicks = new Map(page.rows.map((row) => [keyOf(row.bucketStart, row.adId), row.clicks]));
  const rows: MetricsRow[] = [];
  let bucketStart: string | undefined;
  for (let cell = begin; cell < end; cell++) {
    const adId = ads[cell % ads.length];
    if (granularity !== 'total' && (rows.length === 0 || cell % ads.length === 0)) {
      bucketStart = formatInZone(buckets.startMs(Math.floor(cell / ads.length)), timezone);
    }
    const none = { campaignId: undefined, country: undefined, device: undefined };
    rows.push({ bucketStart, adId, ...none, clicks: clicks.get(keyOf(bucketStart, adId)) ?? 0 });
  }
  return { rows, next: end < cells ? [String(end)] : undefined };
}

/** The ads that were asked for, without those that were left out. */
function adsOf({ adIds, adIdsNot = [] }: MetricsQuery): string[] {
  assert(adIds !== undefined, 'a filled query by ad names its ads');
  const not = new Set(adIdsNot);
  return adIds.filter((adId) => !not.has(adId)).sort();
}

function keyOf(bucketStart: string | undefined, adId: string | undefined): string {
  return `${bucketStart ?? ''} ${adId ?? ''}`;
}

function cellOf(after: readonly string[] | undefined, cells: number): number {
  if (after === undefined) return 0;
  const cell = after.length === 1 && /^\d{1,15}$/.test(after[0]!) ? Number(after[0]) : cells;
  if (cell < cells) return cell;
  throw new LedgerError('cursor_invalid', 'The cursor does not belong to this query.');
}
