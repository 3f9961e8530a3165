/**
 * Sends what waits in the outbox: at least once, one request at a time for each webhook.
 *
 * Receivers do not wait for each other: every webhook has one place of its own, so a slow one costs
 * nobody but itself, and there are never more requests than webhooks.
 *
 * The effects of one attempt, in order, and what holds if the process dies right after each:
 *   1. request sent    – the receiver may have taken it; here it still waits and is sent again, with
 *                        the same event id
 *   2. attempt recorded – the event is settled, or put off; nothing is left to do
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../platform/clock.ts';
import { VERSION } from '../version.ts';
import {
  type Delivery,
  type DeliveryOutcome,
  TEST_EVENT,
  type WaitingEvent,
  type Webhook,
  type WebhookStore,
} from './port.ts';
import type { Post, PostResult } from './post.ts';
import { signatureOf } from './signature.ts';

export interface SenderOptions {
  readonly store: WebhookStore;
  readonly clock: Clock;
  readonly post: Post;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly timeoutMs: number;
  readonly allowPrivate: boolean;
  readonly maxAttempts: number;
  readonly giveUpAfterMs: number;
  readonly onDelivery?: (delivery: Delivery) => void;
  readonly onError: (error: unknown, message: string) => void;
}

const FIRST_BACKOFF_MS = 10_000;
const MAX_BACKOFF_MS = 3_600_000;
/** Rest after an attempt that could not be recorded: it would be sent again at once, and again. */
const UNRECORDED_REST_MS = 60_000;

/** Full jitter: receivers that failed together are not asked again together. */
export function backoffMs(failures: number, random: () => number): number {
  const most = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.min(failures - 1, 30));
  return Math.max(1_000, Math.floor(random() * most));
}

export class WebhookSender {
  readonly #options: SenderOptions;
  readonly #busy = new Map<string, Promise<void>>();
  /** Webhooks whose outboxes are being looked into. */
  readonly #looking = new Set<string>();
  readonly #restUntilMs = new Map<string, number>();
  /** Of what is sent until it is stopped; then there is another one. */
  #stop = new AbortController();

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** Finds out what is due and starts sending it; does not wait until it is sent. */
  async sendDue(webhooks: readonly Webhook[]): Promise<void> {
    const free = webhooks.map(({ id }) => id).filter((id) => this.#isFree(id));
    if (free.length === 0) return;
    const { store, clock } = this.#options;
    const stop = this.#stop.signal;
    for (const id of free) this.#looking.add(id);
    try {
      for (const event of await store.due(free, clock())) this.#start(event, stop);
    } finally {
      for (const id of free) this.#looking.delete(id);
    }
  }

  #isFree(id: string): boolean {
    if (this.#busy.has(id) || this.#looking.has(id)) return false;
    if ((this.#restUntilMs.get(id) ?? 0) > this.#options.clock()) return false;
    this.#restUntilMs.delete(id);
    return true;
  }

  #start(first: WaitingEvent, stop: AbortSignal): void {
    // Stopped while the store was asked.
    if (stop.aborted) return;
    const id = first.webhookId;
    const sending = this.#sendAll(first, stop)
      .catch((error: unknown) => this.#rest(id, error))
      .finally(() => this.#busy.delete(id));
    this.#busy.set(id, sending);
  }

  async #sendAll(first: WaitingEvent, stop: AbortSignal): Promise<void> {
    const { store, clock } = this.#options;
    let event: WaitingEvent | undefined = first;
    while (event !== undefined) {
      const result: PostResult = await this.#post(event, event.attempts + 1, stop); // 1
      // Stopped in the middle: whether it arrived is not known, so it is sent again.
      if (stop.aborted && result.status === null) return;
      await this.#record(event, result); // 2
      if (stop.aborted) return;
      [event] = await store.due([event.webhookId], clock());
    }
  }

  async #record(event: WaitingEvent, result: PostResult): Promise<void> {
    const { store, clock, random, maxAttempts, giveUpAfterMs } = this.#options;
    const nowMs = clock();
    const attempt = event.attempts + 1;
    const retryAtMs = nowMs + backoffMs(attempt, random);
    const isLast = attempt >= maxAttempts || retryAtMs >= event.enqueuedAtMs + giveUpAfterMs;
    const outcome = result.error === null ? 'delivered' : isLast ? 'given_up' : 'failed';
    const delivery = deliveryOf(event, { attempt, atMs: nowMs, outcome, result });
    await store.record(event, delivery, outcome === 'failed' ? retryAtMs : null);
    this.#options.onDelivery?.(delivery);
  }

  #rest(webhookId: string, error: unknown): void {
    this.#restUntilMs.set(webhookId, this.#options.clock() + UNRECORDED_REST_MS);
    this.#options.onError(error, `sending to ${webhookId} failed`);
  }

  /** One attempt at once, outside the outbox; null when the webhook is not there. */
  async test(webhook: Webhook): Promise<Delivery | null> {
    const { store, clock } = this.#options;
    const secret = await store.secretOf(webhook.id);
    if (secret === null) return null;
    const nowMs = clock();
    const eventId = `evt_${randomBytes(16).toString('hex')}`;
    const body = JSON.stringify({
      id: eventId,
      type: TEST_EVENT,
      created_at: new Date(nowMs).toISOString(),
      data: { webhook_id: webhook.id },
    });
    const event: WaitingEvent = {
      webhookId: webhook.id,
      url: webhook.url,
      secret,
      key: TEST_EVENT,
      eventId,
      type: TEST_EVENT,
      body,
      attempts: 0,
      enqueuedAtMs: nowMs,
    };
    const result = await this.#post(event, 1, this.#stop.signal);
    const outcome = result.error === null ? 'delivered' : 'failed';
    const delivery = deliveryOf(event, { attempt: 1, atMs: clock(), outcome, result });
    await store.log(delivery);
    return delivery;
  }

  #post(event: WaitingEvent, attempt: number, signal: AbortSignal): Promise<PostResult> {
    const { clock, timeoutMs, allowPrivate } = this.#options;
    const unixSeconds = Math.floor(clock() / 1000);
    return this.#options.post(event.url, {
      headers: {
        'Content-Type': 'application/json',
        'User-Agent': `ClickLedger/${VERSION}`,
        'Clickledger-Event': event.type,
        'Clickledger-Delivery': `${event.eventId}.${attempt}`,
        'Clickledger-Signature': signatureOf(event.secret, event.body, unixSeconds),
      },
      body: event.body,
      timeoutMs,
      allowPrivate,
      signal,
    });
  }

  /** Waits for what is on the way; for tests. */
  async idle(): Promise<void> {
    while (this.#busy.size > 0) await Promise.all(this.#busy.values());
  }

  /** Breaks off what is on the way: for good, or until `sendDue` is asked again. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.idle();
    this.#stop = new AbortController();
  }
}

function deliveryOf(
  { webhookId, eventId, type }: WaitingEvent,
  done: {
    readonly attempt: number;
    readonly atMs: number;
    readonly outcome: DeliveryOutcome;
    readonly result: PostResult;
  },
): Delivery {
  const { attempt, atMs, outcome, result } = done;
  const { latencyMs, status, error } = result;
  return { webhookId, eventId, type, attempt, atMs, latencyMs, status, outcome, error };
}
