/**
 * A database of PostgreSQL that several processes keep common state in.
 *
 * Owns: the connections, the bounds on waiting, the making of tables. Does not own: what is in them.
 *
 * D1 Nothing waits for ever: connecting, the server's own work (statement timeout) and the answer
 *    (a server that is frozen gives none) are bounded. Connections that gave no answer are not used
 *    again: they would be missing in the pool once the server is back under another address.
 * D2 A failure is `control_unavailable`, to be tried again; whether a change was made is not known then.
 *    Its message names no host, since callers of the API read it; its cause does.
 * D3 Tables are made before the first statement that reaches the server, so that a process can start
 *    while the server is away. What was made once is not made again: a user that may use the tables
 *    but not make any is enough from then on.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { SQL, type TransactionSQL } from 'bun';
import { assert, LedgerError } from './errors.ts';

export type PostgresTls = 'disable' | 'prefer' | 'require' | 'verify-full';

export interface PostgresOptions {
  readonly url: string;
  readonly tls: PostgresTls;
  /** Certificates to trust besides those of the system; empty: none. */
  readonly tlsCaFile: string;
  readonly timeoutMs: number;
  readonly maxConnections: number;
}

/** Runs statements: the pool's own, or a transaction's. */
export type Statements = SQL | TransactionSQL;

/** What the server's own timeout gets before ours. */
const DEADLINE_EXTRA_MS = 2_000;
/** Key of the lock that keeps two processes from making tables at once; any fixed number. */
const MIGRATION_LOCK = 7_203_115;
const MADE_TABLE = `
  CREATE TABLE IF NOT EXISTS ledger_schema (
    digest text PRIMARY KEY,
    made_at timestamptz NOT NULL DEFAULT now()
  )`;

export class Postgres {
  readonly #options: PostgresOptions;
  #client: SQL | null = null;
  #isClosed = false;
  /** Tables that are still to be made, in order. */
  #toMake: string[] = [];
  #making: Promise<void> | null = null;

  constructor(options: PostgresOptions) {
    const { tlsCaFile } = options;
    requireReadable(options.url);
    if (tlsCaFile !== '' && !existsSync(tlsCaFile)) {
      throw new LedgerError('config_invalid', `there is no file ${tlsCaFile}`, {
        hint: 'control.postgres.tls_ca_file names the certificates to trust.',
      });
    }
    this.#options = options;
  }

  /** One statement, or several that need not be seen together. What may wait for a lock is a transaction. */
  async run<T>(work: (sql: Statements) => Promise<T>): Promise<T> {
    await this.#makeTables();
    return this.#bounded(work);
  }

  /** All or nothing; `work` may be begun again by its caller after `control_unavailable`. */
  async transaction<T>(work: (sql: TransactionSQL) => Promise<T>): Promise<T> {
    await this.#makeTables();
    return this.#inTransaction(work);
  }

