/**
 * Where the tables stand: on one server, on replicas, or spread over the shards of a cluster. Owns
 * the text of `CREATE`, `TRUNCATE` and of whatever else must be said otherwise there; every read and
 * every insert is the same text in all layouts.
 *
 * L1 Reads and inserts name the tables of `TABLES`. In a cluster a sharded one of them is `Distributed`
 *    and its rows lie in `<name>_local`.
 * L2 The shard is a function of a row's natural key: all versions of one live row meet in one shard,
 *    and there in one partition, so that `argMax` and merges see them all.
 * L3 What makes rows visible (`finality`) and what keeps attempts apart (`attempts`) is not sharded:
 *    one table, whose replicas are all nodes. One insert of one block is one part of that table, and a
 *    part is replicated whole or not at all; that is how W4 holds.
 * L4 Replicas do not drop inserts that look like an earlier one: after `reset` the same attempt number
 *    is stored again, and must not be taken for a repetition of the one that was removed.
 */
import { assert } from '../../platform/errors.ts';
import type { TableName } from './schema.ts';

export interface Layout {
  /** The database of the tables; part of the replicas' paths. Not used on one server. */
  readonly database: string;
  /** Name of the cluster, as the servers' configuration has it; empty: no cluster. */
  readonly cluster: string;
  readonly replicated: boolean;
}

/** All tables on the one server that is asked: chDB, or a ClickHouse server without replicas. */
export const ONE_SERVER: Layout = { database: '', cluster: '', replicated: false };

export interface TableDefinition {
  readonly name: TableName | 'schema_version';
  readonly columns: string;
  /** The column whose highest value wins when rows of one key are merged. */
  readonly replacedBy?: string;
  /** `PARTITION BY` and `ORDER BY`. */
  readonly order: string;
  readonly settings: readonly string[];
}

const SHARDED: ReadonlySet<string> = new Set<TableName>([
  'live_minute',
  'final_minute',
  'final_hour',
  'final_day',
  'final_hour_rollup',
  'final_day_rollup',
]);
/** Both columns are there in every sharded table; in a roll-up that sums over ads, `ad_id` is empty. */
const SHARDING_KEY = 'cityHash64(advertiser_id, ad_id)';

/** The table that holds the rows, which is not always the one that is read. */
export function storedIn(table: TableDefinition['name'], layout: Layout): string {
  return isSpread(table, layout) ? `${table}_local` : table;
}

/** Every table that `createTable` makes for this one. */
export function tableNames(table: TableDefinition['name'], layout: Layout): string[] {
  return [...new Set([storedIn(table, layout), table])];
}

export function createTable(table: TableDefinition, layout: Layout): string[] {
  assert(layout.cluster === '' || layout.replicated, 'a cluster is made of replicated tables');
  const { name, columns, order } = table;
  const settings = [...table.settings];
  if (layout.replicated) settings.push('replicated_deduplication_window = 0'); // L4
  const everywhere = layout.cluster === '' ? '' : ` ON CLUSTER '${layout.cluster}'`;
  const stored = `CREATE TABLE IF NOT EXISTS ${storedIn(name, layout)}${everywhere} (${columns})
      ENGINE = ${engineOf(table, layout)} ${order}
      SETTINGS ${settings.join(', ')}`;
  if (!isSpread(name, layout)) return [stored];
  const { cluster, database } = layout;
  const spread = `Distributed('${cluster}', '${database}', '${name}_local', ${SHARDING_KEY})`;
  return [
    stored,
    `CREATE TABLE IF NOT EXISTS ${name}${everywhere} AS ${name}_local
      ENGINE = ${spread}`,
  ];
}

/** Sharded tables are emptied on every shard; the others carry it to their replicas themselves. */
export function truncateTable(table: TableName, layout: Layout): string {
  return `TRUNCATE TABLE ${onAllShards(table, layout)} SETTINGS max_table_size_to_drop = 0`;
}

/** What `ALTER TABLE` and `TRUNCATE TABLE` are followed by. */
export function onAllShards(table: TableName, layout: Layout): string {
  const stored = storedIn(table, layout);
  return isSpread(table, layout) ? `${stored} ON CLUSTER '${layout.cluster}'` : stored;
}

function isSpread(table: TableDefinition['name'], layout: Layout): boolean {
  return layout.cluster !== '' && SHARDED.has(table);
}

function engineOf({ name, replacedBy }: TableDefinition, layout: Layout): string {
  const kind = replacedBy === undefined ? 'MergeTree' : 'ReplacingMergeTree';
  const version = replacedBy === undefined ? [] : [replacedBy];
  if (!layout.replicated) return version.length === 0 ? kind : `${kind}(${version[0]})`;
  const args = [...replicaOf(name, layout), ...version];
  return `Replicated${kind}(${args.join(', ')})`;
}

/** Path in Keeper and name of the replica; the servers fill the macros in. */
function replicaOf(name: TableDefinition['name'], layout: Layout): string[] {
  const { database } = layout;
  if (layout.cluster === '' || SHARDED.has(name)) {
    return [`'/clickhouse/tables/{shard}/${database}/${storedIn(name, layout)}'`, `'{replica}'`];
  }
  // L3: replicas of different shards may have the same name.
  return [`'/clickhouse/tables/all/${database}/${name}'`, `'{shard}-{replica}'`];
}
