/** The tables of webhooks, and how their rows are read. */
export const SCHEMA = `
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

export const WEBHOOK = `id, url, events, advertiser_id AS advertiserId, created_at_ms AS createdAtMs,
  final_until_ms AS finalUntilMs`;
export const WAITING = `o.webhook_id AS webhookId, w.url, w.secret, o.key, o.event_id AS eventId, o.type,
  o.body, o.attempts, o.enqueued_at_ms AS enqueuedAtMs`;
export const DELIVERY = `id, webhook_id AS webhookId, event_id AS eventId, type, attempt, at_ms AS atMs,
  latency_ms AS latencyMs, status, outcome, error`;

export const ENTRY = `key, event_id AS eventId, type, body, enqueued_at_ms AS enqueuedAtMs, attempts,
  next_at_ms AS nextAtMs, outcome, settled_at_ms AS settledAtMs`;
