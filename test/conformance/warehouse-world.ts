/**
 * Random warehouses and random queries. A world is plain data; `build` writes it to a warehouse and
 * tells the same to the model.
 *
 * A world holds what must not be seen (attempts that were never published, attempts that were
 * replaced, live rows inside final hours, older versions) next to what must.
 */
import fc from 'fast-check';
import type {
  DayState,
  FinalRow,
  GroupBy,
  HourState,
  LiveRow,
  MetricsQuery,
  Warehouse,
} from '../../src/warehouse/port.ts';
import { HOUR_MS, MINUTE_MS, type WarehouseModel } from './warehouse-model.ts';

export const WORLD_HOURS = 48;
const DAY_MS = 24 * HOUR_MS;
const ADVERTISERS = ['a1', 'a2'];
const ADS = ['ad-1', 'ad-2', 'ad.3'];
const CAMPAIGNS = ['c1', 'c2'];
const COUNTRIES = ['DE', 'US', 'ZZ'];
const DEVICES = ['desktop', 'mobile', 'other'] as const;

/** Midnight UTC a day before clocks change: Berlin (twice), Toronto and St. John’s, Lord Howe and Chatham (twice). */
const BASES = [
  Date.UTC(2026, 2, 28),
  Date.UTC(2026, 9, 24),
  Date.UTC(2026, 2, 7),
  Date.UTC(2026, 3, 4),
  Date.UTC(2026, 9, 2),
];
const ZONES = [
  'UTC',
  'Europe/Berlin',
  'America/Toronto',
  'Asia/Kolkata',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'America/St_Johns',
  'Pacific/Chatham',
];

interface RowSpec {
  readonly minute: number;
  readonly ids: readonly [number, number, number, number, number];
  readonly clicks: number;
}

interface HourSpec {
  /** Rows per attempt, from attempt 1. */
  readonly attempts: readonly (readonly RowSpec[])[];
  /** The attempts that are published one after the other; empty: the hour has no state. */
  readonly published: readonly number[];
}

export interface World {
  readonly baseMs: number;
  readonly hours: readonly HourSpec[];
  readonly days: readonly ('no' | 'yes' | 'after_a_failed_attempt')[];
  /** Upserts in order; minutes count from the base. */
  readonly live: readonly (readonly (RowSpec & { readonly shard: number })[])[];
}

const index = (values: readonly unknown[]) => fc.nat({ max: values.length - 1 });
const ids = fc.tuple(
  index(ADVERTISERS),
  index(CAMPAIGNS),
  index(ADS),
  index(COUNTRIES),
  index(DEVICES),
);
const rowSpec = (maxMinute: number) =>
  fc.record({
    minute: fc.oneof(
      fc.nat({ max: maxMinute }),
      fc.nat({ max: Math.floor(maxMinute / 15) }).map((quarter) => quarter * 15),
    ),
    ids,
    clicks: fc.integer({ min: 0, max: 50 }),
  });

const hourSpec: fc.Arbitrary<HourSpec> = fc
  .array(fc.array(rowSpec(59), { maxLength: 16, size: 'max' }), { minLength: 1, maxLength: 3 })
  .chain((attempts) =>
    fc.record({
      attempts: fc.constant(attempts),
      published: fc.oneof(
        { weight: 4, arbitrary: fc.constant([attempts.length]) },
        { weight: 1, arbitrary: fc.constant([1]) },
        { weight: 1, arbitrary: fc.constant(attempts.length > 1 ? [1, attempts.length] : [1]) },
        { weight: 2, arbitrary: fc.constant<number[]>([]) },
      ),
    }),
  );

/** Few rows, many upserts: most are counted by two shards and upserted several times. */
const liveUpserts = fc
  .array(rowSpec(WORLD_HOURS * 60 - 1), { minLength: 10, maxLength: 60, size: 'max' })
  .chain((keys) => {
    const row = fc
      .tuple(fc.constantFrom(...keys), fc.nat({ max: 1 }), fc.integer({ min: 0, max: 50 }))
      .map(([key, shard, clicks]) => ({ ...key, shard, clicks }));
    const upsert = fc.array(row, { minLength: 1, maxLength: 80, size: 'max' });
    return fc.array(upsert, { minLength: 2, maxLength: 4 });
  });

