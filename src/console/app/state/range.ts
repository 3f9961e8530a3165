/**
 * The stretch of time that is shown. Days and months are those of the chosen zone; the API does the
 * cutting, so a day of a clock change has its 23 or 25 hours here too.
 */
import type { RouteQuery } from './route.ts';

export type Granularity = 'minute' | 'hour' | 'day';
export const GRANULARITIES: readonly Granularity[] = ['minute', 'hour', 'day'];

/** As the API takes it: instants, local times or dates, `[from, to)`. */
export interface Span {
  readonly from: string;
  readonly to: string;
}

export interface Preset {
  readonly key: string;
  readonly label: string;
  /** About how long it is. */
  readonly hours: number;
}

export const PRESETS: readonly Preset[] = [
  { key: '1h', label: 'Last hour', hours: 1 },
  { key: '6h', label: 'Last 6 hours', hours: 6 },
  { key: '24h', label: 'Last 24 hours', hours: 24 },
  { key: 'today', label: 'Today', hours: 24 },
  { key: 'yesterday', label: 'Yesterday', hours: 24 },
  { key: '7d', label: 'Last 7 days', hours: 7 * 24 },
  { key: '30d', label: 'Last 30 days', hours: 30 * 24 },
  { key: 'month', label: 'This month', hours: 31 * 24 },
  { key: 'last-month', label: 'Last month', hours: 31 * 24 },
];
export const CUSTOM = 'custom';
export const DEFAULT_PRESET = '24h';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Buckets of a chart: more than these nobody can tell apart. */
const MAX_HOURS: Readonly<Record<Granularity, number>> = {
  minute: 3 * 24,
  hour: 93 * 24,
  day: Number.POSITIVE_INFINITY,
};

export function presetOf(query: RouteQuery): string {
  const key = query.range;
  if (key === CUSTOM && query.from !== undefined && query.to !== undefined) return CUSTOM;
  return PRESETS.some((preset) => preset.key === key) ? key! : DEFAULT_PRESET;
}

export function spanOf(query: RouteQuery, nowMs: number, zone: string): Span {
  const preset = presetOf(query);
  if (preset === CUSTOM) return { from: query.from!, to: query.to! };
  const today = localDate(nowMs, zone);
  switch (preset) {
    case '1h':
      return lastOf(nowMs, MINUTE_MS, 60);
    case '6h':
      return lastOf(nowMs, MINUTE_MS, 360);
    case 'today':
      return { from: today, to: addDays(today, 1) };
    case 'yesterday':
      return { from: addDays(today, -1), to: today };
    case '7d':
      return { from: addDays(today, -6), to: addDays(today, 1) };
    case '30d':
      return { from: addDays(today, -29), to: addDays(today, 1) };
    case 'month':
      return { from: monthStart(today, 0), to: monthStart(today, 1) };
    case 'last-month':
      return { from: monthStart(today, -1), to: monthStart(today, 0) };
    default:
      return lastOf(nowMs, HOUR_MS, 24);
  }
}

/** The last `count` whole units, the present one included. */
function lastOf(nowMs: number, unitMs: number, count: number): Span {
  const endMs = Math.floor(nowMs / unitMs) * unitMs + unitMs;
  return {
    from: new Date(endMs - count * unitMs).toISOString(),
    to: new Date(endMs).toISOString(),
  };
}

export function hoursOf(query: RouteQuery): number {
  const preset = presetOf(query);
  const known = PRESETS.find(({ key }) => key === preset);
  if (known !== undefined) return known.hours;
  const lengthMs = Date.parse(query.to!) - Date.parse(query.from!);
  return Number.isFinite(lengthMs) ? Math.max(0, lengthMs / HOUR_MS) : 24;
}

export const fits = (granularity: Granularity, hours: number): boolean =>
  hours <= MAX_HOURS[granularity];

export function granularityOf(query: RouteQuery): Granularity {
  const hours = hoursOf(query);
  const chosen = GRANULARITIES.find((each) => each === query.by);
  if (chosen !== undefined && fits(chosen, hours)) return chosen;
  if (hours <= 6) return 'minute';
  return hours <= 7 * 24 ? 'hour' : 'day';
}

/** `2026-03-10`: the date on a calendar in that zone. */
export function localDate(ms: number, zone: string): string {
  const parts = new Intl.DateTimeFormat('en', {
    timeZone: zone,
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
  }).formatToParts(new Date(ms));
  const part = (type: string): string => parts.find((each) => each.type === type)?.value ?? '';
  return `${part('year')}-${part('month')}-${part('day')}`;
}

export function addDays(date: string, days: number): string {
  return new Date(Date.parse(`${date}T00:00:00Z`) + days * DAY_MS).toISOString().slice(0, 10);
}

/** The first day of the month, `months` away. */
export function monthStart(date: string, months: number): string {
  const [year, month] = date.split('-').map(Number);
  return new Date(Date.UTC(year!, month! - 1 + months, 1)).toISOString().slice(0, 10);
}

export function isTimeZone(zone: string): boolean {
  try {
    Intl.DateTimeFormat('en', { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}
