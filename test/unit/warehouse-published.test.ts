// Proves INV-9 of SPEC.md.
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { PublishedStates } from '../../src/warehouse/published.ts';
import { hourState } from '../conformance/warehouse-world.ts';
import { fcParams } from '../support/seed.ts';

const HOUR_MS = 3_600_000;
const BASE_MS = Date.UTC(2026, 0, 1);
const hourAt = (index: number): number => BASE_MS + index * HOUR_MS;

describe('published states', () => {
  test('a later state replaces an earlier one, never the other way round', () => {
    const states = new PublishedStates();
    const [first, second, repeated] = [
      hourState(BASE_MS, 1, 4),
      hourState(BASE_MS, 2, 3),
      hourState(BASE_MS, 2, 5),
    ];
    for (const state of [first, second, first, repeated, second]) states.apply([state], []);
    expect(states.hour(BASE_MS)).toEqual(repeated);
    for (const attempt of [2, 1]) states.apply([], [{ dayMs: BASE_MS, attempt }]);
    expect(states.day(BASE_MS)).toEqual({ dayMs: BASE_MS, attempt: 2 });
  });

  test('hours without a state are named when most are published, and left out when few are', () => {
    const states = new PublishedStates();
    states.apply(
      [0, 1, 2, 4].map((index) => hourState(hourAt(index), 1, index === 1 ? 3 : 1)),
      [],
    );
    expect(states.visibility('hour', [{ fromMs: hourAt(0), toMs: hourAt(5) }])).toEqual({
      base: 1,
      startsMs: [hourAt(1), hourAt(3)],
      attempts: [3, 0],
    });
    expect(states.visibility('hour', [{ fromMs: hourAt(4), toMs: hourAt(9) }])).toEqual({
      base: 0,
      startsMs: [hourAt(4)],
      attempts: [1],
    });
  });

  test('every hour of the ranges is seen with exactly its attempt', () => {
    const attempts = fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 60 });
    const edge = fc.nat({ max: 60 * 4 });
    fc.assert(
      fc.property(attempts, fc.array(edge, { minLength: 2, maxLength: 8 }), (given, edges) => {
        const states = new PublishedStates();
        const published = given.flatMap((attempt, index) =>
          attempt === 0 ? [] : [hourState(hourAt(index), 1, attempt)],
        );
        states.apply(published, []);
        const sorted = [...new Set(edges)].sort((a, b) => a - b);
        const ranges = sorted.flatMap((from, index) =>
          index % 2 === 0 && index + 1 < sorted.length
            ? [{ fromMs: hourAt(from / 4), toMs: hourAt(sorted[index + 1]! / 4) }]
            : [],
        );
        const { base, startsMs, attempts: listed } = states.visibility('hour', ranges);
        expect(new Set(startsMs).size).toBe(startsMs.length);
        for (const range of ranges) {
          for (let ms = range.fromMs; ms < range.toMs; ms += HOUR_MS / 4) {
            const hourMs = ms - (ms % HOUR_MS);
            const at = startsMs.indexOf(hourMs);
            const seen = at === -1 ? base : listed[at];
            expect(seen).toBe(given[(hourMs - BASE_MS) / HOUR_MS] ?? 0);
          }
        }
      }),
      fcParams(200),
    );
  });
});
