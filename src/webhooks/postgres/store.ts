/**
 * Webhooks, outbox and delivery log in PostgreSQL, for several processes at once: any of them may
 * register, list and test, one sends. `steps.ts` says how they stay out of each other's way.
 *
 * A settled event keeps its key (W1) and loses its body. Hours make some ten thousand keys a year for
 * each webhook; keys of other events are of no use after a month and go.
 */
import type { Postgres } from '../../platform/postgres.ts';
import { newWebhook } from '../identity.ts';
import type {
  Backlog,
  DeadLettersTold,
  Delivery,
  NewWebhook,
  OutboxEntry,
  StoredDelivery,
  WaitingEvent,
  Webhook,
  WebhookEvent,
  WebhookEventType,
  WebhookStore,
  WebhookTarget,
  WholeWebhook,
} from '../port.ts';
import { DELIVERY, SCHEMA, WAITING, WEBHOOK } from './schema.ts';
import {
  addEntries,
  enqueue,
  hold,
  logAttempts,
  requireRoom,
  settle,
  settleEntries,
} from './steps.ts';

const KEYS_KEPT_MS = 31 * 24 * 3_600_000;

type WebhookRow = Omit<Webhook, 'events'> & { readonly events: string };

/** Creates its tables where they are missing. The database is closed by whoever opened it. */
export async function openPgWebhooks(db: Postgres): Promise<WebhookStore & WebhookTarget> {
  await db.migrate(SCHEMA);
  return new PgWebhookStore(db);
}

class PgWebhookStore implements WebhookStore, WebhookTarget {
  readonly #db: Postgres;

  constructor(db: Postgres) {
    this.#db = db;
  }

  async create(input: NewWebhook): Promise<{ webhook: Webhook; secret: string }> {
    const made = newWebhook(input);
    await this.restore({ ...made, told: { count: 0, atMs: 0 }, deliveries: [] });
    return made;
  }

