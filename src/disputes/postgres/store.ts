/**
 * Disputes in PostgreSQL, for several processes at once. One row is one dispute: a step is one
 * statement, so it happens as a whole or not at all (D3). Opening counts before it inserts, so of one
 * advertiser's openings there is one at a time, in all processes.
 */
import type { Clock } from '../../platform/clock.ts';
import type { Postgres, Statements } from '../../platform/postgres.ts';
import { hasEnded } from '../end.ts';
import type {
  Actor,
  Dispute,
  DisputeEnd,
  DisputeQuery,
  DisputeStore,
  DisputeSubject,
  DisputeTarget,
} from '../port.ts';
import {
  DAY_MS,
  type DisputeRow,
  MAX_DISPUTES,
  newDisputeId,
  toDispute,
  tooMany,
  toRow,
  unknownDispute,
} from '../row.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS disputes (
    id TEXT COLLATE "C" PRIMARY KEY,
    advertiser_id TEXT NOT NULL,
    ad_id TEXT NOT NULL,
    from_ms BIGINT NOT NULL,
    to_ms BIGINT NOT NULL,
    timezone TEXT NOT NULL,
    reason TEXT NOT NULL,
    opened_by TEXT NOT NULL,
    opened_scope TEXT NOT NULL CHECK (opened_scope IN ('read', 'admin')),
    opened_at_ms BIGINT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'resolved', 'withdrawn')),
    resolution TEXT CHECK ((state = 'resolved') = (resolution IS NOT NULL)),
    note TEXT,
    verdicts INTEGER,
    closed_by TEXT,
    closed_scope TEXT CHECK (closed_scope IN ('read', 'admin')),
    closed_at_ms BIGINT CHECK ((state = 'open') = (closed_at_ms IS NULL))
  );
  CREATE INDEX IF NOT EXISTS disputes_by_advertiser
    ON disputes (advertiser_id, opened_at_ms DESC, id DESC);
  CREATE INDEX IF NOT EXISTS disputes_by_time ON disputes (opened_at_ms DESC, id DESC)`;
/** A BIGINT comes as text; times are whole numbers that a float8 holds exactly. */
const ROW = `id, advertiser_id, ad_id, from_ms::float8 AS from_ms, to_ms::float8 AS to_ms, timezone,
  reason, opened_by, opened_scope, opened_at_ms::float8 AS opened_at_ms, state, resolution, note,
  verdicts, closed_by, closed_scope, closed_at_ms::float8 AS closed_at_ms`;
/** First key of the locks on openings; the second is of the advertiser. */
const OPENING_LOCK = 7_203_116;

export interface PgDisputesOptions {
  readonly clock: Clock;
  readonly maxPerAdvertiser?: number;
}

/** Creates its tables where they are missing. The database is closed by whoever opened it. */
export async function openPgDisputes(
  db: Postgres,
  options: PgDisputesOptions,
): Promise<DisputeStore & DisputeTarget> {
  await db.migrate(SCHEMA);
  return new PgDisputes(db, { maxPerAdvertiser: MAX_DISPUTES, ...options });
}

class PgDisputes implements DisputeStore, DisputeTarget {
  readonly #db: Postgres;
  readonly #clock: Clock;
  readonly #most: number;

  constructor(db: Postgres, options: Required<PgDisputesOptions>) {
    this.#db = db;
    this.#clock = options.clock;
    this.#most = options.maxPerAdvertiser;
  }

  open(subject: DisputeSubject, by: Actor): Promise<{ dispute: Dispute; created: boolean }> {
    return this.#db.transaction(async (sql) => {
      await sql`SELECT pg_advisory_xact_lock(${OPENING_LOCK}, hashtext(${subject.advertiserId}))`;
      const known = await openTwin(sql, subject);
      if (known !== null) return { dispute: known, created: false };
      const nowMs = this.#clock();
      await this.#requireRoom(sql, subject.advertiserId, nowMs);
      const opened = { by, atMs: nowMs };
      const dispute = { id: newDisputeId(), ...subject, opened, closed: null };
      await insert(sql, [dispute]);
      return { dispute, created: true };
    });
  }

  async #requireRoom(sql: Statements, advertiserId: string, nowMs: number): Promise<void> {
    const [row] = await sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM disputes WHERE advertiser_id = ${advertiserId}
      AND (state = 'open' OR opened_at_ms > ${nowMs - DAY_MS}::bigint)`;
    if (row!.count >= this.#most) throw tooMany(this.#most);
  }

  find(id: string, advertiserId: string | undefined): Promise<Dispute | null> {
    return this.#db.run((sql) => find(sql, id, advertiserId));
  }

  async list({ advertiserId, adId, state, before, limit }: DisputeQuery): Promise<Dispute[]> {
    const filters: readonly [string, readonly (string | number)[]][] = [
      ['advertiser_id = ?', advertiserId === undefined ? [] : [advertiserId]],
      ['ad_id = ?', adId === undefined ? [] : [adId]],
      ['state = ?', state === undefined ? [] : [state]],
      ['(opened_at_ms, id) < (?::bigint, ?)', before ? [before.openedAtMs, before.id] : []],
    ];
    const given = filters.filter(([, values]) => values.length > 0);
    const values = given.flatMap(([, each]) => each);
    let at = 0;
    const where = given.map(([text]) => text.replaceAll('?', () => `$${++at}`)).join(' AND ');
    const text = `SELECT ${ROW} FROM disputes ${where === '' ? '' : `WHERE ${where}`}
      ORDER BY opened_at_ms DESC, id DESC LIMIT $${at + 1}::int`;
    const rows = await this.#db.run<DisputeRow[]>((sql) => sql.unsafe(text, [...values, limit]));
    return rows.map(toDispute);
  }

  async end(id: string, end: DisputeEnd, by: Actor): Promise<Dispute> {
    const { state, resolution, note, verdicts } = end;
    const nowMs = this.#clock();
    return this.#db.transaction(async (sql) => {
      const [ended] = await sql<DisputeRow[]>`
        UPDATE disputes SET state = ${state}, resolution = ${resolution}::text, note = ${note},
          verdicts = ${verdicts}::int, closed_by = ${by.tokenId}, closed_scope = ${by.scope},
          closed_at_ms = ${nowMs}::bigint
        WHERE id = ${id} AND state = 'open' RETURNING ${sql.unsafe(ROW)}`;
      if (ended !== undefined) return toDispute(ended);
      const dispute = await find(sql, id, undefined);
      if (dispute === null) throw unknownDispute();
      hasEnded(dispute, end);
      return dispute;
    });
  }

  restore(disputes: readonly Dispute[]): Promise<number> {
    return this.#db.transaction((sql) => insert(sql, disputes));
  }

  async close(): Promise<void> {}
}

