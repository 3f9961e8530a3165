/**
 * Answers a metrics query: which buckets, which tiers, in which order, page by page.
 *
 * Rows come by bucket first, while the tables are sorted by ad first. So a page is built from windows
 * of buckets: a few buckets at a time until the page is full. A page then costs what its rows cost,
 * not what the whole range costs.
 *
 * R1 The parts of one bucket, from several tiers, are summed in one statement: one row per bucket.
 * R2 Rows of an expired tier are never taken for "no clicks": such a query is refused.
 */
import { MAX_CLICKED_AT_MS, MIN_CLICKED_AT_MS } from '../event/click-event.ts';
import { assert, LedgerError } from '../platform/errors.ts';
import { type Buckets, bucketsOf, DAY_MS, floorTo, formatInZone, HOUR_MS } from './buckets.ts';
import { planSegments, type Segment, type Tier, type TimeRange } from './plan.ts';
import type { GroupBy, MetricsPage, MetricsQuery, MetricsRow } from './port.ts';
import type { PublishedStates } from './published.ts';
import { type BucketRule, groupOrder, metricsSql, type Source } from './sql/metrics.ts';
import type { Row } from './sql/read.ts';
import { type Sql, toCount } from './sql/sql.ts';

export interface ReaderParts {
  readonly run: (sql: Sql) => Promise<Row[]>;
  readonly published: PublishedStates;
  /** From when on the tiers still hold every row, ms UTC. */
  readonly heldFromMs: { readonly minute: number; readonly hour: number };
}

/** A window makes about this many groups at the least: fewer would not make it cheaper. */
const MIN_WINDOW_GROUPS = 200_000;
/** Groups per bucket when the query names no ads. */
const ASSUMED_ADS = 1_000;
/** A window that filled little of the page is followed by a wider one. */
const WINDOW_GROWTH = 8;
/** Bounds the parameters of one statement. */
const MAX_WINDOW_BUCKETS = 50_000;

export async function readMetrics(
  parts: ReaderParts,
  query: MetricsQuery,
  finalUntilMs: number,
): Promise<MetricsPage> {
  assert(query.limit >= 1, 'a page has at least one row');
  const fromMs = Math.max(query.fromMs, MIN_CLICKED_AT_MS);
  const toMs = Math.min(query.toMs, MAX_CLICKED_AT_MS);
  const buckets = bucketsOf(query.granularity, query.timezone, fromMs, Math.max(fromMs, toMs));
  const position = query.after === undefined ? undefined : toPosition(query, buckets, query.after);
  const range = { fromMs, toMs };
  let first = position?.bucket ?? 0;
  let size = firstWindow(query);
  const rows: Row[] = [];
  // One row more than asked for tells whether there is a next page.
  while (fromMs < toMs && first < buckets.count && rows.length <= query.limit) {
    const end = Math.min(buckets.count, first + size);
    const sources = sourcesOf(parts, query, finalUntilMs, windowOf(buckets, first, end, range));
    if (sources.length > 0) {
      const statement = {
        query,
        buckets: ruleOf(query, buckets, first, end),
        sources,
        after: position !== undefined && first === position.bucket ? position.values : undefined,
        limit: query.limit + 1 - rows.length,
      };
      rows.push(...(await parts.run(metricsSql(statement))));
    }
    first = end;
    size = Math.min(size * WINDOW_GROWTH, MAX_WINDOW_BUCKETS);
  }
  return toPage(query, rows);
}

interface Window extends TimeRange {
  readonly cutsMs: readonly number[] | 'every_minute';
}

function windowOf(buckets: Buckets, first: number, end: number, range: TimeRange): Window {
  return {
    fromMs: Math.max(range.fromMs, buckets.startMs(first)),
    toMs: Math.min(range.toMs, buckets.startMs(end)),
    cutsMs: startsOf(buckets, first, end),
  };
}

function startsOf(buckets: Buckets, first: number, end: number): number[] {
  return Array.from({ length: end - first }, (_, index) => buckets.startMs(first + index));
}

function firstWindow(query: MetricsQuery): number {
  const groups = query.groupBy.includes('ad') ? (query.adIds?.length ?? ASSUMED_ADS) : 1;
  const enough = Math.max(query.limit + 1, MIN_WINDOW_GROUPS) / Math.max(1, groups);
  return Math.min(MAX_WINDOW_BUCKETS, Math.ceil(enough));
}

