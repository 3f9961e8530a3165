/**
 * Webhooks, outbox and delivery log as tables of the control file.
 *
 * A settled event keeps its key (W1) and loses its body. Hours make some ten thousand keys a year for
 * each webhook; keys of other events are of no use after a month and go.
 */
import type { Database } from 'bun:sqlite';
import { openSqlite } from '../../platform/sqlite.ts';
import { bodyOf, eventIdOf, newWebhook, webhooksFull } from '../identity.ts';
import {
  type Backlog,
  DELIVERIES_KEPT,
  type DeadLettersTold,
  type Delivery,
  MAX_WEBHOOKS,
  type NewWebhook,
  type OutboxEntry,
  type StoredDelivery,
  type WaitingEvent,
  type Webhook,
  type WebhookEvent,
  type WebhookEventType,
  type WebhookSource,
  type WebhookStore,
} from '../port.ts';
import { DELIVERY, ENTRY, SCHEMA, WAITING, WEBHOOK } from './schema.ts';

const KEYS_KEPT_MS = 31 * 24 * 3_600_000;

type WebhookRow = Omit<Webhook, 'events'> & { readonly events: string };

export function openWebhookStore(path: string): WebhookStore & WebhookSource {
  const db = openSqlite({
    path,
    schema: SCHEMA,
    what: 'the webhooks',
    code: 'webhooks_unreadable',
    hint: 'Restore the file from a backup; or move it away and register webhooks and tokens anew.',
  });
  return new SqliteWebhookStore(db);
}

