/**
 * A limit on wrong tokens by peer address, so that nobody tries them at speed.
 *
 * Owns: how many wrong tokens an address has left, and which tokens were right lately. Does not own:
 * whether a token is right (`tokens.ts`).
 *
 * F1 An address that has used up its tries is refused before its token is checked: an answer would
 *    tell whether the guess was right. Tokens that are looked up at the same moment are all checked.
 * F2 A token that was right lately is checked nevertheless. Behind a proxy all callers share one
 *    address: a forgotten script with a revoked token must not lock out those who are at work.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../platform/clock.ts';
import { type RateDecision, RateLimiter } from './rate-limit.ts';

export const FAILED_PER_MINUTE = 60;
const MAX_ADDRESSES = 20_000;
const MAX_KNOWN_TOKENS = 10_000;

export class FailedAttempts {
  readonly #limiter: RateLimiter;
  /** Digests of tokens that were right, in the order in which they came last. */
  readonly #known = new Set<string>();

  constructor(clock: Clock) {
    this.#limiter = new RateLimiter(
      { perMinute: FAILED_PER_MINUTE, maxKeys: MAX_ADDRESSES },
      clock,
    );
  }

  /** Null when the token may be checked. */
  refusal(address: string, token: string): RateDecision | null {
    const decision = this.#limiter.look(networkOf(address));
    return decision.allowed || this.#known.has(digest(token)) ? null : decision;
  }

  failed(address: string, token: string): void {
    this.#known.delete(digest(token));
    this.#limiter.take(networkOf(address));
  }

  succeeded(token: string): void {
    const key = digest(token);
    this.#known.delete(key);
    this.#known.add(key);
    if (this.#known.size <= MAX_KNOWN_TOKENS) return;
    for (const oldest of this.#known) {
      this.#known.delete(oldest);
      return;
    }
  }
}

function digest(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}

/**
 * Who shares an address: an IPv4 address stands for itself, an IPv6 one for its /64, since whoever
 * has one of those addresses has all of them.
 */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  if (address.includes('.')) return address.slice(address.lastIndexOf(':') + 1);
  const [head = '', tail] = address.split('%')[0]!.split('::');
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'));
  const before = groups(head);
  const after = groups(tail ?? '');
  const zeros = Array<string>(Math.max(0, 8 - before.length - after.length)).fill('0');
  const all = tail === undefined ? before : [...before, ...zeros, ...after];
  return `${all
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, '').toLowerCase())
    .join(':')}::/64`;
}
