/**
 * An exclusive lock on a name, held by one process and given back by the kernel when it dies.
 *
 * It is SQLite's own file lock on an empty database: advisory, per process, without stale files.
 */
import { Database } from 'bun:sqlite';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { LedgerError } from './errors.ts';

export interface Lock {
  release(): void;
}

/** Takes the lock, or throws LedgerError `locked` with `hint` when another process has it. */
export function takeLock(dir: string, name: string, hint: string): Lock {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, `${name}.lock`);
  const db = new Database(path, { create: true });
  try {
    db.exec('PRAGMA busy_timeout = 0; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;');
  } catch (error) {
    db.close();
    if ((error as { code?: string }).code !== 'SQLITE_BUSY') throw error;
    throw new LedgerError('locked', `${path} is held by another process`, { hint, cause: error });
  }
  return { release: () => db.close() };
}
