/**
 * `verify`: recounts every final hour from the archive, with nothing remembered from earlier runs,
 * and compares all three tiers of the warehouse with it, row by row, and the roll-ups with their tiers.
 */
import { HOUR_MS } from '../archive/names.ts';
import type { FinalRow, Warehouse } from '../warehouse/port.ts';
import type { HourSource } from './hour-source.ts';
import type { KeptFrom } from './rows-in-force.ts';

export interface Difference {
  readonly tier: 'minute' | 'hour' | 'day' | 'hour_rollup' | 'day_rollup';
  /** Start of the minute, hour or day, ms UTC. */
  readonly startMs: number;
  readonly advertiserId: string;
  readonly campaignId: string;
  readonly adId: string;
  readonly country: string;
  readonly device: string;
  /** Clicks by the recount of the archive; of a roll-up, by the rows that it sums up. */
  readonly archive: number;
  /** Clicks in the warehouse. */
  readonly warehouse: number;
}

export interface VerifyResult {
  readonly hours: number;
  readonly rows: number;
  readonly clicks: number;
  readonly differences: readonly Difference[];
}

const DAY_MS = 24 * HOUR_MS;
/** More are not listed: they say nothing new. */
const MAX_DIFFERENCES = 1_000;

type Totals = Map<string, number>;

export async function verifyWarehouse(
  source: Pick<HourSource, 'recount'>,
  warehouse: Pick<Warehouse, 'hours' | 'days' | 'finalRows' | 'tierRows' | 'rollupDifferences'>,
  options: {
    readonly hoursInArchive: readonly number[];
    /** Asked for every hour: rows may come to their end while this runs. */
    readonly keptFrom: () => KeptFrom;
    readonly onProgress?: (hourMs: number, done: number, total: number) => void;
  },
): Promise<VerifyResult> {
  const { hoursInArchive, keptFrom, onProgress } = options;
  const published = await warehouse.hours(0, Number.MAX_SAFE_INTEGER);
  const finalUntilMs = (published.at(-1)?.hourMs ?? Number.NEGATIVE_INFINITY) + HOUR_MS;
  const inArchive = hoursInArchive.filter((hourMs) => hourMs < finalUntilMs);
  const hours = [...new Set([...published.map((hour) => hour.hourMs), ...inArchive])].sort(
    (a, b) => a - b,
  );
  const finalDays = new Set(
    (await warehouse.days(0, Number.MAX_SAFE_INTEGER)).map((day) => day.dayMs),
  );
  const differences: Difference[] = [];
  /** Of the days whose hours are not all counted yet: one, as hours come in order. */
  const days = new Map<number, Totals>();
  const compareDay = async (dayMs: number): Promise<void> => {
    const expected = days.get(dayMs) ?? new Map();
    days.delete(dayMs);
    if (!finalDays.delete(dayMs)) return;
    const stored = totals(await warehouse.tierRows('day', dayMs), () => dayMs);
    compare('day', expected, stored, differences);
    await compareRollups(warehouse, { tier: 'day', startMs: dayMs }, differences);
  };
  let rows = 0;
  let clicks = 0;
  for (const [index, hourMs] of hours.entries()) {
    onProgress?.(hourMs, index, hours.length);
    const before = hours[index - 1] ?? hourMs;
    if (dayOf(before) !== dayOf(hourMs)) await compareDay(dayOf(before));
    const expected = (await source.recount(hourMs)).rows;
    if (hourMs >= keptFrom().minuteMs) {
      const stored = totals(await warehouse.finalRows(hourMs), (row) => row.minuteMs);
      compare(
        'minute',
        totals(expected, (row) => row.minuteMs),
        stored,
        differences,
      );
    }
    if (hourMs >= keptFrom().hourMs) {
      const stored = totals(await warehouse.tierRows('hour', hourMs), () => hourMs);
      compare(
        'hour',
        totals(expected, () => hourMs),
        stored,
        differences,
      );
      await compareRollups(warehouse, { tier: 'hour', startMs: hourMs }, differences);
    }
    addDay(days, dayOf(hourMs), expected);
    rows += expected.length;
    clicks += expected.reduce((sum, row) => sum + row.clicks, 0);
  }
  for (const dayMs of [...days.keys(), ...finalDays]) await compareDay(dayMs);
  return { hours: hours.length, rows, clicks, differences };
}

function dayOf(hourMs: number): number {
  return hourMs - (hourMs % DAY_MS);
}

function keyOf(row: FinalRow, startMs: number): string {
  const { advertiserId, campaignId, adId, country, device } = row;
  return JSON.stringify([startMs, advertiserId, campaignId, adId, country, device]);
}

function totals(rows: readonly FinalRow[], startOf: (row: FinalRow) => number): Totals {
  const sums: Totals = new Map();
  for (const row of rows) add(sums, keyOf(row, startOf(row)), row.clicks);
  return sums;
}

function addDay(days: Map<number, Totals>, dayMs: number, rows: readonly FinalRow[]): void {
  const sums = days.get(dayMs) ?? new Map();
  for (const row of rows) add(sums, keyOf(row, dayMs), row.clicks);
  days.set(dayMs, sums);
}

function add(sums: Totals, key: string, clicks: number): void {
  sums.set(key, (sums.get(key) ?? 0) + clicks);
}

function compare(
  tier: Difference['tier'],
  archive: Totals,
  warehouse: Totals,
  out: Difference[],
): void {
  for (const key of new Set([...archive.keys(), ...warehouse.keys()])) {
    const [is, should] = [warehouse.get(key) ?? 0, archive.get(key) ?? 0];
    if (is === should || out.length >= MAX_DIFFERENCES) continue;
    const [startMs, advertiserId, campaignId, adId, country, device] = JSON.parse(key) as [
      number,
      string,
      string,
      string,
      string,
      string,
    ];
    const row = { startMs, advertiserId, campaignId, adId, country, device };
    out.push({ tier, ...row, archive: should, warehouse: is });
  }
}

async function compareRollups(
  warehouse: Pick<Warehouse, 'rollupDifferences'>,
  { tier, startMs }: { readonly tier: 'hour' | 'day'; readonly startMs: number },
  out: Difference[],
): Promise<void> {
  for (const { rows, rollup, ...key } of await warehouse.rollupDifferences(tier, startMs)) {
    if (out.length >= MAX_DIFFERENCES) return;
    out.push({ tier: `${tier}_rollup`, startMs, ...key, archive: rows, warehouse: rollup });
  }
}
