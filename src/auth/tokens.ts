/**
 * API tokens, in one SQLite file that several processes use.
 *
 * Owns: making, checking, revoking tokens. Does not own: what a principal may do (the API does).
 *
 * T1 A token's text is shown once and never stored: only its SHA-256 is. 256 random bits need no
 *    slow hash.
 * T2 Every check reads the row, so a revocation in another process holds from the next request on.
 * T3 Which token failed, and why, is not told apart: unknown, revoked, expired and wrong look alike.
 */
import { type Database, SQLiteError } from 'bun:sqlite';
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isId } from '../event/click-event.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { openSqlite } from '../platform/sqlite.ts';

export type TokenScope =
  | { readonly scope: 'read'; readonly advertiserId: string }
  | { readonly scope: 'admin' };

export type Principal = TokenScope & { readonly tokenId: string };

export interface TokenInfo {
  readonly id: string;
  readonly name: string;
  readonly scope: 'read' | 'admin';
  /** Null for an admin token. */
  readonly advertiserId: string | null;
  readonly createdAtMs: number;
  readonly expiresAtMs: number | null;
  readonly revokedAtMs: number | null;
  /** To the minute. */
  readonly lastUsedAtMs: number | null;
}

export interface TokenStore {
  create(
    scope: TokenScope,
    options?: { name?: string; expiresAtMs?: number },
  ): { token: string; id: string };
  authenticate(token: string): Principal | null;
  /** True when it was in force until now. */
  revoke(idOrToken: string): boolean;
  /** Newest first. */
  list(): TokenInfo[];
  get(id: string): TokenInfo | null;
  close(): void;
}

const TOKEN_PATTERN = /^clk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;
const ID_BYTES = 6;
const SECRET_BYTES = 32;
const NAME_MAX = 200;
const LAST_USED_STEP_MS = 60_000;

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

const COLUMNS = `id, name, scope, advertiser_id AS advertiserId, created_at_ms AS createdAtMs,
  expires_at_ms AS expiresAtMs, revoked_at_ms AS revokedAtMs, last_used_at_ms AS lastUsedAtMs`;

type TokenRow = TokenInfo & { readonly hash: Uint8Array };

export function openTokenStore(options: { path: string; clock: Clock }): TokenStore {
  const db = openSqlite({
    path: options.path,
    schema: SCHEMA,
    what: 'the API tokens',
    code: 'tokens_unreadable',
    hint: 'Restore the file from a backup; or move it away and create new tokens.',
  });
  return new SqliteTokenStore(db, options.clock);
}

class SqliteTokenStore implements TokenStore {
  readonly #db: Database;
  readonly #clock: Clock;

  constructor(db: Database, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  create(
    scope: TokenScope,
    options: { name?: string; expiresAtMs?: number } = {},
  ): { token: string; id: string } {
    const now = this.#clock();
    const { name = '', expiresAtMs = null } = options;
    const advertiserId = scope.scope === 'read' ? scope.advertiserId : null;
    checkNew({ advertiserId, name, expiresAtMs }, now);
    const id = randomBytes(ID_BYTES).toString('hex');
    const token = `clk_${id}_${randomBytes(SECRET_BYTES).toString('base64url')}`;
    this.#db
      .query(
        `INSERT INTO tokens (id, hash, name, scope, advertiser_id, created_at_ms, expires_at_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(id, hashOf(token), name, scope.scope, advertiserId, now, expiresAtMs);
    return { token, id };
  }

  authenticate(token: string): Principal | null {
    const id = TOKEN_PATTERN.exec(token)?.[1];
    if (id === undefined) return null;
    const row = this.#db
      .query<TokenRow, [string]>(`SELECT ${COLUMNS}, hash FROM tokens WHERE id = ?`)
      .get(id);
    if (row === null || !timingSafeEqual(row.hash, hashOf(token))) return null;
    const now = this.#clock();
    if (row.revokedAtMs !== null) return null;
    if (row.expiresAtMs !== null && row.expiresAtMs <= now) return null;
    this.#noteUse(row, now);
    if (row.advertiserId === null) return { scope: 'admin', tokenId: row.id };
    return { scope: 'read', advertiserId: row.advertiserId, tokenId: row.id };
  }

  /** Once a minute per token, so that checking stays a read. */
  #noteUse(row: TokenRow, now: number): void {
    if (row.lastUsedAtMs !== null && now - row.lastUsedAtMs < LAST_USED_STEP_MS) return;
    try {
      this.#db.query('UPDATE tokens SET last_used_at_ms = ? WHERE id = ?').run(now, row.id);
    } catch (error) {
      // A full disk or a long writer must not lock out who only wants to read: the note is lost.
      if (!(error instanceof SQLiteError && /^SQLITE_(BUSY|FULL|IOERR)/.test(error.code ?? ''))) {
        throw error;
      }
    }
  }

  revoke(idOrToken: string): boolean {
    const id = TOKEN_PATTERN.exec(idOrToken)?.[1] ?? idOrToken;
    const { changes } = this.#db
      .query('UPDATE tokens SET revoked_at_ms = ? WHERE id = ? AND revoked_at_ms IS NULL')
      .run(this.#clock(), id);
    return changes === 1;
  }

  list(): TokenInfo[] {
    return this.#db
      .query<TokenInfo, []>(`SELECT ${COLUMNS} FROM tokens ORDER BY created_at_ms DESC, id`)
      .all();
  }

  get(id: string): TokenInfo | null {
    return this.#db
      .query<TokenInfo, [string]>(`SELECT ${COLUMNS} FROM tokens WHERE id = ?`)
      .get(id);
  }

  close(): void {
    this.#db.close();
  }
}

/** In words, for the audit log. */
export function scopeText(scope: TokenScope): string {
  return scope.scope === 'read' ? `read ${scope.advertiserId}` : 'admin';
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function checkNew(
  token: { advertiserId: string | null; name: string; expiresAtMs: number | null },
  now: number,
): void {
  if (token.advertiserId !== null && !isId(token.advertiserId)) {
    throw new LedgerError(
      'id_invalid',
      `${JSON.stringify(token.advertiserId)} is no advertiser id`,
      {
        hint: 'Use 1 to 128 of the characters A–Z a–z 0–9 . _ ~ -',
      },
    );
  }
  if (token.name.length > NAME_MAX) {
    throw new LedgerError(
      'token_name_too_long',
      `a token's name has at most ${NAME_MAX} characters`,
    );
  }
  const { expiresAtMs } = token;
  if (expiresAtMs !== null && !(Number.isSafeInteger(expiresAtMs) && expiresAtMs > now)) {
    throw new LedgerError('token_expiry_invalid', 'a token must expire in the future');
  }
}
