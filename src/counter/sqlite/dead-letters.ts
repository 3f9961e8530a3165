/** Dead letters in one SQLite file. The primary key is the log position: a replay stores nothing twice. */
import type { Database } from 'bun:sqlite';
import type { DeadLetterReason } from '../../event/click-event.ts';
import { openSqlite } from '../../platform/sqlite.ts';
import { letterId, letterPosition } from '../letter-id.ts';
import type {
  DeadLetter,
  DeadLetterHead,
  DeadLetterQuery,
  DeadLetterStore,
  StoredDeadLetter,
} from '../port.ts';

type HeadRow = Omit<DeadLetterHead, 'id'>;
type LetterRow = HeadRow & { readonly bytes: Uint8Array };
type Value = string | number;

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS dead_letters (
    partition INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    appended_at INTEGER NOT NULL,
    reason TEXT NOT NULL,
    bytes BLOB NOT NULL,
    redriven_at INTEGER,
    PRIMARY KEY (partition, offset)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS dead_letters_waiting_by_reason
    ON dead_letters (reason, partition, offset) WHERE redriven_at IS NULL;
  CREATE INDEX IF NOT EXISTS dead_letters_waiting
    ON dead_letters (partition, offset) WHERE redriven_at IS NULL`;
const HEAD = `partition, offset, appended_at AS appendedAtMs, reason, length(bytes) AS sizeBytes,
  redriven_at AS redrivenAtMs`;

export function openDeadLetters(path: string): DeadLetterStore {
  const db = openSqlite({
    path,
    schema: SCHEMA,
    what: 'the dead letters',
    code: 'dead_letters_unreadable',
    hint: 'Restore the file from a backup; or move it away: the archive has the records, under archive/dead.',
  });
  return new SqliteDeadLetters(db);
}

class SqliteDeadLetters implements DeadLetterStore {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async put(letters: readonly DeadLetter[]): Promise<void> {
    if (letters.length === 0) return;
    const insert = this.#db.query(
      `INSERT OR IGNORE INTO dead_letters (partition, offset, appended_at, reason, bytes)
       VALUES (?, ?, ?, ?, ?)`,
    );
    this.#inOneStep(() => {
      for (const { partition, offset, appendedAtMs, reason, bytes } of letters) {
        insert.run(partition, offset, appendedAtMs, reason, bytes);
      }
    });
  }

  async list({ limit, waitingOnly, reason, after }: DeadLetterQuery): Promise<DeadLetterHead[]> {
    const conditions: string[] = [];
    const values: Value[] = [];
    if (waitingOnly) conditions.push('redriven_at IS NULL');
    if (reason !== undefined) {
      conditions.push('reason = ?');
      values.push(reason);
    }
    if (after !== undefined) {
      const { partition, offset } = letterPosition(after);
      conditions.push('(partition, offset) > (?, ?)');
      values.push(partition, offset);
    }
    const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
    return this.#db
      .query<HeadRow, Value[]>(
        `SELECT ${HEAD} FROM dead_letters ${where} ORDER BY partition, offset LIMIT ?`,
      )
      .all(...values, limit)
      .map((row) => ({ id: letterId(row), ...row }));
  }

  async read(ids: readonly string[]): Promise<StoredDeadLetter[]> {
    const one = this.#db.query<LetterRow, [number, number]>(
      `SELECT ${HEAD}, bytes FROM dead_letters WHERE partition = ? AND offset = ?`,
    );
    return ids.flatMap((id) => {
      const { partition, offset } = letterPosition(id);
      const row = one.get(partition, offset);
      return row === null ? [] : [{ id, ...row, bytes: Buffer.from(row.bytes) }];
    });
  }

  async waiting(): Promise<ReadonlyMap<DeadLetterReason, number>> {
    const rows = this.#db
      .query<{ reason: DeadLetterReason; n: number }, []>(
        `SELECT reason, count(*) AS n FROM dead_letters WHERE redriven_at IS NULL GROUP BY reason`,
      )
      .all();
    return new Map(rows.map(({ reason, n }) => [reason, n]));
  }

  async markRedriven(ids: readonly string[], atMs: number): Promise<void> {
    const mark = this.#db.query(
      `UPDATE dead_letters SET redriven_at = ?
       WHERE partition = ? AND offset = ? AND redriven_at IS NULL`,
    );
    this.#inOneStep(() => {
      for (const { partition, offset } of ids.map(letterPosition))
        mark.run(atMs, partition, offset);
    });
  }

  #inOneStep(work: () => void): void {
    this.#db.transaction(work).immediate();
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}
