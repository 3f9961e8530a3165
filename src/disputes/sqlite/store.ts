/**
 * Disputes in the control file. One row is one dispute: a step is one statement, so it happens as a
 * whole or not at all.
 */
import type { Database } from 'bun:sqlite';
import { randomBytes } from 'node:crypto';
import type { Clock } from '../../platform/clock.ts';
import { assert, LedgerError } from '../../platform/errors.ts';
import { openSqlite } from '../../platform/sqlite.ts';
import { hasEnded } from '../end.ts';
import type { Actor, Dispute, DisputeEnd, DisputeStore, DisputeSubject } from '../port.ts';

/** Most that one advertiser can have open, and can open in a day. */
const MAX_DISPUTES = 1_000;
const ID_BYTES = 16;
const DAY_MS = 86_400_000;

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

interface DisputeRow {
  readonly id: string;
  readonly advertiser_id: string;
  readonly ad_id: string;
  readonly from_ms: number;
  readonly to_ms: number;
  readonly timezone: string;
  readonly reason: string;
  readonly opened_by: string;
  readonly opened_scope: Actor['scope'];
  readonly opened_at_ms: number;
  readonly state: 'open' | DisputeEnd['state'];
  readonly resolution: DisputeEnd['resolution'];
  readonly note: string | null;
  readonly verdicts: number | null;
  readonly closed_by: string | null;
  readonly closed_scope: Actor['scope'] | null;
  readonly closed_at_ms: number | null;
}

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

  open(subject: DisputeSubject, by: Actor): { dispute: Dispute; created: boolean } {
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
    if (count < this.#most) return;
    throw new LedgerError(
      'disputes_too_many',
      `An advertiser has at most ${this.#most} disputes that are open or of the last 24 hours.`,
      { hint: 'Dispute a longer range at once, or withdraw those that are settled.' },
    );
  }

  #insert(subject: DisputeSubject, by: Actor, nowMs: number): Dispute {
    const id = `dp_${randomBytes(ID_BYTES).toString('base64url')}`;
    const { advertiserId, adId, fromMs, toMs, timezone, reason } = subject;
    this.#db
      .query<unknown, Value[]>(
        `INSERT INTO disputes (id, advertiser_id, ad_id, from_ms, to_ms, timezone, reason,
           opened_by, opened_scope, opened_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(id, advertiserId, adId, fromMs, toMs, timezone, reason, by.tokenId, by.scope, nowMs);
    return { id, ...subject, opened: { by, atMs: nowMs }, closed: null };
  }

  find(id: string, advertiserId: string | undefined): Dispute | null {
    const row = this.#db
      .query<DisputeRow, Value[]>(
        'SELECT * FROM disputes WHERE id = ?1 AND (?2 IS NULL OR advertiser_id = ?2)',
      )
      .get(id, advertiserId ?? null);
    return row === null ? null : toDispute(row);
  }

  list(options: Parameters<DisputeStore['list']>[0]): Dispute[] {
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

  end(id: string, end: DisputeEnd, by: Actor): Dispute {
    const { state, resolution, note, verdicts } = end;
    const { changes } = this.#db
      .query<unknown, Value[]>(
        `UPDATE disputes SET state = ?, resolution = ?, note = ?, verdicts = ?, closed_by = ?,
           closed_scope = ?, closed_at_ms = ? WHERE id = ? AND state = 'open'`,
      )
      .run(state, resolution, note, verdicts, by.tokenId, by.scope, this.#clock(), id);
    const dispute = this.find(id, undefined);
    if (dispute === null) throw new LedgerError('dispute_unknown', 'There is no such dispute.');
    assert(changes === 1 || hasEnded(dispute, end), 'a dispute ends once');
    return dispute;
  }

  close(): void {
    this.#db.close();
  }
}

function toDispute(row: DisputeRow): Dispute {
  const { id, timezone, reason, state, resolution } = row;
  const closed =
    state === 'open'
      ? null
      : {
          state,
          resolution,
          note: row.note ?? '',
          verdicts: row.verdicts ?? 0,
          by: { tokenId: row.closed_by ?? '', scope: row.closed_scope ?? 'admin' },
          atMs: row.closed_at_ms!,
        };
  return {
    id,
    advertiserId: row.advertiser_id,
    adId: row.ad_id,
    fromMs: row.from_ms,
    toMs: row.to_ms,
    timezone,
    reason,
    opened: { by: { tokenId: row.opened_by, scope: row.opened_scope }, atMs: row.opened_at_ms },
    closed,
  };
}
