/**
 * Webhooks: who is told about what, what waits to be sent, and what was tried.
 * Adapters: `sqlite/`, in the control file; `postgres/`, for several processes at once.
 *
 * W1 An event is in a webhook's outbox once per key, for ever: whatever finds the same thing again
 *    (a replay, a rebuild, a second look after a crash) adds nothing.
 * W2 An event's id is a function of webhook and key. A receiver that was sent one twice, even by a
 *    ledger that was restored from a backup, can tell.
 * W3 A waiting event leaves the outbox's queue only with the attempt that settled it, in one step, and
 *    stays settled. One process sends at a time; one that was stopped and goes on may send again what
 *    another has sent meanwhile, and changes nothing of what that one has recorded.
 *
 * What one call reads is bounded: by MAX_WEBHOOKS, by a page, or by what the caller asks about.
 */
export const WEBHOOK_EVENTS = [
  'hour.final',
  'hour.restated',
  'drift.exceeded',
  'dlq.not_empty',
] as const;
export type WebhookEventType = (typeof WEBHOOK_EVENTS)[number];

/** Events about one advertiser's numbers; the others are for whoever runs the ledger. */
export const ADVERTISER_EVENTS: readonly WebhookEventType[] = ['hour.final', 'hour.restated'];

/** What the `test` request sends; nobody subscribes to it. */
export const TEST_EVENT = 'webhook.test';
export type SentEventType = WebhookEventType | typeof TEST_EVENT;

export const MAX_WEBHOOKS = 50;
export const DELIVERIES_KEPT = 1_000;

export interface NewWebhook {
  readonly url: string;
  readonly events: readonly WebhookEventType[];
  /** Told about this advertiser only; null for all. */
  readonly advertiserId: string | null;
  readonly createdAtMs: number;
  /** End of the last final hour at that time: hours before it are not told as `hour.final`. */
  readonly finalUntilMs: number;
}

export interface Webhook extends NewWebhook {
  readonly id: string;
}

export interface WebhookEvent {
  /** What the event is about, e.g. `hour.restated/2026-03-10T08:00:00.000Z/2`. */
  readonly key: string;
  readonly type: WebhookEventType;
  /** When it came about, not when it was noticed. */
  readonly createdAtMs: number;
  readonly data: object;
}

/** An event that waits to be sent, with what is needed to send it. */
export interface WaitingEvent {
  readonly webhookId: string;
  readonly url: string;
  readonly secret: string;
  readonly key: string;
  readonly eventId: string;
  readonly type: SentEventType;
  readonly body: string;
  /** Attempts that failed so far. */
  readonly attempts: number;
  readonly enqueuedAtMs: number;
}

export type DeliveryOutcome = 'delivered' | 'failed' | 'given_up';

/** One attempt, as the delivery log has it. */
export interface Delivery {
  readonly webhookId: string;
  readonly eventId: string;
  readonly type: SentEventType;
  /** 1 for the first. */
  readonly attempt: number;
  readonly atMs: number;
  readonly latencyMs: number;
  /** HTTP status; null when there was no answer. */
  readonly status: number | null;
  readonly outcome: DeliveryOutcome;
  readonly error: string | null;
}

export interface StoredDelivery extends Delivery {
  readonly id: number;
}

export interface Backlog {
  readonly waiting: number;
  /** When the oldest event that waits was enqueued; null when none waits. */
  readonly oldestAtMs: number | null;
}

/** How many waiting dead letters a webhook was told of, and when. */
export interface DeadLettersTold {
  readonly count: number;
  readonly atMs: number;
}

/** An entry of an outbox, as it is copied from one store to another. */
export interface OutboxEntry {
  readonly key: string;
  readonly eventId: string;
  readonly type: SentEventType;
  /** Null once it is settled. */
  readonly body: string | null;
  readonly enqueuedAtMs: number;
  readonly attempts: number;
  readonly nextAtMs: number;
  /** Null while it waits. */
  readonly outcome: Exclude<DeliveryOutcome, 'failed'> | null;
  readonly settledAtMs: number | null;
}

export interface WebhookStore {
  /**
   * The secret is given here and nowhere else, but to the sender. Throws LedgerError `webhooks_full`
   * when there are MAX_WEBHOOKS.
   */
  create(webhook: NewWebhook): Promise<{ webhook: Webhook; secret: string }>;
  /** All of them, oldest first. */
  list(): Promise<Webhook[]>;
  get(id: string): Promise<Webhook | null>;
  secretOf(id: string): Promise<string | null>;
  /** With its outbox and log; true when there was one. */
  remove(id: string): Promise<boolean>;
  /** Those of the given keys that the webhook's outbox has or had; give some thousand at most. */
  known(webhookId: string, keys: readonly string[]): Promise<Set<string>>;
  /** Adds what is not there yet (W1), all or nothing; returns how many were new. */
  enqueue(webhookId: string, events: readonly WebhookEvent[], nowMs: number): Promise<number>;
  deadLettersTold(webhookId: string): Promise<DeadLettersTold>;
  /**
   * Notes what was told, and enqueues the event that tells it, in one step. Does nothing when a later
   * time was noted: by another process, while this one was stopped.
   */
  tellDeadLetters(
    webhookId: string,
    told: DeadLettersTold,
    event: WebhookEvent | null,
  ): Promise<void>;
  /** Of each of these webhooks the event that has been due for longest, if one is. */
  due(webhookIds: readonly string[], nowMs: number): Promise<WaitingEvent[]>;
  /**
   * Logs an attempt and settles its event, or puts it off until `retryAtMs` (W3). An event that was
   * settled meanwhile stays as it is, as does a failed one that was tried again meanwhile.
   */
  record(event: WaitingEvent, delivery: Delivery, retryAtMs: number | null): Promise<void>;
  /** Logs an attempt that no event waits for: a test. Nothing when the webhook is gone. */
  log(delivery: Delivery): Promise<void>;
  /** Newest first, those before the given id, at most `limit` of the DELIVERIES_KEPT. */
  deliveries(
    webhookId: string,
    page: { limit: number; before: number | null },
  ): Promise<StoredDelivery[]>;
  /** Of the webhooks for which something waits. */
  backlogs(): Promise<ReadonlyMap<string, Backlog>>;
  close(): Promise<void>;
}

/** Where webhooks are copied from. */
export interface WebhookSource
  extends Pick<WebhookStore, 'list' | 'secretOf' | 'deadLettersTold' | 'deliveries'> {
  /** By key, those after the given one, at most `limit`. */
  outbox(webhookId: string, page: { limit: number; after: string | null }): Promise<OutboxEntry[]>;
}

/** A webhook with all that is its own but the outbox. */
export interface WholeWebhook {
  readonly webhook: Webhook;
  readonly secret: string;
  readonly told: DeadLettersTold;
  /** Oldest first. */
  readonly deliveries: readonly Delivery[];
}

/** Where they are copied to. */
export interface WebhookTarget {
  /** False when it is there already, and stays as it is. Throws `webhooks_full` like `create`. */
  restore(whole: WholeWebhook): Promise<boolean>;
  /**
   * Adds to an outbox what it has not. An entry that is there stays as it is, unless it waits here and
   * was settled there. Returns how many were added or settled.
   */
  restoreOutbox(webhookId: string, entries: readonly OutboxEntry[]): Promise<number>;
}
