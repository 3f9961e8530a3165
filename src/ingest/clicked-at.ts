/**
 * When a recorded click says it happened: ISO 8601 with a zone, or epoch milliseconds.
 *
 * Nothing is guessed. A time without a zone, or seconds taken for milliseconds, would put the money
 * of a whole file into other hours, so both are refused with what to do about it.
 */
import { clickedAtProblem, MAX_CLICKED_AT_MS, MIN_CLICKED_AT_MS } from '../event/click-event.ts';
import { quoted } from '../platform/row-types.ts';

export type ClickedAt =
  | { readonly ok: true; readonly ms: number }
  | { readonly ok: false; readonly reason: string };

const NUMBER = /^-?\d+(?:\.\d+)?$/;
const ISO =
  /^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:([Zz])|([+-])(\d\d):?(\d\d))$/;
const ISO_WITHOUT_ZONE = /^\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?$/;

/** `nowMs` is the log's clock: a click cannot be newer than its append, but for `maxSkewMs`. */
export function readClickedAt(value: unknown, nowMs: number, maxSkewMs: number): ClickedAt {
  if (typeof value === 'number') return checkEpoch(value, nowMs, maxSkewMs);
  if (typeof value !== 'string') return refuse(value, 'is neither text nor a number');
  const text = value.trim();
  if (NUMBER.test(text)) return checkEpoch(Number(text), nowMs, maxSkewMs);
  const ms = parseIso(text);
  if (ms !== null) return checkRange(ms, value, nowMs, maxSkewMs);
  return refuse(
    value,
    ISO_WITHOUT_ZONE.test(text)
      ? 'lacks its time or zone: write it like 2026-01-31T07:00:00Z'
      : 'is neither ISO 8601 with a zone, like 2026-01-31T07:00:00Z, nor epoch milliseconds',
  );
}

function checkEpoch(value: number, nowMs: number, maxSkewMs: number): ClickedAt {
  if (isCountable(value * 1000)) {
    return refuse(value, 'looks like epoch seconds: give milliseconds (seconds × 1000)');
  }
  if (isCountable(value / 1000)) {
    return refuse(value, 'looks like epoch microseconds: give milliseconds (microseconds ÷ 1000)');
  }
  if (!Number.isSafeInteger(value)) {
    return refuse(value, 'is not a whole number of epoch milliseconds');
  }
  return checkRange(value, value, nowMs, maxSkewMs);
}

/** Of the plausible years: seconds, milliseconds and microseconds of those never overlap. */
function isCountable(ms: number): boolean {
  return ms >= MIN_CLICKED_AT_MS && ms < MAX_CLICKED_AT_MS;
}

function checkRange(ms: number, value: unknown, nowMs: number, maxSkewMs: number): ClickedAt {
  if (ms < MIN_CLICKED_AT_MS) return refuse(value, 'lies before 2000');
  const problem = clickedAtProblem(ms, nowMs, maxSkewMs);
  if (problem === 'clicked_at_ahead_of_log') return refuse(value, 'lies in the future');
  return problem === null ? { ok: true, ms } : refuse(value, 'lies after 2099');
}

/** Null when it is not such a time, or names a day or hour that does not exist. */
function parseIso(text: string): number | null {
  const match = ISO.exec(text);
  if (match === null) return null;
  const part = (at: number): number => Number(match[at] ?? '0');
  const [year, month, day, hour, minute, second] = [1, 2, 3, 4, 5, 6].map(part) as Six;
  const [zoneHours, zoneMinutes] = [part(10), part(11)];
  if (hour > 23 || minute > 59 || second > 59 || zoneHours > 23 || zoneMinutes > 59) return null;
  const fractionMs = Number((match[7] ?? '').padEnd(3, '0').slice(0, 3));
  const local = Date.UTC(year, month - 1, day, hour, minute, second, fractionMs);
  const date = new Date(local);
  // The 30th of February rolls over into March; whoever wrote it meant neither.
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null;
  const zoneMs = (zoneHours * 60 + zoneMinutes) * 60_000;
  return match[9] === '-' ? local + zoneMs : local - zoneMs;
}

type Six = [number, number, number, number, number, number];

function refuse(value: unknown, why: string): ClickedAt {
  const shown =
    typeof value === 'string' ? quoted(value) : quoted(JSON.stringify(value) ?? 'nothing');
  return { ok: false, reason: `clicked_at ${shown} ${why}` };
}
