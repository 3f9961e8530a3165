/**
 * The one statement behind a metrics query: a source per tier, glued together, grouped by bucket.
 *
 * Every source gives `(bucket, columns asked for, n)`; the outer query sums `n`, so the parts of a
 * bucket that come from several tiers make one row.
 */
import type { GroupBy, MetricsFilter, OrderBy } from '../port.ts';
import { type BucketRule, type Source, sourceSql } from './sources.ts';
import { Params, type Sql } from './sql.ts';

export interface MetricsStatement {
  readonly filter: MetricsFilter;
  readonly groupBy: readonly GroupBy[];
  readonly orderBy: OrderBy;
  readonly buckets: BucketRule;
  readonly sources: readonly Source[];
  /**
   * Of the last row already given: its bucket and groups; before them its clicks when they decide
   * the order.
   */
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

/**
 * More than a page can need: groups beyond this spill to disk rather than take the process along,
 * and what still does not fit, or lasts longer than anybody waits, is refused.
 */
const GUARD =
  'SETTINGS max_bytes_before_external_group_by = 1000000000, ' +
  'max_bytes_before_external_sort = 1000000000, max_memory_usage = 3000000000, ' +
  'max_execution_time = 30';

/** What is asked for, in the order rows are sorted by, each once. */
export function groupOrder(groupBy: readonly GroupBy[]): GroupBy[] {
  return COLUMN_ORDER.filter((group) => groupBy.includes(group));
}

/** Rows of `bucket, groups…, clicks`. */
export function metricsSql(statement: MetricsStatement): Sql {
  const params = new Params();
  const { orderBy, after } = statement;
  const groups = groupOrder(statement.groupBy).map((group) => COLUMN[group]);
  const keys = ['bucket', ...groups].join(', ');
  const from = glued(params, statement, groups);
  const isPast = after !== undefined && orderBy === 'bucket';
  const where = isPast ? `WHERE ${keysAfter(params, keys, after)}` : '';
  const having =
    after === undefined || isPast ? '' : ` AND ${clicksAfter(params, keys, { orderBy, after })}`;
  return params.sql(
    `SELECT ${keys}, sum(n) AS clicks FROM (${from}) ${where} ` +
      `GROUP BY ${keys} HAVING clicks > 0${having} ORDER BY ${orderSql(orderBy, keys)} ` +
      `LIMIT ${params.add('UInt32', statement.limit)} ${GUARD}`,
  );
}

export interface TopStatement {
  readonly filter: MetricsFilter;
  readonly by: GroupBy;
  readonly sources: readonly Source[];
  readonly limit: number;
}

/** Rows of `value, clicks, total`. The total is in the same statement: shares are of one moment. */
export function topSql({ filter, by, sources, limit }: TopStatement): Sql {
  const params = new Params();
  const column = COLUMN[by];
  const buckets = { kind: 'total' } as const;
  const from = glued(params, { filter, buckets, sources }, [column]);
  return params.sql(
    `SELECT ${column}, clicks, sum(clicks) OVER () FROM (
      SELECT ${column}, sum(n) AS clicks FROM (${from}) GROUP BY ${column} HAVING clicks > 0)
      ORDER BY clicks DESC, ${column} LIMIT ${params.add('UInt32', limit)} ${GUARD}`,
  );
}

function glued(
  params: Params,
  { filter, buckets, sources }: Pick<MetricsStatement, 'filter' | 'buckets' | 'sources'>,
  groups: readonly string[],
): string {
  const each = sources.map((source) => sourceSql(params, { filter, buckets, groups }, source));
  return each.join(' UNION ALL ');
}

function orderSql(orderBy: OrderBy, keys: string): string {
  switch (orderBy) {
    case 'bucket':
      return keys;
    case 'clicks':
      return `clicks, ${keys}`;
    case '-clicks':
      return `clicks DESC, ${keys}`;
  }
}

function keysAfter(params: Params, keys: string, after: readonly (number | string)[]): string {
  const values = after.map((value) =>
    params.add(typeof value === 'number' ? 'UInt32' : 'String', value),
  );
  return `tuple(${keys}) > tuple(${values.join(', ')})`;
}

function clicksAfter(
  params: Params,
  keys: string,
  { orderBy, after }: { orderBy: OrderBy; after: readonly (number | string)[] },
): string {
  const [clicks, ...values] = after;
  const last = params.add('UInt64', clicks);
  const beyond = orderBy === '-clicks' ? '<' : '>';
  return `(clicks ${beyond} ${last} OR (clicks = ${last} AND ${keysAfter(params, keys, values)}))`;
}
