/**
 * Webhooks as a whole: registering them, and one round of finding out and sending.
 *
 * A round never waits for a receiver, and asks the warehouse only when something may be new.
 */
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import {
  ADVERTISER_EVENTS,
  type Backlog,
  type Delivery,
  type StoredDelivery,
  type Webhook,
  type WebhookEventType,
  type WebhookStore,
} from './port.ts';
import type { WebhookSender } from './sender.ts';
import { webhookUrl } from './url.ts';
import type { WebhookWatcher } from './watcher.ts';

export interface WebhooksOptions {
  readonly store: WebhookStore;
  readonly sender: WebhookSender;
  readonly watcher: WebhookWatcher;
  readonly clock: Clock;
  readonly finalUntilMs: () => number;
  /** Rises with every hour that is published. */
  readonly publications: () => number;
  /** While the warehouse is built again, what is published says nothing about what is new. */
  readonly isRebuilding: () => boolean;
}

export interface WebhookRequest {
  readonly url: string;
  readonly events: readonly WebhookEventType[];
  readonly advertiserId: string | null;
}

const NONE: Backlog = { waiting: 0, oldestAtMs: null };
const LOOK_EVERY_MS = 60_000;
const DEAD_LETTERS_EVERY_MS = 30_000;

export class Webhooks {
  readonly #options: WebhooksOptions;
  readonly #testing = new Set<string>();
  #publications = Number.NaN;
  #lookedAtMs = Number.NEGATIVE_INFINITY;
  #deadLettersAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: WebhooksOptions) {
    this.#options = options;
  }

  async create(request: WebhookRequest): Promise<{ webhook: Webhook; secret: string }> {
    const { store, clock, finalUntilMs, isRebuilding } = this.#options;
    const { events, advertiserId } = request;
    const url = webhookUrl(request.url);
    const others = events.filter((event) => !ADVERTISER_EVENTS.includes(event));
    if (advertiserId !== null && others.length > 0) {
      throw new LedgerError(
        'webhook_events_invalid',
        `A webhook of one advertiser is not told of ${others.join(', ')}.`,
        { hint: 'Leave advertiser_id out, or those events.' },
      );
    }
    if (isRebuilding()) {
      throw new LedgerError('rebuilding', 'Which hours are final is being found out again.', {
        kind: 'retry',
      });
    }
    return store.create({
      url,
      events: [...new Set(events)],
      advertiserId,
      createdAtMs: clock(),
      finalUntilMs: finalUntilMs(),
    });
  }

  /** All of them, oldest first, with what waits for each. */
  async list(): Promise<(Webhook & Backlog)[]> {
    const { store } = this.#options;
    const [webhooks, backlogs] = await Promise.all([store.list(), store.backlogs()]);
    return webhooks.map((webhook) => ({ ...webhook, ...(backlogs.get(webhook.id) ?? NONE) }));
  }

  async remove(id: string): Promise<void> {
    if (!(await this.#options.store.remove(id))) throw unknown(id);
  }

  async deliveries(
    id: string,
    page: { limit: number; before: number | null },
  ): Promise<StoredDelivery[]> {
    if ((await this.#options.store.get(id)) === null) throw unknown(id);
    return this.#options.store.deliveries(id, page);
  }

  /** Sends a test event now and waits for what comes of it. */
  async test(id: string): Promise<Delivery> {
    const webhook = await this.#options.store.get(id);
    if (webhook === null) throw unknown(id);
    if (this.#testing.has(id)) {
      throw new LedgerError('webhook_test_running', `A test of ${id} is on its way.`, {
        kind: 'retry',
      });
    }
    this.#testing.add(id);
    try {
      const delivery = await this.#options.sender.test(webhook);
      if (delivery === null) throw unknown(id);
      return delivery;
    } finally {
      this.#testing.delete(id);
    }
  }

  async round(): Promise<void> {
    const { store, sender, watcher, clock, isRebuilding } = this.#options;
    const webhooks = await store.list();
    // Before the look: what it may have to wait for is none of what is due already.
    await sender.sendDue(webhooks);
    if (webhooks.length === 0 || isRebuilding()) return;
    const nowMs = clock();
    if (nowMs - this.#deadLettersAtMs >= DEAD_LETTERS_EVERY_MS) {
      await watcher.deadLetters(webhooks);
      this.#deadLettersAtMs = nowMs;
    }
    const publications = this.#options.publications();
    if (publications !== this.#publications || nowMs - this.#lookedAtMs >= LOOK_EVERY_MS) {
      this.#publications = publications;
      this.#lookedAtMs = nowMs;
      await watcher.hours(webhooks);
    }
    await sender.sendDue(webhooks);
  }

  /** Events that wait, over all webhooks, and since when the oldest does. */
  async totalBacklog(): Promise<Backlog> {
    let waiting = 0;
    let oldestAtMs: number | null = null;
    for (const each of (await this.#options.store.backlogs()).values()) {
      waiting += each.waiting;
      if (each.oldestAtMs === null) continue;
      oldestAtMs = Math.min(oldestAtMs ?? each.oldestAtMs, each.oldestAtMs);
    }
    return { waiting, oldestAtMs };
  }

  /**
   * Breaks off what is on the way: for good, or until the next round. Of several processes one has the
   * rounds; it stops here when it may not be the one any more.
   */
  async pause(): Promise<void> {
    await this.#options.sender.stop();
  }
}

function unknown(id: string): LedgerError {
  return new LedgerError('webhook_unknown', `there is no webhook ${id}`, {
    hint: 'GET /v1/admin/webhooks lists those that there are.',
  });
}
