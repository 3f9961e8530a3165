/**
 * Times in parameters, and the half-open range that two of them make.
 *
 * T1 A time without an offset is local to the query's zone; a date is its local day's first instant,
 *    also as `to`.
 * T2 A local time that the zone's clock skips or shows twice is refused, not guessed at: the guess
 *    would move an hour of clicks from one statement to another.
 */
import { MAX_CLICKED_AT_MS, MIN_CLICKED_AT_MS } from '../event/click-event.ts';
import { quoted } from '../platform/row-types.ts';
import { DAY_MS, floorTo, MINUTE_MS } from '../warehouse/buckets.ts';
import { type ParameterError, Problem, parameterProblem } from './problem.ts';

/** `[fromMs, toMs)`, whole minutes. */
export interface Range {
  readonly fromMs: number;
  readonly toMs: number;
}

type Parsed = { readonly ms: number } | { readonly problem: string };

const TIME =
  /^(\d{4}-\d{2}-\d{2})(?:T(\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)(Z|[+-]\d{2}:?\d{2})?)?$/;
const FORMS =
  'Write it like 2026-01-31T08:00:00Z, 2026-01-31T08:00:00+01:00, 2026-01-31T08:00 or 2026-01-31.';

export function isTimeZone(name: string): boolean {
  // Temporal would take offsets and whole timestamps as well; only names have local days.
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name)) return false;
  return notRangeError(() => Temporal.Instant.fromEpochMilliseconds(0).toZonedDateTimeISO(name));
}

/** An instant out of ISO 8601; `zone` is where a time without offset is local. */
export function parseTime(text: string, zone: string): Parsed {
  const parts = TIME.exec(text.toUpperCase());
  if (parts === null) return { problem: `${quoted(text)} is no time. ${formHint(text)}` };
  const [, date, time, offset] = parts;
  const local = plain(`${date}T${time ?? '00:00'}`);
  if (local === null) return { problem: `${quoted(text)} is on no calendar or clock.` };
  if (time === undefined) {
    return { ms: local.toPlainDate().toZonedDateTime(zone).epochMilliseconds };
  }
  if (offset === undefined) return localTime(local, zone);
  if (!notRangeError(() => Temporal.Instant.from(`${local}${offset}`))) {
    return { problem: `${quoted(text)} has no such offset.` };
  }
  return { ms: Temporal.Instant.from(`${local}${offset}`).epochMilliseconds };
}

/** `from` and `to` of a query; every problem with them at once. */
export function parseRange(from: string, to: string, zone: string): Range {
  const errors: ParameterError[] = [];
  const edge = (parameter: string, text: string): number => {
    const parsed = parseTime(text, zone);
    const problem = 'problem' in parsed ? parsed.problem : edgeProblem(parsed.ms);
    if (problem !== null) errors.push({ parameter, message: problem });
    return 'ms' in parsed ? parsed.ms : Number.NaN;
  };
  const fromMs = edge('from', from);
  const toMs = edge('to', to);
  if (errors.length > 0) throw parameterProblem(errors);
  if (fromMs >= toMs) {
    const what = fromMs === toMs ? 'is empty' : 'ends before it begins';
    throw new Problem(400, 'range_empty', `The range from ${from} to ${to} ${what}.`, {
      hint: 'Ranges are [from, to): "to" is not part of it. A whole day ends with the next date, e.g. from=2026-01-31&to=2026-02-01.',
    });
  }
  return { fromMs, toMs };
}

function edgeProblem(ms: number): string | null {
  if (ms % MINUTE_MS !== 0) {
    const before = new Date(floorTo(ms, MINUTE_MS)).toISOString();
    const after = new Date(floorTo(ms, MINUTE_MS) + MINUTE_MS).toISOString();
    return `Ranges are made of whole minutes, and "to" is not part of them: use ${before} or ${after}.`;
  }
  // A day around, for the zones in which those years begin or end elsewhere.
  if (ms < MIN_CLICKED_AT_MS - DAY_MS || ms > MAX_CLICKED_AT_MS + DAY_MS) {
    return 'There are clicks from the year 2000 to 2099 only.';
  }
  return null;
}

function formHint(text: string): string {
  if (/[T ]\d{2}:\d{2}\S* \d{2}:?\d{2}$/i.test(text)) {
    return 'In a URL the + of an offset must be written %2B.';
  }
  return FORMS;
}

function plain(text: string): Temporal.PlainDateTime | null {
  try {
    return Temporal.PlainDateTime.from(text, { overflow: 'reject' });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return null;
  }
}

/** T2 */
function localTime(local: Temporal.PlainDateTime, zone: string): Parsed {
  const at = (disambiguation: 'earlier' | 'later'): Temporal.ZonedDateTime =>
    local.toZonedDateTime(zone, { disambiguation });
  const earlier = at('earlier');
  const later = at('later');
  if (earlier.epochMilliseconds === later.epochMilliseconds) {
    return { ms: earlier.epochMilliseconds };
  }
  const skipped = !earlier.toPlainDateTime().equals(local);
  const what = skipped ? 'is skipped by' : 'comes twice on';
  const choice = `${local}${earlier.offset} or ${local}${later.offset}`;
  return {
    problem: `${local} ${what} the clock of ${zone}. Give the offset: ${choice}.`,
  };
}

function notRangeError(run: () => unknown): boolean {
  try {
    run();
    return true;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return false;
  }
}
