/**
 * What one tier gives to a query: its rows in force, filtered, each with the bucket it belongs to.
 *
 * Hour and day rows come from the roll-up that has all columns asked for, where there is one; its sums
 * were written with the rows they are sums of, under the same attempt.
 */
import { DAY_MS, floorTo, HOUR_MS } from '../buckets.ts';
import type { Tier, TimeRange } from '../plan.ts';
import type { MetricsFilter } from '../port.ts';
import type { Visibility } from '../published.ts';
import { ROLLUPS } from './schema.ts';
import { type Params, toSeconds } from './sql.ts';
import { HOUR_OF_MINUTE, visibleSql } from './visible.ts';

/** How a row's time becomes its bucket's start. */
export type BucketRule =
  | { readonly kind: 'total' }
  | { readonly kind: 'runs'; readonly runs: readonly BucketRun[] }
  | { readonly kind: 'edges'; readonly startsMs: readonly number[] };

/** Buckets that follow each other evenly, up to the next run; the last may be shorter. */
export interface BucketRun {
  readonly firstMs: number;
  readonly stepMs: number;
}

/** All segments of one tier: ascending, apart from each other. */
export interface Source {
  readonly tier: Tier;
  readonly ranges: readonly TimeRange[];
  /** null for live rows. */
  readonly visibility: Visibility | null;
}

export interface Wanted {
  readonly filter: MetricsFilter;
  readonly buckets: BucketRule;
  /** Columns that rows are grouped by. */
  readonly groups: readonly string[];
}

export function sourceSql(params: Params, wanted: Wanted, source: Source): string {
  const { filter, buckets, groups } = wanted;
  const select = (seconds: string, n: string): string =>
    `SELECT ${[`${bucketSql(params, buckets, seconds)} AS bucket`, ...groups, `${n} AS n`].join(', ')}`;
  const columns = (...more: string[]): string => [...groups, ...more].join(', ');
  const tests = filterTests(filter);
  const rows = (inRanges: string, unitSeconds: string): string => {
    const visible = visibleSql(params, unitSeconds, source.visibility!);
    return `${filterSql(params, filter, tests)} AND ${inRanges} AND ${visible}`;
  };
  const units = (time: 'day' | 'hour', ranges = source.ranges): string =>
    rows(unitsSql(params, time, ranges), `toUnixTimestamp(${time})`);
  const rollup = rollupFor(filter, [...groups, ...tests.map(({ column }) => column)]);
  const table = (name: 'final_hour' | 'final_day'): string =>
    rollup === undefined
      ? `${name} WHERE`
      : `${name}_rollup WHERE summed_by = ${params.add('String', rollup)} AND`;
  switch (source.tier) {
    case 'day': {
      const day = 'toUnixTimestamp(day)';
      return `${select(day, 'clicks')} FROM ${table('final_day')} ${units('day')}`;
    }
    case 'hour': {
      const hour = 'toUnixTimestamp(hour)';
      return `${select(hour, 'clicks')} FROM ${table('final_hour')} ${units('hour')}`;
    }
    case 'minute':
      return `${select('toUnixTimestamp(minute)', 'clicks')} FROM final_minute
        WHERE ${rows(rangesSql(params, 'minute', source.ranges), HOUR_OF_MINUTE)}`;
    case 'quarter': {
      const touched = wholeHours(source.ranges);
      const hours = `SELECT ${columns('hour', 'q0', 'q1', 'q2', 'q3')} FROM ${table('final_hour')}
        ${units('hour', touched)}`;
      const start = 'toUInt32(toUnixTimestamp(hour) + after_hour) AS quarter';
      const quarters = `SELECT ${columns(start, 'quarter_clicks')} FROM (${hours})
        ARRAY JOIN [q0, q1, q2, q3] AS quarter_clicks, [0, 900, 1800, 2700] AS after_hour`;
      return `${select('quarter', 'quarter_clicks')} FROM (${quarters})
        WHERE ${insideSql(params, 'quarter', source.ranges)}`;
    }
    case 'live': {
      // W2: the highest version per full key, before anything is summed.
      const latest = `SELECT ${columns('minute', 'argMax(clicks, version) AS latest')} FROM live_minute
        WHERE ${filterSql(params, filter, tests)} AND ${rangesSql(params, 'minute', source.ranges)}
        GROUP BY advertiser_id, ad_id, minute, country, device, campaign_id, shard`;
      return `${select('toUnixTimestamp(minute)', 'latest')} FROM (${latest})`;
    }
  }
}

/** So few ads are found faster where the rows of an ad lie together. */
const FEW_ADS = 50;

