/**
 * Dead letters in PostgreSQL, put there by any number of counters. The primary key is the log position:
 * a replay, or a counter that another has taken over from, stores nothing twice (L1).
 *
 * Rows of one statement are in the order of their key: two counters that put the same letters wait
 * for each other, never both.
 */
import type { DeadLetterReason } from '../../event/click-event.ts';
import type { Postgres } from '../../platform/postgres.ts';
import { letterBatches } from '../letter-batches.ts';
import { letterId, letterPosition } from '../letter-id.ts';
import type {
  DeadLetter,
  DeadLetterHead,
  DeadLetterQuery,
  DeadLetterStore,
  DeadLetterTarget,
  StoredDeadLetter,
} from '../port.ts';

type Placed = DeadLetter & Pick<DeadLetterHead, 'redrivenAtMs'>;
type HeadRow = Omit<DeadLetterHead, 'id'>;
type LetterRow = HeadRow & { readonly bytes: Buffer };

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS dead_letters (
    partition INTEGER NOT NULL,
    log_offset BIGINT NOT NULL,
    appended_at_ms BIGINT NOT NULL,
    reason TEXT NOT NULL,
    bytes BYTEA NOT NULL,
    redriven_at_ms BIGINT,
    PRIMARY KEY (partition, log_offset)
  );
  CREATE INDEX IF NOT EXISTS dead_letters_waiting_by_reason
    ON dead_letters (reason, partition, log_offset) WHERE redriven_at_ms IS NULL;
  CREATE INDEX IF NOT EXISTS dead_letters_waiting
    ON dead_letters (partition, log_offset) WHERE redriven_at_ms IS NULL`;
/** A BIGINT comes as text; offsets and times are whole numbers that a float8 holds exactly. */
const HEAD = `partition, log_offset::float8 AS offset, appended_at_ms::float8 AS "appendedAtMs",
  reason, octet_length(bytes)::int AS "sizeBytes", redriven_at_ms::float8 AS "redrivenAtMs"`;
/** What one statement carries. */
const AT_ONCE = { letters: 1_000, bytes: 1 << 20 };

/** Creates its table where it is missing. The database is closed by whoever opened it. */
export async function openPgDeadLetters(db: Postgres): Promise<DeadLetterStore & DeadLetterTarget> {
  await db.migrate(SCHEMA);
  return new PgDeadLetters(db);
}

class PgDeadLetters implements DeadLetterStore, DeadLetterTarget {
  readonly #db: Postgres;

  constructor(db: Postgres) {
    this.#db = db;
  }

  async put(letters: readonly DeadLetter[]): Promise<void> {
    const waiting = letters.map((letter) => ({ ...letter, redrivenAtMs: null }));
    await this.#insert(waiting, 'ON CONFLICT DO NOTHING');
  }

  restore(letters: readonly StoredDeadLetter[]): Promise<number> {
    return this.#insert(
      letters,
      `ON CONFLICT (partition, log_offset) DO UPDATE SET redriven_at_ms = excluded.redriven_at_ms
       WHERE known.redriven_at_ms IS NULL AND excluded.redriven_at_ms IS NOT NULL`,
    );
  }

  /** Returns how many rows were written. */
  async #insert(letters: readonly Placed[], onConflict: string): Promise<number> {
    let written = 0;
    for (const batch of letterBatches(letters, AT_ONCE, ({ bytes }) => bytes.length)) {
      const rows = batch.map(({ bytes, ...letter }) => {
        return { ...letter, base64: bytes.toString('base64') };
      });
      const { count } = await this.#db.transaction(
        (sql) => sql`
          INSERT INTO dead_letters AS known
            (partition, log_offset, appended_at_ms, reason, bytes, redriven_at_ms)
          SELECT partition, "offset", "appendedAtMs", reason, decode(base64, 'base64'),
            "redrivenAtMs"
          FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS letter(partition int,
            "offset" bigint, "appendedAtMs" bigint, reason text, base64 text,
            "redrivenAtMs" bigint)
          ORDER BY partition, "offset"
          ${sql.unsafe(onConflict)}`,
      );
      written += count;
    }
    return written;
  }

  async list({ limit, waitingOnly, reason, after }: DeadLetterQuery): Promise<DeadLetterHead[]> {
    // No text of the database's has it: it would be refused as a fault of ours.
    if (reason?.includes('\0')) return [];
    const conditions = waitingOnly ? ['redriven_at_ms IS NULL'] : [];
    const values: (string | number)[] = [limit];
    if (reason !== undefined) conditions.push(`reason = $${values.push(reason)}`);
    if (after !== undefined) {
      const { partition, offset } = letterPosition(after);
      const [first, second] = [values.push(partition), values.push(offset)];
      conditions.push(`(partition, log_offset) > ($${first}::int, $${second}::bigint)`);
    }
    const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
    const text = `SELECT ${HEAD} FROM dead_letters ${where}
      ORDER BY partition, log_offset LIMIT $1::int`;
    const rows = await this.#db.run<HeadRow[]>((sql) => sql.unsafe(text, values));
    return rows.map((row) => ({ id: letterId(row), ...row }));
  }

  async read(ids: readonly string[]): Promise<StoredDeadLetter[]> {
    const positions = JSON.stringify(ids.map(letterPosition));
    const rows = await this.#db.run(
      (sql) => sql<LetterRow[]>`
        SELECT ${sql.unsafe(HEAD)}, bytes FROM dead_letters
        WHERE (partition, log_offset) IN (
          SELECT partition, "offset" FROM json_to_recordset(${positions}::text::json)
            AS which(partition int, "offset" bigint))
        ORDER BY dead_letters.partition, log_offset`,
    );
    return rows.map((row) => ({ id: letterId(row), ...row }));
  }

  async waiting(): Promise<ReadonlyMap<DeadLetterReason, number>> {
    const rows = await this.#db.run(
      (sql) => sql<{ reason: DeadLetterReason; n: number }[]>`
        SELECT reason, count(*)::float8 AS n FROM dead_letters WHERE redriven_at_ms IS NULL
        GROUP BY reason`,
    );
    return new Map(rows.map(({ reason, n }) => [reason, n]));
  }

  async markRedriven(ids: readonly string[], atMs: number): Promise<void> {
    const positions = JSON.stringify(ids.map(letterPosition));
    await this.#db.transaction(
      (sql) => sql`
        UPDATE dead_letters SET redriven_at_ms = ${atMs}::bigint
        WHERE redriven_at_ms IS NULL AND (partition, log_offset) IN (
          SELECT partition, "offset" FROM json_to_recordset(${positions}::text::json)
            AS which(partition int, "offset" bigint))`,
    );
  }

  async close(): Promise<void> {}
}
