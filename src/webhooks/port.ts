/**
 * Webhooks: who is told about what, what waits to be sent, and what was tried.
 * Adapter: `sqlite/`, in the control file.
 *
 * W1 An event is in a webhook's outbox once per key, for ever: whatever finds the same thing again
 *    (a replay, a rebuild, a second look after a crash) adds nothing.
 * W2 An event's id is a function of webhook and key. A receiver that was sent one twice, even by a
 *    ledger that was restored from a backup, can tell.
 * W3 A waiting event leaves the outbox's queue only with the attempt that settled it, in one step.
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

export interface WebhookStore {
  /** The secret is given here and nowhere else, but to the sender. */
  create(webhook: NewWebhook): { webhook: Webhook; secret: string };
  /** Oldest first. */
  list(): Webhook[];
  get(id: string): Webhook | null;
  secretOf(id: string): string | null;
  /** With its outbox and log; true when there was one. */
  remove(id: string): boolean;
  /** Keys that a webhook's outbox has or had. */
  keys(webhookId: string): Set<string>;
  /** Adds what is not there yet (W1), all or nothing; returns how many were new. */
  enqueue(webhookId: string, events: readonly WebhookEvent[], nowMs: number): number;
  deadLettersTold(webhookId: string): DeadLettersTold;
  /** Notes what was told, and enqueues the event that tells it, in one step. */
  tellDeadLetters(webhookId: string, told: DeadLettersTold, event: WebhookEvent | null): void;
  /** The event of a webhook that has been due for longest. */
  due(webhookId: string, nowMs: number): WaitingEvent | null;
  /** Logs an attempt and settles its event, or puts it off until `retryAtMs` (W3). */
  record(event: WaitingEvent, delivery: Delivery, retryAtMs: number | null): void;
  /** Logs an attempt that no event waits for: a test. */
  log(delivery: Delivery): void;
  /** Newest first, those before the given id. */
  deliveries(webhookId: string, page: { limit: number; before: number | null }): StoredDelivery[];
  backlog(webhookId: string): Backlog;
  close(): void;
}
