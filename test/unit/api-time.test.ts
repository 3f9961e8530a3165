import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { Problem } from '../../src/api/problem.ts';
import { isTimeZone, parseRange, parseTime } from '../../src/api/time.ts';
import { fcParams } from '../support/seed.ts';

const iso = (text: string, zone = 'UTC'): string => {
  const parsed = parseTime(text, zone);
  return 'ms' in parsed ? new Date(parsed.ms).toISOString() : parsed.problem;
};

describe('a time', () => {
  test.each([
    ['2026-01-31T08:00:00Z', 'Europe/Berlin', '2026-01-31T08:00:00.000Z'],
    ['2026-01-31t08:00z', 'Europe/Berlin', '2026-01-31T08:00:00.000Z'],
    ['2026-01-31T08:00:00+01:00', 'America/Toronto', '2026-01-31T07:00:00.000Z'],
    ['2026-01-31T08:00:00.000-0330', 'UTC', '2026-01-31T11:30:00.000Z'],
    ['2026-01-31T08:00', 'Europe/Berlin', '2026-01-31T07:00:00.000Z'],
    ['2026-01-31', 'Asia/Kathmandu', '2026-01-30T18:15:00.000Z'],
  ])('%s in %s is %s', (text, zone, expected) => {
    expect(iso(text, zone)).toBe(expected);
  });

  test('a date whose midnight is skipped begins when the clock resumes (H2)', () => {
    expect(iso('2018-11-04', 'America/Sao_Paulo')).toBe('2018-11-04T03:00:00.000Z');
  });

  test.each([
    ['yesterday', 'is no time'],
    ['1767225600', 'is no time'],
    ['2026-1-1', 'is no time'],
    ['2026-02-30', 'on no calendar'],
    ['2026-02-03T24:00', 'on no calendar'],
    ['2026-02-03T10:00:00+99:00', 'no such offset'],
    ['2026-01-31T08:00:00 01:00', 'must be written %2B'],
    ['', 'is no time'],
  ])('%s is refused: %s', (text, problem) => {
    expect(iso(text)).toContain(problem);
  });

  test('a local time that a clock skips or shows twice is refused with both offsets', () => {
    expect(iso('2026-03-29T02:30', 'Europe/Berlin')).toBe(
      '2026-03-29T02:30:00 is skipped by the clock of Europe/Berlin. Give the offset: ' +
        '2026-03-29T02:30:00+01:00 or 2026-03-29T02:30:00+02:00.',
    );
    expect(iso('2026-10-25T02:30', 'Europe/Berlin')).toContain('comes twice on');
    expect(iso('2026-10-25T02:30+02:00', 'Europe/Berlin')).toBe('2026-10-25T00:30:00.000Z');
    expect(iso('2026-10-25T03:00', 'Europe/Berlin')).toBe('2026-10-25T02:00:00.000Z');
  });

  test('any instant written with an offset is read back as itself', () => {
    const offset = fc.integer({ min: -14 * 60, max: 14 * 60 });
    const minute = fc.integer({ min: 946_684_800 / 60, max: 4_102_444_800 / 60 });
    fc.assert(
      fc.property(minute, offset, (minutes, shift) => {
        const local = new Date((minutes + shift) * 60_000).toISOString().slice(0, 19);
        const hours = String(Math.floor(Math.abs(shift) / 60)).padStart(2, '0');
        const rest = String(Math.abs(shift) % 60).padStart(2, '0');
        const text = `${local}${shift < 0 ? '-' : '+'}${hours}:${rest}`;
        expect(parseTime(text, 'UTC')).toEqual({ ms: minutes * 60_000 });
      }),
      fcParams(),
    );
  });
});

describe('a range (H6)', () => {
  const refusal = (from: string, to: string): Problem => {
    try {
      parseRange(from, to, 'UTC');
    } catch (error) {
      if (error instanceof Problem) return error;
      throw error;
    }
    throw new Error('the range was taken');
  };

  test('dates are starts of days, so one day is given by two dates', () => {
    expect(parseRange('2026-03-29', '2026-03-30', 'Europe/Berlin')).toEqual({
      fromMs: Date.UTC(2026, 2, 28, 23),
      toMs: Date.UTC(2026, 2, 29, 22),
    });
  });

  test('an empty and a turned range are refused, and the rule is told', () => {
    const same = refusal('2026-01-01', '2026-01-01');
    expect([same.status, same.code, same.more.hint]).toEqual([
      400,
      'range_empty',
      expect.stringContaining('from=2026-01-31&to=2026-02-01'),
    ]);
    expect(refusal('2026-01-02', '2026-01-01').detail).toContain('ends before it begins');
  });

  test('the last second of a minute is refused with the minutes around it', () => {
    const { more } = refusal('2026-01-01', '2026-01-01T23:59:59.999Z');
    expect(more.errors).toEqual([
      {
        parameter: 'to',
        message: expect.stringContaining(
          'use 2026-01-01T23:59:00.000Z or 2026-01-02T00:00:00.000Z',
        ),
      },
    ]);
  });

  test('both ends are judged at once, and years without clicks are refused', () => {
    expect(refusal('1970-01-01', '2026-01-01T00:00:01Z').more.errors).toHaveLength(2);
    expect(refusal('2026-01-01', '2300-01-01').detail).toContain('2000 to 2099');
    expect(parseRange('2000-01-01', '2100-01-01', 'Asia/Tokyo').fromMs).toBe(946_652_400_000);
  });
});

test('only names are time zones', () => {
  const names = ['UTC', 'Europe/Berlin', 'Etc/GMT+5', 'America/Argentina/Buenos_Aires'];
  expect(names.map(isTimeZone)).toEqual([true, true, true, true]);
  const others = ['', '+02:00', 'Mars/Olympus', '2026-01-01T00:00[Europe/Berlin]', 'x'.repeat(70)];
  expect(others.map(isTimeZone)).toEqual([false, false, false, false, false]);
});
