/**
 * What was done to this ledger, by whom, and how it ended: lines that are only ever added, in the
 * SQLite file of the tokens, which the ledger and commands share.
 *
 * Owns: writing lines, the chain over them, checking it. Does not own: which acts are recorded (API
 * and commands decide), and it never holds secrets or bodies.
 *
 * A1 An act has a line `started` before it begins and a line with its outcome after it. Who cannot
 *    write the first must not act; an act without the second was cut off, and may have happened.
 * A2 Lines are numbered without holes, and each carries the SHA-256 over its content and the hash of
 *    the line before. A line that was changed, removed or put in between breaks the chain from there
 *    on. Lines that are missing at the end break nothing: compare the head with one noted elsewhere.
 * A3 A line and its number are chosen in one transaction that keeps other writers out, so that the
 *    lines of several processes make one chain.
 */
import { type Database, SQLiteError } from 'bun:sqlite';
import { createHash } from 'node:crypto';
import type { Clock } from '../platform/clock.ts';
import { assert, LedgerError } from '../platform/errors.ts';
import { openSqlite } from '../platform/sqlite.ts';

export type AuditOutcome = 'ok' | 'refused' | 'failed';

/** An act that begins: who does what to what. */
export interface AuditAct {
  /** The id of a token, `socket` (the admin socket) or `cli` (a command without a running ledger). */
  readonly actor: string;
  /** E.g. `tokens.create`. */
  readonly action: string;
  /** What it is done to: an id, an hour; empty when it is the whole ledger. */
  readonly target: string;
}

/** How an act ended. What is not known before it is added here, e.g. the id of what was made. */
export interface AuditEnd {
  readonly outcome: AuditOutcome;
  /** Code of the refusal or failure. */
  readonly code?: string | undefined;
  readonly target?: string | undefined;
  readonly detail?: string | undefined;
}

/** One act as it is listed: both of its lines together. */
export interface AuditEntry extends AuditAct {
  /** Number of its first line. */
  readonly id: number;
  readonly atMs: number;
  /** `started`: no outcome was written. */
  readonly outcome: AuditOutcome | 'started';
  readonly code: string | null;
  readonly detail: string;
  readonly endedAtMs: number | null;
}

/** The last line, whose hash stands for all lines. */
export interface AuditHead {
  readonly line: number;
  /** Hex; empty when there is no line. */
  readonly hash: string;
}

export interface AuditCheck {
  readonly head: AuditHead;
  /** The first line that is not what was written there, and why; null when all are. */
  readonly broken: { readonly line: number; readonly reason: string } | null;
}

export interface AuditLog {
  /** Durable when it returns. Throws LedgerError `audit_unavailable` when it cannot be written. */
  begin(act: AuditAct): number;
  /** Throws LedgerError `audit_end_lost` when it cannot be written: the act has happened. */
  end(id: number, end: AuditEnd): void;
  /** Newest first, those that began before the entry `beforeId`. */
  list(options: { limit: number; beforeId?: number }): AuditEntry[];
  head(): AuditHead;
  /** Checks every line; with a head that was noted before, also that it is still part of the chain. */
  verify(noted?: AuditHead): AuditCheck;
  close(): void;
}

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

interface Line {
  readonly line: number;
  readonly atMs: number;
  readonly act: number;
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly outcome: string;
  readonly code: string | null;
  readonly detail: string;
}

type StoredLine = Line & { readonly hash: Uint8Array };

const COLUMNS = 'line, at_ms AS atMs, act, actor, action, target, outcome, code, detail, hash';
const MAX_TEXT = 500;
const GENESIS = '';

export function openAuditLog(options: { path: string; clock: Clock }): AuditLog {
  const db = openSqlite({
    path: options.path,
    schema: SCHEMA,
    what: 'the audit log',
    code: 'audit_unavailable',
    hint: 'Restore the file from a backup.',
  });
  return new SqliteAuditLog(db, options.clock);
}

class SqliteAuditLog implements AuditLog {
  readonly #db: Database;
  readonly #clock: Clock;

  constructor(db: Database, clock: Clock) {
    this.#db = db;
    this.#clock = clock;
  }