/** The roll-up that has all of the columns; undefined where only the rows themselves do. */
function rollupFor(filter: MetricsFilter, columns: readonly string[]): string | undefined {
  if (filter.adIds !== undefined && filter.adIds.length <= FEW_ADS) return undefined;
  const found = Object.entries(ROLLUPS).find(([, kept]: [string, readonly string[]]) =>
    columns.every((column) => kept.includes(column)),
  );
  return found?.[0];
}

interface FilterTest {
  readonly column: string;
  readonly operator: 'IN' | 'NOT IN';
  readonly values: readonly string[];
}

function filterTests(filter: MetricsFilter): FilterTest[] {
  const tests: FilterTest[] = [];
  const add = (
    column: string,
    only: readonly string[] | undefined,
    not: readonly string[] | undefined,
  ): void => {
    if (only !== undefined) tests.push({ column, operator: 'IN', values: only });
    if (not !== undefined) tests.push({ column, operator: 'NOT IN', values: not });
  };
  add('ad_id', filter.adIds, filter.adIdsNot);
  add('campaign_id', filter.campaignIds, filter.campaignIdsNot);
  add('country', filter.countries, filter.countriesNot);
  add('device', filter.devices, filter.devicesNot);
  return tests;
}

function filterSql(params: Params, filter: MetricsFilter, tests: readonly FilterTest[]): string {
  const terms = [`advertiser_id = ${params.add('String', filter.advertiserId)}`];
  for (const { column, operator, values } of tests) {
    terms.push(`${column} ${operator} ${params.add('Array(String)', values)}`);
  }
  return terms.join(' AND ');
}

function bucketSql(params: Params, rule: BucketRule, seconds: string): string {
  switch (rule.kind) {
    case 'total':
      return 'toUInt32(0)';
    case 'runs': {
      const starts = rule.runs.map(({ firstMs, stepMs }) => {
        const first = params.add('UInt32', toSeconds(firstMs));
        const step = params.add('UInt32', toSeconds(stepMs));
        return { first, sql: `toUInt32(${seconds} - (${seconds} - ${first}) % ${step})` };
      });
      if (starts.length === 1) return starts[0]!.sql;
      const cases = starts
        .slice(1)
        .map(({ first }, at) => `${seconds} < ${first}, ${starts[at]!.sql}`);
      return `multiIf(${cases.join(', ')}, ${starts.at(-1)!.sql})`;
    }
    case 'edges':
      return `roundDown(${seconds}, ${params.add('Array(UInt32)', rule.startsMs.map(toSeconds))})`;
  }
}

/** `column` lies in one of the ranges: outer bounds to prune by, then the exact test. */
function rangesSql(params: Params, column: string, ranges: readonly TimeRange[]): string {
  const bounds = boundsSql(params, column, ranges);
  if (ranges.length === 1) return bounds;
  return `${bounds} AND ${insideSql(params, `toUnixTimestamp(${column})`, ranges)}`;
}

/** More units than this are not named one by one. */
const MAX_LISTED_UNITS = 20_000;

/**
 * The same for rows of whole hours or days. The units inside the ranges are named one by one, or those
 * between the ranges if they are fewer: over many rows a look into a set is faster than a search.
 */
function unitsSql(params: Params, unit: 'day' | 'hour', ranges: readonly TimeRange[]): string {
  const bounds = boundsSql(params, unit, ranges);
  if (ranges.length === 1) return bounds;
  const unitMs = unit === 'day' ? DAY_MS : HOUR_MS;
  const gaps = ranges
    .slice(1)
    .map((range, at) => ({ fromMs: ranges[at]!.toMs, toMs: range.fromMs }));
  const [inside, between] = [countUnits(ranges, unitMs), countUnits(gaps, unitMs)];
  if (Math.min(inside, between) > MAX_LISTED_UNITS) return rangesSql(params, unit, ranges);
  const [operator, listed] = inside <= between ? ['IN', ranges] : ['NOT IN', gaps];
  const starts = listed.flatMap(({ fromMs, toMs }) =>
    Array.from({ length: (toMs - fromMs) / unitMs }, (_, at) => toSeconds(fromMs + at * unitMs)),
  );
  const set = params.add('Array(UInt32)', starts);
  return `${bounds} AND toUnixTimestamp(${unit}) ${operator} ${set}`;
}

function countUnits(ranges: readonly TimeRange[], unitMs: number): number {
  return ranges.reduce((count, { fromMs, toMs }) => count + (toMs - fromMs) / unitMs, 0);
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