async function find(
  sql: Statements,
  id: string,
  advertiserId: string | undefined,
): Promise<Dispute | null> {
  // No text of the database's has it: it would be refused as a fault of ours.
  if (id.includes('\0')) return null;
  const owner = advertiserId ?? null;
  const [row] = await sql<DisputeRow[]>`
    SELECT ${sql.unsafe(ROW)} FROM disputes
    WHERE id = ${id} AND (${owner}::text IS NULL OR advertiser_id = ${owner}::text)`;
  return row === undefined ? null : toDispute(row);
}

async function openTwin(sql: Statements, subject: DisputeSubject): Promise<Dispute | null> {
  const { advertiserId, adId, fromMs, toMs, timezone, reason } = subject;
  const [row] = await sql<DisputeRow[]>`
    SELECT ${sql.unsafe(ROW)} FROM disputes
    WHERE state = 'open' AND advertiser_id = ${advertiserId} AND ad_id = ${adId}
      AND from_ms = ${fromMs}::bigint AND to_ms = ${toMs}::bigint
      AND timezone = ${timezone} AND reason = ${reason}`;
  return row === undefined ? null : toDispute(row);
}

/** Adds what is not there, and ends what is open there and has ended here; returns how many. */
async function insert(sql: Statements, disputes: readonly Dispute[]): Promise<number> {
  const rows = JSON.stringify(disputes.map(toRow));
  const { count } = await sql`
    INSERT INTO disputes AS known
    SELECT * FROM json_populate_recordset(NULL::disputes, ${rows}::text::json)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, resolution = excluded.resolution,
      note = excluded.note, verdicts = excluded.verdicts, closed_by = excluded.closed_by,
      closed_scope = excluded.closed_scope, closed_at_ms = excluded.closed_at_ms
    WHERE known.state = 'open' AND excluded.state <> 'open'`;
  return count;
}
