/**
 * The Parquet columns of the archive: what they are called, their types, and where their values
 * come from. The names are read by SQL years later, so they change only by addition.
 */
import type { SchemaElement } from 'hyparquet-writer';
import type { DeadLetterReason } from '../event/click-event.ts';
import type { ArchivedClick } from './port.ts';

/** A record that cannot be counted, with everything needed to look into it and to redrive it. */
export interface DeadRecord {
  readonly partition: number;
  readonly offset: number;
  readonly appendedAtMs: number;
  readonly reason: DeadLetterReason;
  readonly bytes: Uint8Array;
}

/** A `date` is its number of days since 1970-01-01. */
export type ColumnType = 'string' | 'bytes' | 'int32' | 'int64' | 'timestamp' | 'date';
export type ColumnValue = string | number | bigint | Uint8Array;

export interface Column<Row> {
  readonly name: string;
  readonly type: ColumnType;
  readonly take: (row: Row) => ColumnValue;
}

export const CLICK_COLUMNS: readonly Column<ArchivedClick>[] = [
  { name: 'impression_id', type: 'string', take: (row) => row.impressionId },
  { name: 'ad_id', type: 'string', take: (row) => row.adId },
  { name: 'advertiser_id', type: 'string', take: (row) => row.advertiserId },
  { name: 'campaign_id', type: 'string', take: (row) => row.campaignId },
  { name: 'clicked_at', type: 'timestamp', take: (row) => row.clickedAtMs },
  { name: 'country', type: 'string', take: (row) => row.country },
  { name: 'device', type: 'string', take: (row) => row.device },
  { name: 'class', type: 'string', take: (row) => row.class },
  { name: 'source', type: 'string', take: (row) => row.source },
  { name: 'geo_version', type: 'int64', take: (row) => BigInt(row.geoVersion) },
  { name: 'ip', type: 'string', take: (row) => row.ip },
  { name: 'user_agent', type: 'string', take: (row) => row.userAgent },
  { name: 'referer', type: 'string', take: (row) => row.referer },
  { name: 'partition', type: 'int32', take: (row) => row.partition },
  { name: 'offset', type: 'int64', take: (row) => BigInt(row.offset) },
  { name: 'appended_at', type: 'timestamp', take: (row) => row.appendedAtMs },
];

export const DEAD_COLUMNS: readonly Column<DeadRecord>[] = [
  { name: 'partition', type: 'int32', take: (row) => row.partition },
  { name: 'offset', type: 'int64', take: (row) => BigInt(row.offset) },
  { name: 'appended_at', type: 'timestamp', take: (row) => row.appendedAtMs },
  { name: 'reason', type: 'string', take: (row) => row.reason },
  { name: 'bytes', type: 'bytes', take: (row) => row.bytes },
];

/** The click columns as they are read back; times in ms UTC. */
export interface ClickColumns {
  impression_id: ArrayLike<string>;
  ad_id: ArrayLike<string>;
  advertiser_id: ArrayLike<string>;
  campaign_id: ArrayLike<string>;
  clicked_at: ArrayLike<number>;
  country: ArrayLike<string>;
  device: ArrayLike<string>;
  class: ArrayLike<string>;
  source: ArrayLike<string>;
  geo_version: ArrayLike<number>;
  ip: ArrayLike<string>;
  user_agent: ArrayLike<string>;
  referer: ArrayLike<string>;
  partition: ArrayLike<number>;
  offset: ArrayLike<number>;
  appended_at: ArrayLike<number>;
}

export interface DeadColumns {
  partition: ArrayLike<number>;
  offset: ArrayLike<number>;
  appended_at: ArrayLike<number>;
  reason: ArrayLike<string>;
  bytes: ArrayLike<Uint8Array>;
}

const PHYSICAL: Record<ColumnType, Pick<SchemaElement, 'type' | 'converted_type'>> = {
  string: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  bytes: { type: 'BYTE_ARRAY' },
  int32: { type: 'INT32' },
  int64: { type: 'INT64' },
  timestamp: { type: 'INT64', converted_type: 'TIMESTAMP_MILLIS' },
  date: { type: 'INT32', converted_type: 'DATE' },
};

/** Nothing is nullable: an empty text is an empty text. ClickHouse reads times as DateTime64(3, 'UTC'). */
export function schemaOf(columns: readonly { name: string; type: ColumnType }[]): SchemaElement[] {
  const elements = columns.map(({ name, type }): SchemaElement => {
    return { name, repetition_type: 'REQUIRED', ...PHYSICAL[type] };
  });
  return [{ name: 'root', num_children: elements.length }, ...elements];
}
