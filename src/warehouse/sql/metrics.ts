/**
 * The one statement behind a metrics query: a source per tier, glued together, grouped by bucket.
 *
 * Every source gives `(bucket, columns asked for, n)`; the outer query sums `n`, so the parts of a
 * bucket that come from several tiers make one row.
 */
import { floorTo, HOUR_MS } from '../buckets.ts';
import type { Tier, TimeRange } from '../plan.ts';
import type { GroupBy, MetricsQuery } from '../port.ts';
import type { Visibility } from '../published.ts';
import { Params, type Sql, toSeconds } from './sql.ts';
import { HOUR_OF_MINUTE, visibleSql } from './visible.ts';

/** How a row's time becomes its bucket's start. */
export type BucketRule =
  | { readonly kind: 'total' }
  | { readonly kind: 'step'; readonly firstMs: number; readonly stepMs: number }
  | { readonly kind: 'edges'; readonly startsMs: readonly number[] };

/** All segments of one tier: ascending, apart from each other. */
export interface Source {
  readonly tier: Tier;
  readonly ranges: readonly TimeRange[];
  /** null for live rows. */
  readonly visibility: Visibility | null;
}

export interface MetricsStatement {
  readonly query: MetricsQuery;
  readonly buckets: BucketRule;
  readonly sources: readonly Source[];
  /** Values of the last row already given, in the order of `rowColumns`. */
  readonly after: readonly (number | string)[] | undefined;
  readonly limit: number;
}

const COLUMN: Record<GroupBy, string> = {
  ad: 'ad_id',
  campaign: 'campaign_id',
  country: 'country',
  device: 'device',
};
const COLUMN_ORDER: readonly GroupBy[] = ['ad', 'campaign', 'country', 'device'];

/** What is asked for, in the order rows are sorted by, each once. */
export function groupOrder(groupBy: readonly GroupBy[]): GroupBy[] {
  return COLUMN_ORDER.filter((group) => groupBy.includes(group));
}

export function metricsSql(statement: MetricsStatement): Sql {
  const params = new Params();
  const groups = groupOrder(statement.query.groupBy).map((group) => COLUMN[group]);
  const keys = ['bucket', ...groups].join(', ');
  const sources = statement.sources.map((source) => sourceSql(params, statement, source, groups));
  const where =
    statement.after === undefined ? '' : `WHERE ${afterSql(params, keys, statement.after)}`;
  return params.sql(
    `SELECT ${keys}, sum(n) AS clicks FROM (${sources.join(' UNION ALL ')}) ${where} ` +
      `GROUP BY ${keys} HAVING clicks > 0 ORDER BY ${keys} ` +
      `LIMIT ${params.add('UInt32', statement.limit)}`,
  );
}

function afterSql(params: Params, keys: string, after: readonly (number | string)[]): string {
  const values = after.map((value) =>
    params.add(typeof value === 'number' ? 'UInt32' : 'String', value),
  );
  return `tuple(${keys}) > tuple(${values.join(', ')})`;
}

