/**
 * Shared state as rows of a table, a value of JSON for each key. Owns its table, not the connections.
 *
 * A change is a comparison and a replacement in one statement: it takes place only while the value is
 * the one that it was computed from, and is computed again otherwise. No lock is held meanwhile: a
 * process that is stopped in the midst of a change holds up nobody.
 */
import type { z } from 'zod';
import { LedgerError } from '../../platform/errors.ts';
import type { Postgres } from '../../platform/postgres.ts';
import type { SharedState } from '../port.ts';
import { checkedValue } from '../shared-value.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS shared_state (key text PRIMARY KEY, value jsonb NOT NULL)`;
/** Of any number of changes at once one comes through in every try. */
const MOST_TRIES = 1_000;

export async function openPgState(db: Postgres): Promise<SharedState> {
  await db.migrate(SCHEMA);
  return new PgState(db);
}

class PgState implements SharedState {
  readonly #db: Postgres;

  constructor(db: Postgres) {
    this.#db = db;
  }

  async get<T>(key: string, schema: z.ZodType<T>): Promise<T | undefined> {
    const text = await this.#read(key);
    return text === null ? undefined : checkedValue(key, schema, JSON.parse(text));
  }

  async set(key: string, value: unknown): Promise<void> {
    await this.#db.run(
      (sql) => sql`
        INSERT INTO shared_state (key, value) VALUES (${key}, ${JSON.stringify(value)}::text::jsonb)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
    );
  }

  async update<T>(
    key: string,
    schema: z.ZodType<T>,
    change: (old: T | undefined) => T,
  ): Promise<T> {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const text = await this.#read(key);
      const old = text === null ? undefined : checkedValue(key, schema, JSON.parse(text));
      const changed = change(old);
      if (await this.#replace(key, text, JSON.stringify(changed))) return changed;
    }
    throw new LedgerError('control_busy', `the shared value "${key}" changes all the time`, {
      kind: 'retry',
    });
  }

  /** As text, so that a value null is told apart from no value. */
  async #read(key: string): Promise<string | null> {
    const rows = await this.#db.run<{ value: string }[]>(
      (sql) => sql`SELECT value::text AS value FROM shared_state WHERE key = ${key}`,
    );
    return rows[0]?.value ?? null;
  }

  /** False when the value is not `old` any more. */
  async #replace(key: string, old: string | null, value: string): Promise<boolean> {
    const rows = await this.#db.run<unknown[]>((sql) =>
      old === null
        ? sql`
          INSERT INTO shared_state (key, value) VALUES (${key}, ${value}::text::jsonb)
          ON CONFLICT DO NOTHING RETURNING 1`
        : sql`
          UPDATE shared_state SET value = ${value}::text::jsonb
          WHERE key = ${key} AND value = ${old}::text::jsonb RETURNING 1`,
    );
    return rows.length > 0;
  }
}
