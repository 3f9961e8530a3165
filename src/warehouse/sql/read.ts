/** Statements that read whole hours and states, and how their rows become the port's objects. */
import { DEVICES } from '../../event/click-event.ts';
import { assert } from '../../platform/errors.ts';
import { HOUR_MS } from '../buckets.ts';
import type {
  DayState,
  DriftRow,
  FinalRow,
  HourState,
  Restatement,
  RollupDifference,
} from '../port.ts';
import type { Visibility } from '../published.ts';
import { COUNTS, ROLLUPS } from './schema.ts';
import { Params, type Sql, toCount } from './sql.ts';
import { HOUR_OF_MINUTE, visibleSql } from './visible.ts';

export type Row = readonly unknown[];

/** Minute rows are read in the order of the tables' key. */
const MINUTE_COLUMNS =
  'advertiser_id, ad_id, toUnixTimestamp(minute), country, device, campaign_id, sum(n)';
const MINUTE_ORDER = 'advertiser_id, ad_id, minute, country, device, campaign_id';

export function finalRowsSql(hourMs: number, visibility: Visibility): Sql {
  const params = new Params();
  const visible = visibleSql(params, HOUR_OF_MINUTE, visibility);
  return params.sql(
    `SELECT ${MINUTE_COLUMNS} FROM (SELECT *, clicks AS n FROM final_minute
      WHERE ${params.between('minute', hourMs, hourMs + HOUR_MS)} AND ${visible})
      GROUP BY ${MINUTE_ORDER} ORDER BY ${MINUTE_ORDER}`,
  );
}

/** The rows of one unit of a coarser tier, in the columns and order of minute rows. */
export function tierRowsSql(tier: 'hour' | 'day', startMs: number, visibility: Visibility): Sql {
  const params = new Params();
  const visible = visibleSql(params, `toUnixTimestamp(${tier})`, visibility);
  return params.sql(
    `SELECT ${MINUTE_COLUMNS} FROM (SELECT *, ${tier} AS minute, clicks AS n FROM final_${tier}
      WHERE ${tier} = ${params.time(startMs)} AND ${visible})
      GROUP BY ${MINUTE_ORDER} ORDER BY ${MINUTE_ORDER}`,
  );
}

const KEY = ['advertiser_id', 'campaign_id', 'ad_id', 'country', 'device'] as const;

/** Where the roll-ups of one hour or day are not the sums of its rows, in any of their counts. */
export function rollupDifferencesSql(
  tier: 'hour' | 'day',
  startMs: number,
  visibility: Visibility,
): Sql {
  const params = new Params();
  const columns = ['summed_by', ...KEY, ...COUNTS[tier], 'sign'].join(', ');
  const inForce = `${tier} = ${params.time(startMs)}
    AND ${visibleSql(params, `toUnixTimestamp(${tier})`, visibility)}`;
  const sums = Object.entries(ROLLUPS).map(([rollup, kept]) => {
    const has: readonly string[] = ['advertiser_id', ...kept];
    const key = KEY.map((column) => (has.includes(column) ? column : `'' AS ${column}`));
    const cells = [`'${rollup}' AS summed_by`, ...key, ...COUNTS[tier], '1 AS sign'];
    return `SELECT ${cells.join(', ')} FROM final_${tier} WHERE ${inForce}`;
  });
  const rolled = `SELECT ${columns.replace('sign', '-1 AS sign')} FROM final_${tier}_rollup WHERE ${inForce}`;
  const differs = COUNTS[tier].map((count) => `sum(sign * toInt64(${count})) != 0`);
  return params.sql(
    `SELECT ${KEY.join(', ')}, sumIf(clicks, sign = 1), sumIf(clicks, sign = -1)
      FROM (${[...sums, rolled].join(' UNION ALL ')})
      GROUP BY summed_by, ${KEY.join(', ')} HAVING ${differs.join(' OR ')}`,
  );
}

export function toRollupDifference(row: Row): RollupDifference {
  return {
    advertiserId: String(row[0]),
    campaignId: String(row[1]),
    adId: String(row[2]),
    country: String(row[3]),
    device: String(row[4]),
    rows: toCount(row[5]),
    rollup: toCount(row[6]),
  };
}

/** W2: the highest version per full key, then the sum over shards. */
export function liveRowsSql(fromMs: number, toMs: number): Sql {
  const params = new Params();
  return params.sql(
    `SELECT ${MINUTE_COLUMNS} FROM (${latestLive(params, fromMs, toMs)})
      GROUP BY ${MINUTE_ORDER} ORDER BY ${MINUTE_ORDER}`,
  );
}

export function liveTotalsSql(hourMs: number): Sql {
  const params = new Params();
  return params.sql(
    `SELECT advertiser_id, sum(n) FROM (${latestLive(params, hourMs, hourMs + HOUR_MS)})
      GROUP BY advertiser_id`,
  );
}

function latestLive(params: Params, fromMs: number, toMs: number): string {
  return `SELECT ${MINUTE_ORDER}, shard, argMax(clicks, version) AS n FROM live_minute
    WHERE ${params.between('minute', fromMs, toMs)} GROUP BY ${MINUTE_ORDER}, shard`;
}

