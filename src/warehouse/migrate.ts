/**
 * Brings the tables to this version's schema and to the configured TTLs; safe to repeat, and safe to
 * die in: every step leaves what it finds done as it is.
 */
import { assert, LedgerError } from '../platform/errors.ts';
import { type Layout, storedIn } from './sql/layout.ts';
import type { Row } from './sql/read.ts';
import {
  alterTtl,
  createTables,
  refillRollups,
  SCHEMA_VERSION,
  type TtlDays,
  ttlRules,
} from './sql/schema.ts';
import { Params, type Sql, toCount } from './sql/sql.ts';

export interface Engine {
  readonly command: (sql: Sql) => Promise<void>;
  readonly rows: (sql: Sql) => Promise<Row[]>;
  readonly layout: Layout;
}

export async function migrate(engine: Engine, ttl: TtlDays): Promise<void> {
  const { layout } = engine;
  await checkCluster(engine);
  // What is there is not asked for again: in a cluster that would wait for every node, and the ledger
  // could not start while one of them is away.
  for (const query of createTables(layout, await tablesOf(engine))) {
    await engine.command({ query, query_params: {} });
  }
  await raiseVersion(engine);
  for (const rule of ttlRules(ttl)) {
    const engineText = await engineFull(engine, storedIn(rule.table, layout));
    const alter = alterTtl(rule, engineText, layout);
    if (alter !== null) await engine.command({ query: alter, query_params: {} });
  }
}

/**
 * A cluster that writes to its replicas one by one, beside tables that replicate themselves, would
 * store every row twice.
 */
async function checkCluster(engine: Engine): Promise<void> {
  const { cluster } = engine.layout;
  if (cluster === '') return;
  const params = new Params();
  const rows = await engine.rows(
    params.sql(
      `SELECT count(), min(internal_replication) FROM system.clusters
        WHERE cluster = ${params.add('String', cluster)}`,
    ),
  );
  const [nodes, replicatesItself] = rows[0]!.map(Number);
  if (nodes === 0) {
    throw new LedgerError('warehouse_cluster', `The server knows no cluster "${cluster}".`, {
      hint: 'warehouse.clickhouse.cluster is a name below remote_servers of the servers; see docs/operating/clickhouse.md.',
    });
  }
  if (replicatesItself !== 1) {
    throw new LedgerError(
      'warehouse_cluster',
      `The cluster "${cluster}" has a shard without internal_replication: rows would be stored twice.`,
      { hint: 'Set internal_replication to true for every shard below remote_servers.' },
    );
  }
}

async function tablesOf(engine: Engine): Promise<Set<string>> {
  const rows = await engine.rows({
    query: 'SELECT name FROM system.tables WHERE database = currentDatabase()',
    query_params: {},
  });
  return new Set(rows.map((row) => String(row[0])));
}

async function raiseVersion(engine: Engine): Promise<void> {
  const rows = await engine.rows({
    query: 'SELECT max(version) FROM schema_version',
    query_params: {},
  });
  const stored = toCount(rows[0]![0]);
  if (stored > SCHEMA_VERSION) {
    throw new LedgerError(
      'warehouse_newer',
      `The warehouse has schema ${stored}, this version knows ${SCHEMA_VERSION}.`,
      { hint: 'Run the newer version, or rebuild the warehouse from the archive.' },
    );
  }
  if (stored === SCHEMA_VERSION) return;
  // 1. Dead within it: the version is still the old one, the next start empties and fills again.
  for (const tier of ['hour', 'day'] as const) {
    for (const query of refillRollups(tier, engine.layout))
      await engine.command({ query, query_params: {} });
  }
  // 2. Dead after it: done.
  const params = new Params();
  const version = params.add('UInt32', SCHEMA_VERSION);
  await engine.command(params.sql(`INSERT INTO schema_version SELECT ${version}`));
}

async function engineFull(engine: Engine, table: string): Promise<string> {
  const params = new Params();
  const rows = await engine.rows(
    params.sql(
      `SELECT engine_full FROM system.tables
        WHERE database = currentDatabase() AND name = ${params.add('String', table)}`,
    ),
  );
  assert(rows.length === 1, `the table ${table} exists after migration`);
  return String(rows[0]![0]);
}