class SqliteWebhookStore implements WebhookStore, WebhookSource {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async create(input: NewWebhook): Promise<{ webhook: Webhook; secret: string }> {
    const { webhook, secret } = newWebhook(input);
    this.#inOneStep(() => {
      const { n } = this.#db
        .query<{ n: number }, []>('SELECT count(*) AS n FROM webhooks')
        .get() ?? { n: 0 };
      if (n >= MAX_WEBHOOKS) throw webhooksFull();
      this.#db
        .query(
          `INSERT INTO webhooks (id, url, events, advertiser_id, secret, created_at_ms, final_until_ms)
           VALUES (?, ?, ?, ?, ?, ?, ?)`,
        )
        .run(
          webhook.id,
          webhook.url,
          JSON.stringify(webhook.events),
          webhook.advertiserId,
          secret,
          webhook.createdAtMs,
          webhook.finalUntilMs,
        );
    });
    return { webhook, secret };
  }

  async list(): Promise<Webhook[]> {
    return this.#db
      .query<WebhookRow, []>(`SELECT ${WEBHOOK} FROM webhooks ORDER BY created_at_ms, id`)
      .all()
      .map(toWebhook);
  }

  async get(id: string): Promise<Webhook | null> {
    const row = this.#db
      .query<WebhookRow, [string]>(`SELECT ${WEBHOOK} FROM webhooks WHERE id = ?`)
      .get(id);
    return row === null ? null : toWebhook(row);
  }

  async secretOf(id: string): Promise<string | null> {
    const row = this.#db
      .query<{ secret: string }, [string]>('SELECT secret FROM webhooks WHERE id = ?')
      .get(id);
    return row?.secret ?? null;
  }

  async remove(id: string): Promise<boolean> {
    return this.#inOneStep(() => {
      this.#db.query('DELETE FROM webhook_outbox WHERE webhook_id = ?').run(id);
      this.#db.query('DELETE FROM webhook_deliveries WHERE webhook_id = ?').run(id);
      return this.#db.query('DELETE FROM webhooks WHERE id = ?').run(id).changes === 1;
    });
  }

  async known(webhookId: string, keys: readonly string[]): Promise<Set<string>> {
    const rows = this.#db
      .query<{ key: string }, [string, string]>(
        `SELECT key FROM webhook_outbox
         WHERE webhook_id = ? AND key IN (SELECT value FROM json_each(?))`,
      )
      .all(webhookId, JSON.stringify(keys));
    return new Set(rows.map(({ key }) => key));
  }

  async outbox(
    webhookId: string,
    page: { limit: number; after: string | null },
  ): Promise<OutboxEntry[]> {
    return this.#db
      .query<OutboxEntry, [string, string, number]>(
        `SELECT ${ENTRY} FROM webhook_outbox WHERE webhook_id = ? AND key > ?
         ORDER BY key LIMIT ?`,
      )
      .all(webhookId, page.after ?? '', page.limit);
  }

  async enqueue(
    webhookId: string,
    events: readonly WebhookEvent[],
    nowMs: number,
  ): Promise<number> {
    if (events.length === 0) return 0;
    return this.#inOneStep(() =>
      events.reduce((added, event) => added + this.#insert(webhookId, event, nowMs), 0),
    );
  }

  /** Nothing for a webhook that is gone: its rows would never be removed. */
  #insert(webhookId: string, event: WebhookEvent, nowMs: number): number {
    const id = eventIdOf(webhookId, event.key);
    return this.#db
      .query(
        `INSERT OR IGNORE INTO webhook_outbox
           (webhook_id, key, event_id, type, body, enqueued_at_ms, next_at_ms)
         SELECT id, ?2, ?3, ?4, ?5, ?6, ?6 FROM webhooks WHERE id = ?1`,
      )
      .run(webhookId, event.key, id, event.type, bodyOf(id, event), nowMs).changes;
  }

  async deadLettersTold(webhookId: string): Promise<DeadLettersTold> {
    const row = this.#db
      .query<DeadLettersTold, [string]>(
        `SELECT dead_letters_told AS count, dead_letters_told_at_ms AS atMs
         FROM webhooks WHERE id = ?`,
      )
      .get(webhookId);
    return row ?? { count: 0, atMs: 0 };
  }

  async tellDeadLetters(
    webhookId: string,
    told: DeadLettersTold,
    event: WebhookEvent | null,
  ): Promise<void> {
    this.#inOneStep(() => {
      const { changes } = this.#db
        .query(
          `UPDATE webhooks SET dead_letters_told = ?1, dead_letters_told_at_ms = ?2
           WHERE id = ?3 AND dead_letters_told_at_ms <= ?2`,
        )
        .run(told.count, told.atMs, webhookId);
      if (event === null || changes === 0) return;
      this.#insert(webhookId, event, told.atMs);
      this.#db
        .query(
          `DELETE FROM webhook_outbox WHERE webhook_id = ? AND type = 'dlq.not_empty'
           AND settled_at_ms < ?`,
        )
        .run(webhookId, told.atMs - KEYS_KEPT_MS);
    });
  }

  async due(webhookIds: readonly string[], nowMs: number): Promise<WaitingEvent[]> {
    const longest = this.#db.query<WaitingEvent, [string, number]>(
      `SELECT ${WAITING} FROM webhook_outbox o JOIN webhooks w ON w.id = o.webhook_id
       WHERE o.webhook_id = ? AND o.outcome IS NULL AND o.next_at_ms <= ?
       ORDER BY o.next_at_ms, o.key LIMIT 1`,
    );
    return webhookIds.flatMap((id) => longest.get(id, nowMs) ?? []);
  }

  async record(event: WaitingEvent, delivery: Delivery, retryAtMs: number | null): Promise<void> {
    this.#inOneStep(() => {
      this.#settle(event, delivery, retryAtMs);
      this.#log(delivery);
    });
  }

  /** What somebody else has recorded meanwhile is not undone; but what has arrived has arrived. */
  #settle(event: WaitingEvent, delivery: Delivery, retryAtMs: number | null): void {
    const { webhookId, key, attempts } = event;
    const { outcome, atMs, attempt } = delivery;
    if (retryAtMs !== null) {
      this.#db
        .query(
          `UPDATE webhook_outbox SET attempts = ?, next_at_ms = ?
           WHERE webhook_id = ? AND key = ? AND outcome IS NULL AND attempts = ?`,
        )
        .run(attempt, retryAtMs, webhookId, key, attempts);
      return;
    }
    this.#db
      .query(
        `UPDATE webhook_outbox
         SET outcome = ?1, settled_at_ms = ?2, attempts = max(attempts, ?3), body = NULL
         WHERE webhook_id = ?4 AND key = ?5 AND outcome IS NULL
           AND (?1 = 'delivered' OR attempts = ?6)`,
      )
      .run(outcome, atMs, attempt, webhookId, key, attempts);
  }

  async log(delivery: Delivery): Promise<void> {
    this.#inOneStep(() => this.#log(delivery));
  }

  /** Nothing for a webhook that was removed while its request was on the way. */
  #log(delivery: Delivery): void {
    const { webhookId, eventId, type, attempt, atMs, latencyMs, status, outcome, error } = delivery;
    this.#db
      .query(
        `INSERT INTO webhook_deliveries
           (webhook_id, event_id, type, attempt, at_ms, latency_ms, status, outcome, error)
         SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 FROM webhooks WHERE id = ?1`,
      )
      .run(webhookId, eventId, type, attempt, atMs, latencyMs, status, outcome, error);
    this.#db
      .query(
        `DELETE FROM webhook_deliveries WHERE webhook_id = ?1 AND id <= (
           SELECT id FROM webhook_deliveries WHERE webhook_id = ?1
           ORDER BY id DESC LIMIT 1 OFFSET ${DELIVERIES_KEPT})`,
      )
      .run(webhookId);
  }

  async deliveries(
    webhookId: string,
    page: { limit: number; before: number | null },
  ): Promise<StoredDelivery[]> {
    return this.#db
      .query<StoredDelivery, [string, number, number]>(
        `SELECT ${DELIVERY} FROM webhook_deliveries WHERE webhook_id = ? AND id < ?
         ORDER BY id DESC LIMIT ?`,
      )
      .all(webhookId, page.before ?? Number.MAX_SAFE_INTEGER, page.limit);
  }

  async backlogs(): Promise<ReadonlyMap<string, Backlog>> {
    const rows = this.#db
      .query<Backlog & { readonly id: string }, []>(
        `SELECT webhook_id AS id, count(*) AS waiting, min(enqueued_at_ms) AS oldestAtMs
         FROM webhook_outbox WHERE outcome IS NULL GROUP BY webhook_id`,
      )
      .all();
    return new Map(rows.map(({ id, ...backlog }) => [id, backlog]));
  }

  /** Takes the writer's place at once: another process writes tokens into the same file. */
  #inOneStep<T>(work: () => T): T {
    return this.#db.transaction(work).immediate();
  }

  async close(): Promise<void> {
    this.#db.close();
  }
}

function toWebhook(row: WebhookRow): Webhook {
  return { ...row, events: JSON.parse(row.events) as WebhookEventType[] };
}