export function maxLiveVersionSql(shard: number | undefined): Sql {
  const params = new Params();
  const where = shard === undefined ? '' : ` WHERE shard = ${params.add('UInt32', shard)}`;
  return params.sql(`SELECT max(version) FROM live_minute${where}`);
}

export function toMinuteRow(row: Row): FinalRow {
  const device = DEVICES.find((known) => known === row[4]);
  assert(device !== undefined, 'a minute row has a known device');
  return {
    advertiserId: String(row[0]),
    adId: String(row[1]),
    minuteMs: Number(row[2]) * 1000,
    country: String(row[3]),
    device,
    campaignId: String(row[5]),
    clicks: toCount(row[6]),
  };
}

export function maxAttemptSql(tier: 'hour' | 'day', startMs: number): Sql {
  const params = new Params();
  return params.sql(
    `SELECT max(attempt) FROM attempts
      WHERE tier = ${params.add('String', tier)} AND start = ${params.time(startMs)}`,
  );
}

/** Another value whenever a row has come, or all of them have gone. */
export function finalityMarkSql(): Sql {
  return new Params().sql(
    'SELECT count(), groupBitXor(cityHash64(kind, start, revision, attempt)) FROM finality',
  );
}

/** The state in force of every hour and day: highest revision, then highest attempt. */
export function finalitySql(): Sql {
  return new Params().sql(
    `SELECT kind, toUnixTimestamp(start), revision, attempt, toUnixTimestamp64Milli(final_at), cause,
      records, counted, duplicate, not_billable, invalid, live_clicks, drift_max, input_digest
      FROM finality ORDER BY kind, start, revision DESC, attempt DESC LIMIT 1 BY kind, start`,
  );
}

export function toStates(rows: readonly Row[]): { hours: HourState[]; days: DayState[] } {
  const hours = rows.filter((row) => row[0] === 'hour').map(toHourState);
  const days = rows
    .filter((row) => row[0] === 'day')
    .map((row) => ({ dayMs: Number(row[1]) * 1000, attempt: Number(row[3]) }));
  return { hours, days };
}

function toHourState(row: Row): HourState {
  return {
    hourMs: Number(row[1]) * 1000,
    revision: Number(row[2]),
    attempt: Number(row[3]),
    finalAtMs: Number(row[4]),
    cause: String(row[5]),
    records: toCount(row[6]),
    counted: toCount(row[7]),
    duplicate: toCount(row[8]),
    notBillable: toCount(row[9]),
    invalid: toCount(row[10]),
    liveClicks: toCount(row[11]),
    driftMax: Number(row[12]),
    inputDigest: String(row[13]),
  };
}

export function restatementsSql(
  fromMs: number,
  toMs: number,
  advertiserId: string | undefined,
): Sql {
  const params = new Params();
  return params.sql(
    `SELECT toUnixTimestamp(hour), revision, advertiser_id, ad_id, before, after, cause,
      toUnixTimestamp64Milli(at) FROM restatement
      WHERE ${publishedIn(params, { fromMs, toMs }, advertiserId)}
      ORDER BY hour, revision, advertiser_id, ad_id, attempt DESC
      LIMIT 1 BY hour, revision, advertiser_id, ad_id`,
  );
}

export function toRestatement(row: Row): Restatement {
  return {
    hourMs: Number(row[0]) * 1000,
    revision: Number(row[1]),
    advertiserId: String(row[2]),
    adId: String(row[3]),
    before: toCount(row[4]),
    after: toCount(row[5]),
    cause: String(row[6]),
    atMs: Number(row[7]),
  };
}

export function driftSql(fromMs: number, toMs: number, advertiserId: string | undefined): Sql {
  const params = new Params();
  return params.sql(
    `SELECT toUnixTimestamp(hour), revision, advertiser_id, live, final FROM drift
      WHERE ${publishedIn(params, { fromMs, toMs }, advertiserId)}
      ORDER BY hour, revision, advertiser_id, attempt DESC
      LIMIT 1 BY hour, revision, advertiser_id`,
  );
}

export function toDriftRow(row: Row): DriftRow {
  return {
    hourMs: Number(row[0]) * 1000,
    revision: Number(row[1]),
    advertiserId: String(row[2]),
    live: toCount(row[3]),
    final: toCount(row[4]),
  };
}

/**
 * Rows of a publication count once it is published. Every publication of a revision, not only its
 * last: one that publishes it again, after a crash or with `reconcile --hour`, brings no rows along.
 * Where two brought rows along (the first was stored, but its answer was lost), the later one counts.
 */
function publishedIn(
  params: Params,
  range: { fromMs: number; toMs: number },
  advertiserId: string | undefined,
): string {
  const published = `SELECT start, revision, attempt FROM finality
    WHERE kind = 'hour' AND ${params.between('start', range.fromMs, range.toMs)}`;
  const owner =
    advertiserId === undefined ? '' : ` AND advertiser_id = ${params.add('String', advertiserId)}`;
  return `${params.between('hour', range.fromMs, range.toMs)}${owner}
    AND (hour, revision, attempt) IN (${published})`;
}
