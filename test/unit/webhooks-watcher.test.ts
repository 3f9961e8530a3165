/** What a look at very many hours asks of the store at once. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import type { WebhookStore } from '../../src/webhooks/port.ts';
import { WebhookWatcher } from '../../src/webhooks/watcher.ts';
import { hourState } from '../conformance/warehouse-world.ts';
import { START_MS, WebhookWorld, withMethod } from '../support/webhook-world.ts';

const HOUR_MS = 3_600_000;
let world: WebhookWorld;
beforeEach(() => {
  world = new WebhookWorld();
});
afterEach(() => world.dispose());

test('a year of hours is told in pages, once, and asked for in pages', async () => {
  const hours = Array.from({ length: 1_201 }, (_, at) => hourState(START_MS + at * HOUR_MS, 1, 1));
  const { webhook } = await world.add('http://r.example/', { createdAtMs: 0, finalUntilMs: 0 });
  const asked: number[] = [];
  const known: WebhookStore['known'] = (id, keys) => {
    asked.push(keys.length);
    return world.store.known(id, keys);
  };
  const start = () =>
    new WebhookWatcher({
      store: withMethod(world.store, 'known', known),
      warehouse: {
        hours: async () => hours,
        drift: async () => [],
        restatements: async () => [],
      },
      deadLetters: async () => new Map(),
      finalUntilMs: () => 0,
      driftAlert: 0.001,
      clock: world.clock,
    });
  const watcher = start();
  expect(await watcher.hours([webhook])).toBe(1_201);
  expect(await watcher.hours([webhook])).toBe(0);
  expect(asked).toHaveLength(3);
  expect(Math.max(...asked)).toBeLessThanOrEqual(1_500);
  expect(await start().hours([webhook])).toBe(0);
  expect(await world.keys(webhook.id)).toHaveLength(1_201);
});