  begin({ actor, action, target }: AuditAct): number {
    try {
      return this.#append((line) => ({
        act: line,
        actor: short(actor),
        action: short(action),
        target: short(target),
        outcome: 'started',
        code: null,
        detail: '',
      }));
    } catch (cause) {
      throw notRecorded('audit_unavailable', 'the act cannot be recorded and was not begun', cause);
    }
  }

  end(id: number, { outcome, code, target, detail }: AuditEnd): void {
    try {
      const begun = this.#db
        .query<AuditAct, [number]>('SELECT actor, action, target FROM audit WHERE line = ?')
        .get(id);
      assert(begun !== null, `the audit log has no line ${id}`);
      this.#append(() => ({
        act: id,
        actor: begun.actor,
        action: begun.action,
        target: target === undefined ? begun.target : short(target),
        outcome,
        code: code === undefined ? null : short(code),
        detail: short(detail ?? ''),
      }));
    } catch (cause) {
      throw notRecorded('audit_end_lost', 'the act ended, and its end cannot be recorded', cause);
    }
  }

  /** A3. Returns the new line's number. */
  #append(content: (line: number) => Omit<Line, 'line' | 'atMs'>): number {
    const add = this.#db.transaction((): number => {
      const { line: last, hash: before } = this.head();
      const row: Line = { line: last + 1, atMs: this.#clock(), ...content(last + 1) };
      const { line, atMs, act, actor, action, target, outcome, code, detail } = row;
      this.#db
        .query(
          `INSERT INTO audit (line, at_ms, act, actor, action, target, outcome, code, detail, hash)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        )
        .run(line, atMs, act, actor, action, target, outcome, code, detail, hashOf(before, row));
      return line;
    });
    return add.immediate();
  }

  list({ limit, beforeId }: { limit: number; beforeId?: number }): AuditEntry[] {
    return this.#db
      .query<AuditEntry, [number, number]>(
        `SELECT a.line AS id, a.at_ms AS atMs, a.actor, a.action,
           coalesce(e.target, a.target) AS target, coalesce(e.outcome, a.outcome) AS outcome,
           e.code, coalesce(e.detail, a.detail) AS detail, e.at_ms AS endedAtMs
         FROM audit AS a LEFT JOIN audit AS e ON e.act = a.line AND e.act <> e.line
         WHERE a.act = a.line AND a.line < ? ORDER BY a.line DESC LIMIT ?`,
      )
      .all(beforeId ?? Number.MAX_SAFE_INTEGER, limit);
  }

  head(): AuditHead {
    const last = this.#db
      .query<StoredLine, []>(`SELECT ${COLUMNS} FROM audit ORDER BY line DESC LIMIT 1`)
      .get();
    return last === null
      ? { line: 0, hash: GENESIS }
      : { line: last.line, hash: Buffer.from(last.hash).toString('hex') };
  }

  verify(noted?: AuditHead): AuditCheck {
    // A writer beside it adds lines behind those of this moment; it sees them or not.
    let head: AuditHead = { line: 0, hash: GENESIS };
    let broken: AuditCheck['broken'] = null;
    const lines = this.#db.query<StoredLine, []>(`SELECT ${COLUMNS} FROM audit ORDER BY line`);
    for (const { hash, ...line } of lines.iterate()) {
      const expected = hashOf(head.hash, line);
      if (line.line !== head.line + 1) {
        broken ??= { line: head.line + 1, reason: 'the line is missing' };
      } else if (!expected.equals(hash)) {
        broken ??= { line: line.line, reason: 'the line or the one before it was changed' };
      }
      head = { line: line.line, hash: Buffer.from(hash).toString('hex') };
      if (noted?.line === line.line && noted.hash !== head.hash) {
        broken ??= { line: line.line, reason: 'it is not the line that was noted' };
      }
    }
    if (noted !== undefined && noted.line > head.line) {
      broken ??= { line: head.line + 1, reason: `lines up to ${noted.line} were noted` };
    }
    return { head, broken };
  }

  close(): void {
    this.#db.close();
  }
}

/** Ids, codes and short sentences; whatever else got here is cut, so that a line stays a line. */
function short(text: string): string {
  // A path can name control characters, which a terminal that lists the log would obey.
  const plain = text.slice(0, MAX_TEXT).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ');
  return plain.replace(TOKEN_TEXT, '$1_…').toWellFormed();
}

/** Somebody will name a token by its text one day; only its id may be kept. */
const TOKEN_TEXT = /(clk_[0-9a-f]{12})_[A-Za-z0-9_-]+/g;

function hashOf(before: string, row: Line): Buffer {
  const { line, atMs, act, actor, action, target, outcome, code, detail } = row;
  const content = [before, line, atMs, act, actor, action, target, outcome, code, detail];
  return createHash('sha256').update(JSON.stringify(content)).digest();
}

function notRecorded(code: string, message: string, cause: unknown): unknown {
  if (!(cause instanceof SQLiteError)) return cause;
  return new LedgerError(code, message, {
    kind: 'retry',
    hint: 'Check the space and the health of the disk that control.sqlite is on.',
    cause,
  });
}
