import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { readClickedAt } from '../../src/ingest/clicked-at.ts';
import { fcParams } from '../support/seed.ts';

const NOW_MS = Date.UTC(2026, 5, 1, 12);
const SKEW_MS = 600_000;
const read = (value: unknown) => readClickedAt(value, NOW_MS, SKEW_MS);
const reason = (value: unknown): string => {
  const result = read(value);
  return result.ok ? `accepted as ${result.ms}` : result.reason;
};

describe('clicked_at of a recorded click', () => {
  test('ISO 8601 with any zone and epoch milliseconds name the same moment', () => {
    const ms = Date.UTC(2026, 0, 31, 7, 0, 0, 120);
    for (const value of [
      '2026-01-31T07:00:00.12Z',
      '2026-01-31T07:00:00.1209999z',
      '2026-01-31 12:30:00.120+05:30',
      '2026-01-30T23:00:00,120-0800',
      ms,
      String(ms),
      ` ${ms} `,
    ]) {
      expect(read(value)).toEqual({ ok: true, ms });
    }
    expect(read('2026-01-31T07:00Z')).toEqual({ ok: true, ms: Date.UTC(2026, 0, 31, 7) });
  });

  test('every moment of the product written as ISO text is read as itself', () => {
    fc.assert(
      fc.property(fc.integer({ min: Date.UTC(2000, 0, 1), max: NOW_MS }), (ms) => {
        expect(read(new Date(ms).toISOString())).toEqual({ ok: true, ms });
      }),
      fcParams(),
    );
  });

  test('epoch seconds and microseconds are refused with what to do, in any plausible year (G11)', () => {
    fc.assert(
      fc.property(fc.integer({ min: Date.UTC(2000, 0, 1), max: Date.UTC(2099, 0, 1) }), (ms) => {
        expect(reason(Math.ceil(ms / 1000))).toContain('seconds × 1000');
        expect(reason(String(ms / 1000))).toContain('seconds × 1000');
        expect(reason(ms * 1000)).toContain('microseconds ÷ 1000');
      }),
      fcParams(),
    );
  });

  test('a time outside of the calendar of clicks is refused: 1969, 0, negative, 1999, 2107, 2201', () => {
    for (const value of ['1969-07-20T20:17:00Z', 0, -1, '-5', '1999-12-31T23:59:59.999Z']) {
      expect(reason(value)).toContain('lies before 2000');
    }
    for (const value of ['2107-01-01T00:00:00Z', '2201-01-01T00:00:00Z', 253_402_300_799_999]) {
      expect(reason(value)).toContain('lies after 2099');
    }
    expect(read('2000-01-01T00:00:00Z').ok).toBe(true);
  });

  test('a click may be ahead of the log by the allowed skew and not by a millisecond more', () => {
    expect(read(NOW_MS + SKEW_MS).ok).toBe(true);
    expect(reason(NOW_MS + SKEW_MS + 1)).toContain('lies in the future');
  });

  test('a time without a zone, of a day that does not exist, or of another shape is refused', () => {
    expect(reason('2026-01-31T07:00:00')).toContain('lacks its time or zone');
    expect(reason('2026-01-31')).toContain('lacks its time or zone');
    for (const value of [
      '2026-02-30T07:00:00Z',
      '2026-13-01T07:00:00Z',
      '2026-01-31T24:00:00Z',
      '2026-01-31T07:00:60Z',
      '2026-01-31T07:00:00+25:00',
      '31/01/2026 07:00',
      'yesterday',
      '',
    ]) {
      expect(reason(value)).toContain('is neither ISO 8601 with a zone');
    }
    expect(reason(Date.UTC(2026, 0, 1) + 0.5)).toContain('is not a whole number');
    expect(reason(Number.NaN)).toContain('is not a whole number');
    for (const value of [null, undefined, true, {}]) {
      expect(reason(value)).toContain('is neither text nor a number');
    }
  });
});
