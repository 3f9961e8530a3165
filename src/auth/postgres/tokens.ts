/** API tokens as a table that all processes read. Owns its table, not the connections. */
import type { Clock } from '../../platform/clock.ts';
import { LedgerError } from '../../platform/errors.ts';
import { type Postgres, whole, wholeOrNull } from '../../platform/postgres.ts';
import { type TokenRow, type TokenRows, type TokenStore, tokenStore } from '../tokens.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS tokens (
    id text PRIMARY KEY,
    hash bytea NOT NULL,
    name text NOT NULL,
    scope text NOT NULL CHECK (scope IN ('read', 'admin')),
    advertiser_id text CHECK ((scope = 'read') = (advertiser_id IS NOT NULL)),
    created_at_ms bigint NOT NULL,
    expires_at_ms bigint,
    revoked_at_ms bigint,
    last_used_at_ms bigint
  )`;

/** As the driver gives a row. */
interface Stored {
  readonly id: string;
  readonly hash: Uint8Array;
  readonly name: string;
  readonly scope: 'read' | 'admin';
  readonly advertiser_id: string | null;
  readonly created_at_ms: unknown;
  readonly expires_at_ms: unknown;
  readonly revoked_at_ms: unknown;
  readonly last_used_at_ms: unknown;
}

export async function openPgTokens(db: Postgres, clock: Clock): Promise<TokenStore> {
  return tokenStore(await openPgTokenRows(db), clock);
}

export async function openPgTokenRows(db: Postgres): Promise<TokenRows> {
  await db.migrate(SCHEMA);
  return new PostgresTokenRows(db);
}

class PostgresTokenRows implements TokenRows {
  readonly #db: Postgres;

  constructor(db: Postgres) {
    this.#db = db;
  }

  add(row: TokenRow): Promise<boolean> {
    const { id, hash, name, scope, advertiserId, createdAtMs, expiresAtMs } = row;
    const { revokedAtMs, lastUsedAtMs } = row;
    return this.#db.transaction(async (sql) => {
      const added = await sql`
        INSERT INTO tokens (id, hash, name, scope, advertiser_id, created_at_ms, expires_at_ms,
          revoked_at_ms, last_used_at_ms)
        VALUES (${id}, ${hash}, ${name}, ${scope}, ${advertiserId}, ${createdAtMs},
          ${expiresAtMs}, ${revokedAtMs}, ${lastUsedAtMs})
        ON CONFLICT (id) DO NOTHING RETURNING id`;
      return added.length === 1;
    });
  }

  async find(id: string): Promise<TokenRow | null> {
    const [row] = await this.#db.run<Stored[]>((sql) => sql`SELECT * FROM tokens WHERE id = ${id}`);
    return row === undefined ? null : rowOf(row);
  }

  async all(): Promise<TokenRow[]> {
    const rows = await this.#db.run<Stored[]>(
      (sql) => sql`SELECT * FROM tokens ORDER BY created_at_ms DESC, id COLLATE "C"`,
    );
    return rows.map(rowOf);
  }

  revoke(id: string, atMs: number): Promise<boolean> {
    return this.#db.transaction(async (sql) => {
      const revoked = await sql`
        UPDATE tokens SET revoked_at_ms = ${atMs} WHERE id = ${id} AND revoked_at_ms IS NULL
        RETURNING id`;
      return revoked.length === 1;
    });
  }

  async noteUse(id: string, atMs: number): Promise<void> {
    try {
      // Who holds the row for long, or notes it at this moment, makes nobody wait.
      await this.#db.run(
        (sql) => sql`
          UPDATE tokens SET last_used_at_ms = ${atMs}
          WHERE id = (SELECT id FROM tokens WHERE id = ${id} FOR UPDATE SKIP LOCKED)`,
      );
    } catch (error) {
      // A server that only reads, or has just gone: the note is lost.
      if (!(error instanceof LedgerError && error.kind === 'retry')) throw error;
    }
  }

  /** The connections are closed by whoever opened them. */
  async close(): Promise<void> {}
}

function rowOf(row: Stored): TokenRow {
  return {
    id: row.id,
    hash: row.hash,
    name: row.name,
    scope: row.scope,
    advertiserId: row.advertiser_id,
    createdAtMs: whole(row.created_at_ms),
    expiresAtMs: wholeOrNull(row.expires_at_ms),
    revokedAtMs: wholeOrNull(row.revoked_at_ms),
    lastUsedAtMs: wholeOrNull(row.last_used_at_ms),
  };
}
