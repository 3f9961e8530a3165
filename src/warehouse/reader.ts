/**
 * Answers a metrics query: which buckets, which tiers, in which order, page by page.
 *
 * Rows come by bucket first, while the tables are sorted by ad first. So a page is built from windows
 * of buckets: a few buckets at a time until the page is full, from the cursor's bucket on. A page then
 * costs what its rows cost, not what the whole range costs, and the last costs what the first does.
 * By clicks no row is known to come first before all are counted: such a page reads the whole range.
 *
 * R1 The parts of one bucket, from several tiers, are summed in one statement: one row per bucket.
 * R2 Rows of an expired tier are never taken for "no clicks": such a query is refused.
 */
import { MAX_CLICKED_AT_MS, MIN_CLICKED_AT_MS } from '../event/click-event.ts';
import { assert, LedgerError } from '../platform/errors.ts';
import { type Buckets, bucketsOf, floorTo, formatInZone, HOUR_MS } from './buckets.ts';
import { planSegments, type Segment, type Tier, type TimeRange } from './plan.ts';
import type {
  Granularity,
  GroupBy,
  MetricsPage,
  MetricsQuery,
  MetricsRow,
  OrderBy,
  Top,
  TopQuery,
} from './port.ts';
import type { PublishedStates } from './published.ts';
import { groupOrder, metricsSql, topSql } from './sql/metrics.ts';
import type { Row } from './sql/read.ts';
import type { BucketRule, Source } from './sql/sources.ts';
import { type Sql, toCount } from './sql/sql.ts';

export interface ReaderParts {
  readonly run: (sql: Sql) => Promise<Row[]>;
  readonly published: PublishedStates;
  /** From when on the tiers still hold every row, ms UTC. */
  readonly heldFromMs: { readonly minute: number; readonly hour: number };
}

/** Most buckets of a query that is sorted by clicks: all of them are counted for every page. */
export const MAX_SORTED_BUCKETS = 1_500;
/** A window is made for about this many groups at the least: fewer would not make it cheaper. */
const MIN_WINDOW_GROUPS = 20_000;
/** Groups per bucket where the query does not list them; only the first window rests on it. */
const ASSUMED: Readonly<Record<GroupBy, number>> = {
  ad: 1_000,
  campaign: 20,
  country: 10,
  device: 2,
};
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
  const range = countedRange(query);
  const buckets = bucketsOf(query.granularity, query.timezone, range.fromMs, range.toMs);
  const orderBy = query.orderBy ?? 'bucket';
  const isSorted = orderBy !== 'bucket';
  assert(!isSorted || buckets.count <= MAX_SORTED_BUCKETS, 'few enough buckets to sort by clicks');
  const position = query.after === undefined ? undefined : toPosition(query, buckets, query.after);
  let first = isSorted ? 0 : (position?.bucket ?? 0);
  let size = isSorted ? buckets.count : firstWindow(query);
  const rows: Row[] = [];
  // One row more than asked for tells whether there is a next page.
  while (range.fromMs < range.toMs && first < buckets.count && rows.length <= query.limit) {
    const end = Math.min(buckets.count, first + size);
    const window = windowOf(buckets, first, end, range);
    const sources = sourcesOf(parts, query.granularity, finalUntilMs, window);
    const missing = query.limit + 1 - rows.length;
    let found: Row[] = [];
    if (sources.length > 0) {
      const isAfter = position !== undefined && (isSorted || first === position.bucket);
      const statement = {
        filter: query,
        groupBy: query.groupBy,
        orderBy,
        buckets: ruleOf(query, buckets, first, end),
        sources,
        after: isAfter ? position.values : undefined,
        limit: missing,
      };
      found = await parts.run(metricsSql(statement));
      for (const row of found) rows.push(row);
    }
    size = nextWindow(end - first, found.length, missing);
    first = end;
  }
  return toPage(query, rows);
}

/** The whole range as one bucket. */
export async function readTop(
  parts: ReaderParts,
  query: TopQuery,
  finalUntilMs: number,
): Promise<Top> {
  const range = countedRange(query);
  if (range.fromMs >= range.toMs) return { rows: [], total: 0 };
  const sources = sourcesOf(parts, 'total', finalUntilMs, { ...range, cutsMs: [] });
  if (sources.length === 0) return { rows: [], total: 0 };
  const { by, limit } = query;
  const rows = await parts.run(topSql({ filter: query, by, sources, limit }));
  return {
    rows: rows.map((row) => ({ value: String(row[0]), clicks: toCount(row[1]) })),
    total: rows.length === 0 ? 0 : toCount(rows[0]![2]),
  };
}

/** What can hold clicks at all of a range. */
function countedRange({ fromMs, toMs }: TimeRange): TimeRange {
  const from = Math.max(fromMs, MIN_CLICKED_AT_MS);
  return { fromMs: from, toMs: Math.max(from, Math.min(toMs, MAX_CLICKED_AT_MS)) };
}

