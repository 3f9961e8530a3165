/** The audit log as a table of the control file, which the ledger and commands share. */
import { type Database, SQLiteError } from 'bun:sqlite';
import type { Clock } from '../../platform/clock.ts';
import { LedgerError } from '../../platform/errors.ts';
import { openSqlite } from '../../platform/sqlite.ts';
import { type AuditLines, auditLog, headOf, type StoredLine } from '../audit-chain.ts';
import type { AuditEntry, AuditHead, AuditLog } from '../audit-log.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS audit (
    line INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    act INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('started', 'ok', 'refused', 'failed')),
    code TEXT,
    detail TEXT NOT NULL,
    hash BLOB NOT NULL,
    CHECK ((outcome = 'started') = (act = line))
  ) STRICT;
  CREATE UNIQUE INDEX IF NOT EXISTS audit_ends ON audit (act) WHERE act <> line;
  CREATE INDEX IF NOT EXISTS audit_acts ON audit (line) WHERE act = line;
  CREATE TRIGGER IF NOT EXISTS audit_keeps_lines BEFORE DELETE ON audit
    BEGIN SELECT RAISE(ABORT, 'lines of the audit log stay'); END;
  CREATE TRIGGER IF NOT EXISTS audit_keeps_words BEFORE UPDATE ON audit
    BEGIN SELECT RAISE(ABORT, 'lines of the audit log do not change'); END`;

const COLUMNS = 'line, at_ms AS atMs, act, actor, action, target, outcome, code, detail, hash';

export function openAuditLog(options: { path: string; clock: Clock }): AuditLog {
  return auditLog(openAuditLines(options.path), options.clock);
}

export function openAuditLines(path: string): AuditLines {
  const db = openSqlite({
    path,
    schema: SCHEMA,
    what: 'the audit log',
    code: 'audit_unavailable',
    hint: 'Restore the file from a backup.',
  });
  return new SqliteAuditLines(db);
}

class SqliteAuditLines implements AuditLines {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async add(next: (head: AuditHead) => readonly StoredLine[]): Promise<void> {
    const add = this.#db.transaction(() => {
      for (const each of next(this.#head())) this.#insert(each);
    });
    orUnavailable(() => add.immediate());
  }

  #insert(row: StoredLine): void {
    const { line, atMs, act, actor, action, target, outcome, code, detail, hash } = row;
    this.#db
      .query(
        `INSERT INTO audit (line, at_ms, act, actor, action, target, outcome, code, detail, hash)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(line, atMs, act, actor, action, target, outcome, code, detail, hash);
  }

  async head(): Promise<AuditHead> {
    return this.#head();
  }

  #head(): AuditHead {
    return headOf(
      this.#db
        .query<StoredLine, []>(`SELECT ${COLUMNS} FROM audit ORDER BY line DESC LIMIT 1`)
        .get(),
    );
  }

  async find(line: number): Promise<StoredLine | null> {
    return orUnavailable(() =>
      this.#db.query<StoredLine, [number]>(`SELECT ${COLUMNS} FROM audit WHERE line = ?`).get(line),
    );
  }

  async after(line: number, limit: number): Promise<StoredLine[]> {
    return this.#db
      .query<StoredLine, [number, number]>(
        `SELECT ${COLUMNS} FROM audit WHERE line > ? ORDER BY line LIMIT ?`,
      )
      .all(line, limit);
  }

  async acts({ limit, beforeId }: { limit: number; beforeId: number }): Promise<AuditEntry[]> {
    return this.#db
      .query<AuditEntry, [number, number]>(
        `SELECT a.line AS id, a.at_ms AS atMs, a.actor, a.action,
           coalesce(e.target, a.target) AS target, coalesce(e.outcome, a.outcome) AS outcome,
           e.code, coalesce(e.detail, a.detail) AS detail, e.at_ms AS endedAtMs
         FROM audit AS a LEFT JOIN audit AS e ON e.act = a.line AND e.act <> e.line
         WHERE a.act = a.line AND a.line < ? ORDER BY a.line DESC LIMIT ?`,
      )
      .all(beforeId, limit);
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}

function orUnavailable<T>(use: () => T): T {
  try {
    return use();
  } catch (cause) {
    if (!(cause instanceof SQLiteError)) throw cause;
    throw new LedgerError('audit_unavailable', 'the audit log cannot be used', {
      kind: 'retry',
      hint: 'Check the space and the health of the disk that control.sqlite is on.',
      cause,
    });
  }
}
