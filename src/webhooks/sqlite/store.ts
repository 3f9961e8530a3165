/**
 * Webhooks, outbox and delivery log as tables of the control file.
 *
 * A settled event keeps its key (W1) and loses its body. Hours make some ten thousand keys a year for
 * each webhook; keys of other events are of no use after a month and go.
 */
import type { Database } from 'bun:sqlite';
import { createHash, randomBytes } from 'node:crypto';
import { LedgerError } from '../../platform/errors.ts';
import { openSqlite } from '../../platform/sqlite.ts';
import {
  type Backlog,
  DELIVERIES_KEPT,
  type DeadLettersTold,
  type Delivery,
  MAX_WEBHOOKS,
  type NewWebhook,
  type StoredDelivery,
  type WaitingEvent,
  type Webhook,
  type WebhookEvent,
  type WebhookEventType,
  type WebhookStore,
} from '../port.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS webhooks (
    id TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    advertiser_id TEXT,
    secret TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    final_until_ms INTEGER NOT NULL,
    dead_letters_told INTEGER NOT NULL DEFAULT 0,
    dead_letters_told_at_ms INTEGER NOT NULL DEFAULT 0
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS webhook_outbox (
    webhook_id TEXT NOT NULL,
    key TEXT NOT NULL,
    event_id TEXT NOT NULL,
    type TEXT NOT NULL,
    body TEXT,
    enqueued_at_ms INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at_ms INTEGER NOT NULL,
    outcome TEXT CHECK (outcome IN ('delivered', 'given_up')),
    settled_at_ms INTEGER,
    PRIMARY KEY (webhook_id, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS webhook_outbox_waiting
    ON webhook_outbox (webhook_id, next_at_ms) WHERE outcome IS NULL;
  CREATE TABLE IF NOT EXISTS webhook_deliveries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    webhook_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    type TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    latency_ms INTEGER NOT NULL,
    status INTEGER,
    outcome TEXT NOT NULL,
    error TEXT
  ) STRICT;
  CREATE INDEX IF NOT EXISTS webhook_deliveries_of
    ON webhook_deliveries (webhook_id, id)`;

const WEBHOOK = `id, url, events, advertiser_id AS advertiserId, created_at_ms AS createdAtMs,
  final_until_ms AS finalUntilMs`;
const WAITING = `o.webhook_id AS webhookId, w.url, w.secret, o.key, o.event_id AS eventId, o.type,
  o.body, o.attempts, o.enqueued_at_ms AS enqueuedAtMs`;
const DELIVERY = `id, webhook_id AS webhookId, event_id AS eventId, type, attempt, at_ms AS atMs,
  latency_ms AS latencyMs, status, outcome, error`;

const KEYS_KEPT_MS = 31 * 24 * 3_600_000;

type WebhookRow = Omit<Webhook, 'events'> & { readonly events: string };

export function openWebhookStore(path: string): WebhookStore {
  const db = openSqlite({
    path,
    schema: SCHEMA,
    what: 'the webhooks',
    code: 'webhooks_unreadable',
    hint: 'Restore the file from a backup; or move it away and register webhooks and tokens anew.',
  });
  return new SqliteWebhookStore(db);
}

class SqliteWebhookStore implements WebhookStore {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  create(input: NewWebhook): { webhook: Webhook; secret: string } {
    const webhook = { ...input, id: `wh_${randomBytes(8).toString('hex')}` };
    const secret = `whsec_${randomBytes(32).toString('base64url')}`;
    this.#inOneStep(() => {
      const { n } = this.#db
        .query<{ n: number }, []>('SELECT count(*) AS n FROM webhooks')
        .get() ?? { n: 0 };
      if (n >= MAX_WEBHOOKS) {
        throw new LedgerError('webhooks_full', `there are ${MAX_WEBHOOKS} webhooks, the most`, {
          hint: 'Remove one that is not needed.',
        });
      }
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

  list(): Webhook[] {
    return this.#db
      .query<WebhookRow, []>(`SELECT ${WEBHOOK} FROM webhooks ORDER BY created_at_ms, id`)
      .all()
      .map(toWebhook);
  }

  get(id: string): Webhook | null {
    const row = this.#db
      .query<WebhookRow, [string]>(`SELECT ${WEBHOOK} FROM webhooks WHERE id = ?`)
      .get(id);
    return row === null ? null : toWebhook(row);
  }

  secretOf(id: string): string | null {
    const row = this.#db
      .query<{ secret: string }, [string]>('SELECT secret FROM webhooks WHERE id = ?')
      .get(id);
    return row?.secret ?? null;
  }

  remove(id: string): boolean {
    return this.#inOneStep(() => {
      this.#db.query('DELETE FROM webhook_outbox WHERE webhook_id = ?').run(id);
      this.#db.query('DELETE FROM webhook_deliveries WHERE webhook_id = ?').run(id);
      return this.#db.query('DELETE FROM webhooks WHERE id = ?').run(id).changes === 1;
    });
  }

  keys(webhookId: string): Set<string> {
    const rows = this.#db
      .query<{ key: string }, [string]>('SELECT key FROM webhook_outbox WHERE webhook_id = ?')
      .all(webhookId);
    return new Set(rows.map(({ key }) => key));
  }

  enqueue(webhookId: string, events: readonly WebhookEvent[], nowMs: number): number {
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

  deadLettersTold(webhookId: string): DeadLettersTold {
    const row = this.#db
      .query<DeadLettersTold, [string]>(
        `SELECT dead_letters_told AS count, dead_letters_told_at_ms AS atMs
         FROM webhooks WHERE id = ?`,
      )
      .get(webhookId);
    return row ?? { count: 0, atMs: 0 };
  }

  tellDeadLetters(webhookId: string, told: DeadLettersTold, event: WebhookEvent | null): void {
    this.#inOneStep(() => {
      this.#db
        .query(
          'UPDATE webhooks SET dead_letters_told = ?, dead_letters_told_at_ms = ? WHERE id = ?',
        )
        .run(told.count, told.atMs, webhookId);
      if (event === null) return;
      this.#insert(webhookId, event, told.atMs);
      this.#db
        .query(
          `DELETE FROM webhook_outbox WHERE webhook_id = ? AND type = 'dlq.not_empty'
           AND settled_at_ms < ?`,
        )
        .run(webhookId, told.atMs - KEYS_KEPT_MS);
    });
  }

  due(webhookId: string, nowMs: number): WaitingEvent | null {
    return this.#db
      .query<WaitingEvent, [string, number]>(
        `SELECT ${WAITING} FROM webhook_outbox o JOIN webhooks w ON w.id = o.webhook_id
         WHERE o.webhook_id = ? AND o.outcome IS NULL AND o.next_at_ms <= ?
         ORDER BY o.next_at_ms, o.key LIMIT 1`,
      )
      .get(webhookId, nowMs);
  }

  record(event: WaitingEvent, delivery: Delivery, retryAtMs: number | null): void {
    const { webhookId, key } = event;
    this.#inOneStep(() => {
      const { changes } =
        retryAtMs === null
          ? this.#db
              .query(
                `UPDATE webhook_outbox
                 SET outcome = ?, settled_at_ms = ?, attempts = ?, body = NULL
                 WHERE webhook_id = ? AND key = ?`,
              )
              .run(delivery.outcome, delivery.atMs, delivery.attempt, webhookId, key)
          : this.#db
              .query(
                `UPDATE webhook_outbox SET attempts = ?, next_at_ms = ?
                 WHERE webhook_id = ? AND key = ?`,
              )
              .run(delivery.attempt, retryAtMs, webhookId, key);
      // The webhook was removed while its request was on the way.
      if (changes > 0) this.#log(delivery);
    });
  }

  log(delivery: Delivery): void {
    this.#inOneStep(() => this.#log(delivery));
  }

  #log(delivery: Delivery): void {
    const { webhookId, eventId, type, attempt, atMs, latencyMs, status, outcome, error } = delivery;
    this.#db
      .query(
        `INSERT INTO webhook_deliveries
           (webhook_id, event_id, type, attempt, at_ms, latency_ms, status, outcome, error)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
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

  deliveries(webhookId: string, page: { limit: number; before: number | null }): StoredDelivery[] {
    return this.#db
      .query<StoredDelivery, [string, number, number]>(
        `SELECT ${DELIVERY} FROM webhook_deliveries WHERE webhook_id = ? AND id < ?
         ORDER BY id DESC LIMIT ?`,
      )
      .all(webhookId, page.before ?? Number.MAX_SAFE_INTEGER, page.limit);
  }

  backlog(webhookId: string): Backlog {
    const row = this.#db
      .query<Backlog, [string]>(
        `SELECT count(*) AS waiting, min(enqueued_at_ms) AS oldestAtMs
         FROM webhook_outbox WHERE webhook_id = ? AND outcome IS NULL`,
      )
      .get(webhookId);
    return row ?? { waiting: 0, oldestAtMs: null };
  }

  /** Takes the writer's place at once: another process writes tokens into the same file. */
  #inOneStep<T>(work: () => T): T {
    return this.#db.transaction(work).immediate();
  }

  close(): void {
    this.#db.close();
  }
}

function toWebhook(row: WebhookRow): Webhook {
  return { ...row, events: JSON.parse(row.events) as WebhookEventType[] };
}

/** W2 */
function eventIdOf(webhookId: string, key: string): string {
  const hash = createHash('sha256').update(`${webhookId}\n${key}`).digest('hex');
  return `evt_${hash.slice(0, 32)}`;
}

function bodyOf(id: string, { type, createdAtMs, data }: WebhookEvent): string {
  return JSON.stringify({ id, type, created_at: new Date(createdAtMs).toISOString(), data });
}
