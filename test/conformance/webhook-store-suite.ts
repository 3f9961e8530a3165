// Proves INV-11 of SPEC.md.
/** What every `WebhookStore` must do: webhooks, outbox, delivery log, what is kept. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import {
  DELIVERIES_KEPT,
  type Delivery,
  MAX_WEBHOOKS,
  type WaitingEvent,
  type Webhook,
  type WebhookEvent,
  type WebhookStore,
} from '../../src/webhooks/port.ts';
import { codeOf } from '../support/code-of.ts';

export interface WebhookHarness {
  /** Opens the same webhooks again and again. */
  open(): Promise<WebhookStore>;
  /** Empties every outbox, keys and all: the store as an older backup has it. */
  loseOutbox(): Promise<void>;
  remove(): Promise<void>;
}

export const NOW_MS = Date.UTC(2026, 2, 10, 12);

export const newWebhookAt = (atMs: number) => ({
  url: 'https://r.example/',
  events: ['hour.final'] as const,
  advertiserId: null,
  createdAtMs: atMs,
  finalUntilMs: NOW_MS,
});

export const eventOf = (key: string, type: WebhookEvent['type'] = 'hour.final'): WebhookEvent => ({
  key,
  type,
  createdAtMs: NOW_MS,
  data: { n: 1, said: 'é\0"\\' },
});

export const deliveryOf = (
  waiting: WaitingEvent,
  outcome: Delivery['outcome'],
  over: Partial<Delivery> = {},
): Delivery => ({
  webhookId: waiting.webhookId,
  eventId: waiting.eventId,
  type: waiting.type,
  attempt: waiting.attempts + 1,
  atMs: NOW_MS + 5,
  latencyMs: 3,
  status: outcome === 'delivered' ? 200 : 500,
  outcome,
  error: outcome === 'delivered' ? null : 'no',
  ...over,
});