export const world: fc.Arbitrary<World> = fc.record({
  baseMs: fc.constantFrom(...BASES),
  hours: fc.array(hourSpec, { minLength: 30, maxLength: WORLD_HOURS, size: 'max' }),
  days: fc.array(fc.constantFrom('no', 'yes', 'yes', 'after_a_failed_attempt'), {
    minLength: 2,
    maxLength: 2,
  }),
  live: liveUpserts,
});

/** A query on a world, with the point from which live rows answer. */
export interface Question {
  readonly query: MetricsQuery;
  readonly finalUntilMs: number;
  readonly pageLimit: number;
}

export function question(baseMs: number): fc.Arbitrary<Question> {
  const minute = fc.integer({ min: -120, max: WORLD_HOURS * 60 + 120 });
  const some = (values: readonly string[]) =>
    fc.option(fc.subarray([...values], { minLength: 1 }), { nil: undefined, freq: 2 });
  const not = (values: readonly string[]) =>
    fc.oneof(
      { weight: 4, arbitrary: fc.constant(undefined) },
      {
        weight: 1,
        arbitrary: fc.subarray([...values], { minLength: 1, maxLength: values.length - 1 }),
      },
    );
  return fc
    .record({
      edges: fc.tuple(minute, minute, fc.constantFrom(1, 15, 30, 60, 1440)),
      finalHour: fc.oneof(fc.integer({ min: 0, max: WORLD_HOURS }), fc.constant(WORLD_HOURS)),
      pageLimit: fc.integer({ min: 1, max: 40 }),
      advertiserId: fc.constantFrom(...ADVERTISERS),
      adIds: some(ADS),
      campaignIds: some(CAMPAIGNS),
      countries: some(COUNTRIES),
      devices: some(DEVICES),
      adIdsNot: not(ADS),
      campaignIdsNot: not(CAMPAIGNS),
      countriesNot: not(COUNTRIES),
      devicesNot: not(DEVICES),
      orderBy: fc.constantFrom('bucket', 'bucket', 'clicks', '-clicks'),
      granularity: fc.constantFrom('minute', 'hour', 'day', 'day', 'total'),
      timezone: fc.constantFrom(...ZONES),
      groupBy: fc.subarray<GroupBy>(['device', 'ad', 'country', 'campaign']),
    })
    .map(({ edges: [a, b, align], finalHour, pageLimit, orderBy, ...rest }) => {
      const round = (value: number): number =>
        baseMs + Math.floor(value / align) * align * MINUTE_MS;
      const fromMs = round(Math.min(a, b));
      const toMs = Math.max(fromMs + MINUTE_MS, round(Math.max(a, b)));
      // By minute a world has more buckets than can be sorted by clicks.
      const order = rest.granularity === 'minute' ? 'bucket' : orderBy;
      const query = { ...rest, orderBy: order, fromMs, toMs, limit: 100_000, after: undefined };
      return { query, finalUntilMs: baseMs + finalHour * HOUR_MS, pageLimit };
    });
}

export async function build(
  spec: World,
  warehouse: Warehouse,
  model: WarehouseModel,
): Promise<void> {
  for (const [at, upsert] of spec.live.entries()) {
    const rows = distinct(upsert.map((row) => toLiveRow(row, spec.baseMs)));
    await warehouse.upsertLive(rows, at + 1);
    model.upsertLive(rows);
  }
  for (const [at, hour] of spec.hours.entries()) {
    const hourMs = spec.baseMs + at * HOUR_MS;
    for (const [index, rows] of hour.attempts.entries()) {
      await warehouse.writeFinalHour(
        hourMs,
        index + 1,
        rows.map((row) => toFinalRow(row, hourMs)),
      );
    }
  }
  await publishAll(spec, warehouse, model);
}

