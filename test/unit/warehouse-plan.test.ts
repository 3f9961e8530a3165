// Proves INV-5 of SPEC.md.
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { bucketsOf, DAY_MS, HOUR_MS, MINUTE_MS, QUARTER_MS } from '../../src/warehouse/buckets.ts';
import { type PlanInput, planSegments, type Segment } from '../../src/warehouse/plan.ts';
import type { Granularity } from '../../src/warehouse/port.ts';
import { fcParams } from '../support/seed.ts';

const BASE_MS = Date.UTC(2026, 2, 27);
const UNIT_MS = {
  day: DAY_MS,
  hour: HOUR_MS,
  quarter: QUARTER_MS,
  minute: MINUTE_MS,
  live: MINUTE_MS,
};
const ZONES = [
  'UTC',
  'Europe/Berlin',
  'Europe/London',
  'America/Toronto',
  'Asia/Kolkata',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
];

function plan(options: {
  from: number;
  to: number;
  finalUntil: number;
  granularity?: Granularity;
  zone?: string;
  days?: readonly number[];
}): Segment[] {
  const { from, to, finalUntil, granularity = 'total', zone = 'UTC', days = [] } = options;
  return planSegments({
    fromMs: BASE_MS + from,
    toMs: BASE_MS + to,
    finalUntilMs: BASE_MS + finalUntil,
    cutsMs: cuts(granularity, zone, BASE_MS + from, BASE_MS + to),
    isDayPublished: (dayMs) => days.includes((dayMs - BASE_MS) / DAY_MS),
  });
}

function cuts(granularity: Granularity, zone: string, fromMs: number, toMs: number) {
  if (granularity === 'minute') return 'every_minute';
  const buckets = bucketsOf(granularity, zone, fromMs, toMs);
  return Array.from({ length: buckets.count }, (_, index) => buckets.startMs(index));
}

const shape = (segments: readonly Segment[]): string =>
  segments
    .map((s) => `${s.tier} ${(s.fromMs - BASE_MS) / MINUTE_MS}-${(s.toMs - BASE_MS) / MINUTE_MS}`)
    .join(', ');

describe('the plan of a query', () => {
  test('takes published UTC days whole, hours around them and live rows after final_until', () => {
    const segments = plan({
      from: HOUR_MS,
      to: 3 * DAY_MS,
      finalUntil: 2 * DAY_MS + HOUR_MS,
      days: [0, 1],
    });
    expect(shape(segments)).toBe('hour 60-1440, day 1440-2880, hour 2880-2940, live 2940-4320');
  });

  test('reads hours where a day is not published', () => {
    const segments = plan({ from: 0, to: 3 * DAY_MS, finalUntil: 3 * DAY_MS, days: [0, 2] });
    expect(shape(segments)).toBe('day 0-1440, hour 1440-2880, day 2880-4320');
  });

  test('cuts days of Kolkata out of quarters, and never reads a UTC day for them', () => {
    const segments = plan({
      from: 18.5 * HOUR_MS,
      to: 42.5 * HOUR_MS,
      finalUntil: 3 * DAY_MS,
      granularity: 'day',
      zone: 'Asia/Kolkata',
      days: [0, 1, 2],
    });
    expect(shape(segments)).toBe('quarter 1110-1140, hour 1140-2520, quarter 2520-2550');
  });

  test('reads UTC days for days of London in winter and hours for days of London in summer', () => {
    const segments = plan({
      from: 0,
      to: 4 * DAY_MS,
      finalUntil: 5 * DAY_MS,
      granularity: 'day',
      zone: 'Europe/London',
      days: [0, 1, 2, 3],
    });
    // Summer time begins on the third day: it still starts at midnight UTC but ends at 23:00.
    expect(shape(segments)).toBe('day 0-2880, hour 2880-5760');
  });

  test('reads minutes only in the hours of ragged edges', () => {
    const segments = plan({
      from: 67 * MINUTE_MS,
      to: 5 * HOUR_MS + 15 * MINUTE_MS,
      finalUntil: DAY_MS,
    });
    expect(shape(segments)).toBe('minute 67-120, hour 120-300, quarter 300-315');
  });

  test('reads minutes throughout by minute', () => {
    const segments = plan({
      from: 0,
      to: DAY_MS,
      finalUntil: HOUR_MS,
      granularity: 'minute',
      days: [0],
    });
    expect(shape(segments)).toBe('minute 0-60, live 60-1440');
  });

  test('partitions any range exactly, and no bucket edge lies inside a row it reads', () => {
    const minutes = fc.integer({ min: 0, max: 6 * 24 * 60 });
    const input = fc.record({
      edges: fc.tuple(minutes, minutes, fc.constantFrom(1, 15, 60, 1440)),
      finalHour: fc.integer({ min: 0, max: 6 * 24 }),
      granularity: fc.constantFrom<Granularity>('minute', 'hour', 'day', 'total'),
      zone: fc.constantFrom(...ZONES),
      days: fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }),
    });
    fc.assert(
      fc.property(input, ({ edges: [a, b, align], finalHour, granularity, zone, days }) => {
        const round = (minute: number): number =>
          BASE_MS + Math.floor(minute / align) * align * MINUTE_MS;
        const fromMs = round(Math.min(a, b));
        const toMs = Math.max(fromMs + MINUTE_MS, round(Math.max(a, b)));
        const plan: PlanInput = {
          fromMs,
          toMs,
          finalUntilMs: BASE_MS + finalHour * HOUR_MS,
          cutsMs: cuts(granularity, zone, fromMs, toMs),
          isDayPublished: (dayMs) => days[(dayMs - BASE_MS) / DAY_MS] === true,
        };
        checkSegments(plan, planSegments(plan));
      }),
      fcParams(500),
    );
  });
});

/** P1 to P4. */
function checkSegments(plan: PlanInput, segments: readonly Segment[]): void {
  let at = plan.fromMs;
  for (const segment of segments) {
    expect(segment.fromMs).toBe(at);
    expect(segment.toMs).toBeGreaterThan(segment.fromMs);
    at = segment.toMs;
    const unitMs = UNIT_MS[segment.tier];
    expect(segment.fromMs % unitMs).toBe(0);
    expect(segment.toMs % unitMs).toBe(0);
    if (segment.tier === 'live') expect(segment.fromMs).toBeGreaterThanOrEqual(plan.finalUntilMs);
    else expect(segment.toMs).toBeLessThanOrEqual(plan.finalUntilMs);
    if (plan.cutsMs === 'every_minute') expect(unitMs).toBe(MINUTE_MS);
    else {
      for (const cutMs of plan.cutsMs) {
        if (cutMs > segment.fromMs && cutMs < segment.toMs) expect(cutMs % unitMs).toBe(0);
      }
    }
    if (segment.tier === 'day') {
      for (let ms = segment.fromMs; ms < segment.toMs; ms += DAY_MS) {
        expect(plan.isDayPublished(ms)).toBe(true);
      }
    }
  }
  expect(at).toBe(plan.toMs);
}
