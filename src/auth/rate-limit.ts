/**
 * How often a key (a token, an address) may come: a bucket that fills evenly and gives one for each
 * request.
 *
 * Owns: the buckets of keys that came lately. Does not own: what is limited, and what is answered.
 *
 * R1 A bucket holds a minute's worth and fills up in a minute: that many may come at once, and over
 *    any time t at most a minute's worth more than t's share.
 * R2 A key that has not come for a minute has a full bucket and is forgotten: memory is bounded by
 *    the keys of a minute, and by `maxKeys`.
 */
import type { Clock } from '../platform/clock.ts';

export interface RateLimit {
  /** Requests of a minute, also the most at once. */
  readonly perMinute: number;
  /** Most keys that are remembered; beyond it the one that came longest ago is forgotten. */
  readonly maxKeys: number;
}

export interface RateDecision {
  readonly allowed: boolean;
  readonly limit: number;
  /** How many may come at once from now on. */
  readonly remaining: number;
  /** Until the bucket is full again. */
  readonly resetMs: number;
  /** Until the next one may come; 0 when it may come now. */
  readonly retryAfterMs: number;
}

interface Bucket {
  /** In parts of a request, see `REQUEST`. */
  level: number;
  atMs: number;
}

const MINUTE_MS = 60_000;
/**
 * Parts of one request: as many as a minute has milliseconds, so that a bucket gains `perMinute` parts in
 * each and all is counted in whole numbers. In fractions who waited as told could still be short by a rounding.
 */
const REQUEST = MINUTE_MS;
/** Two for each that comes in: what a busy minute left behind is gone after the next one. */
const FORGOTTEN_AT_ONCE = 2;

export class RateLimiter {
  readonly #limit: RateLimit;
  readonly #clock: Clock;
  /** In the order in which the keys came last, the oldest first. */
  readonly #buckets = new Map<string, Bucket>();

  constructor(limit: RateLimit, clock: Clock) {
    this.#limit = limit;
    this.#clock = clock;
  }

  /** Takes one when there is one. A refused request takes nothing: waiting always helps. */
  take(key: string): RateDecision {
    const nowMs = this.#clock();
    const level = this.#levelOf(key, nowMs);
    const allowed = level >= REQUEST;
    const left = allowed ? level - REQUEST : level;
    this.#buckets.delete(key);
    this.#buckets.set(key, { level: left, atMs: nowMs });
    this.#forget(nowMs);
    return this.#decision(left, allowed);
  }

  /** What `take` would say, without taking. */
  look(key: string): RateDecision {
    const level = this.#levelOf(key, this.#clock());
    return this.#decision(level, level >= REQUEST);
  }

  get keys(): number {
    return this.#buckets.size;
  }

  #levelOf(key: string, nowMs: number): number {
    const { perMinute } = this.#limit;
    const bucket = this.#buckets.get(key);
    const full = perMinute * REQUEST;
    if (bucket === undefined) return full;
    // A clock that was set back fills nothing, and takes nothing away.
    const sinceMs = Math.max(0, nowMs - bucket.atMs);
    return Math.min(full, bucket.level + sinceMs * perMinute);
  }

  #decision(level: number, allowed: boolean): RateDecision {
    const { perMinute } = this.#limit;
    const msUntil = (requests: number): number =>
      Math.max(0, Math.ceil((requests * REQUEST - level) / perMinute));
    return {
      allowed,
      limit: perMinute,
      remaining: Math.floor(level / REQUEST),
      resetMs: msUntil(perMinute),
      retryAfterMs: msUntil(1),
    };
  }

  /** R2 */
  #forget(nowMs: number): void {
    let looked = 0;
    for (const [key, { atMs }] of this.#buckets) {
      const full = Math.abs(nowMs - atMs) >= MINUTE_MS;
      if (!full && this.#buckets.size <= this.#limit.maxKeys) return;
      if (looked === FORGOTTEN_AT_ONCE) return;
      this.#buckets.delete(key);
      looked += 1;
    }
  }
}
