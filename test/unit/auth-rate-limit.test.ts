import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { FAILED_PER_MINUTE, FailedAttempts, networkOf } from '../../src/auth/failed-attempts.ts';
import { RateLimiter } from '../../src/auth/rate-limit.ts';
import { fcParams } from '../support/seed.ts';

const MINUTE_MS = 60_000;

function setUp(perMinute: number, maxKeys = 1_000) {
  const state = { nowMs: 1_000_000 };
  return { state, limiter: new RateLimiter({ perMinute, maxKeys }, () => state.nowMs) };
}

describe('a bucket', () => {
  test('gives a minute’s worth at once, then one for each share of a minute', () => {
    const { state, limiter } = setUp(60);
    for (let left = 59; left >= 0; left--) {
      expect(limiter.take('a')).toMatchObject({ allowed: true, limit: 60, remaining: left });
    }
    expect(limiter.take('a')).toEqual({
      allowed: false,
      limit: 60,
      remaining: 0,
      resetMs: MINUTE_MS,
      retryAfterMs: 1_000,
    });
    state.nowMs += 999;
    expect(limiter.take('a').allowed).toBe(false);
    state.nowMs += 1;
    expect(limiter.take('a').allowed).toBe(true);
    expect(limiter.take('b')).toMatchObject({ allowed: true, remaining: 59 });
  });

  test('over any time gives at most its share and one minute’s worth, and nobody waits in vain', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 120 }),
        fc.array(fc.integer({ min: 0, max: 20_000 }), { minLength: 1, maxLength: 300 }),
        (perMinute, steps) => {
          const { state, limiter } = setUp(perMinute);
          const allowedAt: number[] = [];
          for (const step of steps) {
            state.nowMs += step;
            const decision = limiter.take('a');
            expect(decision.remaining).toBeLessThanOrEqual(decision.limit);
            if (decision.allowed) allowedAt.push(state.nowMs);
            else expect(decision.retryAfterMs).toBeGreaterThan(0);
          }
          const tooMany = allowedAt.filter((fromMs, index) => {
            const ms = (allowedAt.at(-1) ?? 0) - fromMs;
            return allowedAt.length - index > perMinute + (ms * perMinute) / MINUTE_MS + 1e-6;
          });
          expect(tooMany).toEqual([]);
          const { retryAfterMs } = limiter.look('a');
          state.nowMs += retryAfterMs;
          expect(limiter.take('a').allowed).toBe(true);
        },
      ),
      fcParams(200),
    );
  });

  test('gives one to whoever has waited for as long as it was told, to the millisecond', () => {
    const { state, limiter } = setUp(2);
    for (const step of [0, 19_089, 5_637, 3_008, 6_220, 2_503]) {
      state.nowMs += step;
      limiter.take('a');
    }
    const { retryAfterMs } = limiter.look('a');
    state.nowMs += retryAfterMs - 1;
    expect(limiter.look('a').allowed).toBe(false);
    state.nowMs += 1;
    expect(limiter.take('a').allowed).toBe(true);
  });

  test('is forgotten when it is full again: only keys of the last minute are in memory', () => {
    const { state, limiter } = setUp(10);
    for (let key = 0; key < 500; key++) limiter.take(`key-${key}`);
    expect(limiter.keys).toBe(500);
    state.nowMs += MINUTE_MS;
    for (let at = 0; at < 500; at++) limiter.take('in use');
    expect(limiter.keys).toBe(1);
  });

  test('of whoever came longest ago is given up when there are too many', () => {
    const { limiter } = setUp(1, 10);
    for (let key = 0; key < 1_000; key++) limiter.take(`key-${key}`);
    expect(limiter.keys).toBe(10);
    expect(limiter.take('key-999').allowed).toBe(false);
    expect(limiter.take('key-0').allowed).toBe(true);
  });

  test('neither fills nor empties while the clock is set back', () => {
    const { state, limiter } = setUp(2);
    limiter.take('a');
    state.nowMs -= 10 * MINUTE_MS;
    expect(limiter.look('a').remaining).toBe(1);
  });
});

describe('wrong tokens', () => {
  const setUpAttempts = () => {
    const state = { nowMs: 0 };
    return { state, attempts: new FailedAttempts(() => state.nowMs) };
  };

  test('of one address are refused unchecked after a minute’s worth, of another they are not', () => {
    const { state, attempts } = setUpAttempts();
    for (let at = 0; at < FAILED_PER_MINUTE; at++) {
      expect(attempts.refusal('10.0.0.1', `guess-${at}`)).toBeNull();
      attempts.failed('10.0.0.1', `guess-${at}`);
    }
    expect(attempts.refusal('10.0.0.1', 'the right one')).toMatchObject({ retryAfterMs: 1_000 });
    expect(attempts.refusal('10.0.0.2', 'guess')).toBeNull();
    state.nowMs += 1_000;
    expect(attempts.refusal('10.0.0.1', 'the right one')).toBeNull();
  });

  test('do not lock out who shares the address and was right before (F2)', () => {
    const { attempts } = setUpAttempts();
    attempts.succeeded('good');
    for (let at = 0; at < 2 * FAILED_PER_MINUTE; at++) attempts.failed('10.0.0.1', 'revoked');
    expect(attempts.refusal('10.0.0.1', 'good')).toBeNull();
    expect(attempts.refusal('10.0.0.1', 'revoked')).not.toBeNull();
    attempts.failed('10.0.0.1', 'good');
    expect(attempts.refusal('10.0.0.1', 'good')).not.toBeNull();
  });

  test.each([
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::1', '2001:db8:1:2::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['unknown', 'unknown'],
  ])('of %p are counted for %p', (address, network) => {
    expect(networkOf(address)).toBe(network);
  });
});
