/** The kinds of questions, and a seeded one of each kind on demand. */
import { ADVERTISER, DAY_MS, NOW_MS, YEAR_END_MS, YEAR_START_MS } from './model.ts';

export interface Params {
  readonly from: string;
  readonly to: string;
  readonly granularity?: 'minute' | 'hour' | 'day' | 'total';
  readonly group_by?: readonly string[];
  readonly ad_ids?: readonly string[];
  readonly timezone?: string;
  readonly limit?: number;
  readonly cursor?: string;
  readonly by?: 'ad' | 'campaign';
}

export interface Question {
  readonly kind: number;
  readonly path: '/v1/ads/metrics' | '/v1/ads/top';
  readonly params: Params;
  /** Pages before the one that `params.cursor` names. */
  readonly skippedPages: number;
}

export interface Kind {
  readonly title: string;
  readonly make: (next: () => number, world: World) => Omit<Question, 'kind'>;
}

/** What the kinds choose from. */
export interface World {
  readonly ads: readonly string[];
  /** Rows of a page; the product's greatest at scale 1. */
  readonly pageRows: number;
  /** Where the hundredth page of an hourly question of all ads begins: walked to before. */
  readonly deep: readonly Params[];
  readonly deepPage: number;
}

const iso = (ms: number): string => new Date(ms).toISOString();
const pick = <T>(next: () => number, list: readonly T[]): T =>
  list[Math.floor(next() * list.length)]!;

/** About a year: half of them end now, in live rows, the others at the end of a final day. */
function aYear(next: () => number): { from: string; to: string } {
  const days = (): number => Math.floor(next() * 14) * DAY_MS;
  const fromMs = YEAR_START_MS + days();
  return { from: iso(fromMs), to: iso(next() < 0.5 ? NOW_MS : YEAR_END_MS - days()) };
}

function someAds(next: () => number, ads: readonly string[], count: number): string[] {
  const left = [...ads];
  const take = (): string => left.splice(Math.floor(next() * left.length), 1)[0]!;
  return Array.from({ length: Math.min(count, ads.length) }, take);
}

const metrics = (params: Params): Omit<Question, 'kind'> => ({
  path: '/v1/ads/metrics',
  params,
  skippedPages: 0,
});

/** What the deep pages are pages of; their cursors are walked to before anything is measured. */
export const hourlyOfAllAds = (next: () => number, { ads, pageRows }: World): Params => ({
  ...aYear(next),
  granularity: 'hour',
  group_by: ['ad'],
  ad_ids: ads,
  limit: pageRows,
});

export const KINDS: readonly Kind[] = [
  {
    title: 'all ads, total per day',
    make: (next) => metrics({ ...aYear(next), granularity: 'day', group_by: ['none'] }),
  },
  {
    title: 'one ad by hour',
    make: (next, { ads }) =>
      metrics({ ...aYear(next), granularity: 'hour', group_by: ['ad'], ad_ids: [pick(next, ads)] }),
  },
  {
    title: 'all ads by day, first page',
    make: (next, { ads, pageRows: limit }) =>
      metrics({ ...aYear(next), granularity: 'day', group_by: ['ad'], ad_ids: ads, limit }),
  },
  {
    title: 'all ads by hour, first page',
    make: (next, world) => metrics(hourlyOfAllAds(next, world)),
  },
  {
    title: 'all ads by hour, deep page',
    make: (next, { deep, deepPage }) => ({
      ...metrics(pick(next, deep)),
      skippedPages: deepPage - 1,
    }),
  },
  {
    title: 'by country',
    make: (next) => metrics({ ...aYear(next), granularity: 'total', group_by: ['country'] }),
  },
  {
    title: 'per day in Asia/Kolkata',
    make: (next) =>
      metrics({
        ...aYear(next),
        granularity: 'day',
        group_by: ['none'],
        timezone: 'Asia/Kolkata',
      }),
  },
  {
    title: 'top 20',
    make: (next) => ({
      path: '/v1/ads/top',
      params: { ...aYear(next), by: next() < 0.75 ? 'ad' : 'campaign', limit: 20 },
      skippedPages: 0,
    }),
  },
  {
    title: '100 ads by minute, 24 h',
    make: (next, { ads, pageRows: limit }) => {
      const endMs = NOW_MS - Math.floor(next() * 60) * 60_000;
      return metrics({
        from: iso(endMs - DAY_MS),
        to: iso(endMs),
        granularity: 'minute',
        group_by: ['ad'],
        ad_ids: someAds(next, ads, 100),
        limit,
      });
    },
  },
];

export const askKind = (kind: number, next: () => number, world: World): Question => ({
  kind,
  ...KINDS[kind]!.make(next, world),
});

const BUCKET = { minute: 'toStartOfMinute', hour: 'toStartOfHour', day: 'toStartOfDay' } as const;

/** The same question to the raw clicks: rows of `[bucket in seconds, groups …, clicks]`. */
export function rawSqlOf({ params, path, skippedPages }: Question): string {
  const time = (text: string): string => `toDateTime(${Date.parse(text) / 1000}, 'UTC')`;
  const where = [
    `advertiser_id = '${ADVERTISER}'`,
    `clicked_at >= ${time(params.from)} AND clicked_at < ${time(params.to)}`,
  ];
  if (params.ad_ids !== undefined) {
    where.push(`ad_id IN (${params.ad_ids.map((id) => `'${id}'`).join(', ')})`);
  }
  const top = path === '/v1/ads/top';
  const groups = top ? [params.by!] : params.group_by!.filter((group) => group !== 'none');
  const columns = groups.map((group) =>
    group === 'ad' || group === 'campaign' ? `${group}_id` : group,
  );
  const granularity = top ? 'total' : params.granularity!;
  const zone = params.timezone ?? 'UTC';
  const bucket =
    granularity === 'total'
      ? '0'
      : `toUnixTimestamp(${BUCKET[granularity]}(clicked_at, '${zone}'))`;
  const keys = ['bucket', ...columns].join(', ');
  const limit = params.limit ?? 10_000;
  return `SELECT ${[`${bucket} AS bucket`, ...columns].join(', ')}, count() AS clicks FROM raw_click
    WHERE ${where.join(' AND ')} GROUP BY ${keys} ORDER BY ${top ? `clicks DESC, ${keys}` : keys}
    LIMIT ${limit} OFFSET ${skippedPages * limit}`;
}

/** One range for the check that all kinds give the same total: final and live hours. */
export const CHECKED_RANGE = { from: iso(YEAR_START_MS), to: iso(NOW_MS) };
