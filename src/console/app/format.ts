/** Numbers and times as they are written everywhere in the console. */
import type { Granularity } from './state/range.ts';

const LANGUAGE = 'en-GB';
const whole = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: 3 });
const compact = new Intl.NumberFormat(LANGUAGE, { notation: 'compact', maximumFractionDigits: 1 });

/** What stands where there is no number. */
export const NONE = '–';

export const count = (value: number): string => whole.format(value);
export const axisCount = (value: number): string =>
  value >= 10_000 ? compact.format(value) : whole.format(value);
export const decimal = (value: number): string => short.format(value);

export function percent(share: number | null, digits = 1): string {
  if (share === null) return NONE;
  if (share === 0) return '0 %';
  return `${(share * 100).toFixed(digits)} %`;
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  let rest = value;
  while (rest >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? rest : rest.toFixed(1)} ${units[unit]}`;
}

export function duration(ms: number): string {
  if (ms < 1) return `${decimal(ms)} ms`;
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

const formats = new Map<string, Intl.DateTimeFormat>();

function formatIn(zone: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = `${zone} ${JSON.stringify(options)}`;
  let format = formats.get(key);
  if (format === undefined) {
    format = new Intl.DateTimeFormat(LANGUAGE, { timeZone: zone, hourCycle: 'h23', ...options });
    formats.set(key, format);
  }
  return format;
}

const DATE = { day: 'numeric', month: 'short', year: 'numeric' } as const;
const TIME = { hour: '2-digit', minute: '2-digit' } as const;

const write = (instant: string | number, zone: string, options: Intl.DateTimeFormatOptions) =>
  formatIn(zone, options).format(new Date(instant));

export const dateText = (instant: string | number, zone: string) => write(instant, zone, DATE);
export const timeText = (instant: string | number, zone: string) => write(instant, zone, TIME);
export const momentText = (instant: string | number, zone: string) =>
  write(instant, zone, { ...DATE, ...TIME });
export const secondText = (instant: string | number, zone: string) =>
  write(instant, zone, { ...DATE, ...TIME, second: '2-digit' });
export const monthText = (date: string) =>
  write(`${date.slice(0, 7)}-15T12:00:00Z`, 'UTC', { month: 'long', year: 'numeric' });

export function momentOrNone(instant: string | null | undefined, zone: string): string {
  return instant === null || instant === undefined ? NONE : momentText(instant, zone);
}

/** A bucket by its beginning; an hour that the clock shows twice is told apart by its offset. */
export function bucketText(bucketStart: string, granularity: Granularity, zone: string): string {
  return granularity === 'day' ? dateText(bucketStart, zone) : momentText(bucketStart, zone);
}

/** `Europe/Berlin` as people read it. */
export const zoneText = (zone: string): string => zone.replaceAll('_', ' ');

const regions = new Intl.DisplayNames(['en'], { type: 'region', fallback: 'none' });

export function countryText(code: string): string {
  if (code === 'ZZ') return 'Unknown';
  try {
    return regions.of(code) ?? code;
  } catch {
    return code;
  }
}

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
