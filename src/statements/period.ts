/**
 * Which periods a statement can have.
 *
 * A billing day is a day of the advertiser's own clock. A period that was cut at another instant would
 * leave hours to two statements or to none, so its edges are refused, not moved.
 */
import { LedgerError } from '../platform/errors.ts';
import { bucketsOf, DAY_MS, formatInZone, HOUR_MS, MINUTE_MS } from '../warehouse/buckets.ts';
import type { Period } from './port.ts';

export const MAX_PERIOD_DAYS = 400;

/** Checks the edges, and names the zone as its list of names has it: `europe/paris` is Europe/Paris. */
export function toPeriod(asked: Period): Period {
  const { fromMs, toMs } = asked;
  const timezone = Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(
    asked.timezone,
  ).timeZoneId;
  if (fromMs >= toMs) throw refusal('A period ends after it begins.');
  requireMidnight('from', fromMs, timezone);
  requireMidnight('to', toMs, timezone);
  // A clock change makes a day an hour longer; that must not cost a day.
  if (toMs - fromMs > MAX_PERIOD_DAYS * DAY_MS + 2 * HOUR_MS) {
    throw refusal(
      `A statement covers at most ${MAX_PERIOD_DAYS} days.`,
      'Ask for several: periods that touch, [a, b) and [b, c), add up exactly.',
    );
  }
  return { ...asked, timezone };
}

/** `2026-03-01`: the date that the local clock shows. */
export function localDate(atMs: number, zone: string): string {
  return formatInZone(atMs, zone).slice(0, 10);
}

function requireMidnight(name: string, atMs: number, zone: string): void {
  const midnightMs = bucketsOf('day', zone, atMs, atMs + MINUTE_MS).startMs(0);
  if (midnightMs === atMs) return;
  const nextMs = Temporal.Instant.fromEpochMilliseconds(midnightMs)
    .toZonedDateTimeISO(zone)
    .toPlainDate()
    .add({ days: 1 })
    .toZonedDateTime(zone).epochMilliseconds;
  const [before, after] = [midnightMs, nextMs].map((ms) => formatInZone(ms, zone));
  throw refusal(
    `"${name}" is ${formatInZone(atMs, zone)}, which is no midnight in ${zone}.`,
    `Use ${before} or ${after}, or just the date.`,
  );
}

function refusal(message: string, hint?: string): LedgerError {
  return new LedgerError('period_invalid', message, hint === undefined ? {} : { hint });
}
