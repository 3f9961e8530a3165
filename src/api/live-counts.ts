/** What a live event says, out of the same query as `/v1/ads/metrics`. */
import { MINUTE_MS } from '../warehouse/buckets.ts';
import type { MetricsQuery, Warehouse } from '../warehouse/port.ts';
import { instantOrNull } from './metrics-format.ts';

export interface LiveFilter {
  readonly advertiserId: string;
  readonly adIds: readonly string[] | undefined;
  readonly minutes: number;
}

/** What the counts depend on. */
export interface LiveState {
  readonly changes: number;
  readonly finalUntilMs: number;
  /** Start of the minute that is running: the last of the window. */
  readonly minuteMs: number;
}

export interface LiveCounts {
  readonly total: number;
  readonly ads: readonly { readonly ad_id: string; readonly clicks: number }[];
  readonly truncated: boolean;
}

/** Ads of one event; `total` counts those behind them too. */
export const MAX_ADS = 1_000;

export async function readCounts(
  warehouse: Pick<Warehouse, 'metrics'>,
  filter: LiveFilter,
  state: LiveState,
): Promise<LiveCounts> {
  const query: MetricsQuery = {
    advertiserId: filter.advertiserId,
    adIds: filter.adIds,
    campaignIds: undefined,
    countries: undefined,
    devices: undefined,
    ...windowOf(filter, state),
    granularity: 'total',
    timezone: 'UTC',
    groupBy: ['ad'],
    orderBy: '-clicks',
    limit: MAX_ADS,
    after: undefined,
  };
  const { rows, next } = await warehouse.metrics(query, state.finalUntilMs);
  const ads = rows.map(({ adId, clicks }) => ({ ad_id: adId ?? '', clicks }));
  if (next === undefined) return { total: sumOf(rows), ads, truncated: false };
  const whole = await warehouse.metrics(
    { ...query, groupBy: [], orderBy: undefined, limit: 1 },
    state.finalUntilMs,
  );
  // The rows may have moved on between the two; a total below its own parts would be odd.
  return { total: Math.max(sumOf(whole.rows), sumOf(rows)), ads, truncated: true };
}

export function liveData(
  filter: LiveFilter,
  told: { readonly state: LiveState; readonly counts: LiveCounts; readonly asOfMs: number },
): object {
  const { state, counts, asOfMs } = told;
  const { fromMs, toMs } = windowOf(filter, state);
  return {
    as_of: instantOrNull(asOfMs),
    final_until: instantOrNull(state.finalUntilMs),
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    ...counts,
  };
}

function windowOf({ minutes }: LiveFilter, { minuteMs }: LiveState) {
  const toMs = minuteMs + MINUTE_MS;
  return { fromMs: toMs - minutes * MINUTE_MS, toMs };
}

function sumOf(rows: readonly { readonly clicks: number }[]): number {
  return rows.reduce((sum, { clicks }) => sum + clicks, 0);
}
