/** API tokens as a table of the control file. */
import { type Database, SQLiteError } from 'bun:sqlite';
import type { Clock } from '../../platform/clock.ts';
import { openSqlite } from '../../platform/sqlite.ts';
import { type TokenRow, type TokenRows, type TokenStore, tokenStore } from '../tokens.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY,
    hash BLOB NOT NULL,
    name TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('read', 'admin')),
    advertiser_id TEXT CHECK ((scope = 'read') = (advertiser_id IS NOT NULL)),
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    revoked_at_ms INTEGER,
    last_used_at_ms INTEGER
  ) STRICT, WITHOUT ROWID`;

const COLUMNS = `id, hash, name, scope, advertiser_id AS advertiserId,
  created_at_ms AS createdAtMs, expires_at_ms AS expiresAtMs, revoked_at_ms AS revokedAtMs,
  last_used_at_ms AS lastUsedAtMs`;

export function openTokenStore(options: { path: string; clock: Clock }): TokenStore {
  return tokenStore(openTokenRows(options.path), options.clock);
}

export function openTokenRows(path: string): TokenRows {
  const db = openSqlite({
    path,
    schema: SCHEMA,
    what: 'the API tokens',
    code: 'tokens_unreadable',
    hint: 'Restore the file from a backup; or move it away and create new tokens.',
  });
  return new SqliteTokenRows(db);
}

class SqliteTokenRows implements TokenRows {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async add(row: TokenRow): Promise<boolean> {
    const { id, hash, name, scope, advertiserId, createdAtMs } = row;
    const times = [createdAtMs, row.expiresAtMs, row.revokedAtMs, row.lastUsedAtMs];
    const { changes } = this.#db
      .query(
        `INSERT INTO tokens (id, hash, name, scope, advertiser_id, created_at_ms, expires_at_ms,
           revoked_at_ms, last_used_at_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
      )
      .run(id, hash, name, scope, advertiserId, ...times);
    return changes === 1;
  }

  async find(id: string): Promise<TokenRow | null> {
    return this.#db.query<TokenRow, [string]>(`SELECT ${COLUMNS} FROM tokens WHERE id = ?`).get(id);
  }

  async all(): Promise<TokenRow[]> {
    return this.#db
      .query<TokenRow, []>(`SELECT ${COLUMNS} FROM tokens ORDER BY created_at_ms DESC, id`)
      .all();
  }

  async revoke(id: string, atMs: number): Promise<boolean> {
    const { changes } = this.#db
      .query('UPDATE tokens SET revoked_at_ms = ? WHERE id = ? AND revoked_at_ms IS NULL')
      .run(atMs, id);
    return changes === 1;
  }

  async noteUse(id: string, atMs: number): Promise<void> {
    try {
      this.#db.query('UPDATE tokens SET last_used_at_ms = ? WHERE id = ?').run(atMs, id);
    } catch (error) {
      // A full disk or a long writer: the note is lost.
      if (!(error instanceof SQLiteError && /^SQLITE_(BUSY|FULL|IOERR)/.test(error.code ?? ''))) {
        throw error;
      }
    }
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}
