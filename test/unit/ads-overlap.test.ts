import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { Overlap } from '../../src/ads/overlap.ts';
import { fcParams } from '../support/seed.ts';

const OVERLAP_MS = 1_000;

/** One transaction: when its writer's clock said it began, and when it showed. */
interface Commit {
  readonly commitMs: number;
  /** Duration and the lag of the writer's clock together. */
  readonly lateMs: number;
}

/** Prompt ones and nearly too late ones, close together: only then does one hide the other. */
const commits = fc.array(
  fc.record({
    commitMs: fc.integer({ min: 2_000, max: 5_000 }),
    lateMs: fc.oneof(
      fc.integer({ min: 0, max: 50 }),
      fc.integer({ min: OVERLAP_MS - 50, max: OVERLAP_MS - 1 }),
    ),
  }),
  { minLength: 20, maxLength: 60 },
);
/** How long to the next reading, and whether it reads again or only what is newer than all. */
const readings = fc.array(
  fc.record({
    waitMs: fc.oneof(
      { weight: 9, arbitrary: fc.integer({ min: 0, max: 200 }) },
      fc.integer({ min: 0, max: 2_000 }),
    ),
    isReread: fc.boolean(),
  }),
  { minLength: 10, maxLength: 60 },
);

describe('where changes are read from', () => {
  test('misses no transaction that was late by less than the overlap, whatever the readings', () => {
    const property = fc.property(commits, readings, (written, steps) => {
      const overlap = new Overlap(OVERLAP_MS, { fromUs: null, newestUs: null, nowMs: 0 });
      const seen = new Set<Commit>();
      let nowMs = 1_500;
      const readAt = (beganMs: number, isReread: boolean): void => {
        const from = (isReread ? overlap.fromUs : overlap.newestUs) ?? Number.NEGATIVE_INFINITY;
        const rows = written.filter(
          ({ commitMs, lateMs }) => commitMs <= beganMs && commitMs - lateMs > from,
        );
        for (const row of rows) {
          seen.add(row);
          overlap.saw(row.commitMs - row.lateMs, beganMs);
        }
        if (isReread) overlap.through(beganMs);
      };
      for (const { waitMs, isReread } of steps) {
        nowMs += waitMs;
        readAt(nowMs, isReread);
      }
      readAt(nowMs + 30_000, true);
      expect(seen.size).toBe(written.length);
    });
    fc.assert(property, fcParams(1_000));
  });

  test('moves to the newest itself once that has been known for the overlap', () => {
    const overlap = new Overlap(OVERLAP_MS, { fromUs: 0, newestUs: 5, nowMs: 0 });
    overlap.saw(100, 500);
    overlap.through(1_499);
    expect(overlap.fromUs).toBe(5);
    overlap.through(1_500);
    expect(overlap.fromUs).toBe(100);
  });

  test('does not move without a reading from it', () => {
    const overlap = new Overlap(OVERLAP_MS, { fromUs: 7, newestUs: 9, nowMs: 0 });
    overlap.saw(100, 10_000);
    expect(overlap.fromUs).toBe(7);
    expect(overlap.newestUs).toBe(100);
  });
});
