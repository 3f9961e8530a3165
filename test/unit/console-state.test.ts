/** What the console puts into its address and its questions, without a browser. */
import { describe, expect, test } from 'bun:test';
import { addressOf } from '../../src/console/app/api/client.ts';
import { parseSamples } from '../../src/console/app/api/prometheus.ts';
import { count, duration, percent } from '../../src/console/app/format.ts';
import { filterParams, filtersOf, toggled } from '../../src/console/app/state/filters.ts';
import { granularityOf, monthStart, spanOf } from '../../src/console/app/state/range.ts';
import { hrefOf, parseRoute, sharedQuery } from '../../src/console/app/state/route.ts';

const at = (text: string): number => Date.parse(text);

describe('ranges', () => {
  const now = at('2026-03-28T23:30:00Z');

  test('"today" and "yesterday" are days of the chosen zone, not of the browser or UTC', () => {
    expect(spanOf({ range: 'today' }, now, 'UTC')).toEqual({
      from: '2026-03-28',
      to: '2026-03-29',
    });
    const berlin = { from: '2026-03-29', to: '2026-03-30' };
    expect(spanOf({ range: 'today' }, now, 'Europe/Berlin')).toEqual(berlin);
    const before = { from: '2026-03-27', to: '2026-03-28' };
    expect(spanOf({ range: 'yesterday' }, now, 'America/New_York')).toEqual(before);
  });

  test('seven days end with today, and touch the day after without holding it', () => {
    expect(spanOf({ range: '7d' }, now, 'UTC')).toEqual({ from: '2026-03-22', to: '2026-03-29' });
  });

  test('months begin on their first, over the turn of a year too', () => {
    const january = at('2026-01-15T12:00:00Z');
    const december = { from: '2025-12-01', to: '2026-01-01' };
    expect(spanOf({ range: 'last-month' }, january, 'UTC')).toEqual(december);
    expect(monthStart('2026-12-31', 1)).toBe('2027-01-01');
  });

  test('the last hours are whole minutes or hours and hold the present one', () => {
    const time = at('2026-03-10T12:34:56.789Z');
    const hour = { from: '2026-03-10T11:35:00.000Z', to: '2026-03-10T12:35:00.000Z' };
    expect(spanOf({ range: '1h' }, time, 'UTC')).toEqual(hour);
    const day = { from: '2026-03-09T13:00:00.000Z', to: '2026-03-10T13:00:00.000Z' };
    expect(spanOf({ range: '24h' }, time, 'UTC')).toEqual(day);
  });

  test('a custom range without its ends, or one that nobody knows, is the default', () => {
    const byDefault = spanOf({}, now, 'UTC');
    expect(spanOf({ range: 'custom', from: '2026-01-01T00:00' }, now, 'UTC')).toEqual(byDefault);
    expect(spanOf({ range: 'for ever' }, now, 'UTC')).toEqual(byDefault);
  });

  test('buckets follow the range, and a choice that would not fit is not taken', () => {
    expect(granularityOf({ range: '1h' })).toBe('minute');
    expect(granularityOf({ range: '24h' })).toBe('hour');
    expect(granularityOf({ range: '30d' })).toBe('day');
    expect(granularityOf({ range: '24h', by: 'minute' })).toBe('minute');
    expect(granularityOf({ range: '30d', by: 'minute' })).toBe('day');
  });
});

describe('addresses', () => {
  test('a view and its query come back as they were written', () => {
    const query = { tz: 'Europe/Berlin', ad: 'a,b', from: '2026-03-10T00:00' };
    expect(parseRoute(hrefOf('/clicks', query))).toEqual({ path: '/clicks', query });
    expect(parseRoute('')).toEqual({ path: '/', query: {} });
    expect(hrefOf('/clicks', { ad: undefined, tz: '' })).toBe('#/clicks');
  });

  test('range, zone and advertiser go along to another view, filters do not', () => {
    expect(sharedQuery({ tz: 'UTC', range: '7d', adv: 'a', country: 'DE', open: 'new' })).toEqual({
      tz: 'UTC',
      range: '7d',
      adv: 'a',
    });
  });

  test('the API is asked beside the console, with lists as commas and nothing for what is not set', () => {
    expect(
      addressOf('/v1/ads/metrics', { ad_ids: ['a', 'b'], country: [], cursor: undefined }),
    ).toBe('../v1/ads/metrics?ad_ids=a%2Cb');
  });
});

describe('filters', () => {
  test('a value is added, and taken out again by the same click', () => {
    const none = filtersOf({});
    expect(toggled(none, 'country', 'DE')).toEqual({ country: 'DE' });
    const two = filtersOf({ country: 'DE,FR' });
    expect(toggled(two, 'country', 'DE')).toEqual({ country: 'FR' });
    expect(filterParams(two)).toEqual({
      campaign_ids: [],
      country: ['DE', 'FR'],
      device: [],
      ad_ids: [],
    });
  });
});

describe('numbers', () => {
  test('samples of a metric are summed over its labels; comments and nonsense are passed over', () => {
    const samples = parseSamples(
      '# HELP a_total x\na_total{p="0"} 2\na_total{p="1"} 3.5\nb 1e3\nc NaN\n\nnonsense\n',
    );
    expect([...samples]).toEqual([
      ['a_total', 5.5],
      ['b', 1000],
    ]);
  });

  test('they are written the same way everywhere', () => {
    expect(count(1234567)).toBe('1,234,567');
    expect(percent(0.12345)).toBe('12.3 %');
    expect(percent(null)).toBe('–');
    expect([0.4, 12.6, 1_500, 61_000, 3_700_000].map(duration)).toEqual([
      '0.4 ms',
      '13 ms',
      '1.5 s',
      '61 s',
      '62 min',
    ]);
  });
});
