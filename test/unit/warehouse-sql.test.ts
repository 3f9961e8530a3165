// Proves INV-4 of SPEC.md.
import { describe, expect, test } from 'bun:test';
import { ClickHouseError } from '@clickhouse/client';
import { engineError, queryError } from '../../src/warehouse/engine-error.ts';
import type { FinalRow, LiveRow, MetricsQuery } from '../../src/warehouse/port.ts';
import { groupOrder, metricsSql, topSql } from '../../src/warehouse/sql/metrics.ts';
import { alterTtl } from '../../src/warehouse/sql/schema.ts';
import type { Source } from '../../src/warehouse/sql/sources.ts';
import { toCount, toSeconds } from '../../src/warehouse/sql/sql.ts';
import { finalHourInserts, liveInserts } from '../../src/warehouse/sql/write.ts';

const HOUR_MS = 3_600_000;
const BASE_MS = Date.UTC(2026, 2, 28);
const row: FinalRow = {
  advertiserId: 'a1',
  campaignId: 'c1',
  adId: 'ad-1',
  minuteMs: BASE_MS,
  country: 'DE',
  device: 'mobile',
  clicks: 1,
};

const query: MetricsQuery = {
  advertiserId: 'secret-advertiser',
  adIds: ['secret-ad'],
  campaignIds: ['secret-campaign'],
  countries: ['secret-country'],
  devices: ['secret-device'],
  adIdsNot: ['secret-other-ad'],
  campaignIdsNot: ['secret-other-campaign'],
  countriesNot: ['secret-other-country'],
  devicesNot: ['secret-other-device'],
  fromMs: BASE_MS,
  toMs: BASE_MS + 48 * HOUR_MS,
  granularity: 'hour',
  timezone: 'UTC',
  groupBy: ['device', 'ad'],
  limit: 12345,
  after: undefined,
};

