/**
 * API tokens. Adapters keep their rows: `sqlite/` (one file for all processes of a machine),
 * `postgres/` (one database for all machines).
 *
 * Owns: making, checking, revoking tokens. Does not own: what a principal may do (the API does).
 *
 * T1 A token's text is shown once and never stored: only its SHA-256 is. 256 random bits need no
 *    slow hash.
 * T2 Every check reads the row, so a revocation in another process holds from the next request on.
 * T3 Which token failed, and why, is not told apart: unknown, revoked, expired and wrong look alike.
 * T4 A token that cannot be looked up is neither right nor wrong: the check fails, to be tried again.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isId } from '../event/click-event.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';

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

export interface NewTokenOptions {
  readonly name?: string;
  readonly expiresAtMs?: number;
}

export interface TokenStore {
  create(scope: TokenScope, options?: NewTokenOptions): Promise<{ token: string; id: string }>;
  authenticate(token: string): Promise<Principal | null>;
  /** True when it was in force until now. */
  revoke(idOrToken: string): Promise<boolean>;
  /** Newest first. */
  list(): Promise<TokenInfo[]>;
  get(id: string): Promise<TokenInfo | null>;
  close(): Promise<void>;
}

/** A token as it is kept (T1). */
export interface TokenRow extends TokenInfo {
  readonly hash: Uint8Array;
}

/** What an adapter keeps. */
export interface TokenRows {
  /** False when a row with this id is there, which stays as it is. */
  add(row: TokenRow): Promise<boolean>;
  find(id: string): Promise<TokenRow | null>;
  /** Newest first. */
  all(): Promise<TokenRow[]>;
  /** False when it is unknown, or was revoked before. */
  revoke(id: string, atMs: number): Promise<boolean>;
  /** Whoever only wants to read is not refused because this cannot be noted: it throws nothing then. */
  noteUse(id: string, atMs: number): Promise<void>;
  close(): Promise<void>;
}

const TOKEN_PATTERN = /^clk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;
const ID_BYTES = 6;
const SECRET_BYTES = 32;
const NAME_MAX = 200;
const LAST_USED_STEP_MS = 60_000;

export function tokenStore(rows: TokenRows, clock: Clock): TokenStore {
  return new StoredTokens(rows, clock);
}

class StoredTokens implements TokenStore {
  readonly #rows: TokenRows;
  readonly #clock: Clock;

  constructor(rows: TokenRows, clock: Clock) {
    this.#rows = rows;
    this.#clock = clock;
  }

  async create(
    scope: TokenScope,
    options: NewTokenOptions = {},
  ): Promise<{ token: string; id: string }> {
    const createdAtMs = this.#clock();
    const { name = '', expiresAtMs = null } = options;
    const advertiserId = scope.scope === 'read' ? scope.advertiserId : null;
    checkNew({ advertiserId, name, expiresAtMs }, createdAtMs);
    const id = randomBytes(ID_BYTES).toString('hex');
    const token = `clk_${id}_${randomBytes(SECRET_BYTES).toString('base64url')}`;
    const row = { id, hash: hashOf(token), name, scope: scope.scope, advertiserId, expiresAtMs };
    const unused = { revokedAtMs: null, lastUsedAtMs: null };
    if (await this.#rows.add({ ...row, ...unused, createdAtMs })) return { token, id };
    throw new LedgerError('token_id_taken', 'a token with the same id was made before', {
      kind: 'retry',
    });
  }

  async authenticate(token: string): Promise<Principal | null> {
    const id = TOKEN_PATTERN.exec(token)?.[1];
    if (id === undefined) return null;
    const row = await this.#rows.find(id); // T2, T4
    if (row === null || !timingSafeEqual(row.hash, hashOf(token))) return null;
    const nowMs = this.#clock();
    if (row.revokedAtMs !== null) return null;
    if (row.expiresAtMs !== null && row.expiresAtMs <= nowMs) return null;
    // Once a minute per token, so that checking stays a read.
    if (row.lastUsedAtMs === null || nowMs - row.lastUsedAtMs >= LAST_USED_STEP_MS) {
      await this.#rows.noteUse(row.id, nowMs);
    }
    if (row.advertiserId === null) return { scope: 'admin', tokenId: row.id };
    return { scope: 'read', advertiserId: row.advertiserId, tokenId: row.id };
  }

  revoke(idOrToken: string): Promise<boolean> {
    const id = TOKEN_PATTERN.exec(idOrToken)?.[1] ?? idOrToken;
    return this.#rows.revoke(id, this.#clock());
  }

  async list(): Promise<TokenInfo[]> {
    return (await this.#rows.all()).map(infoOf);
  }

  async get(id: string): Promise<TokenInfo | null> {
    const row = await this.#rows.find(id);
    return row === null ? null : infoOf(row);
  }

  close(): Promise<void> {
    return this.#rows.close();
  }
}

/** Copies the tokens that are not there yet; returns how many. Those that are there stay as they are. */
export async function copyTokens(from: TokenRows, to: TokenRows): Promise<number> {
  let copied = 0;
  for (const row of await from.all()) {
    const name = row.name.replace(CONTROL_CHARACTERS, ' ').toWellFormed();
    if (await to.add({ ...row, name })) copied++;
  }
  return copied;
}

/** In words, for the audit log. */
export function scopeText(scope: TokenScope): string {
  return scope.scope === 'read' ? `read ${scope.advertiserId}` : 'admin';
}

function infoOf({ hash: _, ...info }: TokenRow): TokenInfo {
  return info;
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** A terminal would obey them, and PostgreSQL takes no NUL. */
const CONTROL_CHARACTERS = /\p{Cc}/gu;

function checkNew(
  token: { advertiserId: string | null; name: string; expiresAtMs: number | null },
  nowMs: number,
): void {
  const { advertiserId, name, expiresAtMs } = token;
  if (advertiserId !== null && !isId(advertiserId)) {
    throw new LedgerError('id_invalid', `${JSON.stringify(advertiserId)} is no advertiser id`, {
      hint: 'Use 1 to 128 of the characters A–Z a–z 0–9 . _ ~ -',
    });
  }
  if (name.length > NAME_MAX) {
    throw new LedgerError(
      'token_name_too_long',
      `a token's name has at most ${NAME_MAX} characters`,
    );
  }
  if (name.search(CONTROL_CHARACTERS) >= 0 || !name.isWellFormed()) {
    throw new LedgerError('token_name_invalid', "a token's name is text without line breaks");
  }
  if (expiresAtMs !== null && !(Number.isSafeInteger(expiresAtMs) && expiresAtMs > nowMs)) {
    throw new LedgerError('token_expiry_invalid', 'a token must expire in the future');
  }
}
