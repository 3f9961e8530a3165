/** Webhooks with a real store and a real sender; clock and chance in the hand of the test. */
import type { Delivery, NewWebhook, WebhookEvent, WebhookStore } from '../../src/webhooks/port.ts';
import { post } from '../../src/webhooks/post.ts';
import { type SenderOptions, WebhookSender } from '../../src/webhooks/sender.ts';
import { openWebhookStore } from '../../src/webhooks/sqlite/store.ts';
import { tempDir } from './temp-dir.ts';

export const START_MS = Date.UTC(2026, 2, 10, 12);

export class WebhookWorld {
  readonly folder = tempDir('webhooks');
  nowMs = START_MS;
  random = 1;
  store: WebhookStore;
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

  enqueue(webhookId: string, ...keys: string[]): void {
    const events = keys.map(
      (key): WebhookEvent => ({ key, type: 'hour.final', createdAtMs: this.nowMs, data: { key } }),
    );
    this.store.enqueue(webhookId, events, this.nowMs);
  }

  /** Sends what is due and waits until it has ended. */
  async send(): Promise<void> {
    this.sender.sendDue(this.store.list());
    await this.sender.idle();
  }

  async dispose(): Promise<void> {
    await this.sender.stop();
    this.store.close();
    this.folder.remove();
  }
}
