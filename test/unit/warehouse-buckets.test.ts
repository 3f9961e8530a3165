// Proves INV-8 of SPEC.md.
import { describe, expect, test } from 'bun:test';
import { LedgerError } from '../../src/platform/errors.ts';
import { bucketsOf, DAY_MS, formatInZone, HOUR_MS } from '../../src/warehouse/buckets.ts';
import type { Granularity } from '../../src/warehouse/port.ts';
import { LocalTime } from '../support/local-time.ts';

function starts(granularity: Granularity, zone: string, fromMs: number, toMs: number): number[] {
  const buckets = bucketsOf(granularity, zone, fromMs, toMs);
  return Array.from({ length: buckets.count }, (_, index) => buckets.startMs(index));
}

const labels = (granularity: Granularity, zone: string, from: string, to: string): string[] =>
  starts(granularity, zone, Date.parse(from), Date.parse(to)).map((ms) => formatInZone(ms, zone));

describe('local buckets', () => {
  test('a day in which the clocks go forward has 23 hours (H2)', () => {
    expect(labels('day', 'America/Toronto', '2024-03-09T05:00Z', '2024-03-12T04:00Z')).toEqual([
      '2024-03-09T00:00:00-05:00',
      '2024-03-10T00:00:00-05:00',
      '2024-03-11T00:00:00-04:00',
    ]);
    const hours = labels('hour', 'Europe/Berlin', '2026-03-28T23:00Z', '2026-03-29T22:00Z');
    expect(hours).toHaveLength(23);
    expect(hours[2]).toBe('2026-03-29T03:00:00+02:00');
  });

  test('a day in which the clocks go back has 25 hours, and the hour shown twice makes two', () => {
    const hours = labels('hour', 'Europe/Berlin', '2026-10-24T22:00Z', '2026-10-25T23:00Z');
    expect(hours).toHaveLength(25);
    expect(hours.slice(2, 4)).toEqual(['2026-10-25T02:00:00+02:00', '2026-10-25T02:00:00+01:00']);
  });

  test('a change of half an hour makes an hour of half an hour', () => {
    expect(labels('hour', 'Australia/Lord_Howe', '2026-04-04T14:00Z', '2026-04-04T17:00Z')).toEqual(
      [
        '2026-04-05T01:00:00+11:00',
        '2026-04-05T01:30:00+10:30',
        '2026-04-05T02:00:00+10:30',
        '2026-04-05T03:00:00+10:30',
      ],
    );
  });

  test('a day whose midnight is skipped starts when the clock resumes', () => {
    expect(labels('day', 'Africa/Cairo', '2024-04-25T00:00Z', '2024-04-26T12:00Z')).toEqual([
      '2024-04-25T00:00:00+02:00',
      '2024-04-26T01:00:00+03:00',
    ]);
  });

  test('a date that a zone left out makes no bucket', () => {
    const days = labels('day', 'Pacific/Apia', '2011-12-29T10:00Z', '2011-12-31T10:00Z');
    expect(days.map((label) => label.slice(0, 10))).toEqual(['2011-12-29', '2011-12-31']);
  });

  test('the first bucket begins before the range when the range begins inside it', () => {
    expect(labels('hour', 'Asia/Kathmandu', '2026-01-01T00:20Z', '2026-01-01T00:21Z')).toEqual([
      '2026-01-01T06:00:00+05:45',
    ]);
    expect(labels('day', 'UTC', '2026-01-01T23:59Z', '2026-01-02T00:01Z')).toEqual([
      '2026-01-01T00:00:00+00:00',
      '2026-01-02T00:00:00+00:00',
    ]);
  });

  test('minutes and the total need no zone arithmetic', () => {
    expect(starts('minute', 'Asia/Kolkata', 60_000, 240_000)).toEqual([60_000, 120_000, 180_000]);
    expect(starts('total', 'Asia/Kolkata', 60_000, 240_000)).toEqual([60_000]);
  });

  test('an unknown zone is refused by name', () => {
    expect(() => bucketsOf('day', 'Mars/Olympus', 0, DAY_MS)).toThrow(LedgerError);
  });

  for (const [zone, around] of [
    ['Europe/Berlin', Date.UTC(2026, 2, 29, 1)],
    ['Europe/Berlin', Date.UTC(2026, 9, 25, 1)],
    ['America/Toronto', Date.UTC(2026, 10, 1, 6)],
    ['America/St_Johns', Date.UTC(2026, 2, 8, 5, 30)],
    ['Asia/Kathmandu', Date.UTC(2026, 5, 1)],
    ['Australia/Lord_Howe', Date.UTC(2026, 3, 4, 15)],
    ['Australia/Lord_Howe', Date.UTC(2026, 9, 3, 15, 30)],
    ['Africa/Casablanca', Date.UTC(2026, 1, 15, 2)],
    ['America/Havana', Date.UTC(2026, 2, 8, 5)],
  ] as const) {
    test(`agree minute by minute with the clock of ${zone} around ${new Date(around).toISOString()}`, () => {
      const fromMs = around - DAY_MS - 7 * 60_000;
      const toMs = around + DAY_MS + HOUR_MS;
      const minutes = [...new LocalTime(zone).minutes(fromMs, toMs).values()];
      const unique = (values: number[]): number[] => [...new Set(values)];
      expect(starts('hour', zone, fromMs, toMs)).toEqual(unique(minutes.map((m) => m.hourStartMs)));
      expect(starts('day', zone, fromMs, toMs)).toEqual(unique(minutes.map((m) => m.dayStartMs)));
    });
  }
});