  restore({ webhook, secret, told, deliveries }: WholeWebhook): Promise<boolean> {
    const { id, url, advertiserId, createdAtMs, finalUntilMs } = webhook;
    return this.#db.transaction(async (sql) => {
      const [known] = await sql`SELECT 1 FROM webhooks WHERE id = ${id}`;
      if (known !== undefined) return false;
      await requireRoom(sql);
      const { count } = await sql`
        INSERT INTO webhooks (id, url, events, advertiser_id, secret, created_at_ms, final_until_ms,
          dead_letters_told, dead_letters_told_at_ms)
        VALUES (${id}, ${url}, ${JSON.stringify(webhook.events)}, ${advertiserId}::text, ${secret},
          ${createdAtMs}::bigint, ${finalUntilMs}::bigint, ${told.count}::bigint,
          ${told.atMs}::bigint)
        ON CONFLICT DO NOTHING`;
      if (count === 0) return false;
      if (deliveries.length > 0) await logAttempts(sql, id, deliveries);
      return true;
    });
  }

  restoreOutbox(webhookId: string, entries: readonly OutboxEntry[]): Promise<number> {
    return this.#db.transaction(async (sql) => {
      const settled = await settleEntries(sql, webhookId, entries);
      return settled + (await addEntries(sql, webhookId, entries));
    });
  }

  list(): Promise<Webhook[]> {
    return this.#db.run(async (sql) => {
      const rows = await sql<WebhookRow[]>`
        SELECT ${sql.unsafe(WEBHOOK)} FROM webhooks ORDER BY created_at_ms, id`;
      return rows.map(toWebhook);
    });
  }

  async get(id: string): Promise<Webhook | null> {
    if (!isText(id)) return null;
    return this.#db.run(async (sql) => {
      const [row] = await sql<WebhookRow[]>`
        SELECT ${sql.unsafe(WEBHOOK)} FROM webhooks WHERE id = ${id}`;
      return row === undefined ? null : toWebhook(row);
    });
  }

  secretOf(id: string): Promise<string | null> {
    return this.#db.run(async (sql) => {
      const [row] = await sql<{ secret: string }[]>`SELECT secret FROM webhooks WHERE id = ${id}`;
      return row?.secret ?? null;
    });
  }

  async remove(id: string): Promise<boolean> {
    if (!isText(id)) return false;
    const { count } = await this.#db.transaction(
      (sql) => sql`DELETE FROM webhooks WHERE id = ${id}`,
    );
    return count === 1;
  }

  async known(webhookId: string, keys: readonly string[]): Promise<Set<string>> {
    const rows = await this.#db.run(
      (sql) => sql<{ key: string }[]>`
        SELECT key FROM webhook_outbox WHERE webhook_id = ${webhookId}
        AND key IN (SELECT json_array_elements_text(${JSON.stringify(keys)}::text::json))`,
    );
    return new Set(rows.map(({ key }) => key));
  }

  async enqueue(
    webhookId: string,
    events: readonly WebhookEvent[],
    nowMs: number,
  ): Promise<number> {
    if (events.length === 0) return 0;
    return this.#db.transaction((sql) => enqueue(sql, webhookId, events, nowMs));
  }

  deadLettersTold(webhookId: string): Promise<DeadLettersTold> {
    return this.#db.run(async (sql) => {
      const [row] = await sql<DeadLettersTold[]>`
        SELECT dead_letters_told::float8 AS count, dead_letters_told_at_ms::float8 AS "atMs"
        FROM webhooks WHERE id = ${webhookId}`;
      return { count: row?.count ?? 0, atMs: row?.atMs ?? 0 };
    });
  }

  tellDeadLetters(
    webhookId: string,
    { count, atMs }: DeadLettersTold,
    event: WebhookEvent | null,
  ): Promise<void> {
    return this.#db.transaction(async (sql) => {
      const noted = await sql`
        UPDATE webhooks SET dead_letters_told = ${count}::bigint,
          dead_letters_told_at_ms = ${atMs}::bigint
        WHERE id = ${webhookId} AND dead_letters_told_at_ms <= ${atMs}::bigint`;
      if (event === null || noted.count === 0) return;
      await enqueue(sql, webhookId, [event], atMs);
      await sql`
        DELETE FROM webhook_outbox WHERE webhook_id = ${webhookId} AND type = 'dlq.not_empty'
        AND settled_at_ms < ${atMs - KEYS_KEPT_MS}::bigint`;
    });
  }

  due(webhookIds: readonly string[], nowMs: number): Promise<WaitingEvent[]> {
    return this.#db.run(async (sql) => [
      ...(await sql<WaitingEvent[]>`
          SELECT ${sql.unsafe(WAITING)} FROM webhooks w CROSS JOIN LATERAL (
            SELECT * FROM webhook_outbox WHERE webhook_id = w.id AND outcome IS NULL
              AND next_at_ms <= ${nowMs}::bigint
            ORDER BY next_at_ms, key LIMIT 1) o
          WHERE w.id IN (SELECT json_array_elements_text(${JSON.stringify(webhookIds)}::text::json))`),
    ]);
  }

  record(event: WaitingEvent, delivery: Delivery, retryAtMs: number | null): Promise<void> {
    return this.#db.transaction(async (sql) => {
      if (!(await hold(sql, event.webhookId))) return;
      await settle(sql, event, delivery, retryAtMs);
      await logAttempts(sql, event.webhookId, [delivery]);
    });
  }

  log(delivery: Delivery): Promise<void> {
    return this.#db.transaction(async (sql) => {
      if (await hold(sql, delivery.webhookId)) {
        await logAttempts(sql, delivery.webhookId, [delivery]);
      }
    });
  }

  deliveries(
    webhookId: string,
    { limit, before }: { limit: number; before: number | null },
  ): Promise<StoredDelivery[]> {
    return this.#db.run(async (sql) => [
      ...(await sql<StoredDelivery[]>`
          SELECT ${sql.unsafe(DELIVERY)} FROM webhook_deliveries
          WHERE webhook_id = ${webhookId} AND id < ${before ?? Number.MAX_SAFE_INTEGER}::bigint
          ORDER BY webhook_deliveries.id DESC LIMIT ${limit}::int`),
    ]);
  }

  backlogs(): Promise<ReadonlyMap<string, Backlog>> {
    return this.#db.run(async (sql) => {
      const rows = await sql<(Backlog & { readonly id: string })[]>`
        SELECT webhook_id AS id, count(*)::float8 AS waiting,
          min(enqueued_at_ms)::float8 AS "oldestAtMs"
        FROM webhook_outbox WHERE outcome IS NULL GROUP BY webhook_id`;
      return new Map(rows.map(({ id, waiting, oldestAtMs }) => [id, { waiting, oldestAtMs }]));
    });
  }

  async close(): Promise<void> {}
}

function toWebhook({ events, ...webhook }: WebhookRow): Webhook {
  return { ...webhook, events: JSON.parse(events) as WebhookEventType[] };
}

/** Ids are what a request says. No text of the database's has a NUL: it would pass for a fault of ours. */
function isText(id: string): boolean {
  return !id.includes('\0');
}
