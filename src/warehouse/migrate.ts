/**
 * Brings the tables to this version's schema and to the configured TTLs; safe to repeat, and safe to
 * die in: every step leaves what it finds done as it is.
 */
import { assert, LedgerError } from '../platform/errors.ts';
import type { Row } from './sql/read.ts';
import { alterTtl, createTables, SCHEMA_VERSION, type TtlDays, ttlRules } from './sql/schema.ts';
import { Params, type Sql, toCount } from './sql/sql.ts';

export interface Engine {
  readonly command: (sql: Sql) => Promise<void>;
  readonly rows: (sql: Sql) => Promise<Row[]>;
}

export async function migrate(engine: Engine, ttl: TtlDays): Promise<void> {
  for (const query of createTables()) await engine.command({ query, query_params: {} });
  await checkVersion(engine);
  for (const rule of ttlRules(ttl)) {
    const alter = alterTtl(rule, await engineFull(engine, rule.table));
    if (alter !== null) await engine.command({ query: alter, query_params: {} });
  }
}

async function checkVersion(engine: Engine): Promise<void> {
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