interface Window extends TimeRange {
  readonly cutsMs: readonly number[];
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
  const listed: Readonly<Record<GroupBy, readonly string[] | undefined>> = {
    ad: query.adIds,
    campaign: query.campaignIds,
    country: query.countries,
    device: query.devices,
  };
  let groups = 1;
  for (const group of query.groupBy) groups *= listed[group]?.length ?? ASSUMED[group];
  const enough = Math.max(query.limit + 1, MIN_WINDOW_GROUPS) / groups;
  return Math.min(MAX_WINDOW_BUCKETS, Math.max(1, Math.ceil(enough)));
}

/** As many buckets as the missing rows need if they are as full as those before, and some more. */
function nextWindow(size: number, found: number, missing: number): number {
  const most = Math.min(size * WINDOW_GROWTH, MAX_WINDOW_BUCKETS);
  if (found === 0) return most;
  const enough = Math.ceil((1.2 * (missing - found) * size) / found);
  return Math.max(1, Math.min(most, enough));
}

/** Plans one window and leaves out what cannot hold rows. */
function sourcesOf(
  { published, heldFromMs }: ReaderParts,
  granularity: Granularity,
  finalUntilMs: number,
  window: Window,
): Source[] {
  const segments = planSegments({
    fromMs: window.fromMs,
    toMs: window.toMs,
    finalUntilMs,
    cutsMs: granularity === 'minute' ? 'every_minute' : window.cutsMs,
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

/** Zones change their clocks a few times a year; more runs than this are no faster than a search. */
const MAX_RUNS = 8;

function ruleOf(query: MetricsQuery, buckets: Buckets, first: number, end: number): BucketRule {
  if (query.granularity === 'total') return { kind: 'total' };
  const runs: { firstMs: number; stepMs: number }[] = [];
  for (let at = first; at < end && runs.length <= MAX_RUNS; at++) {
    const startMs = buckets.startMs(at);
    const lengthMs = buckets.startMs(at + 1) - startMs;
    const stepMs = runs.at(-1)?.stepMs;
    // The end of the range may cut the last bucket short: then it lies within its run's step.
    const isEven = stepMs === lengthMs || (at === buckets.count - 1 && lengthMs <= (stepMs ?? 0));
    if (!isEven) runs.push({ firstMs: startMs, stepMs: lengthMs });
  }
  return runs.length <= MAX_RUNS
    ? { kind: 'runs', runs }
    : { kind: 'edges', startsMs: startsOf(buckets, first, end) };
}

interface Position {
  /** Index of the bucket that the last row lay in. */
  readonly bucket: number;
  /** Its bucket and groups; before them its clicks when they decide the order. */
  readonly values: readonly (number | string)[];
}

function toPosition(query: MetricsQuery, buckets: Buckets, after: readonly string[]): Position {
  const rest = [...after];
  const isSorted = (query.orderBy ?? 'bucket') !== 'bucket';
  const clicks = isSorted ? [toNumber(rest.shift(), 15)] : [];
  const seconds = toNumber(rest.shift(), 10);
  const bucket =
    query.granularity === 'total' && seconds === 0 ? 0 : indexOf(buckets, seconds * 1000);
  const isWhole = rest.length === groupOrder(query.groupBy).length;
  if (bucket === -1 || !isWhole || clicks.some(Number.isNaN)) {
    throw new LedgerError('cursor_invalid', 'The cursor does not belong to this query.', {
      hint: 'Repeat the query that gave the cursor, or start without one.',
    });
  }
  return { bucket, values: [...clicks, seconds, ...rest] };
}

function toNumber(text: string | undefined, maxDigits: number): number {
  const isNumber = text !== undefined && text.length <= maxDigits && /^\d+$/.test(text);
  return isNumber ? Number(text) : Number.NaN;
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
  const label = labeller(query);
  const read = rowReader(groups);
  return {
    rows: given.map((row) => read(row, label(Number(row[0])))),
    next: rows.length > query.limit ? placeOf(given.at(-1)!, query.orderBy ?? 'bucket') : undefined,
  };
}

/** What `toPosition` takes back; a row is its bucket, its groups and its clicks. */
function placeOf(row: Row, orderBy: OrderBy): string[] {
  const keys = row.slice(0, -1).map(String);
  return orderBy === 'bucket' ? keys : [String(toCount(row.at(-1))), ...keys];
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

function rowReader(
  groups: readonly GroupBy[],
): (row: Row, bucketStart: string | undefined) => MetricsRow {
  const at = (group: GroupBy): number => groups.indexOf(group) + 1;
  const [ad, campaign, country, device] = [at('ad'), at('campaign'), at('country'), at('device')];
  const value = (row: Row, index: number): string | undefined =>
    index === 0 ? undefined : String(row[index]);
  return (row, bucketStart) => ({
    bucketStart,
    adId: value(row, ad),
    campaignId: value(row, campaign),
    country: value(row, country),
    device: value(row, device),
    clicks: toCount(row[groups.length + 1]),
  });
}
