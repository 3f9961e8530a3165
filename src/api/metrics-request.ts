/** The parameters of a metrics query, checked as a whole. */
import { z } from 'zod';
import type { Principal } from '../auth/tokens.ts';
import type { Config } from '../config/schema.ts';
import { DEVICES, isCountry, isId } from '../event/click-event.ts';
import { quoted } from '../platform/row-types.ts';
import { DAY_MS } from '../warehouse/buckets.ts';
import type { Granularity, GroupBy, MetricsQuery } from '../warehouse/port.ts';
import { oneAdvertiserOf } from './auth.ts';
import {
  listOf,
  oneOf,
  parseParameters,
  type RawParameters,
  text,
  wholeNumber,
} from './parameters.ts';
import { Problem, parameterProblem } from './problem.ts';
import { isTimeZone, parseRange, type Range } from './time.ts';

export interface MetricsRequest {
  readonly query: Omit<MetricsQuery, 'after'>;
  /** Whether buckets without clicks get a row. */
  readonly fillZero: boolean;
  readonly cursor: string | undefined;
}

const GROUPS: readonly GroupBy[] = ['ad', 'campaign', 'country', 'device'];
const MAX_COUNTRIES = 26 * 26;
/** Finer buckets over longer ranges are refused: nobody reads millions of rows by mistake only. */
const MAX_RANGE_DAYS: Readonly<Record<Granularity, number>> = {
  minute: 93,
  hour: 1_100,
  day: Number.POSITIVE_INFINITY,
  total: Number.POSITIVE_INFINITY,
};

export const id = z.string({ error: 'Ids are texts.' }).refine(isId, {
  error: ({ input }) => `${quoted(String(input))} is no id: 1 to 128 of A–Z a–z 0–9 . _ ~ -`,
});

export const timeZone = text('an IANA time zone')
  .refine(isTimeZone, {
    error: ({ input }) =>
      `There is no time zone ${quoted(String(input))}; use a name like Europe/Berlin.`,
  })
  .default('UTC');

const country = z
  .string({ error: 'Countries are texts.' })
  .transform((value) => value.toUpperCase())
  .refine(isCountry, {
    error: ({ input }) =>
      `${quoted(String(input))} is no country: two letters as in ISO 3166, or ZZ.`,
  });

type Limits = Pick<Config['api'], 'maxRows' | 'maxAdIds'>;

const schemaOf = ({ maxRows, maxAdIds }: Limits) =>
  z.strictObject({
    advertiser_id: id.optional(),
    ad_ids: listOf(id, maxAdIds, 'ad ids').optional(),
    campaign_ids: listOf(id, maxAdIds, 'campaign ids').optional(),
    country: listOf(country, MAX_COUNTRIES, 'countries').optional(),
    device: listOf(oneOf(DEVICES), DEVICES.length, 'devices').optional(),
    from: text('where the range begins'),
    to: text('where the range ends; not part of it'),
    granularity: oneOf(['minute', 'hour', 'day', 'total']).default('day'),
    group_by: listOf(oneOf([...GROUPS, 'none']), GROUPS.length, 'groups').default(['ad']),
    timezone: timeZone,
    fill: oneOf(['none', 'zero']).default('none'),
    limit: wholeNumber(1, maxRows).default(maxRows),
    cursor: text('the next_cursor of the page before').optional(),
  });

export type ParseMetricsRequest = (raw: RawParameters, principal: Principal) => MetricsRequest;

export function metricsRequestParser(limits: Limits): ParseMetricsRequest {
  const schema = schemaOf(limits);
  return (raw, principal) => toRequest(parseParameters(schema, raw), principal);
}

function toRequest(
  params: z.infer<ReturnType<typeof schemaOf>>,
  principal: Principal,
): MetricsRequest {
  const range = parseRange(params.from, params.to, params.timezone);
  checkRange(range, params.granularity);
  const groupBy = groupsOf(params.group_by);
  const fillZero = params.fill === 'zero';
  if (fillZero) checkFill(groupBy, params.ad_ids);
  const query = {
    advertiserId: oneAdvertiserOf(principal, params.advertiser_id),
    adIds: params.ad_ids,
    campaignIds: params.campaign_ids,
    countries: params.country,
    devices: params.device,
    ...range,
    granularity: params.granularity,
    timezone: params.timezone,
    groupBy,
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
