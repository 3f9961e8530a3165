/** The audit log as a table that all processes write. Owns its table, not the connections. */
import type { Clock } from '../../platform/clock.ts';
import { type Postgres, type Statements, whole, wholeOrNull } from '../../platform/postgres.ts';
import { type AuditLines, auditLog, headOf, type StoredLine } from '../audit-chain.ts';
import type { AuditEntry, AuditHead, AuditLog, AuditOutcome } from '../audit-log.ts';

/** Key of the lock that every writer takes first (A3); any fixed number. It needs no right on the table. */
const WRITER_LOCK = 7_203_116;

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS audit (
    line bigint PRIMARY KEY,
    at_ms bigint NOT NULL,
    act bigint NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('started', 'ok', 'refused', 'failed')),
    code text,
    detail text NOT NULL,
    hash bytea NOT NULL,
    CHECK ((outcome = 'started') = (act = line))
  );
  CREATE UNIQUE INDEX IF NOT EXISTS audit_ends ON audit (act) WHERE act <> line;
  CREATE INDEX IF NOT EXISTS audit_acts ON audit (line) WHERE act = line;
  CREATE OR REPLACE FUNCTION audit_stays() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'lines of the audit log stay and do not change'
        USING ERRCODE = 'restrict_violation';
    END $$;
  CREATE OR REPLACE TRIGGER audit_keeps_lines BEFORE UPDATE OR DELETE ON audit
    FOR EACH ROW EXECUTE FUNCTION audit_stays();
  CREATE OR REPLACE TRIGGER audit_keeps_all BEFORE TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION audit_stays()`;

/** As the driver gives a line. */
interface Stored {
  readonly line: unknown;
  readonly at_ms: unknown;
  readonly act: unknown;
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly outcome: string;
  readonly code: string | null;
  readonly detail: string;
  readonly hash: Uint8Array;
}

type StoredAct = Omit<Stored, 'act' | 'hash'> & { readonly ended_at_ms: unknown };

export async function openPgAuditLog(db: Postgres, clock: Clock): Promise<AuditLog> {
  return auditLog(await openPgAuditLines(db), clock);
}

export async function openPgAuditLines(db: Postgres): Promise<AuditLines> {
  await db.migrate(SCHEMA);
  return new PostgresAuditLines(db);
}

class PostgresAuditLines implements AuditLines {
  readonly #db: Postgres;

  constructor(db: Postgres) {
    this.#db = db;
  }

  add(next: (head: AuditHead) => readonly StoredLine[]): Promise<void> {
    return this.#db.transaction(async (sql) => {
      await sql`SELECT pg_advisory_xact_lock(${WRITER_LOCK})`;
      const rows = next(await headIn(sql)).map(storedOf);
      if (rows.length > 0) await sql`INSERT INTO audit ${sql(rows)}`;
    });
  }

  head(): Promise<AuditHead> {
    return this.#db.run(headIn);
  }

  async find(line: number): Promise<StoredLine | null> {
    const [row] = await this.#db.run<Stored[]>(
      (sql) => sql`SELECT * FROM audit WHERE line = ${line}::bigint`,
    );
    return row === undefined ? null : lineOf(row);
  }

  async after(line: number, limit: number): Promise<StoredLine[]> {
    const rows = await this.#db.run<Stored[]>(
      (sql) => sql`SELECT * FROM audit WHERE line > ${line}::bigint ORDER BY line LIMIT ${limit}`,
    );
    return rows.map(lineOf);
  }

  async acts({ limit, beforeId }: { limit: number; beforeId: number }): Promise<AuditEntry[]> {
    const rows = await this.#db.run<StoredAct[]>(
      (sql) => sql`
        SELECT a.line, a.at_ms, a.actor, a.action, coalesce(e.target, a.target) AS target,
          coalesce(e.outcome, a.outcome) AS outcome, e.code, coalesce(e.detail, a.detail) AS detail,
          e.at_ms AS ended_at_ms
        FROM audit AS a LEFT JOIN audit AS e ON e.act = a.line AND e.act <> e.line
        WHERE a.act = a.line AND a.line < ${beforeId}::bigint ORDER BY a.line DESC LIMIT ${limit}`,
    );
    return rows.map(entryOf);
  }

  /** The connections are closed by whoever opened them. */
  async close(): Promise<void> {}
}

async function headIn(sql: Statements): Promise<AuditHead> {
  const [row] = await sql<Pick<Stored, 'line' | 'hash'>[]>`
    SELECT line, hash FROM audit ORDER BY line DESC LIMIT 1`;
  return headOf(row === undefined ? null : { line: whole(row.line), hash: row.hash });
}

function storedOf({ atMs, ...line }: StoredLine): Stored {
  return { ...line, at_ms: atMs };
}

function lineOf({ line, at_ms, act, ...texts }: Stored): StoredLine {
  return { ...texts, line: whole(line), atMs: whole(at_ms), act: whole(act) };
}

function entryOf(row: StoredAct): AuditEntry {
  const { actor, action, target, outcome, code, detail } = row;
  return {
    ...{ actor, action, target, code, detail },
    id: whole(row.line),
    atMs: whole(row.at_ms),
    outcome: outcome as AuditOutcome | 'started',
    endedAtMs: wholeOrNull(row.ended_at_ms),
  };
}
