CREATE TABLE IF NOT EXISTS live_minute (advertiser_id String, campaign_id String, ad_id String,
  country LowCardinality(String), device LowCardinality(String),
  minute DateTime('UTC'), shard UInt32, clicks UInt64, version UInt64)
  ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/clickledger/live_minute', '{replica}', version) PARTITION BY toYYYYMMDD(minute)
  ORDER BY (advertiser_id, ad_id, minute, country, device, campaign_id, shard)
  SETTINGS ttl_only_drop_parts = 1, replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS final_minute (advertiser_id String, campaign_id String, ad_id String,
  country LowCardinality(String), device LowCardinality(String),
  minute DateTime('UTC'), clicks UInt64, attempt UInt32)
  ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/clickledger/final_minute', '{replica}') PARTITION BY toYYYYMMDD(minute) ORDER BY (advertiser_id, ad_id, minute, country, device, campaign_id)
  SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS final_hour (advertiser_id String, campaign_id String, ad_id String,
  country LowCardinality(String), device LowCardinality(String),
  hour DateTime('UTC'), q0 UInt64, q1 UInt64, q2 UInt64, q3 UInt64,
  clicks UInt64, attempt UInt32)
  ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/clickledger/final_hour', '{replica}') PARTITION BY toYYYYMM(hour) ORDER BY (advertiser_id, ad_id, hour, country, device, campaign_id)
  SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS final_day (advertiser_id String, campaign_id String, ad_id String,
  country LowCardinality(String), device LowCardinality(String),
  day DateTime('UTC'), clicks UInt64, attempt UInt32)
  ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/clickledger/final_day', '{replica}') PARTITION BY toYear(day) ORDER BY (advertiser_id, ad_id, day, country, device, campaign_id)
  SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS final_hour_rollup (summed_by LowCardinality(String), advertiser_id String, campaign_id String, ad_id String,
  country LowCardinality(String), device LowCardinality(String),
  hour DateTime('UTC'), q0 UInt64, q1 UInt64, q2 UInt64, q3 UInt64,
  clicks UInt64, attempt UInt32)
  ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/clickledger/final_hour_rollup', '{replica}') PARTITION BY toYYYYMM(hour) ORDER BY (advertiser_id, summed_by, hour, ad_id, campaign_id, country, device)
  SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS final_day_rollup (summed_by LowCardinality(String), advertiser_id String, campaign_id String, ad_id String,
  country LowCardinality(String), device LowCardinality(String),
  day DateTime('UTC'), clicks UInt64, attempt UInt32)
  ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/clickledger/final_day_rollup', '{replica}') PARTITION BY toYear(day) ORDER BY (advertiser_id, summed_by, day, ad_id, campaign_id, country, device)
  SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS finality (kind LowCardinality(String), start DateTime('UTC'),
  revision UInt32, attempt UInt32, final_at DateTime64(3, 'UTC'), cause LowCardinality(String),
  records UInt64, counted UInt64, duplicate UInt64, not_billable UInt64, invalid UInt64,
  live_clicks UInt64, drift_max Float64, input_digest String)
  ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/clickledger/finality', '{replica}') ORDER BY (kind, start, revision, attempt)
  SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS attempts (tier LowCardinality(String), start DateTime('UTC'), attempt UInt32)
  ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/clickledger/attempts', '{replica}') ORDER BY (tier, start, attempt)
  SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS drift (hour DateTime('UTC'), revision UInt32, attempt UInt32,
  advertiser_id String, live UInt64, final UInt64)
  ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/clickledger/drift', '{replica}') PARTITION BY toYYYYMM(hour)
  ORDER BY (hour, revision, attempt, advertiser_id)
  SETTINGS ttl_only_drop_parts = 1, fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS restatement (hour DateTime('UTC'), revision UInt32, attempt UInt32,
  advertiser_id String, ad_id String, before UInt64, after UInt64,
  cause LowCardinality(String), at DateTime64(3, 'UTC'))
  ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/clickledger/restatement', '{replica}') ORDER BY (hour, revision, attempt, advertiser_id, ad_id)
  SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, replicated_deduplication_window = 0;

CREATE TABLE IF NOT EXISTS schema_version (version UInt32)
  ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/clickledger/schema_version', '{replica}') ORDER BY version
  SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, min_rows_to_fsync_after_merge = 1, replicated_deduplication_window = 0;

ALTER TABLE live_minute MODIFY TTL minute + toIntervalDay(90);

ALTER TABLE final_minute MODIFY TTL minute + toIntervalDay(90);

ALTER TABLE final_hour MODIFY TTL hour + toIntervalDay(1098);

ALTER TABLE final_hour_rollup MODIFY TTL hour + toIntervalDay(1098);

ALTER TABLE drift MODIFY TTL hour + toIntervalDay(1098);
