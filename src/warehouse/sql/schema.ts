/**
 * The tables. Partition and order are functions of a row's natural key only: two versions of one
 * row always meet in one partition, where `argMax(clicks, version)` sees both.
 */
import { assert } from '../../platform/errors.ts';
import {
  createTable,
  type Layout,
  ONE_SERVER,
  onAllShards,
  type TableDefinition,
  tableNames,
  truncateTable,
} from './layout.ts';

/**
 * A raised version needs a step in `migrate`; a newer one than this in the store is refused.
 * 2: `final_hour_rollup` and `final_day_rollup`, filled out of `final_hour` and `final_day`.
 */
export const SCHEMA_VERSION = 2;

/** In the order in which `reset` empties them: what makes rows visible goes first, what keeps
 *  attempt numbers unique goes last. */
export const TABLES = [
  'finality',
  'restatement',
  'drift',
  'final_day_rollup',
  'final_hour_rollup',
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

/**
 * What a roll-up keeps of a row's key beside the advertiser; its other columns are empty. Ordered from
 * few rows to many. Roll-ups are ordered by time, the tables they sum up by ad: a query over all ads
 * reads a part of the rows, and a page of it reads a part of the range.
 */
export const ROLLUPS = {
  place: ['country', 'device'],
  campaign: ['campaign_id'],
  ad: ['campaign_id', 'ad_id'],
} as const;

const rollupOrder = (time: string): string =>
  `(advertiser_id, summed_by, ${time}, ad_id, campaign_id, country, device)`;

/** Every count of a tier's row. */
export const COUNTS = {
  hour: ['q0', 'q1', 'q2', 'q3', 'clicks'],
  day: ['clicks'],
} as const;

/** Empties the roll-ups of a tier and fills them from its rows, whatever attempt these carry. */
export function refillRollups(tier: 'hour' | 'day', layout: Layout = ONE_SERVER): string[] {
  const counts = COUNTS[tier];
  const table = `final_${tier}_rollup` as const;
  return [
    truncateTable(table, layout),
    ...Object.entries(ROLLUPS).map(([rollup, kept]) => {
      const key = ['advertiser_id', ...kept, tier, 'attempt'].join(', ');
      // An insert is refused beyond 100 partitions otherwise; hour rows may be kept for ever.
      return `INSERT INTO ${table} (summed_by, ${key}, ${counts.join(', ')})
        SELECT '${rollup}', ${key}, ${counts.map((count) => `sum(${count})`).join(', ')}
        FROM final_${tier} GROUP BY ${key} SETTINGS max_partitions_per_insert_block = 0`;
    }),
  ];
}

/** The statements that make what is not there yet. */
export function createTables(layout: Layout, present: ReadonlySet<string>): string[] {
  return DEFINITIONS.flatMap((table) =>
    tableNames(table.name, layout).every((name) => present.has(name))
      ? []
      : createTable(table, layout),
  );
}

const HOUR_COLUMNS = `hour DateTime('UTC'), q0 UInt64, q1 UInt64, q2 UInt64, q3 UInt64,
      clicks UInt64, attempt UInt32`;
const DAY_COLUMNS = "day DateTime('UTC'), clicks UInt64, attempt UInt32";

const DEFINITIONS: readonly TableDefinition[] = [
  {
    name: 'live_minute',
    columns: `${KEY_COLUMNS},
      minute DateTime('UTC'), shard UInt32, clicks UInt64, version UInt64`,
    replacedBy: 'version',
    order: `PARTITION BY toYYYYMMDD(minute)
      ORDER BY (advertiser_id, ad_id, minute, country, device, campaign_id, shard)`,
    settings: [WHOLE_PARTS],
  },
  {
    name: 'final_minute',
    columns: `${KEY_COLUMNS},
      minute DateTime('UTC'), clicks UInt64, attempt UInt32`,
    order: `PARTITION BY toYYYYMMDD(minute) ORDER BY ${keyOrder('minute')}`,
    settings: [WHOLE_PARTS, DURABLE],
  },
  {
    name: 'final_hour',
    columns: `${KEY_COLUMNS},
      ${HOUR_COLUMNS}`,
    order: `PARTITION BY toYYYYMM(hour) ORDER BY ${keyOrder('hour')}`,
    settings: [WHOLE_PARTS, DURABLE],
  },
  {
    name: 'final_day',
    columns: `${KEY_COLUMNS},
      ${DAY_COLUMNS}`,
    order: `PARTITION BY toYear(day) ORDER BY ${keyOrder('day')}`,
    settings: [DURABLE],
  },
  {
    name: 'final_hour_rollup',
    columns: `summed_by LowCardinality(String), ${KEY_COLUMNS},
      ${HOUR_COLUMNS}`,
    order: `PARTITION BY toYYYYMM(hour) ORDER BY ${rollupOrder('hour')}`,
    settings: [WHOLE_PARTS, DURABLE],
  },
  {
    name: 'final_day_rollup',
    columns: `summed_by LowCardinality(String), ${KEY_COLUMNS},
      ${DAY_COLUMNS}`,
    order: `PARTITION BY toYear(day) ORDER BY ${rollupOrder('day')}`,
    settings: [DURABLE],
  },
  // Hours and days share this one table without partitions, so that W4's one block is one part.
  {
    name: 'finality',
    columns: `kind LowCardinality(String), start DateTime('UTC'),
      revision UInt32, attempt UInt32, final_at DateTime64(3, 'UTC'), cause LowCardinality(String),
      records UInt64, counted UInt64, duplicate UInt64, not_billable UInt64, invalid UInt64,
      live_clicks UInt64, drift_max Float64, input_digest String`,
    order: 'ORDER BY (kind, start, revision, attempt)',
    settings: [DURABLE],
  },
  {
    name: 'attempts',
    columns: "tier LowCardinality(String), start DateTime('UTC'), attempt UInt32",
    order: 'ORDER BY (tier, start, attempt)',
    settings: [DURABLE],
  },
  {
    name: 'drift',
    columns: `hour DateTime('UTC'), revision UInt32, attempt UInt32,
      advertiser_id String, live UInt64, final UInt64`,
    order: `PARTITION BY toYYYYMM(hour)
      ORDER BY (hour, revision, attempt, advertiser_id)`,
    settings: [WHOLE_PARTS, DURABLE],
  },
  {
    name: 'restatement',
    columns: `hour DateTime('UTC'), revision UInt32, attempt UInt32,
      advertiser_id String, ad_id String, before UInt64, after UInt64,
      cause LowCardinality(String), at DateTime64(3, 'UTC')`,
    order: 'ORDER BY (hour, revision, attempt, advertiser_id, ad_id)',
    settings: [DURABLE],
  },
  {
    name: 'schema_version',
    columns: 'version UInt32',
    order: 'ORDER BY version',
    settings: [DURABLE],
  },
];

/** The tables that expire, each with the column that decides and the days it is kept. */
export function ttlRules(ttl: TtlDays): { table: TableName; column: string; days: number }[] {
  return [
    { table: 'live_minute', column: 'minute', days: ttl.minuteTtlDays },
    { table: 'final_minute', column: 'minute', days: ttl.minuteTtlDays },
    { table: 'final_hour', column: 'hour', days: ttl.hourTtlDays },
    { table: 'final_hour_rollup', column: 'hour', days: ttl.hourTtlDays },
    { table: 'drift', column: 'hour', days: ttl.hourTtlDays },
  ];
}

/** The statement that gives a table its TTL, or null when `engineFull` says that it has it. */
export function alterTtl(
  rule: { table: TableName; column: string; days: number },
  engineFull: string,
  layout: Layout = ONE_SERVER,
): string | null {
  assert(Number.isSafeInteger(rule.days) && rule.days >= 0, 'a TTL is a whole number of days');
  const present = /\bTTL \w+ \+ toIntervalDay\((\d+)\)/.exec(engineFull)?.[1] ?? '0';
  if (Number(present) === rule.days) return null;
  return rule.days === 0
    ? `ALTER TABLE ${onAllShards(rule.table, layout)} REMOVE TTL`
    : `ALTER TABLE ${onAllShards(rule.table, layout)} MODIFY TTL ${rule.column} + toIntervalDay(${rule.days})`;
}
