/** Opens an SQLite file of the product: private to its user, durable, shared between processes. */
import { Database } from 'bun:sqlite';
import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { LedgerError } from './errors.ts';

const BUSY_TIMEOUT_MS = 5_000;

export interface SqliteOptions {
  readonly path: string;
  /** Statements that create what is missing; safe to repeat. */
  readonly schema: string;
  /** What the file holds, for the error: `the API tokens`. */
  readonly what: string;
  /** Code and hint of the error when it cannot be opened. */
  readonly code: string;
  readonly hint: string;
}

/** Throws LedgerError with the given code when the file is no such database. */
export function openSqlite({ path, schema, what, code, hint }: SqliteOptions): Database {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // SQLite gives its side files the mode of the main one, so that must be right before it starts.
  closeSync(openSync(path, 'a', 0o600));
  chmodSync(path, 0o600);
  const db = new Database(path, { strict: true });
  try {
    db.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
    db.run('PRAGMA journal_mode = WAL');
    // What is written here was promised to somebody: it must survive power loss.
    db.run('PRAGMA synchronous = FULL');
    db.run(schema);
    return db;
  } catch (cause) {
    db.close();
    throw new LedgerError(code, `${what} in ${path}: ${String(cause)}`, { hint, cause });
  }
}
