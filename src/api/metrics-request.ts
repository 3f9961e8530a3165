/** The parameters of a metrics query, checked as a whole. */
import { z } from 'zod';
import type { Principal } from '../auth/tokens.ts';
import type { Config } from '../config/schema.ts';
import { bucketsOf, DAY_MS } from '../warehouse/buckets.ts';
import type { Granularity, GroupBy, MetricsQuery } from '../warehouse/port.ts';
import { MAX_SORTED_BUCKETS } from '../warehouse/reader.ts';
import { filterOf, filterShape, id, rangeShape, timeZone } from './filter.ts';
import {
  listOf,
  oneOf,
  parseParameters,
  type RawParameters,
  text,
  wholeNumber,
} from './parameters.ts';
import { Problem, parameterProblem } from './problem.ts';
import { parseRange, type Range } from './time.ts';

export { id, timeZone };

export interface MetricsRequest {
  readonly query: Omit<MetricsQuery, 'after'>;
  /** Whether buckets without clicks get a row. */
  readonly fillZero: boolean;
  readonly cursor: string | undefined;
}

const GROUPS: readonly GroupBy[] = ['ad', 'campaign', 'country', 'device'];
/** Finer buckets over longer ranges are refused: nobody reads millions of rows by mistake only. */
const MAX_RANGE_DAYS: Readonly<Record<Granularity, number>> = {
  minute: 366,
  hour: 1_100,
  day: Number.POSITIVE_INFINITY,
  total: Number.POSITIVE_INFINITY,
};

export type Limits = Pick<Config['api'], 'maxRows' | 'maxAdIds'>;

export const metricsParameters = ({ maxRows, maxAdIds }: Limits) =>
  z.strictObject({
    ...rangeShape(),
    granularity: oneOf(['minute', 'hour', 'day', 'total'])
      .default('day')
      .describe(
        `Length of a bucket. \`minute\` over up to ${MAX_RANGE_DAYS.minute} days, \`hour\` over up to ${MAX_RANGE_DAYS.hour}.`,
      ),
    group_by: listOf(oneOf([...GROUPS, 'none']), GROUPS.length, 'groups')
      .default(['ad'])
      .describe('What has rows of its own beside the bucket; `none` stands alone.'),
    ...filterShape(maxAdIds),
    order_by: oneOf(['bucket', 'clicks', '-clicks'])
      .default('bucket')
      .describe(
        `\`bucket\`: by bucket, then ad, campaign, country, device. \`clicks\`, \`-clicks\`: fewest or most first, over up to ${MAX_SORTED_BUCKETS} buckets.`,
      ),
    fill: oneOf(['none', 'zero'])
      .default('none')
      .describe('`zero`: buckets without clicks have a row too.'),
    limit: wholeNumber(1, maxRows).default(maxRows).describe('Most rows of a page.'),
    cursor: text('the next_cursor of the page before')
      .optional()
      .describe('`next_cursor` of the page before.'),
  });

export type ParseMetricsRequest = (raw: RawParameters, principal: Principal) => MetricsRequest;

export function metricsRequestParser(limits: Limits): ParseMetricsRequest {
  const schema = metricsParameters(limits);
  return (raw, principal) => toRequest(parseParameters(schema, raw), principal);
}

function toRequest(
  params: z.infer<ReturnType<typeof metricsParameters>>,
  principal: Principal,
): MetricsRequest {
  const range = parseRange(params.from, params.to, params.timezone);
  checkRange(range, params.granularity);
  const groupBy = groupsOf(params.group_by);
  const fillZero = params.fill === 'zero';
  if (fillZero) checkFill(groupBy, params.ad_ids);
  if (params.order_by !== 'bucket') checkSorted(range, params);
  const query = {
    ...filterOf(params, principal),
    ...range,
    granularity: params.granularity,
    timezone: params.timezone,
    groupBy,
    orderBy: params.order_by,
    limit: params.limit,
  };
  return { query, fillZero, cursor: params.cursor };
}

/** In the order in which rows are sorted. */
function groupsOf(names: readonly (GroupBy | 'none')[]): GroupBy[] {
  if (names.includes('none') && names.length > 1) {
    throw parameterProblem([{ parameter: 'group_by', message: '"none" stands alone.' }]);
  }
  return GROUPS.filter((group) => names.includes(group));
}

function checkRange({ fromMs, toMs }: Range, granularity: Granularity): void {
  const mostDays = MAX_RANGE_DAYS[granularity];
  if (toMs - fromMs <= mostDays * DAY_MS) return;
  const coarser = granularity === 'minute' ? 'hour' : 'day';
  throw new Problem(
    400,
    'range_too_long',
    `By ${granularity} a range has at most ${mostDays} days.`,
    {
      hint: `Ask with granularity=${coarser}, or in several ranges: [a, b) and [b, c) add up exactly.`,
    },
  );
}

/** Only where the full set of rows is known: one per bucket, or one per bucket and given ad. */
function checkFill(groupBy: readonly GroupBy[], adIds: readonly string[] | undefined): void {
  const byAd = groupBy.length === 1 && groupBy[0] === 'ad' && adIds !== undefined;
  if (groupBy.length === 0 || byAd) return;
  const message = 'zero needs group_by=none, or group_by=ad together with ad_ids.';
  throw parameterProblem([{ parameter: 'fill', message }]);
}

function checkSorted(
  { fromMs, toMs }: Range,
  params: { granularity: Granularity; timezone: string; fill: 'none' | 'zero'; order_by: string },
): void {
  const { granularity, timezone, fill, order_by } = params;
  if (fill === 'zero') {
    throw parameterProblem([{ parameter: 'fill', message: 'zero needs order_by=bucket.' }]);
  }
  const { count } = bucketsOf(granularity, timezone, fromMs, toMs);
  if (count <= MAX_SORTED_BUCKETS) return;
  throw new Problem(
    400,
    'range_too_long',
    `order_by=${order_by} takes at most ${MAX_SORTED_BUCKETS} buckets; this range has ${count} by ${granularity}.`,
    {
      hint: 'Ask with a coarser granularity, for a shorter range, or with order_by=bucket. GET /v1/ads/top ranks over any range.',
    },
  );
}