describe('the metrics statement', () => {
  const ranges = [
    { fromMs: BASE_MS, toMs: BASE_MS + HOUR_MS },
    { fromMs: BASE_MS + 2 * HOUR_MS, toMs: BASE_MS + 3 * HOUR_MS },
  ];
  const visibility = { base: 1, startsMs: [BASE_MS], attempts: [2] } as const;
  const sources: Source[] = (['day', 'hour', 'quarter', 'minute'] as const).map((tier) => ({
    tier,
    ranges,
    visibility,
  }));
  const all: Source[] = [...sources, { tier: 'live', ranges, visibility: null }];
  const statement = {
    filter: query,
    groupBy: query.groupBy,
    orderBy: 'bucket',
    buckets: { kind: 'edges', startsMs: [BASE_MS, BASE_MS + HOUR_MS] },
    sources: all,
    after: [BASE_MS / 1000, 'secret-ad', 'secret-device'],
    limit: query.limit + 1,
  } as const;
  const sql = metricsSql(statement);

  test.each([
    ['by bucket', sql],
    [
      'by clicks',
      metricsSql({
        ...statement,
        orderBy: '-clicks',
        after: [777_777, BASE_MS / 1000, 'secret-ad', 'secret-device'],
      }),
    ],
    ['of the top', topSql({ filter: query, by: 'ad', sources: all, limit: query.limit + 1 })],
  ])('%s binds every value and spells none in its text', (_, { query: text, query_params }) => {
    expect(text).not.toContain('secret');
    expect(text).not.toContain('12346');
    expect(text).not.toContain('777777');
    expect(text).not.toContain(String(BASE_MS / 1000));
    const placeholders = [...text.matchAll(/\{(p\d+):/g)].map((match) => match[1]!);
    expect(new Set(placeholders)).toEqual(new Set(Object.keys(query_params)));
  });

  test.each([
    [{}, ['country'], 'place'],
    [{ countries: ['DE'], devicesNot: ['other'] }, [], 'place'],
    [{ campaignIdsNot: ['c1'] }, ['campaign'], 'campaign'],
    [{ adIdsNot: ['ad-1'] }, [], 'ad'],
    [{}, ['ad', 'campaign'], 'ad'],
    [{ campaignIds: ['c1'] }, ['country'], undefined],
    [{ countries: ['DE'] }, ['ad'], undefined],
    [{ adIds: ['ad-1'] }, ['ad'], undefined],
  ] as const)('with %p by %p it reads the roll-up %p', (more, groupBy, rollup) => {
    const filter = {
      advertiserId: 'a1',
      adIds: undefined,
      campaignIds: undefined,
      countries: undefined,
      devices: undefined,
      fromMs: query.fromMs,
      toMs: query.toMs,
      ...more,
    };
    const { query: text, query_params } = metricsSql({
      ...statement,
      filter,
      groupBy,
      after: undefined,
    });
    const read = [...text.matchAll(/final_(?:hour|day)(_rollup)?\b/g)].map((match) => match[1]);
    expect(new Set(read)).toEqual(new Set([rollup === undefined ? undefined : '_rollup']));
    if (rollup !== undefined) expect(Object.values(query_params)).toContain(rollup);
  });

  test('orders rows by bucket, ad, campaign, country, device, whatever order was asked for', () => {
    expect(groupOrder(['device', 'ad', 'device', 'country'])).toEqual(['ad', 'country', 'device']);
    expect(sql.query).toContain('ORDER BY bucket, ad_id, device LIMIT');
  });

  test('takes the highest version of live rows before it sums', () => {
    expect(sql.query).toContain('argMax(clicks, version)');
  });
});

describe('what is written', () => {
  test('live rows of many days are split so that no insert touches 100 partitions (G8)', () => {
    const rows = Array.from({ length: 400 }, (_, at): LiveRow => {
      return { ...row, minuteMs: BASE_MS + ((at * 37) % 200) * 24 * HOUR_MS, shard: 0, clicks: at };
    });
    const inserts = liveInserts([{ rows, version: 1 }]);
    const daysOf = (insert: (typeof inserts)[number]): Set<number> =>
      new Set(insert.rows.map((cells) => Math.floor(Number(cells[5]) / 86_400)));
    for (const insert of inserts) expect(daysOf(insert).size).toBeLessThan(100);
    expect(inserts.flatMap((insert) => insert.rows)).toHaveLength(400);
    const days = inserts.flatMap((insert) => [...daysOf(insert)]);
    expect(new Set(days).size).toBe(days.length);
    expect(inserts.length).toBeLessThan(10);
  });

  test('an hour row holds its four quarters and their sum', () => {
    const minutes = [0, 14, 15, 44, 45, 59].map((minute, at) => ({
      ...row,
      minuteMs: BASE_MS + minute * 60_000,
      clicks: 10 ** at,
    }));
    const [, hours] = finalHourInserts(BASE_MS, 7, minutes);
    expect(hours!.rows).toEqual([
      ['a1', 'c1', 'ad-1', 'DE', 'mobile', BASE_MS / 1000, 11, 100, 1_000, 110_000, 111_111, 7],
    ]);
    expect(finalHourInserts(BASE_MS, 7, [])).toEqual([]);
  });

  test('an hour is summed by place, by campaign and by ad as well', () => {
    const rows: FinalRow[] = [
      row,
      { ...row, adId: 'ad-2', clicks: 10 },
      { ...row, country: 'US', campaignId: 'c2', minuteMs: BASE_MS + 50 * 60_000, clicks: 100 },
    ];
    const [, , rollups] = finalHourInserts(BASE_MS, 7, rows);
    const hour = BASE_MS / 1000;
    expect(rollups!.rows).toEqual([
      ['place', 'a1', '', '', 'DE', 'mobile', hour, 11, 0, 0, 0, 11, 7],
      ['place', 'a1', '', '', 'US', 'mobile', hour, 0, 0, 0, 100, 100, 7],
      ['campaign', 'a1', 'c1', '', '', '', hour, 11, 0, 0, 0, 11, 7],
      ['campaign', 'a1', 'c2', '', '', '', hour, 0, 0, 0, 100, 100, 7],
      ['ad', 'a1', 'c1', 'ad-1', '', '', hour, 1, 0, 0, 0, 1, 7],
      ['ad', 'a1', 'c1', 'ad-2', '', '', hour, 10, 0, 0, 0, 10, 7],
      ['ad', 'a1', 'c2', 'ad-1', '', '', hour, 0, 0, 0, 100, 100, 7],
    ]);
  });

  test('a row outside its hour is a bug', () => {
    expect(() => finalHourInserts(BASE_MS - HOUR_MS, 1, [row])).toThrow('lies in the hour');
  });

  test('times and counts that would wrap or round are bugs (G11)', () => {
    for (const ms of [-1000, 500, 2 ** 32 * 1000, Number.NaN])
      expect(() => toSeconds(ms)).toThrow();
    for (const count of [-1, 0.5, 2 ** 53, '9007199254740993', null, 'x']) {
      if (count === null) continue;
      expect(() => toCount(count)).toThrow();
    }
    expect(toCount('9007199254740991')).toBe(Number.MAX_SAFE_INTEGER);
  });
});

test('a TTL is altered only when it differs from the configured one', () => {
  const rule = { table: 'final_hour', column: 'hour', days: 30 } as const;
  const engine = (ttl: string): string => `MergeTree ORDER BY hour${ttl} SETTINGS x = 1`;
  expect(alterTtl(rule, engine(' TTL hour + toIntervalDay(30)'))).toBeNull();
  expect(alterTtl(rule, engine(' TTL hour + toIntervalDay(3)'))).toContain('toIntervalDay(30)');
  expect(alterTtl(rule, engine(''))).toContain('MODIFY TTL hour + toIntervalDay(30)');
  expect(alterTtl({ ...rule, days: 0 }, engine(''))).toBeNull();
  expect(alterTtl({ ...rule, days: 0 }, engine(' TTL hour + toIntervalDay(3)'))).toContain(
    'REMOVE',
  );
});

test('errors that may pass can be retried, all others go on as they are', () => {
  const full = new ClickHouseError({ message: 'no space', code: '243', type: 'NOT_ENOUGH_SPACE' });
  expect(engineError(full)).toMatchObject({
    code: 'warehouse_unavailable',
    kind: 'retry',
    cause: full,
  });
  const syntax = new ClickHouseError({ message: 'syntax', code: '62', type: 'SYNTAX_ERROR' });
  expect(engineError(syntax)).toBe(syntax);
  const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  expect(engineError(refused)).toMatchObject({ kind: 'retry' });
  const bug = new TypeError('bug');
  expect(engineError(bug)).toBe(bug);
});

test('a limit that a query met itself is its refusal, memory that is short all over passes', () => {
  const of = (code: string, message: string): unknown =>
    queryError(engineError(new ClickHouseError({ message, code, type: 'X' })));
  expect(of('159', 'Timeout exceeded')).toMatchObject({ code: 'query_too_large', kind: 'refuse' });
  expect(of('241', 'Query memory limit exceeded')).toMatchObject({ code: 'query_too_large' });
  expect(of('241', '(total) memory limit exceeded')).toMatchObject({ kind: 'retry' });
  expect(of('243', 'no space')).toMatchObject({ kind: 'retry' });
  const bug = new TypeError('bug');
  expect(queryError(bug)).toBe(bug);
});
