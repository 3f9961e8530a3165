/**
 * The statements that make the year's rows inside the engine, from the tables `bench_stream` and
 * `bench_hour`. A stream's clicks of an hour, and the second of each, come out of a hash: so the raw
 * clicks, minute, hour and day rows are the same clicks, whichever statement makes them.
 */
import { DAY_MS, HOUR_MS, NOW_MS } from './model.ts';

/** `[fromMs, toMs)`, whole hours. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

const KEY = 'advertiser_id, campaign_id, ad_id, country, device';
/** Of every so many rows one differs in the attempt that a restatement replaced. */
const CHANGED_ONE_IN = 7;
/** The stream writes a row again while its minute fills: each pass is a part of its own. */
export const LIVE_PASSES = 4;
const SHARDS = 3;

const seconds = (ms: number): number => ms / 1000;
const time = (ms: number): string => `toDateTime(${seconds(ms)}, 'UTC')`;
const within = (column: string, { fromMs, toMs }: Span): string =>
  `${column} >= ${time(fromMs)} AND ${column} < ${time(toMs)}`;

export const WORK_TABLES = [
  `CREATE TABLE bench_stream (id UInt32, advertiser_id String, campaign_id String, ad_id String,
    country LowCardinality(String), device LowCardinality(String), per_hour Float64)
    ENGINE = MergeTree ORDER BY id`,
  `CREATE TABLE bench_hour (n UInt32, hour DateTime('UTC'), shape Float64, revision UInt32,
    attempt UInt32, day_attempt UInt32) ENGINE = MergeTree ORDER BY n`,
  // What a plain log of clicks in the same engine would be, in the order that suits the queries best.
  `CREATE TABLE raw_click (advertiser_id String, campaign_id String, ad_id String,
    country LowCardinality(String), device LowCardinality(String), clicked_at DateTime('UTC'))
    ENGINE = MergeTree PARTITION BY toYYYYMM(clicked_at)
    ORDER BY (advertiser_id, ad_id, clicked_at)`,
];

/** `(key, hour, attempt, h, clicks)` of every stream and hour that has clicks. */
function hourRows(seed: number, span: Span): string {
  return `SELECT ${KEY}, hour, revision, attempt, h,
      toUInt64(floor(per_hour * shape * (0.5 + (h % 65536) / 65536)
        + (intDiv(h, 65536) % 65536) / 65536)) AS clicks
    FROM (SELECT *, intHash64(${seed} * 1000000007 + id * 16384 + n) AS h
      FROM bench_stream CROSS JOIN (SELECT * FROM bench_hour WHERE ${within('hour', span)}) AS hours)
    WHERE clicks > 0`;
}

/** A hash for each click of a row; second, minute and shard come out of it. */
const CLICK_HASHES = 'arrayMap(i -> intHash64(h + i + 1), range(clicks))';

function clickRows(seed: number, span: Span): string {
  return `SELECT ${KEY}, hour, attempt, revision, click % 60 AS minute_of,
      intDiv(click, 256) % ${SHARDS} AS shard, intDiv(click, 65536) % 60 AS second_of
    FROM (${hourRows(seed, span)}) ARRAY JOIN ${CLICK_HASHES} AS click
    WHERE hour + minute_of * 60 < ${time(NOW_MS)}`;
}

/** The hour rows that are in force. */
export function finalHourSql(seed: number, span: Span): string {
  const quarter = (n: number): string => `arrayCount(m -> intDiv(m, 15) = ${n}, minutes)`;
  return `INSERT INTO final_hour (${KEY}, hour, q0, q1, q2, q3, clicks, attempt)
    SELECT ${KEY}, hour, ${[0, 1, 2, 3].map(quarter).join(', ')}, clicks, attempt
    FROM (SELECT *, arrayMap(c -> c % 60, ${CLICK_HASHES}) AS minutes FROM (${hourRows(seed, span)}))`;
}

/** Attempt 1 of the hours where attempt 2 is in force: other numbers, or only half of the rows. */
export function replacedHourSql(span: Span): string {
  const changed = `(cityHash64(ad_id, hour) % ${CHANGED_ONE_IN} = 0)`;
  return `INSERT INTO final_hour (${KEY}, hour, q0, q1, q2, q3, clicks, attempt)
    SELECT ${KEY}, hour, q0 + ${changed}, q1, q2, q3, clicks + ${changed}, 1 FROM final_hour
    WHERE ${within('hour', span)} AND attempt = 2
      AND (hour IN (SELECT hour FROM bench_hour WHERE revision = 2) OR cityHash64(ad_id) % 2 = 0)`;
}

/** Days are summed from the hours in force, as the product does it. */
export function finalDaySql(span: Span): string {
  return `INSERT INTO final_day (${KEY}, day, clicks, attempt)
    SELECT ${KEY}, toStartOfDay(hour), sum(clicks), max(day_attempt)
    FROM final_hour INNER JOIN bench_hour USING (hour, attempt)
    WHERE ${within('hour', span)} GROUP BY ${KEY}, toStartOfDay(hour)`;
}

