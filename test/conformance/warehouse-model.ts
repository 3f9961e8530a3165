/**
 * A warehouse as slow and obvious as can be: every row in a list, every answer by going through all
 * of them. It shares nothing with the product but the port's types.
 */
import type {
  FinalRow,
  LiveRow,
  MetricsFilter,
  MetricsPage,
  MetricsQuery,
  MetricsRow,
  Top,
  TopQuery,
} from '../../src/warehouse/port.ts';
import { LocalTime } from '../support/local-time.ts';

export const MINUTE_MS = 60_000;
export const HOUR_MS = 3_600_000;

export class WarehouseModel {
  /** Rows of the attempt in force, per hour. */
  readonly #final = new Map<number, readonly FinalRow[]>();
  readonly #live = new Map<string, LiveRow>();
  readonly #zones = new Map<string, Map<number, { hourStartMs: number; dayStartMs: number }>>();

  constructor(
    private readonly fromMs: number,
    private readonly toMs: number,
  ) {}

  publishHour(hourMs: number, rows: readonly FinalRow[]): void {
    this.#final.set(hourMs, rows);
  }

  upsertLive(rows: readonly LiveRow[]): void {
    for (const row of rows) {
      const { clicks: _, ...key } = row;
      this.#live.set(JSON.stringify(Object.entries(key).sort()), row);
    }
  }

  /** All rows of a query on one page. */
  metrics(query: MetricsQuery, finalUntilMs: number): MetricsPage {
    const sums = new Map<string, { key: (number | string)[]; clicks: number }>();
    for (const row of this.#rowsInForce(finalUntilMs)) {
      if (!matches(row, query)) continue;
      const key = [this.#bucket(query, row.minuteMs), ...groups(query, row)];
      const name = JSON.stringify(key);
      const sum = sums.get(name) ?? { key, clicks: 0 };
      sum.clicks += row.clicks;
      sums.set(name, sum);
    }
    const rows = [...sums.values()].filter((sum) => sum.clicks > 0);
    const sign = { bucket: 0, clicks: 1, '-clicks': -1 }[query.orderBy ?? 'bucket'];
    rows.sort((a, b) => sign * (a.clicks - b.clicks) || compare(a.key, b.key));
    return { rows: rows.map(({ key, clicks }) => toRow(query, key, clicks)), next: undefined };
  }

  top(query: TopQuery, finalUntilMs: number): Top {
    const more = { granularity: 'total', timezone: 'UTC', groupBy: [query.by], after: undefined };
    const all = this.metrics(
      { ...query, ...(more as Pick<MetricsQuery, keyof typeof more>), orderBy: '-clicks' },
      finalUntilMs,
    ).rows;
    const rows = all.map((row) => {
      const value = row.adId ?? row.campaignId ?? row.country ?? row.device;
      return { value: value!, clicks: row.clicks };
    });
    const total = rows.reduce((sum, row) => sum + row.clicks, 0);
    return { rows: rows.slice(0, query.limit), total };
  }

  *#rowsInForce(finalUntilMs: number): Generator<FinalRow> {
    for (const [hourMs, rows] of this.#final) if (hourMs < finalUntilMs) yield* rows;
    for (const row of this.#live.values()) if (row.minuteMs >= finalUntilMs) yield row;
  }

  #bucket(query: MetricsQuery, minuteMs: number): number {
    if (query.granularity === 'total') return 0;
    if (query.granularity === 'minute') return minuteMs;
    let minutes = this.#zones.get(query.timezone);
    if (minutes === undefined) {
      minutes = new LocalTime(query.timezone).minutes(this.fromMs, this.toMs);
      this.#zones.set(query.timezone, minutes);
    }
    const minute = minutes.get(minuteMs)!;
    return query.granularity === 'hour' ? minute.hourStartMs : minute.dayStartMs;
  }
}

function matches(row: FinalRow, query: MetricsFilter): boolean {
  const has = (values: readonly string[] | undefined, value: string): boolean =>
    values === undefined || values.includes(value);
  const lacks = (values: readonly string[] | undefined, value: string): boolean =>
    values === undefined || !values.includes(value);
  return (
    row.advertiserId === query.advertiserId &&
    row.minuteMs >= query.fromMs &&
    row.minuteMs < query.toMs &&
    has(query.adIds, row.adId) &&
    has(query.campaignIds, row.campaignId) &&
    has(query.countries, row.country) &&
    has(query.devices, row.device) &&
    lacks(query.adIdsNot, row.adId) &&
    lacks(query.campaignIdsNot, row.campaignId) &&
    lacks(query.countriesNot, row.country) &&
    lacks(query.devicesNot, row.device)
  );
}

function groups(query: MetricsQuery, row: FinalRow): string[] {
  const found: string[] = [];
  if (query.groupBy.includes('ad')) found.push(row.adId);
  if (query.groupBy.includes('campaign')) found.push(row.campaignId);
  if (query.groupBy.includes('country')) found.push(row.country);
  if (query.groupBy.includes('device')) found.push(row.device);
  return found;
}

function compare(a: readonly (number | string)[], b: readonly (number | string)[]): number {
  for (const [index, value] of a.entries()) {
    if (value !== b[index]) return value < b[index]! ? -1 : 1;
  }
  return 0;
}

function toRow(query: MetricsQuery, key: readonly (number | string)[], clicks: number): MetricsRow {
  const [bucket, ...values] = key;
  const next = (group: 'ad' | 'campaign' | 'country' | 'device'): string | undefined =>
    query.groupBy.includes(group) ? String(values.shift()) : undefined;
  return {
    bucketStart:
      query.granularity === 'total'
        ? undefined
        : new LocalTime(query.timezone).label(Number(bucket)),
    adId: next('ad'),
    campaignId: next('campaign'),
    country: next('country'),
    device: next('device'),
    clicks,
  };
}
