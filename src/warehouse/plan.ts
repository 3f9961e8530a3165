/**
 * Decides which rows answer which stretch of a query: the coarsest tier that answers exactly.
 *
 * P1 Segments partition the range: ascending, without hole or overlap.
 * P2 No bucket's edge lies inside a row of the chosen tier: `day` rows hold one UTC day, `hour` rows
 *    one UTC hour, `quarter` a quarter of one, `minute` and `live` rows one minute.
 * P3 Before `finalUntilMs` only final tiers, from it on only live.
 * P4 `day` only where the UTC day is published.
 */
import { assert } from '../platform/errors.ts';
import { DAY_MS, floorTo, HOUR_MS, MINUTE_MS, QUARTER_MS } from './buckets.ts';

export type Tier = 'day' | 'hour' | 'quarter' | 'minute' | 'live';

/** `[fromMs, toMs)` */
export interface TimeRange {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface Segment extends TimeRange {
  readonly tier: Tier;
}

export interface PlanInput extends TimeRange {
  readonly finalUntilMs: number;
  /** Bucket starts in ascending order; those outside the range do not matter. */
  readonly cutsMs: readonly number[] | 'every_minute';
  readonly isDayPublished: (dayMs: number) => boolean;
}

export function planSegments(input: PlanInput): Segment[] {
  const { fromMs, toMs, finalUntilMs } = input;
  assert(fromMs % MINUTE_MS === 0 && toMs % MINUTE_MS === 0, 'a range is made of whole minutes');
  assert(finalUntilMs % HOUR_MS === 0, 'whole hours turn final');
  const finalToMs = Math.max(fromMs, Math.min(toMs, finalUntilMs));
  const segments: Segment[] = [];
  if (input.cutsMs === 'every_minute') {
    append(segments, 'minute', fromMs, finalToMs);
  } else {
    const cuts = new Cuts([fromMs, ...within(input.cutsMs, fromMs, finalToMs), finalToMs]);
    planFinal(segments, cuts, { fromMs, toMs: finalToMs }, input.isDayPublished);
  }
  append(segments, 'live', finalToMs, toMs);
  return segments;
}

function planFinal(
  segments: Segment[],
  cuts: Cuts,
  range: TimeRange,
  isDayPublished: (dayMs: number) => boolean,
): void {
  let at = range.fromMs;
  while (at < range.toMs) {
    const dayFits = at % DAY_MS === 0 && at + DAY_MS <= range.toMs;
    if (dayFits && cuts.inside(at, at + DAY_MS).length === 0 && isDayPublished(at)) {
      append(segments, 'day', at, at + DAY_MS);
      at += DAY_MS;
      continue;
    }
    const hourMs = floorTo(at, HOUR_MS);
    const endMs = Math.min(range.toMs, hourMs + HOUR_MS);
    append(segments, hourTier(cuts.inside(hourMs, hourMs + HOUR_MS)), at, endMs);
    at = endMs;
  }
}

function hourTier(insideMs: readonly number[]): Tier {
  if (insideMs.length === 0) return 'hour';
  return insideMs.every((ms) => ms % QUARTER_MS === 0) ? 'quarter' : 'minute';
}

function within(cutsMs: readonly number[], fromMs: number, toMs: number): number[] {
  return cutsMs.filter((ms) => ms > fromMs && ms < toMs);
}

function append(segments: Segment[], tier: Tier, fromMs: number, toMs: number): void {
  if (fromMs >= toMs) return;
  const last = segments.at(-1);
  if (last?.tier === tier) segments[segments.length - 1] = { tier, fromMs: last.fromMs, toMs };
  else segments.push({ tier, fromMs, toMs });
}

/** Ascending edges, asked for in ascending order. */
class Cuts {
  #next = 0;
  constructor(private readonly cutsMs: readonly number[]) {}

  /** The edges strictly inside `(fromMs, toMs)`. */
  inside(fromMs: number, toMs: number): readonly number[] {
    while (this.#next < this.cutsMs.length && this.cutsMs[this.#next]! <= fromMs) this.#next++;
    let end = this.#next;
    while (end < this.cutsMs.length && this.cutsMs[end]! < toMs) end++;
    return this.cutsMs.slice(this.#next, end);
  }
}
