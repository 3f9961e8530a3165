/** Dead letters in one SQLite file. The primary key is the log position: a replay stores nothing twice. */
import type { DeadLetterReason } from '../../event/click-event.ts';
import { LedgerError } from '../../platform/errors.ts';
import { openSqlite } from '../../platform/sqlite.ts';
import type { DeadLetter, DeadLetterStore, StoredDeadLetter } from '../port.ts';

interface LetterRow {
  partition: number;
  offset: number;
  appended_at: number;
  reason: string;
  bytes: Uint8Array;
  redriven_at: number | null;
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS dead_letters (
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    appended_at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    bytes BLOB NOT NULL,
    redriven_at INTEGER,
    PRIMARY KEY (partition, offset)
  ) WITHOUT ROWID`;

export function openDeadLetters(path: string): DeadLetterStore {
  const db = openSqlite({
    path,
    schema: SCHEMA,
    what: 'the dead letters',
    code: 'dead_letters_unreadable',
    hint: 'Restore the file from a backup; or move it away: the archive has the records, under archive/dead.',
  });
  const insert = db.prepare(
    'INSERT OR IGNORE INTO dead_letters (partition, offset, appended_at, reason, bytes) VALUES (?, ?, ?, ?, ?)',
  );
  const insertAll = db.transaction((letters: readonly DeadLetter[]) => {
    for (const letter of letters) {
      insert.run(letter.partition, letter.offset, letter.appendedAtMs, letter.reason, letter.bytes);
    }
  });
  return {
    put(letters) {
      if (letters.length > 0) insertAll(letters);
    },
    list({ limit, waitingOnly }) {
      const where = waitingOnly ? 'WHERE redriven_at IS NULL' : '';
      return db
        .query<LetterRow, [number]>(
          `SELECT * FROM dead_letters ${where} ORDER BY partition, offset LIMIT ?`,
        )
        .all(limit)
        .map(toLetter);
    },
    get(id) {
      const { partition, offset } = parseId(id);
      const row = db
        .query<LetterRow, [number, number]>(
          'SELECT * FROM dead_letters WHERE partition = ? AND offset = ?',
        )
        .get(partition, offset);
      return row === null ? null : toLetter(row);
    },
    waiting() {
      const rows = db
        .query<{ reason: string; n: number }, []>(
          'SELECT reason, count(*) AS n FROM dead_letters WHERE redriven_at IS NULL GROUP BY reason',
        )
        .all();
      return new Map(rows.map((row) => [row.reason as DeadLetterReason, row.n]));
    },
    markRedriven(id, atMs) {
      const { partition, offset } = parseId(id);
      db.prepare('UPDATE dead_letters SET redriven_at = ? WHERE partition = ? AND offset = ?').run(
        atMs,
        partition,
        offset,
      );
    },
    close() {
      db.close();
    },
  };
}

function parseId(id: string): { partition: number; offset: number } {
  const match = /^(\d{1,5})-(\d{1,15})$/.exec(id);
  if (match === null) {
    throw new LedgerError('dead_letter_id', `"${id}" is not a dead letter's id`, {
      hint: 'Ids look like 0-1234; "clickledger dlq list" shows them.',
    });
  }
  return { partition: Number(match[1]), offset: Number(match[2]) };
}

function toLetter(row: LetterRow): StoredDeadLetter {
  return {
    id: `${row.partition}-${row.offset}`,
    partition: row.partition,
    offset: row.offset,
    appendedAtMs: row.appended_at,
    reason: row.reason as DeadLetterReason,
    bytes: Buffer.from(row.bytes),
    redrivenAtMs: row.redriven_at,
  };
}
