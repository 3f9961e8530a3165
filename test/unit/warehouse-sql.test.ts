// Proves INV-4 of SPEC.md.
import { describe, expect, test } from 'bun:test';
import { ClickHouseError } from '@clickhouse/client';
import { engineError } from '../../src/warehouse/engine-error.ts';
import type { FinalRow, LiveRow, MetricsQuery } from '../../src/warehouse/port.ts';
import { groupOrder, metricsSql, type Source } from '../../src/warehouse/sql/metrics.ts';
import { alterTtl } from '../../src/warehouse/sql/schema.ts';
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
  const sql = metricsSql({
    query,
    buckets: { kind: 'edges', startsMs: [BASE_MS, BASE_MS + HOUR_MS] },
    sources: [...sources, { tier: 'live', ranges, visibility: null }],
    after: [BASE_MS / 1000, 'secret-ad', 'secret-device'],
    limit: query.limit + 1,
  });

  test('binds every value and spells none in its text', () => {
    expect(sql.query).not.toContain('secret');
    expect(sql.query).not.toContain("'secret");
    expect(sql.query).not.toContain('12346');
    expect(sql.query).not.toContain(String(BASE_MS / 1000));
    const placeholders = [...sql.query.matchAll(/\{(p\d+):/g)].map((match) => match[1]!);
    expect(new Set(placeholders)).toEqual(new Set(Object.keys(sql.query_params)));
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
    const inserts = liveInserts(rows, 1);
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
