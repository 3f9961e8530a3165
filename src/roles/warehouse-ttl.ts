/** How long the warehouse keeps each tier. */
import type { KeptFrom } from '../reconcile/rows-in-force.ts';

/** Minute rows are kept for 90 days, hour rows for three years, day rows for ever. */
export const WAREHOUSE_TTL = { minuteTtlDays: 90, hourTtlDays: 3 * 366 };
/** Rows within a day of their end are not counted on: reading and writing take their time. */
const MARGIN_DAYS = 1;
const DAY_MS = 24 * 3_600_000;

/** From when on the warehouse still has every row of its tiers. */
export function keptFrom(nowMs: number): KeptFrom {
  const from = (days: number): number => nowMs - (days - MARGIN_DAYS) * DAY_MS;
  return { minuteMs: from(WAREHOUSE_TTL.minuteTtlDays), hourMs: from(WAREHOUSE_TTL.hourTtlDays) };
}