/** Attempt 1 of the days in which an hour was restated. */
export function replacedDaySql(span: Span): string {
  const changed = `(cityHash64(ad_id, day) % ${CHANGED_ONE_IN} = 0)`;
  return `INSERT INTO final_day (${KEY}, day, clicks, attempt)
    SELECT ${KEY}, day, clicks + ${changed}, 1 FROM final_day
    WHERE ${within('day', span)} AND attempt = 2`;
}

export function finalMinuteSql(seed: number, span: Span): string {
  return `INSERT INTO final_minute (${KEY}, minute, clicks, attempt)
    SELECT ${KEY}, hour + minute_of * 60 AS minute, count(), attempt
    FROM (${clickRows(seed, span)}) GROUP BY ${KEY}, minute, attempt`;
}

export function replacedMinuteSql(span: Span): string {
  const changed = `(cityHash64(ad_id, minute) % ${CHANGED_ONE_IN} = 0)`;
  return `INSERT INTO final_minute (${KEY}, minute, clicks, attempt)
    SELECT ${KEY}, minute, clicks + ${changed}, 1 FROM final_minute
    WHERE ${within('minute', span)} AND attempt = 2`;
}

/** Full counts of all minutes of the span as they stood in pass `pass` of `passes`. */
export function liveSql(seed: number, span: Span, pass: { n: number; of: number }): string {
  return `INSERT INTO live_minute (${KEY}, minute, shard, clicks, version)
    SELECT ${KEY}, hour + minute_of * 60 AS minute, shard,
      toUInt64(ceil(count() * ${pass.n} / ${pass.of})), ${seconds(span.fromMs) * 10 + pass.n}
    FROM (${clickRows(seed, span)}) GROUP BY ${KEY}, minute, shard`;
}

export function rawSql(seed: number, span: Span): string {
  return `INSERT INTO raw_click SELECT ${KEY}, hour + minute_of * 60 + second_of
    FROM (${clickRows(seed, span)})`;
}

/** What publishing leaves: attempts, drift, restatements, and last the states in force. */
export function publicationSql({ fromMs, toMs }: Span, lastDayEndMs: number): string[] {
  const hours = `bench_hour WHERE ${within('hour', { fromMs, toMs })}`;
  const days = `(SELECT toStartOfDay(hour) AS day, max(day_attempt) AS attempt
    FROM bench_hour WHERE ${within('hour', { fromMs, toMs: lastDayEndMs })} GROUP BY day)`;
  const each = 'ARRAY JOIN range(1, attempt + 1) AS try';
  const counted = `(SELECT hour, attempt, sum(clicks) AS counted FROM final_hour
    INNER JOIN bench_hour USING (hour, attempt) GROUP BY hour, attempt)`;
  const state = (revision: string, attempt: string, cause: string): string =>
    `'hour', hour, ${revision}, ${attempt}, toDateTime64(hour, 3, 'UTC') + ${seconds(3 * HOUR_MS)},
      '${cause}', counted, counted, 0, 0, 0, counted, 0, 'bench'`;
  return [
    `INSERT INTO attempts SELECT 'hour', hour, try FROM ${hours.replace(' WHERE', ` ${each} WHERE`)}`,
    `INSERT INTO attempts SELECT 'day', day, try FROM ${days} ${each}`,
    `INSERT INTO drift SELECT hour, revision, attempt, advertiser_id, sum(clicks), sum(clicks)
      FROM final_hour INNER JOIN bench_hour USING (hour, attempt)
      GROUP BY hour, revision, attempt, advertiser_id`,
    `INSERT INTO restatement SELECT hour, 2, 2, advertiser_id, ad_id, sumIf(clicks, attempt = 1),
      sumIf(clicks, attempt = 2), 'late_clicks', toDateTime64(hour, 3, 'UTC') + ${seconds(DAY_MS)}
      FROM final_hour WHERE hour IN (SELECT hour FROM bench_hour WHERE revision = 2)
      GROUP BY hour, advertiser_id, ad_id HAVING sumIf(clicks, attempt = 1) != sumIf(clicks, attempt = 2)`,
    `INSERT INTO finality SELECT ${state('1', '1', 'first')} FROM ${counted} AS c
      INNER JOIN bench_hour USING (hour, attempt) WHERE revision = 2`,
    `INSERT INTO finality SELECT 'day', day, 0, attempt, toDateTime64(day, 3, 'UTC'), '',
      0, 0, 0, 0, 0, 0, 0, '' FROM ${days}`,
    `INSERT INTO finality SELECT ${state('revision', 'attempt', 'first')} FROM ${counted} AS c
      INNER JOIN bench_hour USING (hour, attempt)`,
  ];
}