function sourceSql(
  params: Params,
  { query, buckets }: MetricsStatement,
  source: Source,
  groups: readonly string[],
): string {
  const select = (seconds: string, n: string): string =>
    `SELECT ${[`${bucketSql(params, buckets, seconds)} AS bucket`, ...groups, `${n} AS n`].join(', ')}`;
  const columns = (...more: string[]): string => [...groups, ...more].join(', ');
  const filters = filterSql(params, query);
  const rows = (time: string, unitSeconds: string, ranges = source.ranges): string => {
    const visible = visibleSql(params, unitSeconds, source.visibility!);
    return `${filters} AND ${rangesSql(params, time, ranges)} AND ${visible}`;
  };
  switch (source.tier) {
    case 'day': {
      const day = 'toUnixTimestamp(day)';
      return `${select(day, 'clicks')} FROM final_day WHERE ${rows('day', day)}`;
    }
    case 'hour': {
      const hour = 'toUnixTimestamp(hour)';
      return `${select(hour, 'clicks')} FROM final_hour WHERE ${rows('hour', hour)}`;
    }
    case 'minute':
      return `${select('toUnixTimestamp(minute)', 'clicks')} FROM final_minute
        WHERE ${rows('minute', HOUR_OF_MINUTE)}`;
    case 'quarter': {
      const touched = wholeHours(source.ranges);
      const hours = `SELECT ${columns('hour', 'q0', 'q1', 'q2', 'q3')} FROM final_hour
        WHERE ${rows('hour', 'toUnixTimestamp(hour)', touched)}`;
      const start = 'toUInt32(toUnixTimestamp(hour) + after_hour) AS quarter';
      const quarters = `SELECT ${columns(start, 'quarter_clicks')} FROM (${hours})
        ARRAY JOIN [q0, q1, q2, q3] AS quarter_clicks, [0, 900, 1800, 2700] AS after_hour`;
      return `${select('quarter', 'quarter_clicks')} FROM (${quarters})
        WHERE ${insideSql(params, 'quarter', source.ranges)}`;
    }
    case 'live': {
      // W2: the highest version per full key, before anything is summed.
      const latest = `SELECT ${columns('minute', 'argMax(clicks, version) AS latest')} FROM live_minute
        WHERE ${filters} AND ${rangesSql(params, 'minute', source.ranges)}
        GROUP BY advertiser_id, ad_id, minute, country, device, campaign_id, shard`;
      return `${select('toUnixTimestamp(minute)', 'latest')} FROM (${latest})`;
    }
  }
}

function bucketSql(params: Params, rule: BucketRule, seconds: string): string {
  switch (rule.kind) {
    case 'total':
      return 'toUInt32(0)';
    case 'step': {
      const first = params.add('UInt32', toSeconds(rule.firstMs));
      const step = params.add('UInt32', toSeconds(rule.stepMs));
      return `toUInt32(${seconds} - (${seconds} - ${first}) % ${step})`;
    }
    case 'edges':
      return `roundDown(${seconds}, ${params.add('Array(UInt32)', rule.startsMs.map(toSeconds))})`;
  }
}

function filterSql(params: Params, query: MetricsQuery): string {
  const terms = [`advertiser_id = ${params.add('String', query.advertiserId)}`];
  const oneOf = (column: string, values: readonly string[] | undefined): void => {
    if (values !== undefined) terms.push(`${column} IN ${params.add('Array(String)', values)}`);
  };
  oneOf('ad_id', query.adIds);
  oneOf('campaign_id', query.campaignIds);
  oneOf('country', query.countries);
  oneOf('device', query.devices);
  return terms.join(' AND ');
}

/** `column` lies in one of the ranges: outer bounds to prune by, then the exact test. */
function rangesSql(params: Params, column: string, ranges: readonly TimeRange[]): string {
  const bounds = boundsSql(params, column, ranges);
  if (ranges.length === 1) return bounds;
  return `${bounds} AND ${insideSql(params, `toUnixTimestamp(${column})`, ranges)}`;
}

function boundsSql(params: Params, column: string, ranges: readonly TimeRange[]): string {
  return params.between(column, ranges[0]!.fromMs, ranges.at(-1)!.toMs);
}

/** The nearest edge at or before the row's time is the start of a range, not an end. */
function insideSql(params: Params, seconds: string, ranges: readonly TimeRange[]): string {
  const edges = ranges.flatMap((range) => [toSeconds(range.fromMs), toSeconds(range.toMs)]);
  const starts = ranges.map((range) => toSeconds(range.fromMs));
  const first = params.add('UInt32', edges[0]);
  return (
    `${seconds} >= ${first} AND roundDown(${seconds}, ${params.add('Array(UInt32)', edges)}) ` +
    `IN ${params.add('Array(UInt32)', starts)}`
  );
}

/** The UTC hours that the ranges touch; hours next to each other become one range. */
function wholeHours(ranges: readonly TimeRange[]): TimeRange[] {
  const hours: TimeRange[] = [];
  for (const range of ranges) {
    const fromMs = floorTo(range.fromMs, HOUR_MS);
    const toMs = floorTo(range.toMs - 1, HOUR_MS) + HOUR_MS;
    const last = hours.at(-1);
    if (last !== undefined && last.toMs >= fromMs)
      hours.splice(-1, 1, { fromMs: last.fromMs, toMs });
    else hours.push({ fromMs, toMs });
  }
  return hours;
}
