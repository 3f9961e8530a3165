// Proves INV-11 of SPEC.md.
/** The contract of `src/webhooks/port.ts` on its adapter: outbox, delivery log, what is kept. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { statSync } from 'node:fs';
import { LedgerError } from '../../src/platform/errors.ts';
import {
  DELIVERIES_KEPT,
  type Delivery,
  MAX_WEBHOOKS,
  type WaitingEvent,
  type WebhookEvent,
  type WebhookStore,
} from '../../src/webhooks/port.ts';
import { openWebhookStore } from '../../src/webhooks/sqlite/store.ts';
import { tempDir } from '../support/temp-dir.ts';

const NOW_MS = Date.UTC(2026, 2, 10, 12);
let folder = tempDir('webhook-store');
let store: WebhookStore;

beforeEach(() => {
  folder = tempDir('webhook-store');
  store = openWebhookStore(`${folder.path}/control.sqlite`);
});
afterEach(() => {
  store.close();
  folder.remove();
});

const create = (at = NOW_MS) =>
  store.create({
    url: 'https://r.example/',
    events: ['hour.final'],
    advertiserId: null,
    createdAtMs: at,
    finalUntilMs: NOW_MS,
  });
const event = (key: string, type: WebhookEvent['type'] = 'hour.final'): WebhookEvent => ({
  key,
  type,
  createdAtMs: NOW_MS,
  data: { n: 1 },
});
const deliveryOf = (waiting: WaitingEvent, outcome: Delivery['outcome']): Delivery => ({
  webhookId: waiting.webhookId,
  eventId: waiting.eventId,
  type: waiting.type,
  attempt: waiting.attempts + 1,
  atMs: NOW_MS + 5,
  latencyMs: 3,
  status: outcome === 'delivered' ? 200 : 500,
  outcome,
  error: outcome === 'delivered' ? null : 'no',
});

describe('webhooks', () => {
  test('have their own secret, which lists do not show', () => {
    const one = create();
    const two = create(NOW_MS + 1);
    expect(one.secret).toMatch(/^whsec_[A-Za-z0-9_-]{43}$/);
    expect(two.secret).not.toBe(one.secret);
    expect(store.list()).toEqual([one.webhook, two.webhook]);
    expect(JSON.stringify(store.list())).not.toContain('whsec_');
    expect(store.get(one.webhook.id)).toEqual(one.webhook);
    expect(store.secretOf(one.webhook.id)).toBe(one.secret);
    expect(statSync(`${folder.path}/control.sqlite`).mode & 0o077).toBe(0);
  });

  test('are bounded in number', () => {
    for (let n = 0; n < MAX_WEBHOOKS; n++) create();
    expect(() => create()).toThrow(LedgerError);
    expect(store.list()).toHaveLength(MAX_WEBHOOKS);
  });

  test('take all that is theirs along when they are removed', () => {
    const { webhook } = create();
    store.enqueue(webhook.id, [event('a')], NOW_MS);
    const waiting = store.due(webhook.id, NOW_MS)!;
    store.record(waiting, deliveryOf(waiting, 'failed'), NOW_MS + 10);
    expect(store.remove(webhook.id)).toBe(true);
    expect(store.remove(webhook.id)).toBe(false);
    expect([store.get(webhook.id), store.secretOf(webhook.id)]).toEqual([null, null]);
    expect(store.keys(webhook.id).size).toBe(0);
    // What was on its way when it was removed comes back to nothing.
    store.record(waiting, deliveryOf(waiting, 'delivered'), null);
    expect(store.deliveries(webhook.id, { limit: 10, before: null })).toEqual([]);
    expect(store.enqueue(webhook.id, [event('b')], NOW_MS)).toBe(0);
    expect(store.due(webhook.id, NOW_MS)).toBeNull();
  });
});

describe('the outbox', () => {
  test('takes a key once, even after the event was delivered (W1)', () => {
    const { webhook } = create();
    expect(store.enqueue(webhook.id, [event('a'), event('b')], NOW_MS)).toBe(2);
    expect(store.enqueue(webhook.id, [event('a'), event('c')], NOW_MS)).toBe(1);
    const waiting = store.due(webhook.id, NOW_MS)!;
    store.record(waiting, deliveryOf(waiting, 'delivered'), null);
    expect(store.enqueue(webhook.id, [event('a'), event('b'), event('c')], NOW_MS)).toBe(0);
    expect(store.backlog(webhook.id)).toEqual({ waiting: 2, oldestAtMs: NOW_MS });
    expect(store.keys(webhook.id)).toEqual(new Set(['a', 'b', 'c']));
  });

  test('gives an event the same id in a store that was made anew (W2)', () => {
    const { webhook } = create();
    store.enqueue(webhook.id, [event('a')], NOW_MS);
    const before = store.due(webhook.id, NOW_MS)!.eventId;
    const other = create();
    store.enqueue(other.webhook.id, [event('a')], NOW_MS);
    expect(store.due(other.webhook.id, NOW_MS)!.eventId).not.toBe(before);
    store.close();
    const db = new Database(`${folder.path}/control.sqlite`);
    db.run('DELETE FROM webhook_outbox');
    db.close();
    store = openWebhookStore(`${folder.path}/control.sqlite`);
    store.enqueue(webhook.id, [event('a')], NOW_MS);
    expect(store.due(webhook.id, NOW_MS)!.eventId).toBe(before);
  });

  test('gives what is due, the longest due first, and what was put off not before its time', () => {
    const { webhook } = create();
    store.enqueue(webhook.id, [event('late')], NOW_MS + 2);
    store.enqueue(webhook.id, [event('early')], NOW_MS + 1);
    expect(store.due(webhook.id, NOW_MS)).toBeNull();
    const early = store.due(webhook.id, NOW_MS + 2)!;
    expect(early.key).toBe('early');
    store.record(early, deliveryOf(early, 'failed'), NOW_MS + 100);
    const late = store.due(webhook.id, NOW_MS + 2)!;
    expect(late.key).toBe('late');
    store.record(late, deliveryOf(late, 'delivered'), null);
    expect(store.due(webhook.id, NOW_MS + 99)).toBeNull();
    expect(store.due(webhook.id, NOW_MS + 100)).toMatchObject({ key: 'early', attempts: 1 });
  });

  test('keeps what waits through a restart', () => {
    const { webhook, secret } = create();
    store.enqueue(webhook.id, [event('a')], NOW_MS);
    const before = store.due(webhook.id, NOW_MS);
    store.close();
    store = openWebhookStore(`${folder.path}/control.sqlite`);
    expect(store.due(webhook.id, NOW_MS)).toEqual(before);
    expect(before).toMatchObject({ secret, url: 'https://r.example/' });
    expect(JSON.parse(before!.body)).toEqual({
      id: before!.eventId,
      type: 'hour.final',
      created_at: '2026-03-10T12:00:00.000Z',
      data: { n: 1 },
    });
  });
});

test('the delivery log keeps the newest attempts of each webhook, and gives them page by page', () => {
  const { webhook } = create();
  const other = create().webhook;
  store.enqueue(webhook.id, [event('a')], NOW_MS);
  store.enqueue(other.id, [event('a')], NOW_MS);
  const theirs = store.due(other.id, NOW_MS)!;
  store.record(theirs, deliveryOf(theirs, 'failed'), NOW_MS);
  const waiting = store.due(webhook.id, NOW_MS)!;
  for (let attempts = 0; attempts < DELIVERIES_KEPT + 5; attempts++) {
    const at = { ...waiting, attempts };
    store.record(at, deliveryOf(at, 'failed'), NOW_MS);
  }
  const first = store.deliveries(webhook.id, { limit: 600, before: null });
  const rest = store.deliveries(webhook.id, { limit: 600, before: first.at(-1)!.id });
  const attempts = [...first, ...rest].map(({ attempt }) => attempt);
  expect(attempts).toEqual(Array.from({ length: DELIVERIES_KEPT }, (_, at) => 1005 - at));
  expect(store.deliveries(other.id, { limit: 10, before: null })).toHaveLength(1);
});

test('what was told of dead letters and the event that tells it are one step', () => {
  const { webhook } = create();
  expect(store.deadLettersTold(webhook.id)).toEqual({ count: 0, atMs: 0 });
  const told = { count: 3, atMs: NOW_MS };
  store.tellDeadLetters(webhook.id, told, event('dlq.not_empty/1', 'dlq.not_empty'));
  expect(store.deadLettersTold(webhook.id)).toEqual(told);
  const waiting = store.due(webhook.id, NOW_MS)!;
  store.record(waiting, deliveryOf(waiting, 'delivered'), null);
  const later = { count: 4, atMs: NOW_MS + 40 * 24 * 3_600_000 };
  store.tellDeadLetters(webhook.id, later, event('dlq.not_empty/2', 'dlq.not_empty'));
  expect(store.keys(webhook.id)).toEqual(new Set(['dlq.not_empty/2']));
});
