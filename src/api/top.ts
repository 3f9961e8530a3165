/** The ads, campaigns, countries or devices with the most clicks, with their share of all clicks. */
import { z } from 'zod';
import type { Principal } from '../auth/tokens.ts';
import { formatInZone } from '../warehouse/buckets.ts';
import type { GroupBy, TopQuery, Warehouse } from '../warehouse/port.ts';
import { filterOf, filterShape, rangeShape } from './filter.ts';
import { INTERVAL, instantOrNull } from './metrics-format.ts';
import { oneOf, parseParameters, type RawParameters, wholeNumber } from './parameters.ts';
import { parseRange } from './time.ts';

export interface TopParts {
  readonly warehouse: Pick<Warehouse, 'top'>;
  readonly finalUntilMs: () => number;
  readonly asOfMs: () => number;
}

const MAX_ROWS = 1_000;

export const topParameters = (maxAdIds: number) =>
  z.strictObject({
    by: oneOf(['ad', 'campaign', 'country', 'device']).default('ad').describe('What is ranked.'),
    ...rangeShape(),
    ...filterShape(maxAdIds),
    limit: wholeNumber(1, MAX_ROWS).default(20).describe('Most rows of the answer.'),
  });

export interface TopRequest {
  readonly query: TopQuery;
  readonly timezone: string;
}

export type ParseTopRequest = (raw: RawParameters, principal: Principal) => TopRequest;

export function topRequestParser(maxAdIds: number): ParseTopRequest {
  const schema = topParameters(maxAdIds);
  return (raw, principal) => {
    const params = parseParameters(schema, raw);
    const range = parseRange(params.from, params.to, params.timezone);
    const { by, limit, timezone } = params;
    return { query: { ...filterOf(params, principal), ...range, by, limit }, timezone };
  };
}

const COLUMN: Readonly<Record<GroupBy, string>> = {
  ad: 'ad_id',
  campaign: 'campaign_id',
  country: 'country',
  device: 'device',
};

export async function answerTop(parts: TopParts, request: TopRequest): Promise<object> {
  const { query, timezone } = request;
  // Before the rows are read: what the warehouse takes meanwhile may be in them, never the other way.
  const asOfMs = parts.asOfMs();
  const finalUntilMs = parts.finalUntilMs();
  const { rows, total } = await parts.warehouse.top(query, finalUntilMs);
  return {
    rows: rows.map(({ value, clicks }, at) => ({
      rank: at + 1,
      [COLUMN[query.by]]: value,
      clicks,
      share: total === 0 ? null : clicks / total,
    })),
    total,
    by: query.by,
    final: query.toMs <= finalUntilMs,
    final_until: instantOrNull(finalUntilMs),
    from: formatInZone(query.fromMs, timezone),
    to: formatInZone(query.toMs, timezone),
    interval: INTERVAL,
    timezone,
    as_of: instantOrNull(asOfMs),
  };
}
