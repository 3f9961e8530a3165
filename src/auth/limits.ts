/** The limits on requests as the API takes them. */
import type { Clock } from '../platform/clock.ts';
import { FailedAttempts } from './failed-attempts.ts';
import { RateLimiter } from './rate-limit.ts';

export interface RequestLimits {
  /** By token id; null when there is no limit. */
  readonly tokens: RateLimiter | null;
  readonly failed: FailedAttempts;
}

/** Tokens that are in use within a minute; far more than there are. */
const MAX_TOKENS = 100_000;

export function requestLimits(perMinute: number, clock: Clock): RequestLimits {
  const tokens =
    perMinute === 0 ? null : new RateLimiter({ perMinute, maxKeys: MAX_TOKENS }, clock);
  return { tokens, failed: new FailedAttempts(clock) };
}
