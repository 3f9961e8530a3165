/**
 * The tables. Partition and order are functions of a row's natural key only: two versions of one
 * row always meet in one partition, where `argMax(clicks, version)` sees both.
 */
import { assert } from '../../platform/errors.ts';

/** A raised version needs a step in `migrate`; a newer one than this in the store is refused. */
export const SCHEMA_VERSION = 1;

/** In the order in which `reset` empties them: what makes rows visible goes first, what keeps
 *  attempt numbers unique goes last. */
export const TABLES = [
  'finality',
  'restatement',
  'drift',
  'final_day',
  'final_hour',
  'final_minute',
  'live_minute',
  'attempts',
] as const;
export type TableName = (typeof TABLES)[number];

export interface TtlDays {
  /** Minute rows, live and final, are kept this many days; 0 for ever. */
  readonly minuteTtlDays: number;
  /** Hour rows and drift are kept this many days; 0 for ever. */
  readonly hourTtlDays: number;
}

/** An acknowledged insert survives a power cut, and so does the part it is later merged into. */
const DURABLE =
  'fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1';
const WHOLE_PARTS = 'ttl_only_drop_parts = 1';

const KEY_COLUMNS = `advertiser_id String, campaign_id String, ad_id String,
  country LowCardinality(String), device LowCardinality(String)`;
const keyOrder = (time: string): string =>
  `(advertiser_id, ad_id, ${time}, country, device, campaign_id)`;

export function createTables(): string[] {
  return [
    `CREATE TABLE IF NOT EXISTS live_minute (${KEY_COLUMNS},
      minute DateTime('UTC'), shard UInt32, clicks UInt64, version UInt64)
      ENGINE = ReplacingMergeTree(version) PARTITION BY toYYYYMMDD(minute)
      ORDER BY (advertiser_id, ad_id, minute, country, device, campaign_id, shard)
      SETTINGS ${WHOLE_PARTS}`,
    `CREATE TABLE IF NOT EXISTS final_minute (${KEY_COLUMNS},
      minute DateTime('UTC'), clicks UInt64, attempt UInt32)
      ENGINE = MergeTree PARTITION BY toYYYYMMDD(minute) ORDER BY ${keyOrder('minute')}
      SETTINGS ${WHOLE_PARTS}, ${DURABLE}`,
    `CREATE TABLE IF NOT EXISTS final_hour (${KEY_COLUMNS},
      hour DateTime('UTC'), q0 UInt64, q1 UInt64, q2 UInt64, q3 UInt64, clicks UInt64, attempt UInt32)
      ENGINE = MergeTree PARTITION BY toYYYYMM(hour) ORDER BY ${keyOrder('hour')}
      SETTINGS ${WHOLE_PARTS}, ${DURABLE}`,
    `CREATE TABLE IF NOT EXISTS final_day (${KEY_COLUMNS},
      day DateTime('UTC'), clicks UInt64, attempt UInt32)
      ENGINE = MergeTree PARTITION BY toYear(day) ORDER BY ${keyOrder('day')}
      SETTINGS ${DURABLE}`,
    // Hours and days share this one table without partitions, so that W4's one block is one part.
    `CREATE TABLE IF NOT EXISTS finality (kind LowCardinality(String), start DateTime('UTC'),
      revision UInt32, attempt UInt32, final_at DateTime64(3, 'UTC'), cause LowCardinality(String),
      records UInt64, counted UInt64, duplicate UInt64, not_billable UInt64, invalid UInt64,
      live_clicks UInt64, drift_max Float64, input_digest String)
      ENGINE = MergeTree ORDER BY (kind, start, revision, attempt) SETTINGS ${DURABLE}`,
    `CREATE TABLE IF NOT EXISTS attempts (tier LowCardinality(String), start DateTime('UTC'),
      attempt UInt32)
      ENGINE = MergeTree ORDER BY (tier, start, attempt) SETTINGS ${DURABLE}`,
    `CREATE TABLE IF NOT EXISTS drift (hour DateTime('UTC'), revision UInt32, attempt UInt32,
      advertiser_id String, live UInt64, final UInt64)
      ENGINE = MergeTree PARTITION BY toYYYYMM(hour)
      ORDER BY (hour, revision, attempt, advertiser_id) SETTINGS ${WHOLE_PARTS}, ${DURABLE}`,
    `CREATE TABLE IF NOT EXISTS restatement (hour DateTime('UTC'), revision UInt32, attempt UInt32,
      advertiser_id String, ad_id String, before UInt64, after UInt64,
      cause LowCardinality(String), at DateTime64(3, 'UTC'))
      ENGINE = MergeTree ORDER BY (hour, revision, attempt, advertiser_id, ad_id)
      SETTINGS ${DURABLE}`,
    `CREATE TABLE IF NOT EXISTS schema_version (version UInt32)
      ENGINE = MergeTree ORDER BY version SETTINGS ${DURABLE}`,
  ];
}

/** The tables that expire, each with the column that decides and the days it is kept. */
export function ttlRules(ttl: TtlDays): { table: TableName; column: string; days: number }[] {
  return [
    { table: 'live_minute', column: 'minute', days: ttl.minuteTtlDays },
    { table: 'final_minute', column: 'minute', days: ttl.minuteTtlDays },
    { table: 'final_hour', column: 'hour', days: ttl.hourTtlDays },
    { table: 'drift', column: 'hour', days: ttl.hourTtlDays },
  ];
}

/** The statement that gives a table its TTL, or null when `engineFull` says that it has it. */
export function alterTtl(
  rule: { table: TableName; column: string; days: number },
  engineFull: string,
): string | null {
  assert(Number.isSafeInteger(rule.days) && rule.days >= 0, 'a TTL is a whole number of days');
  const present = /\bTTL \w+ \+ toIntervalDay\((\d+)\)/.exec(engineFull)?.[1] ?? '0';
  if (Number(present) === rule.days) return null;
  return rule.days === 0
    ? `ALTER TABLE ${rule.table} REMOVE TTL`
    : `ALTER TABLE ${rule.table} MODIFY TTL ${rule.column} + toIntervalDay(${rule.days})`;
}