  /**
   * Creates what is missing, now or, when the server is away, later (D3). Safe to repeat, and for
   * several processes at once.
   */
  async migrate(statements: string): Promise<void> {
    // While those before it wait for the server, so does this: a process does not start the later for it.
    if (this.#toMake.push(statements) > 1) return;
    try {
      await this.#makeTables();
    } catch (error) {
      if (!isAway(error)) throw error;
    }
  }

  /** Statements that run now have a moment to end. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const client = this.#client;
    this.#client = null;
    await client?.close({ timeout: 1 }).catch(() => {});
  }

  /** All who come meanwhile wait for the same attempt. */
  async #makeTables(): Promise<void> {
    while (this.#toMake.length > 0) {
      this.#making ??= this.#makeNext().finally(() => {
        this.#making = null;
      });
      await this.#making;
    }
  }

  async #makeNext(): Promise<void> {
    const [statements] = this.#toMake;
    if (statements === undefined) return;
    const digest = createHash('sha256').update(statements).digest('hex');
    if (!(await this.#isMade(digest))) {
      await this.#inTransaction(async (sql) => {
        await sql`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`;
        await sql.unsafe(MADE_TABLE);
        await sql.unsafe(statements);
        await sql`INSERT INTO ledger_schema (digest) VALUES (${digest}) ON CONFLICT DO NOTHING`;
      });
    }
    this.#toMake.shift();
  }

  #isMade(digest: string): Promise<boolean> {
    return this.#bounded(async (sql) => {
      const [table] = await sql`SELECT to_regclass('ledger_schema') AS name`;
      if (table.name === null) return false;
      const made = await sql`SELECT 1 FROM ledger_schema WHERE digest = ${digest}`;
      return made.length > 0;
    });
  }

  #inTransaction<T>(work: (sql: TransactionSQL) => Promise<T>): Promise<T> {
    const timeout = String(this.#options.timeoutMs);
    return this.#bounded((client) =>
      // Whatever the database's default: after a lock, the next statement must see what the one before us wrote.
      client.begin('ISOLATION LEVEL READ COMMITTED', async (sql) => {
        await sql`SELECT set_config('statement_timeout', ${timeout}, true)`;
        return work(sql);
      }),
    );
  }

  #connect(): SQL {
    const { url, tls, tlsCaFile, timeoutMs, maxConnections } = this.#options;
    return new SQL(url, {
      max: maxConnections,
      // A pooler between us and the server may give every transaction another connection.
      prepare: false,
      connectionTimeout: Math.max(1, timeoutMs / 1_000),
      connection: { application_name: 'clickledger' },
      tls: tlsCaFile === '' ? tls : { ca: Bun.file(tlsCaFile) },
    });
  }

  async #bounded<T>(work: (client: SQL) => Promise<T>): Promise<T> {
    assert(!this.#isClosed, 'the database is used after it was closed');
    this.#client ??= this.#connect();
    const client = this.#client;
    const limitMs = this.#options.timeoutMs + DEADLINE_EXTRA_MS;
    const deadline = Promise.withResolvers<never>();
    const timer = setTimeout(() => {
      this.#retire(client);
      deadline.reject(new NoAnswer(limitMs));
    }, limitMs);
    const running = work(client);
    // Its failure after the deadline is nobody's.
    running.catch(() => {});
    try {
      return await Promise.race([running, deadline.promise]);
    } catch (error) {
      throw isOfDatabase(error) ? this.#unavailable(error) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** D1. What else runs on it may still end. */
  #retire(client: SQL): void {
    if (this.#client === client) this.#client = null;
    void client.close({ timeout: DEADLINE_EXTRA_MS / 1_000 }).catch(() => {});
  }

  #unavailable(reason: Error): LedgerError {
    const { host, pathname } = new URL(this.#options.url);
    const state = stateOf(reason);
    const hint = HINTS.find(([prefix]) => state.startsWith(prefix))?.[1] ?? HINT;
    const shown = state === '' ? reason.message : `${reason.message} (${state})`;
    return new LedgerError(
      'control_unavailable',
      'the control database cannot be used at the moment',
      {
        kind: 'retry',
        hint,
        cause: new Error(`PostgreSQL at ${host || 'local'}${pathname}: ${shown}`, {
          cause: reason,
        }),
      },
    );
  }
}

/** The URL itself is not shown: a password stands in it. */
function requireReadable(url: string): void {
  try {
    const { username, password } = new URL(url);
    decodeURIComponent(`${username}${password}`);
  } catch {
    throw new LedgerError('config_invalid', 'control.postgres.url cannot be read as a URL', {
      hint: 'In user and password write # as %23, / as %2F, ? as %3F, @ as %40 and % as %25.',
    });
  }
}

class NoAnswer extends Error {
  constructor(limitMs: number) {
    super(`no answer within ${limitMs} ms`);
  }
}

/** The SQLSTATE, or nothing when the server has said none. */
function stateOf(error: unknown): string {
  const { errno } = error as { errno?: unknown };
  return typeof errno === 'string' ? errno : '';
}

/**
 * Whether another try may end otherwise. What the work itself throws, and a fault of ours, does not: a
 * constraint (23…), a value (22…) or a statement (42…) that is wrong.
 */
function isOfDatabase(error: unknown): error is Error {
  if (error instanceof NoAnswer) return true;
  if (!(error instanceof SQL.PostgresError)) return false;
  return OPERATORS.test(stateOf(error)) || !/^(22|23|42)/.test(stateOf(error));
}

/** Missing grants, tables or columns: an operator mends them without us. */
const OPERATORS = /^(42501|42P01|42703)/;

/** Whether the server could not be reached, or has just come up or goes down. */
function isAway(error: unknown): boolean {
  if (!(error instanceof LedgerError)) return false;
  const reason = error.cause instanceof Error ? error.cause.cause : undefined;
  return isOfDatabase(reason) && /^($|08|53|57)/.test(stateOf(reason));
}

const HINT = 'Clicks are taken without it, and it is tried again; see control.postgres.';
/** By the beginning of the SQLSTATE. */
const HINTS: readonly (readonly [string, string])[] = [
  ['42501', 'Its user lacks a right; see docs/operating/control-database.md.'],
  ['42', 'Its tables are not as they were made; see docs/operating/control-database.md.'],
  ['28', 'Check user and password of control.postgres.url.'],
  ['3D', 'Check the name of the database in control.postgres.url.'],
];

/** A whole number as the driver gives it: an `int8` is text. */
export function whole(value: unknown): number {
  const number = Number(value);
  assert(value !== null && Number.isSafeInteger(number), `${String(value)} is no whole number`);
  return number;
}

export function wholeOrNull(value: unknown): number | null {
  return value === null ? null : whole(value);
}
