/**
 * Disputes in the control file. One row is one dispute: a step is one statement, so it happens as a
 * whole or not at all.
 */
import type { Database } from 'bun:sqlite';
import type { Clock } from '../../platform/clock.ts';
import { assert } from '../../platform/errors.ts';
import { openSqlite } from '../../platform/sqlite.ts';
import { hasEnded } from '../end.ts';
import type {
  Actor,
  Dispute,
  DisputeEnd,
  DisputeQuery,
  DisputeStore,
  DisputeSubject,
} from '../port.ts';
import {
  DAY_MS,
  type DisputeRow,
  MAX_DISPUTES,
  newDisputeId,
  toDispute,
  tooMany,
  unknownDispute,
} from '../row.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS disputes (
    id TEXT PRIMARY KEY,
    advertiser_id TEXT NOT NULL,
    ad_id TEXT NOT NULL,
    from_ms INTEGER NOT NULL,
    to_ms INTEGER NOT NULL,
    timezone TEXT NOT NULL,
    reason TEXT NOT NULL,
    opened_by TEXT NOT NULL,
    opened_scope TEXT NOT NULL CHECK (opened_scope IN ('read', 'admin')),
    opened_at_ms INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'resolved', 'withdrawn')),
    resolution TEXT CHECK ((state = 'resolved') = (resolution IS NOT NULL)),
    note TEXT,
    verdicts INTEGER,
    closed_by TEXT,
    closed_scope TEXT CHECK (closed_scope IN ('read', 'admin')),
    closed_at_ms INTEGER CHECK ((state = 'open') = (closed_at_ms IS NULL))
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS disputes_by_advertiser
    ON disputes (advertiser_id, opened_at_ms DESC, id DESC);
  CREATE INDEX IF NOT EXISTS disputes_by_time ON disputes (opened_at_ms DESC, id DESC)`;

type Value = string | number | null;

export function openDisputes(options: {
  path: string;
  clock: Clock;
  maxPerAdvertiser?: number;
}): DisputeStore {
  const db = openSqlite({
    path: options.path,
    schema: SCHEMA,
    what: 'the disputes',
    code: 'disputes_unreadable',
    hint: 'Restore the file from a backup.',
  });
  return new SqliteDisputes(db, { maxPerAdvertiser: MAX_DISPUTES, ...options });
}

class SqliteDisputes implements DisputeStore {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #most: number;

  constructor(db: Database, options: { clock: Clock; maxPerAdvertiser: number }) {
    this.#db = db;
    this.#clock = options.clock;
    this.#most = options.maxPerAdvertiser;
  }

  async open(subject: DisputeSubject, by: Actor): Promise<{ dispute: Dispute; created: boolean }> {
    // The file is shared with other processes: nobody may open one between the count and the insert.
    return this.#db
      .transaction(() => {
        const known = this.#openTwin(subject);
        if (known !== null) return { dispute: known, created: false };
        const nowMs = this.#clock();
        this.#requireRoom(subject.advertiserId, nowMs);
        return { dispute: this.#insert(subject, by, nowMs), created: true };
      })
      .immediate();
  }

  #openTwin(subject: DisputeSubject): Dispute | null {
    const { advertiserId, adId, fromMs, toMs, timezone, reason } = subject;
    const row = this.#db
      .query<DisputeRow, Value[]>(
        `SELECT * FROM disputes WHERE state = 'open' AND advertiser_id = ? AND ad_id = ?
         AND from_ms = ? AND to_ms = ? AND timezone = ? AND reason = ?`,
      )
      .get(advertiserId, adId, fromMs, toMs, timezone, reason);
    return row === null ? null : toDispute(row);
  }

  #requireRoom(advertiserId: string, nowMs: number): void {
    const { count } = this.#db
      .query<{ count: number }, Value[]>(
        `SELECT count(*) AS count FROM disputes
         WHERE advertiser_id = ? AND (state = 'open' OR opened_at_ms > ?)`,
      )
      .get(advertiserId, nowMs - DAY_MS)!;
    if (count >= this.#most) throw tooMany(this.#most);
  }

  #insert(subject: DisputeSubject, by: Actor, nowMs: number): Dispute {
    const id = newDisputeId();
    const { advertiserId, adId, fromMs, toMs, timezone, reason } = subject;
    this.#db
      .query<unknown, Value[]>(
        `INSERT INTO disputes (id, advertiser_id, ad_id, from_ms, to_ms, timezone, reason,
           opened_by, opened_scope, opened_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(id, advertiserId, adId, fromMs, toMs, timezone, reason, by.tokenId, by.scope, nowMs);
    return { id, ...subject, opened: { by, atMs: nowMs }, closed: null };
  }

  async find(id: string, advertiserId: string | undefined): Promise<Dispute | null> {
    return this.#find(id, advertiserId);
  }

  #find(id: string, advertiserId: string | undefined): Dispute | null {
    const row = this.#db
      .query<DisputeRow, Value[]>(
        'SELECT * FROM disputes WHERE id = ?1 AND (?2 IS NULL OR advertiser_id = ?2)',
      )
      .get(id, advertiserId ?? null);
    return row === null ? null : toDispute(row);
  }

  async list(options: DisputeQuery): Promise<Dispute[]> {
    const { advertiserId, adId, state, before, limit } = options;
    const conditions: string[] = [];
    const values: Value[] = [];
    const where = (condition: string, ...given: Value[]): void => {
      conditions.push(condition);
      values.push(...given);
    };
    if (advertiserId !== undefined) where('advertiser_id = ?', advertiserId);
    if (adId !== undefined) where('ad_id = ?', adId);
    if (state !== undefined) where('state = ?', state);
    if (before !== undefined) where('(opened_at_ms, id) < (?, ?)', before.openedAtMs, before.id);
    const filter = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`;
    return this.#db
      .query<DisputeRow, Value[]>(
        `SELECT * FROM disputes ${filter} ORDER BY opened_at_ms DESC, id DESC LIMIT ?`,
      )
      .all(...values, limit)
      .map(toDispute);
  }

  async end(id: string, end: DisputeEnd, by: Actor): Promise<Dispute> {
    const { state, resolution, note, verdicts } = end;
    const { changes } = this.#db
      .query<unknown, Value[]>(
        `UPDATE disputes SET state = ?, resolution = ?, note = ?, verdicts = ?, closed_by = ?,
           closed_scope = ?, closed_at_ms = ? WHERE id = ? AND state = 'open'`,
      )
      .run(state, resolution, note, verdicts, by.tokenId, by.scope, this.#clock(), id);
    const dispute = this.#find(id, undefined);
    if (dispute === null) throw unknownDispute();
    assert(changes === 1 || hasEnded(dispute, end), 'a dispute ends once');
    return dispute;
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}
