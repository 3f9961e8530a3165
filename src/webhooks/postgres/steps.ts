/**
 * The steps that the store's transactions are made of.
 *
 * Each that writes for a webhook holds its row first (`FOR KEY SHARE`): a removal waits for them or
 * they for it, always in this order, and for a webhook that is gone they do nothing.
 */
import type { Statements } from '../../platform/postgres.ts';
import { bodyOf, eventIdOf, webhooksFull } from '../identity.ts';
import {
  DELIVERIES_KEPT,
  type Delivery,
  MAX_WEBHOOKS,
  type OutboxEntry,
  type WaitingEvent,
  type WebhookEvent,
} from '../port.ts';

/** Key of the lock on registering; any fixed number. */
const REGISTER_LOCK = 7_203_117;

/** One registers at a time: nobody else does between the count and the insert. */
export async function requireRoom(sql: Statements): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${REGISTER_LOCK}::bigint)`;
  const [row] = await sql<{ n: number }[]>`SELECT count(*)::int AS n FROM webhooks`;
  if (row!.n >= MAX_WEBHOOKS) throw webhooksFull();
}

export async function hold(sql: Statements, webhookId: string): Promise<boolean> {
  const rows = await sql`SELECT 1 FROM webhooks WHERE id = ${webhookId} FOR KEY SHARE`;
  return rows.length === 1;
}

/** W1; returns how many were new. */
export async function enqueue(
  sql: Statements,
  webhookId: string,
  events: readonly WebhookEvent[],
  nowMs: number,
): Promise<number> {
  const entries = events.map((event): OutboxEntry => {
    const eventId = eventIdOf(webhookId, event.key);
    return {
      key: event.key,
      eventId,
      type: event.type,
      body: bodyOf(eventId, event),
      enqueuedAtMs: nowMs,
      attempts: 0,
      nextAtMs: nowMs,
      outcome: null,
      settledAtMs: null,
    };
  });
  return addEntries(sql, webhookId, entries);
}

const ENTRIES = `e(key text, "eventId" text, type text, body text, "enqueuedAtMs" bigint,
  attempts int, "nextAtMs" bigint, outcome text, "settledAtMs" bigint)`;

export async function addEntries(
  sql: Statements,
  webhookId: string,
  entries: readonly OutboxEntry[],
): Promise<number> {
  const { count } = await sql`
    INSERT INTO webhook_outbox (webhook_id, key, event_id, type, body, enqueued_at_ms, attempts,
      next_at_ms, outcome, settled_at_ms)
    SELECT w.id, e.key, e."eventId", e.type, e.body, e."enqueuedAtMs", e.attempts, e."nextAtMs",
      e.outcome, e."settledAtMs"
    FROM json_to_recordset(${jsonOf(entries)}::text::json) AS ${sql.unsafe(ENTRIES)}
    JOIN webhooks w ON w.id = ${webhookId} ORDER BY e.key FOR KEY SHARE OF w
    ON CONFLICT DO NOTHING`;
  return count;
}

/** Settles those that wait here and are settled in `entries`. */
export async function settleEntries(
  sql: Statements,
  webhookId: string,
  entries: readonly OutboxEntry[],
): Promise<number> {
  const { count } = await sql`
    UPDATE webhook_outbox o SET outcome = e.outcome, body = NULL, attempts = e.attempts,
      settled_at_ms = e."settledAtMs"
    FROM json_to_recordset(${jsonOf(entries)}::text::json) AS ${sql.unsafe(ENTRIES)}
    WHERE o.webhook_id = ${webhookId} AND o.key = e.key AND o.outcome IS NULL
      AND e.outcome IS NOT NULL`;
  return count;
}

/** What somebody else has recorded meanwhile is not undone; but what has arrived has arrived. */
export async function settle(
  sql: Statements,
  { webhookId, key, attempts }: WaitingEvent,
  { outcome, atMs, attempt }: Delivery,
  retryAtMs: number | null,
): Promise<void> {
  if (retryAtMs !== null) {
    await sql`
      UPDATE webhook_outbox SET attempts = ${attempt}::int, next_at_ms = ${retryAtMs}::bigint
      WHERE webhook_id = ${webhookId} AND key = ${key} AND outcome IS NULL
        AND attempts = ${attempts}::int`;
    return;
  }
  await sql`
    UPDATE webhook_outbox SET outcome = ${outcome}::text, settled_at_ms = ${atMs}::bigint,
      attempts = greatest(attempts, ${attempt}::int), body = NULL
    WHERE webhook_id = ${webhookId} AND key = ${key} AND outcome IS NULL
      AND (${outcome}::text = 'delivered' OR attempts = ${attempts}::int)`;
}

/** Logs attempts of one webhook, oldest first, and forgets those beyond the newest. */
export async function logAttempts(
  sql: Statements,
  webhookId: string,
  deliveries: readonly Delivery[],
): Promise<void> {
  await sql`
    INSERT INTO webhook_deliveries
      (webhook_id, event_id, type, attempt, at_ms, latency_ms, status, outcome, error)
    SELECT ${webhookId}, d."eventId", d.type, d.attempt, d."atMs", d."latencyMs", d.status,
      d.outcome, d.error
    FROM ROWS FROM (json_to_recordset(${jsonOf(deliveries)}::text::json)
      AS ("eventId" text, type text, attempt int, "atMs" bigint, "latencyMs" int, status int,
        outcome text, error text)) WITH ORDINALITY
      AS d("eventId", type, attempt, "atMs", "latencyMs", status, outcome, error, at)
    ORDER BY d.at`;
  await sql`
    DELETE FROM webhook_deliveries WHERE webhook_id = ${webhookId} AND id <= (
      SELECT id FROM webhook_deliveries WHERE webhook_id = ${webhookId}
      ORDER BY id DESC LIMIT 1 OFFSET ${DELIVERIES_KEPT}::int)`;
}

/**
 * As the database reads it. What a receiver answered may be cut in the middle of a character, or have
 * one that is none in the database's texts: refused, the attempt would be made again and again.
 */
function jsonOf(rows: readonly object[]): string {
  return JSON.stringify(rows, (_, value: unknown) =>
    typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\ufffd') : value,
  );
}
