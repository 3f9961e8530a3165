/** The tables of webhooks, and how their rows are read. What belongs to a webhook goes with it. */
export const SCHEMA = `
  CREATE TABLE IF NOT EXISTS webhooks (
    id TEXT COLLATE "C" PRIMARY KEY,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    advertiser_id TEXT,
    secret TEXT NOT NULL,
    created_at_ms BIGINT NOT NULL,
    final_until_ms BIGINT NOT NULL,
    dead_letters_told BIGINT NOT NULL DEFAULT 0,
    dead_letters_told_at_ms BIGINT NOT NULL DEFAULT 0
  );
  CREATE TABLE IF NOT EXISTS webhook_outbox (
    webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    key TEXT COLLATE "C" NOT NULL,
    event_id TEXT NOT NULL,
    type TEXT NOT NULL,
    body TEXT,
    enqueued_at_ms BIGINT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at_ms BIGINT NOT NULL,
    outcome TEXT CHECK (outcome IN ('delivered', 'given_up')),
    settled_at_ms BIGINT,
    PRIMARY KEY (webhook_id, key)
  );
  CREATE INDEX IF NOT EXISTS webhook_outbox_waiting
    ON webhook_outbox (webhook_id, next_at_ms, key) WHERE outcome IS NULL;
  CREATE TABLE IF NOT EXISTS webhook_deliveries (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id TEXT COLLATE "C" NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    event_id TEXT NOT NULL,
    type TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    at_ms BIGINT NOT NULL,
    latency_ms INTEGER NOT NULL,
    status INTEGER,
    outcome TEXT NOT NULL,
    error TEXT
  );
  CREATE INDEX IF NOT EXISTS webhook_deliveries_of ON webhook_deliveries (webhook_id, id)`;

/** A BIGINT comes as text; times and ids are whole numbers that a float8 holds exactly. */
export const WEBHOOK = `id, url, events, advertiser_id AS "advertiserId",
  created_at_ms::float8 AS "createdAtMs", final_until_ms::float8 AS "finalUntilMs"`;
export const WAITING = `o.webhook_id AS "webhookId", w.url, w.secret, o.key,
  o.event_id AS "eventId", o.type, o.body, o.attempts,
  o.enqueued_at_ms::float8 AS "enqueuedAtMs"`;
export const DELIVERY = `id::float8 AS id, webhook_id AS "webhookId", event_id AS "eventId", type,
  attempt, at_ms::float8 AS "atMs", latency_ms AS "latencyMs", status, outcome, error`;
