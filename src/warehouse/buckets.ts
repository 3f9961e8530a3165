/**
 * Local hours and days of an IANA zone as stretches of UTC time.
 *
 * A bucket starts where the local clock shows a full hour (or a new date), and, for hours, also
 * where the zone's offset changes. So the hour that a clock shows twice makes two buckets, a day of
 * a clock change has 23 or 25 hours, and a day whose midnight is skipped starts when the clock
 * resumes. Local times stay out of arithmetic: after this file there are only UTC instants.
 */
import { LedgerError } from '../platform/errors.ts';
import type { Granularity } from './port.ts';

export const MINUTE_MS = 60_000;
export const QUARTER_MS = 15 * MINUTE_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** How far before an instant its local day can begin: 24 h and a clock change of at most a day. */
const LOOK_BACK_MS = 2 * DAY_MS;

/** Consecutive buckets; bucket `i` is `[startMs(i), startMs(i + 1))`. */
export interface Buckets {
  readonly count: number;
  /** Start of bucket `index`; for `index === count` the end of the range. */
  startMs(index: number): number;
}

/** A stretch of time with one offset from UTC. */
interface Stretch {
  readonly fromMs: number;
  readonly toMs: number;
  readonly offsetMs: number;
}

/**
 * The buckets that overlap `[fromMs, toMs)`. The first starts at or before `fromMs`, so that the
 * same bucket has the same start whatever range is asked for; `total` is one bucket, the range.
 */
export function bucketsOf(
  granularity: Granularity,
  zone: string,
  fromMs: number,
  toMs: number,
): Buckets {
  switch (granularity) {
    case 'total':
      return listed([fromMs], toMs);
    case 'minute': {
      // Since 2000 every zone's offset is a whole number of minutes: local minutes are UTC minutes.
      const firstMs = floorTo(fromMs, MINUTE_MS);
      const count = Math.ceil((toMs - firstMs) / MINUTE_MS);
      return { count, startMs: (index) => firstMs + index * MINUTE_MS };
    }
    case 'hour':
      return listed(dropBefore(hourStarts(zone, fromMs, toMs), fromMs), toMs);
    case 'day':
      return listed(dropBefore(dayStarts(zone, fromMs, toMs), fromMs), toMs);
  }
}

export function floorTo(valueMs: number, unitMs: number): number {
  return Math.floor(valueMs / unitMs) * unitMs;
}

/** ISO 8601 with the zone's offset at that instant, e.g. `2026-03-29T03:00:00+02:00`. */
export function formatInZone(atMs: number, zone: string): string {
  return Temporal.Instant.fromEpochMilliseconds(atMs).toString({ timeZone: zone });
}

function listed(startsMs: readonly number[], toMs: number): Buckets {
  return { count: startsMs.length, startMs: (index) => startsMs[index] ?? toMs };
}

/** Leaves out the buckets that end at or before `fromMs`. */
function dropBefore(startsMs: number[], fromMs: number): number[] {
  let first = 0;
  while (first + 1 < startsMs.length && startsMs[first + 1]! <= fromMs) first++;
  return startsMs.slice(first);
}

function hourStarts(zone: string, fromMs: number, toMs: number): number[] {
  const starts: number[] = [];
  for (const stretch of stretches(zone, fromMs - LOOK_BACK_MS, toMs)) {
    if (starts.length > 0) starts.push(stretch.fromMs);
    let at = ceilLocal(stretch.fromMs, stretch.offsetMs, HOUR_MS);
    if (at === starts.at(-1)) at += HOUR_MS;
    for (; at < stretch.toMs; at += HOUR_MS) starts.push(at);
  }
  return starts;
}

function dayStarts(zone: string, fromMs: number, toMs: number): number[] {
  const starts: number[] = [];
  let lastDate = Number.NEGATIVE_INFINITY;
  for (const { fromMs: at, toMs: endMs, offsetMs } of stretches(
    zone,
    fromMs - LOOK_BACK_MS,
    toMs,
  )) {
    const date = (ms: number): number => Math.floor((ms + offsetMs) / DAY_MS);
    // A change that skips midnight begins a day at the change; one that repeats an evening does not.
    if (starts.length > 0 && date(at) > lastDate) starts.push(at);
    lastDate = Math.max(lastDate, date(at));
    for (let ms = ceilLocal(at, offsetMs, DAY_MS); ms < endMs; ms += DAY_MS) {
      if (starts.length > 0 && date(ms) <= lastDate) continue;
      starts.push(ms);
      lastDate = date(ms);
    }
  }
  return starts;
}

/** The first instant at or after `ms` at which the local clock shows a multiple of `unitMs`. */
function ceilLocal(ms: number, offsetMs: number, unitMs: number): number {
  return Math.ceil((ms + offsetMs) / unitMs) * unitMs - offsetMs;
}

function stretches(zone: string, fromMs: number, toMs: number): Stretch[] {
  const found: Stretch[] = [];
  let at = zoned(fromMs, zone);
  for (;;) {
    const next = at.getTimeZoneTransition('next');
    const startMs = found.length === 0 ? fromMs : at.epochMilliseconds;
    const endMs = Math.min(toMs, next?.epochMilliseconds ?? toMs);
    found.push({ fromMs: startMs, toMs: endMs, offsetMs: at.offsetNanoseconds / 1e6 });
    if (next === null || next.epochMilliseconds >= toMs) return found;
    at = next;
  }
}

function zoned(atMs: number, zone: string): Temporal.ZonedDateTime {
  try {
    return Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO(zone);
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new LedgerError('timezone_unknown', `There is no time zone "${zone}".`, {
      hint: 'Use an IANA name such as Europe/Berlin.',
      cause,
    });
  }
}