export function webhookStoreSuite(
  name: string,
  createHarness: () => WebhookHarness | Promise<WebhookHarness>,
): void {
  let harness: WebhookHarness;
  let store: WebhookStore;
  const setUp = async (): Promise<void> => {
    harness = await createHarness();
    store = await harness.open();
  };
  const tearDown = async (): Promise<void> => {
    await store.close();
    await harness.remove();
  };
  const create = (atMs = NOW_MS) => store.create(newWebhookAt(atMs));
  const add = async (): Promise<Webhook> => (await create()).webhook;
  const due = async ({ id }: Webhook, nowMs = NOW_MS): Promise<WaitingEvent> => {
    const [event] = await store.due([id], nowMs);
    if (event === undefined) throw new Error('nothing is due');
    return event;
  };
  const dueKeys = async ({ id }: Webhook, nowMs: number): Promise<string[]> =>
    (await store.due([id], nowMs)).map(({ key }) => key);
  const logOf = ({ id }: Webhook, limit = 10) => store.deliveries(id, { limit, before: null });

  describe(`webhooks in ${name}`, () => {
    beforeEach(setUp);
    afterEach(tearDown);

    test('have their own secret, which lists do not show', async () => {
      const one = await create();
      const two = await create(NOW_MS + 1);
      expect(one.secret).toMatch(/^whsec_[A-Za-z0-9_-]{43}$/);
      expect(two.secret).not.toBe(one.secret);
      expect(await store.list()).toEqual([one.webhook, two.webhook]);
      expect(JSON.stringify(await store.list())).not.toContain('whsec_');
      expect(await store.get(one.webhook.id)).toEqual(one.webhook);
      expect(await store.secretOf(one.webhook.id)).toBe(one.secret);
      const other = { ...newWebhookAt(NOW_MS), advertiserId: 'adv-1' };
      expect(await store.create(other)).toMatchObject({ webhook: other });
      for (const id of ['', '\0', `${one.webhook.id}\0`]) {
        expect([await store.get(id), await store.remove(id)]).toEqual([null, false]);
      }
    });

    test('are bounded in number', async () => {
      for (let n = 0; n < MAX_WEBHOOKS; n++) await create();
      expect(await codeOf(create())).toBe('webhooks_full');
      expect(await store.list()).toHaveLength(MAX_WEBHOOKS);
    });

    test('take all that is theirs along when they are removed', async () => {
      const webhook = await add();
      await store.enqueue(webhook.id, [eventOf('a')], NOW_MS);
      const waiting = await due(webhook);
      await store.record(waiting, deliveryOf(waiting, 'failed'), NOW_MS + 10);
      expect(await store.remove(webhook.id)).toBe(true);
      expect(await store.remove(webhook.id)).toBe(false);
      expect([await store.get(webhook.id), await store.secretOf(webhook.id)]).toEqual([null, null]);
      expect(await store.known(webhook.id, ['a'])).toEqual(new Set());
      // What was on its way when it was removed comes back to nothing.
      await store.record(waiting, deliveryOf(waiting, 'delivered'), null);
      await store.log(deliveryOf(waiting, 'delivered'));
      expect(await logOf(webhook)).toEqual([]);
      expect(await store.enqueue(webhook.id, [eventOf('b')], NOW_MS)).toBe(0);
      await store.tellDeadLetters(webhook.id, { count: 1, atMs: NOW_MS }, eventOf('d'));
      expect(await dueKeys(webhook, NOW_MS)).toEqual([]);
      expect((await store.backlogs()).size).toBe(0);
    });
  });

  describe(`the outbox in ${name}`, () => {
    beforeEach(setUp);
    afterEach(tearDown);

    test('takes a key once, even after the event was delivered (W1)', async () => {
      const webhook = await add();
      const enqueue = (...keys: string[]) =>
        store.enqueue(
          webhook.id,
          keys.map((key) => eventOf(key)),
          NOW_MS,
        );
      expect(await enqueue('a', 'b', 'a')).toBe(2);
      expect(await enqueue('a', 'c')).toBe(1);
      const waiting = await due(webhook);
      await store.record(waiting, deliveryOf(waiting, 'delivered'), null);
      expect(await enqueue('a', 'b', 'c')).toBe(0);
      expect(await enqueue()).toBe(0);
      expect(await store.backlogs()).toEqual(
        new Map([[webhook.id, { waiting: 2, oldestAtMs: NOW_MS }]]),
      );
      expect(await store.known(webhook.id, ['a', 'b', 'c', 'd'])).toEqual(new Set(['a', 'b', 'c']));
      expect(await store.known(webhook.id, [])).toEqual(new Set());
    });

    test('gives an event the same id in a store that was made anew (W2)', async () => {
      const webhook = await add();
      await store.enqueue(webhook.id, [eventOf('a')], NOW_MS);
      const before = (await due(webhook)).eventId;
      const other = await add();
      await store.enqueue(other.id, [eventOf('a')], NOW_MS);
      expect((await due(other)).eventId).not.toBe(before);
      await store.close();
      await harness.loseOutbox();
      store = await harness.open();
      expect(await store.enqueue(webhook.id, [eventOf('a')], NOW_MS)).toBe(1);
      expect((await due(webhook)).eventId).toBe(before);
    });

    test('gives what is due, the longest due first, and what was put off not before its time', async () => {
      const webhook = await add();
      await store.enqueue(webhook.id, [eventOf('late')], NOW_MS + 2);
      await store.enqueue(webhook.id, [eventOf('early')], NOW_MS + 1);
      expect(await dueKeys(webhook, NOW_MS)).toEqual([]);
      const early = await due(webhook, NOW_MS + 2);
      expect(early.key).toBe('early');
      await store.record(early, deliveryOf(early, 'failed'), NOW_MS + 100);
      const late = await due(webhook, NOW_MS + 2);
      expect(late.key).toBe('late');
      await store.record(late, deliveryOf(late, 'delivered'), null);
      expect(await dueKeys(webhook, NOW_MS + 99)).toEqual([]);
      expect(await due(webhook, NOW_MS + 100)).toMatchObject({ key: 'early', attempts: 1 });
    });

    test('gives what is due of several webhooks, of each the one that has been for longest', async () => {
      const [one, two, idle, unasked] = [await add(), await add(), await add(), await add()];
      for (const { id } of [one, two, unasked]) {
        await store.enqueue(id, [eventOf('b'), eventOf('a')], NOW_MS);
      }
      const found = await store.due([one.id, idle.id, two.id, 'wh_none'], NOW_MS);
      expect(found.map(({ webhookId, key }) => [webhookId, key]).sort()).toEqual(
        [
          [one.id, 'a'],
          [two.id, 'a'],
        ].sort(),
      );
      expect(await store.due([], NOW_MS)).toEqual([]);
      expect(new Set((await store.backlogs()).keys())).toEqual(
        new Set([one.id, two.id, unasked.id]),
      );
    });

    test('keeps what waits through a restart', async () => {
      const { webhook, secret } = await create();
      await store.enqueue(webhook.id, [eventOf('a')], NOW_MS);
      const before = await due(webhook);
      await store.close();
      store = await harness.open();
      expect(await due(webhook)).toEqual(before);
      expect(before).toEqual({
        webhookId: webhook.id,
        url: 'https://r.example/',
        secret,
        key: 'a',
        eventId: expect.stringMatching(/^evt_[0-9a-f]{32}$/),
        type: 'hour.final',
        body: expect.any(String),
        attempts: 0,
        enqueuedAtMs: NOW_MS,
      });
      expect(JSON.parse(before.body)).toEqual({
        id: before.eventId,
        type: 'hour.final',
        created_at: '2026-03-10T12:00:00.000Z',
        data: eventOf('a').data,
      });
    });

    test('keeps what another has recorded from one that was stopped and goes on (W3)', async () => {
      const webhook = await add();
      await store.enqueue(webhook.id, [eventOf('a')], NOW_MS);
      const stale = await due(webhook);
      await store.record(stale, deliveryOf(stale, 'failed'), NOW_MS + 10);
      const second = await due(webhook, NOW_MS + 10);
      await store.record(second, deliveryOf(second, 'failed'), NOW_MS + 20);
      // Neither put off to an earlier time, nor given up, by whoever knows of the first attempt only.
      await store.record(stale, deliveryOf(stale, 'failed'), NOW_MS + 1);
      await store.record(stale, deliveryOf(stale, 'given_up'), null);
      expect(await dueKeys(webhook, NOW_MS + 19)).toEqual([]);
      const third = await due(webhook, NOW_MS + 20);
      expect(third).toMatchObject({ key: 'a', attempts: 2 });
      await store.record(third, deliveryOf(third, 'delivered'), null);
      await store.record(third, deliveryOf(third, 'failed'), NOW_MS + 30);
      expect(await dueKeys(webhook, NOW_MS + 1_000)).toEqual([]);
      // All of them were made, and are in the log.
      expect((await logOf(webhook)).map(({ outcome }) => outcome)).toEqual([
        'failed',
        'delivered',
        'given_up',
        'failed',
        'failed',
        'failed',
      ]);
    });

    test('is done with an event that has arrived, whoever knows it first', async () => {
      const webhook = await add();
      await store.enqueue(webhook.id, [eventOf('a')], NOW_MS);
      const stale = await due(webhook);
      await store.record(stale, deliveryOf(stale, 'failed'), NOW_MS + 10);
      await store.record(stale, deliveryOf(stale, 'delivered'), null);
      expect(await dueKeys(webhook, NOW_MS + 10)).toEqual([]);
      expect((await store.backlogs()).size).toBe(0);
    });
  });

  describe(`the delivery log in ${name}`, () => {
    beforeEach(setUp);
    afterEach(tearDown);

    test('keeps the newest attempts of each webhook, and gives them page by page', async () => {
      const [webhook, other] = [await add(), await add()];
      for (const { id } of [webhook, other]) await store.enqueue(id, [eventOf('a')], NOW_MS);
      const theirs = await due(other);
      await store.record(theirs, deliveryOf(theirs, 'failed'), NOW_MS);
      const waiting = await due(webhook);
      for (let attempts = 0; attempts < DELIVERIES_KEPT + 5; attempts++) {
        const at = { ...waiting, attempts };
        await store.record(at, deliveryOf(at, 'failed'), NOW_MS);
      }
      const first = await logOf(webhook, 600);
      const rest = await store.deliveries(webhook.id, { limit: 600, before: first.at(-1)!.id });
      const attempts = [...first, ...rest].map(({ attempt }) => attempt);
      expect(attempts).toEqual(Array.from({ length: DELIVERIES_KEPT }, (_, at) => 1005 - at));
      expect(await logOf(other)).toHaveLength(1);
    });

    test('takes an attempt that no event waits for, and whatever a receiver has answered', async () => {
      const webhook = await add();
      await store.enqueue(webhook.id, [eventOf('a')], NOW_MS);
      const waiting = await due(webhook);
      const test = deliveryOf(waiting, 'failed', { type: 'webhook.test', status: null });
      await store.log(test);
      // Cut in the middle of a character.
      const cut = deliveryOf(waiting, 'failed', { error: '\u{1f916}'.slice(0, 1) });
      await store.record(waiting, cut, NOW_MS + 1);
      const [newest, oldest] = await logOf(webhook);
      expect(oldest).toEqual({ ...test, id: expect.any(Number) });
      expect(newest).toEqual({ ...cut, id: expect.any(Number), error: expect.any(String) });
      expect(await due(webhook, NOW_MS + 1)).toMatchObject({ attempts: 1 });
    });
  });

  describe(`what was told of dead letters in ${name}`, () => {
    beforeEach(setUp);
    afterEach(tearDown);
    const type = 'dlq.not_empty';

    test('and the event that tells it are one step', async () => {
      const webhook = await add();
      expect(await store.deadLettersTold(webhook.id)).toEqual({ count: 0, atMs: 0 });
      const told = { count: 3, atMs: NOW_MS };
      await store.tellDeadLetters(webhook.id, told, eventOf('dlq.not_empty/1', type));
      expect(await store.deadLettersTold(webhook.id)).toEqual(told);
      const waiting = await due(webhook);
      await store.record(waiting, deliveryOf(waiting, 'delivered'), null);
      const later = { count: 4, atMs: NOW_MS + 40 * 24 * 3_600_000 };
      await store.tellDeadLetters(webhook.id, later, eventOf('dlq.not_empty/2', type));
      const keys = await store.known(webhook.id, ['dlq.not_empty/1', 'dlq.not_empty/2']);
      expect(keys).toEqual(new Set(['dlq.not_empty/2']));
    });

    test('is not taken back by one that was stopped and goes on', async () => {
      const webhook = await add();
      const told = { count: 3, atMs: NOW_MS };
      await store.tellDeadLetters(webhook.id, told, eventOf('dlq.not_empty/2', type));
      const earlier = { count: 9, atMs: NOW_MS - 1 };
      await store.tellDeadLetters(webhook.id, earlier, eventOf('dlq.not_empty/1', type));
      expect(await store.deadLettersTold(webhook.id)).toEqual(told);
      expect(await store.known(webhook.id, ['dlq.not_empty/1'])).toEqual(new Set());
      await store.tellDeadLetters(webhook.id, { count: 1, atMs: NOW_MS }, null);
      expect((await store.deadLettersTold(webhook.id)).count).toBe(1);
    });
  });
}
