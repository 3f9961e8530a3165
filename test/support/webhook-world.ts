/** Webhooks with a real store and a real sender; clock and chance in the hand of the test. */
import type {
  Backlog,
  Delivery,
  NewWebhook,
  WebhookEvent,
  WebhookSource,
  WebhookStore,
} from '../../src/webhooks/port.ts';
import { post } from '../../src/webhooks/post.ts';
import { type SenderOptions, WebhookSender } from '../../src/webhooks/sender.ts';
import { openWebhookStore } from '../../src/webhooks/sqlite/store.ts';
import { tempDir } from './temp-dir.ts';

export const START_MS = Date.UTC(2026, 2, 10, 12);

export class WebhookWorld {
  readonly folder = tempDir('webhooks');
  nowMs = START_MS;
  random = 1;
  store: WebhookStore & WebhookSource;
  sender: WebhookSender;
  readonly deliveries: Delivery[] = [];
  readonly errors: unknown[] = [];
  readonly #over: Partial<SenderOptions>;

  constructor(over: Partial<SenderOptions> = {}) {
    this.#over = over;
    this.store = openWebhookStore(`${this.folder.path}/control.sqlite`);
    this.sender = this.newSender();
  }

  readonly clock = (): number => this.nowMs;

  newSender(over: Partial<SenderOptions> = {}): WebhookSender {
    return new WebhookSender({
      store: this.store,
      clock: this.clock,
      post,
      random: () => this.random,
      timeoutMs: 5_000,
      allowPrivate: true,
      maxAttempts: 50,
      giveUpAfterMs: 24 * 3_600_000,
      onDelivery: (delivery) => this.deliveries.push(delivery),
      onError: (error) => this.errors.push(error),
      ...this.#over,
      ...over,
    });
  }

  add(url: string, over: Partial<NewWebhook> = {}) {
    return this.store.create({
      url,
      events: ['hour.final', 'hour.restated', 'drift.exceeded', 'dlq.not_empty'],
      advertiserId: null,
      createdAtMs: this.nowMs,
      finalUntilMs: 0,
      ...over,
    });
  }

  async enqueue(webhookId: string, ...keys: string[]): Promise<void> {
    const events = keys.map(
      (key): WebhookEvent => ({ key, type: 'hour.final', createdAtMs: this.nowMs, data: { key } }),
    );
    await this.store.enqueue(webhookId, events, this.nowMs);
  }

  /** Sends what is due and waits until it has ended. */
  async send(): Promise<void> {
    await this.startSending();
    await this.sender.idle();
  }

  /** Starts sending what is due. */
  async startSending(): Promise<void> {
    await this.sender.sendDue(await this.store.list());
  }

  /** All keys of an outbox, in their order. */
  async keys(webhookId: string): Promise<string[]> {
    const entries = await this.store.outbox(webhookId, { limit: 10_000, after: null });
    return entries.map(({ key }) => key);
  }

  async backlog(webhookId: string): Promise<Backlog> {
    return (await this.store.backlogs()).get(webhookId) ?? { waiting: 0, oldestAtMs: null };
  }

  async dispose(): Promise<void> {
    await this.sender.stop();
    await this.store.close();
    this.folder.remove();
  }
}

/** A store with another method in place of its own. */
export function withMethod<K extends keyof WebhookStore>(
  store: WebhookStore,
  method: K,
  replacement: WebhookStore[K],
): WebhookStore {
  return new Proxy(store, {
    get: (target, name) => {
      if (name === method) return replacement;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}
