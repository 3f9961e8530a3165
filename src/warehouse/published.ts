/**
 * Which attempt of every hour and day is in force, in memory.
 *
 * Owns: the latest state of each hour and day, and the rule which of two states is later. Does not
 * own the `finality` table; it holds what was last read from it or written to it.
 *
 * P1 An hour's state is replaced only by a higher (revision, attempt), a day's by a higher attempt.
 * P2 An hour without a state shows no rows, whatever attempts lie in the tables.
 * P3 Hour and day of one publication change in one step: no query sees one without the other.
 */
import { DAY_MS, floorTo, HOUR_MS } from './buckets.ts';
import type { TimeRange } from './plan.ts';
import type { DayState, HourState } from './port.ts';

/** The attempt in force per unit: `base`, but for the units listed; attempt 0 was never written. */
export interface Visibility {
  readonly base: number;
  readonly startsMs: readonly number[];
  readonly attempts: readonly number[];
}

export class PublishedStates {
  #hours = new Map<number, HourState>();
  #days = new Map<number, DayState>();
  #firstHourMs = Number.POSITIVE_INFINITY;
  #endMs = Number.NEGATIVE_INFINITY;

  /** What there is now, whatever was known before: for tables that were emptied. */
  replace(hours: readonly HourState[], days: readonly DayState[]): void {
    this.#hours = new Map();
    this.#days = new Map();
    this.#firstHourMs = Number.POSITIVE_INFINITY;
    this.#endMs = Number.NEGATIVE_INFINITY;
    this.apply(hours, days);
  }

  apply(hours: readonly HourState[], days: readonly DayState[]): void {
    for (const hour of hours) {
      const known = this.#hours.get(hour.hourMs);
      if (known === undefined || isLater(hour, known)) this.#hours.set(hour.hourMs, hour);
      this.#firstHourMs = Math.min(this.#firstHourMs, hour.hourMs);
      this.#endMs = Math.max(this.#endMs, hour.hourMs + HOUR_MS);
    }
    for (const day of days) {
      if (day.attempt > (this.#days.get(day.dayMs)?.attempt ?? 0)) this.#days.set(day.dayMs, day);
    }
  }

  hour(hourMs: number): HourState | undefined {
    return this.#hours.get(hourMs);
  }

  day(dayMs: number): DayState | undefined {
    return this.#days.get(dayMs);
  }

  /** From the first published hour to the end of the last; `fromMs > toMs` when there is none. */
  span(): TimeRange {
    return { fromMs: this.#firstHourMs, toMs: this.#endMs };
  }

  hours(fromMs: number, toMs: number): HourState[] {
    return [...this.#hours.values()]
      .filter((state) => state.hourMs >= fromMs && state.hourMs < toMs)
      .sort((a, b) => a.hourMs - b.hourMs);
  }

  days(fromMs: number, toMs: number): DayState[] {
    return [...this.#days.values()]
      .filter((state) => state.dayMs >= fromMs && state.dayMs < toMs)
      .sort((a, b) => a.dayMs - b.dayMs);
  }

  /** The attempts in force for every UTC hour, or day, that `ranges` touch. */
  visibility(unit: 'hour' | 'day', ranges: readonly TimeRange[]): Visibility {
    const unitMs = unit === 'hour' ? HOUR_MS : DAY_MS;
    const states: ReadonlyMap<number, { attempt: number }> =
      unit === 'hour' ? this.#hours : this.#days;
    const published: [number, number][] = [];
    const unpublished: [number, number][] = [];
    let previousMs = Number.NEGATIVE_INFINITY;
    for (const range of ranges) {
      const firstMs = Math.max(floorTo(range.fromMs, unitMs), previousMs + unitMs);
      for (let ms = firstMs; ms < range.toMs; ms += unitMs) {
        const attempt = states.get(ms)?.attempt ?? 0;
        (attempt === 0 ? unpublished : published).push([ms, attempt]);
        previousMs = ms;
      }
    }
    const usual = mostFrequent(published.map(([, attempt]) => attempt));
    const exceptions = published.filter(([, attempt]) => attempt !== usual).concat(unpublished);
    // Name the fewer: the exceptions to the usual attempt, or all that is published.
    return exceptions.length <= published.length ? listed(usual, exceptions) : listed(0, published);
  }
}

/** Mostly 1; after the warehouse was built again, mostly the next. Of equally many the lowest. */
function mostFrequent(attempts: readonly number[]): number {
  const counts = new Map<number, number>();
  for (const attempt of attempts) counts.set(attempt, (counts.get(attempt) ?? 0) + 1);
  let [usual, most] = [1, 0];
  for (const [attempt, count] of counts) {
    if (count > most || (count === most && attempt < usual)) [usual, most] = [attempt, count];
  }
  return usual;
}

function listed(base: number, units: readonly [number, number][]): Visibility {
  return { base, startsMs: units.map(([ms]) => ms), attempts: units.map(([, attempt]) => attempt) };
}

function isLater(a: HourState, b: HourState): boolean {
  return a.revision > b.revision || (a.revision === b.revision && a.attempt > b.attempt);
}