/** First every hour's first publication, a day with its last hour; then the restatements. */
async function publishAll(spec: World, warehouse: Warehouse, model: WarehouseModel): Promise<void> {
  const inForce = new Map<number, number>();
  const publish = async (at: number, revision: number, dayAttempt: number | null) => {
    const hourMs = spec.baseMs + at * HOUR_MS;
    const hour = spec.hours[at]!;
    const attempt = hour.published[revision - 1]!;
    inForce.set(hourMs, attempt);
    const day = await writeDay(warehouse, hourMs, dayAttempt, inForce);
    const state = hourState(hourMs, revision, attempt);
    await warehouse.publish({ hour: state, day, drift: [], restatements: [] });
    model.publishHour(
      hourMs,
      hour.attempts[attempt - 1]!.map((row) => toFinalRow(row, hourMs)),
    );
  };
  const publishedHours = [...spec.hours.keys()].filter(
    (at) => spec.hours[at]!.published.length > 0,
  );
  const dayAttempts = new Map<number, number>();
  for (const at of publishedHours) {
    const day = Math.floor(at / 24);
    const isLast = !publishedHours.some((other) => other > at && Math.floor(other / 24) === day);
    if (!isLast || spec.days[day] === 'no') {
      await publish(at, 1, null);
      continue;
    }
    let attempt = 1;
    if (spec.days[day] === 'after_a_failed_attempt') {
      await warehouse.writeFinalDay(
        spec.baseMs + day * DAY_MS,
        attempt++,
        inForce24(inForce, spec, day),
      );
    }
    dayAttempts.set(day, attempt);
    await publish(at, 1, attempt);
  }
  for (const at of publishedHours) {
    if (spec.hours[at]!.published.length < 2) continue;
    const day = Math.floor(at / 24);
    const dayAttempt = dayAttempts.has(day) ? dayAttempts.get(day)! + 1 : null;
    if (dayAttempt !== null) dayAttempts.set(day, dayAttempt);
    await publish(at, 2, dayAttempt);
  }
}

function inForce24(inForce: ReadonlyMap<number, number>, spec: World, day: number) {
  const dayMs = spec.baseMs + day * DAY_MS;
  return new Map([...inForce].filter(([ms]) => ms >= dayMs && ms < dayMs + DAY_MS));
}

async function writeDay(
  warehouse: Warehouse,
  hourMs: number,
  attempt: number | null,
  inForce: ReadonlyMap<number, number>,
): Promise<DayState | null> {
  if (attempt === null) return null;
  const dayMs = hourMs - (hourMs % DAY_MS);
  const hours = new Map([...inForce].filter(([ms]) => ms >= dayMs && ms < dayMs + DAY_MS));
  await warehouse.writeFinalDay(dayMs, attempt, hours);
  return { dayMs, attempt };
}

export function hourState(hourMs: number, revision: number, attempt: number): HourState {
  return {
    hourMs,
    revision,
    attempt,
    finalAtMs: hourMs + 3 * HOUR_MS + 123,
    cause: revision === 1 ? 'first' : 'late_clicks',
    records: 11,
    counted: 5,
    duplicate: 3,
    notBillable: 2,
    invalid: 1,
    liveClicks: 6,
    driftMax: 0.2,
    inputDigest: 'ab12',
  };
}

function toFinalRow(row: RowSpec, startMs: number): FinalRow {
  const [advertiser, campaign, ad, country, device] = row.ids;
  return {
    advertiserId: ADVERTISERS[advertiser]!,
    campaignId: CAMPAIGNS[campaign]!,
    adId: ADS[ad]!,
    minuteMs: startMs + row.minute * MINUTE_MS,
    country: COUNTRIES[country]!,
    device: DEVICES[device]!,
    clicks: row.clicks,
  };
}

function toLiveRow(row: RowSpec & { readonly shard: number }, baseMs: number): LiveRow {
  return { ...toFinalRow(row, baseMs), shard: row.shard };
}

/** One upsert names a row once. */
function distinct(rows: readonly LiveRow[]): LiveRow[] {
  return [
    ...new Map(rows.map((row) => [JSON.stringify({ ...row, clicks: 0 }), row] as const)).values(),
  ];
}