/** Plans one window and leaves out what cannot hold rows. */
function sourcesOf(
  { published, heldFromMs }: ReaderParts,
  query: MetricsQuery,
  finalUntilMs: number,
  window: Window,
): Source[] {
  const segments = planSegments({
    fromMs: window.fromMs,
    toMs: window.toMs,
    finalUntilMs,
    cutsMs: query.granularity === 'minute' ? 'every_minute' : window.cutsMs,
    isDayPublished: (dayMs) => published.day(dayMs) !== undefined,
  });
  const byTier = new Map<Tier, Segment[]>();
  for (const segment of segments) {
    const clipped = clip(segment, published.span());
    if (clipped.fromMs >= clipped.toMs) continue;
    if (clipped.tier === 'minute') refuseExpired(published, clipped, heldFromMs.minute);
    if (clipped.tier === 'hour' || clipped.tier === 'quarter') {
      refuseExpired(published, clipped, heldFromMs.hour);
    }
    const ranges = byTier.get(clipped.tier);
    if (ranges === undefined) byTier.set(clipped.tier, [clipped]);
    else ranges.push(clipped);
  }
  return [...byTier].map(([tier, ranges]) => ({
    tier,
    ranges,
    visibility:
      tier === 'live' ? null : published.visibility(tier === 'day' ? 'day' : 'hour', ranges),
  }));
}

/** Before the first and after the last published hour there are no final rows to look at. */
function clip(segment: Segment, span: TimeRange): Segment {
  if (segment.tier === 'live' || segment.tier === 'day') return segment;
  return {
    tier: segment.tier,
    fromMs: Math.max(segment.fromMs, span.fromMs),
    toMs: Math.min(segment.toMs, span.toMs),
  };
}

/** R2 */
function refuseExpired(published: PublishedStates, segment: Segment, heldFromMs: number): void {
  if (segment.fromMs >= heldFromMs) return;
  const gone = published.hours(
    floorTo(segment.fromMs, HOUR_MS),
    Math.min(segment.toMs, heldFromMs),
  );
  if (gone.every((hour) => hour.counted === 0)) return;
  const unit = segment.tier === 'minute' ? 'minute' : 'hour';
  throw new LedgerError(
    'tier_expired',
    `The ${unit} rows that this query needs are kept from ${new Date(heldFromMs).toISOString()} on.`,
    {
      hint:
        unit === 'minute'
          ? 'Ask by hour or day, with a range that begins and ends on quarter hours.'
          : 'Ask by day in UTC, with a range of whole UTC days.',
    },
  );
}

function ruleOf(query: MetricsQuery, buckets: Buckets, first: number, end: number): BucketRule {
  if (query.granularity === 'total') return { kind: 'total' };
  const startsMs = startsOf(buckets, first, end);
  const firstMs = startsMs[0]!;
  const stepMs = startsMs.length > 1 ? startsMs[1]! - firstMs : 2 * DAY_MS;
  const even = startsMs.every((ms, index) => ms === firstMs + index * stepMs);
  // The last bucket can be longer than the step too: the 25-hour day after others of 24.
  return even && buckets.startMs(end) <= startsMs.at(-1)! + stepMs
    ? { kind: 'step', firstMs, stepMs }
    : { kind: 'edges', startsMs };
}

interface Position {
  /** Index of the bucket that the last row lay in. */
  readonly bucket: number;
  readonly values: readonly (number | string)[];
}

function toPosition(query: MetricsQuery, buckets: Buckets, after: readonly string[]): Position {
  const [bucketText, ...groups] = after;
  const seconds = /^\d{1,10}$/.test(bucketText ?? '') ? Number(bucketText) : Number.NaN;
  const bucket =
    query.granularity === 'total' && seconds === 0 ? 0 : indexOf(buckets, seconds * 1000);
  if (bucket === -1 || groups.length !== groupOrder(query.groupBy).length) {
    throw new LedgerError('cursor_invalid', 'The cursor does not belong to this query.', {
      hint: 'Repeat the query that gave the cursor, or start without one.',
    });
  }
  return { bucket, values: [seconds, ...groups] };
}

function indexOf(buckets: Buckets, startMs: number): number {
  let low = 0;
  let high = buckets.count - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const at = buckets.startMs(middle);
    if (at === startMs) return middle;
    if (at < startMs) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

function toPage(query: MetricsQuery, rows: readonly Row[]): MetricsPage {
  const groups = groupOrder(query.groupBy);
  const given = rows.slice(0, query.limit);
  const last = given.at(-1);
  const cells = groups.length + 1;
  const label = labeller(query);
  return {
    rows: given.map((row) => toRow(row, groups, label(Number(row[0])))),
    next: rows.length > query.limit ? last!.slice(0, cells).map(String) : undefined,
  };
}

/** Names buckets; neighbouring rows mostly share one. */
function labeller(query: MetricsQuery): (seconds: number) => string | undefined {
  if (query.granularity === 'total') return () => undefined;
  let known = -1;
  let label = '';
  return (seconds) => {
    if (seconds !== known) label = formatInZone(seconds * 1000, query.timezone);
    known = seconds;
    return label;
  };
}

function toRow(row: Row, groups: readonly GroupBy[], bucketStart: string | undefined): MetricsRow {
  const value = (group: GroupBy): string | undefined => {
    const at = groups.indexOf(group);
    return at === -1 ? undefined : String(row[at + 1]);
  };
  return {
    bucketStart,
    adId: value('ad'),
    campaignId: value('campaign'),
    country: value('country'),
    device: value('device'),
    clicks: toCount(row[groups.length + 1]),
  };
}
