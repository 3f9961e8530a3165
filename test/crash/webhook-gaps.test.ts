// Proves INV-11 of SPEC.md.
/**
 * The numbered effects of webhooks, on a real warehouse, a real store and a real receiver: whatever
 * dies between two of them, every event of what was published is enqueued once and arrives.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { DriftRow, HourState, Restatement, Warehouse } from '../../src/warehouse/port.ts';
import type { NewWebhook, Webhook } from '../../src/webhooks/port.ts';
import { post } from '../../src/webhooks/post.ts';
import { WebhookWatcher } from '../../src/webhooks/watcher.ts';
import { Webhooks } from '../../src/webhooks/webhooks.ts';
import { hourState } from '../conformance/warehouse-world.ts';
import { tempDir } from '../support/temp-dir.ts';
import { Receiver } from '../support/webhook-receiver.ts';
import { WebhookWorld } from '../support/webhook-world.ts';
import { Deaths, withDeaths } from './ledger-world.ts';

const HOUR_MS = 3_600_000;
const A = Date.UTC(2026, 2, 10, 8);
const B = A + HOUR_MS;
const THRESHOLD = 0.001;

const home = tempDir('webhook-gaps');
let warehouse: Warehouse;
let world: WebhookWorld;
let receiver: Receiver;
let letters: Map<string, number>;
let finalUntilMs: number;

beforeAll(async () => {
  warehouse = await openChdbWarehouse({
    path: `${home.path}/warehouse`,
    minuteTtlDays: 0,
    hourTtlDays: 0,
  });
  await warehouse.migrate();
});
afterAll(async () => {
  await warehouse.close();
  home.remove();
});
beforeEach(async () => {
  await warehouse.reset();
  world = new WebhookWorld();
  world.nowMs = A;
  receiver = new Receiver();
  letters = new Map();
  finalUntilMs = A;
});
afterEach(async () => {
  await world.dispose();
  await receiver.close();
});

/** A process that has just started; with `deaths`, one that dies at one of its effects. */
function start(deaths: Deaths = new Deaths()): Webhooks {
  const store = withDeaths(world.store, deaths, {
    enqueue: 'enqueued',
    record: 'recorded',
    tellDeadLetters: 'letters told',
  });
  const sending = withDeaths({ post }, deaths, { post: 'sent' });
  world.sender = world.newSender({ store, post: sending.post });
  const watcher = new WebhookWatcher({
    store,
    warehouse,
    deadLetters: async () => letters,
    finalUntilMs: () => finalUntilMs,
    driftAlert: THRESHOLD,
    clock: world.clock,
  });
  return new Webhooks({
    store,
    watcher,
    sender: world.sender,
    clock: world.clock,
    finalUntilMs: () => finalUntilMs,
    publications: () => 0,
    isRebuilding: () => false,
  });
}

async function round(webhooks: Webhooks): Promise<void> {
  await webhooks.round();
  await world.sender.idle();
}

const drift = (
  hourMs: number,
  revision: number,
  advertiserId: string,
  live: number,
  final: number,
) => ({ hourMs, revision, advertiserId, live, final }) satisfies DriftRow;
const change = (hourMs: number, revision: number, advertiserId: string, after: number) =>
  ({
    hourMs,
    revision,
    advertiserId,
    adId: `ad-of-${advertiserId}`,
    before: 1,
    after,
    cause: 'late_clicks',
    atMs: hourMs + 3 * HOUR_MS + revision,
  }) satisfies Restatement;

async function publish(
  hourMs: number,
  revision: number,
  more: { drift?: DriftRow[]; restatements?: Restatement[]; over?: Partial<HourState> } = {},
): Promise<void> {
  const hour = {
    ...hourState(hourMs, revision, revision),
    finalAtMs: hourMs + 3 * HOUR_MS + revision,
    driftMax: 0,
    ...more.over,
  };
  const { drift = [], restatements = [] } = more;
  await warehouse.publish({ hour, day: null, drift, restatements });
  finalUntilMs = Math.max(finalUntilMs, hourMs + HOUR_MS);
}

/** Two hours turn final, the first with drift; then it is restated twice, the second time for adv-2 only. */
async function history(): Promise<void> {
  await publish(A, 1, {
    over: { driftMax: 0.5 },
    drift: [drift(A, 1, 'adv-1', 3, 2), drift(A, 1, 'adv-2', 3, 3)],
  });
  await publish(B, 1, { drift: [drift(B, 1, 'adv-1', 4, 4)] });
  await publish(A, 2, {
    drift: [drift(A, 2, 'adv-1', 3, 4), drift(A, 2, 'adv-2', 3, 3)],
    restatements: [change(A, 2, 'adv-1', 3)],
  });
  await publish(A, 3, {
    drift: [drift(A, 3, 'adv-1', 3, 4), drift(A, 3, 'adv-2', 3, 9)],
    restatements: [change(A, 3, 'adv-2', 7)],
  });
}

const iso = (ms: number): string => new Date(ms).toISOString();
const EVERYBODY = [
  `drift.exceeded/${iso(A)}`,
  `hour.final/${iso(A)}`,
  `hour.final/${iso(B)}`,
  `hour.restated/${iso(A)}/2`,
  `hour.restated/${iso(A)}/3`,
];
const FIRST_ADVERTISER = [
  `hour.final/${iso(A)}`,
  `hour.final/${iso(B)}`,
  `hour.restated/${iso(A)}/2`,
];

async function addBoth(): Promise<{ all: Webhook; own: Webhook }> {
  const over: Partial<NewWebhook> = { createdAtMs: A, finalUntilMs };
  const own = { ...over, advertiserId: 'adv-1', events: ['hour.final', 'hour.restated'] as const };
  return {
    all: (await world.add(receiver.url('/all'), over)).webhook,
    own: (await world.add(receiver.url('/own'), own)).webhook,
  };
}

const keysOf = (webhook: Webhook): Promise<string[]> => world.keys(webhook.id);
const sentTo = (path: string) =>
  receiver.received.filter((each) => each.path === path).map(({ body }) => JSON.parse(body));

test('what was published is told once to each, from its own point of view', async () => {
  const { all, own } = await addBoth();
  const webhooks = start();
  await history();
  await round(webhooks);
  await round(webhooks);
  expect([await keysOf(all), await keysOf(own)]).toEqual([EVERYBODY, FIRST_ADVERTISER]);
  expect([sentTo('/all').length, sentTo('/own').length]).toEqual([5, 3]);
  const dataOf = (path: string, type: string, at = 0): Record<string, unknown> =>
    sentTo(path).filter((body) => body.type === type)[at].data;
  expect(dataOf('/all', 'drift.exceeded')).toEqual({
    hour_start: iso(A),
    drift_max: 0.5,
    threshold: THRESHOLD,
    advertiser_count: 1,
    worst: [{ advertiser_id: 'adv-1', live: 3, final: 2, drift: 0.5 }],
  });
  expect(dataOf('/all', 'hour.restated', 1)).toEqual({
    hour_start: iso(A),
    revision: 3,
    counted: 5,
    final_until: iso(B + HOUR_MS),
    cause: 'late_clicks',
    restatements: [{ advertiser_id: 'adv-2', ad_id: 'ad-of-adv-2', before: 1, after: 7 }],
    restatement_count: 1,
  });
  // An intermediate revision, whose state is no longer there: its rows tell it.
  expect(dataOf('/all', 'hour.restated', 0)).toMatchObject({ revision: 2, counted: 7 });
  expect(dataOf('/own', 'hour.restated')).toEqual({
    hour_start: iso(A),
    revision: 2,
    counted: 4,
    final_until: iso(B + HOUR_MS),
    advertiser_id: 'adv-1',
    cause: 'late_clicks',
    restatements: [{ advertiser_id: 'adv-1', ad_id: 'ad-of-adv-1', before: 1, after: 3 }],
    restatement_count: 1,
  });
  // Nothing of another advertiser, and no sum over all, reaches the one.
  expect(JSON.stringify(sentTo('/own'))).not.toContain('adv-2');
  expect(sentTo('/own').map(({ data }) => data.counted)).toEqual([4, 4, 4]);
});

test('a publication after which nothing else happened is told by the next process', async () => {
  const { all, own } = await addBoth();
  await history();
  await round(start());
  expect([await keysOf(all), await keysOf(own)]).toEqual([EVERYBODY, FIRST_ADVERTISER]);
});

test('a restart, a rebuild, and a second look tell nothing twice', async () => {
  await addBoth();
  await history();
  await round(start());
  const before = receiver.received.length;
  await round(start());
  // A rebuild publishes every revision again, with the times that it had.
  await warehouse.reset();
  const webhooks = start();
  await history();
  world.nowMs += HOUR_MS;
  await round(webhooks);
  expect(receiver.received).toHaveLength(before);
});

describe('a process that dies', () => {
  const scenario = async (deaths: Deaths): Promise<void> => {
    letters.set('undecodable', 2);
    const webhooks = start(deaths);
    await publish(A, 1, {
      over: { driftMax: 0.5 },
      drift: [drift(A, 1, 'adv-1', 3, 2)],
    });
    await round(webhooks).catch(() => undefined);
    await publish(A, 2, {
      drift: [drift(A, 2, 'adv-1', 3, 4)],
      restatements: [change(A, 2, 'adv-1', 3)],
    });
    world.nowMs += 60_000;
    await round(webhooks).catch(() => undefined);
  };
  const WANTED = ['dlq.not_empty', 'drift.exceeded', 'hour.final', 'hour.restated'];

  test('before or after any effect leaves every event enqueued once, and all arrive', async () => {
    await addBoth();
    const counting = new Deaths();
    await scenario(counting);
    const effects = counting.effects.length;
    expect(new Set(counting.effects)).toEqual(
      new Set(['letters told', 'enqueued', 'sent', 'recorded']),
    );
    for (let at = 0; at < effects; at++) {
      for (const when of ['before', 'after'] as const) {
        await world.dispose();
        await warehouse.reset();
        world = new WebhookWorld();
        world.nowMs = A;
        letters.clear();
        finalUntilMs = A;
        receiver.received.length = 0;
        const { all, own } = await addBoth();
        const deaths = new Deaths(at, when);
        await scenario(deaths);
        await world.sender.stop();
        world.nowMs += 120_000;
        const next = start();
        await round(next);
        await round(next);
        const label = `${when} ${at}: ${deaths.effects.at(-1)}`;
        const types = (path: string) => {
          const byId = new Map(sentTo(path).map((body) => [body.id, body.type]));
          return [...byId.values()].sort();
        };
        expect([label, types('/all')]).toEqual([label, WANTED]);
        expect([label, types('/own')]).toEqual([label, ['hour.final', 'hour.restated']]);
        const waiting = await Promise.all(
          [all, own].map(async ({ id }) => (await world.backlog(id)).waiting),
        );
        expect([label, waiting]).toEqual([label, [0, 0]]);
        // At most the one that was on its way is sent again.
        const again = receiver.received.length - WANTED.length - 2;
        expect([label, again <= 2]).toEqual([label, true]);
      }
    }
  });
});

describe('a webhook', () => {
  test('is not told of what was final before it, nor of earlier revisions', async () => {
    await publish(A, 1);
    await publish(A, 2, { restatements: [change(A, 2, 'adv-1', 3)] });
    const createdAtMs = A + 3 * HOUR_MS + 3;
    const { webhook } = await world.add(receiver.url(), { createdAtMs, finalUntilMs });
    const webhooks = start();
    await publish(B, 1);
    await publish(A, 3, { restatements: [change(A, 3, 'adv-1', 5)] });
    await round(webhooks);
    expect(await keysOf(webhook)).toEqual([`hour.final/${iso(B)}`, `hour.restated/${iso(A)}/3`]);
  });

  test('that is registered while others are told loses nothing', async () => {
    const first = (await world.add(receiver.url(), { finalUntilMs, createdAtMs: A })).webhook;
    const webhooks = start();
    await publish(A, 1);
    await round(webhooks);
    const second = (await world.add(receiver.url(), { finalUntilMs: A, createdAtMs: A })).webhook;
    world.nowMs += 60_000;
    await round(webhooks);
    expect(await keysOf(second)).toEqual(await keysOf(first));
  });

  test('is told only of the events that it asked for', async () => {
    const over = { finalUntilMs, createdAtMs: A, events: ['drift.exceeded'] as const };
    const { webhook } = await world.add(receiver.url(), over);
    const webhooks = start();
    letters.set('undecodable', 1);
    await history();
    await round(webhooks);
    expect(await keysOf(webhook)).toEqual([`drift.exceeded/${iso(A)}`]);
  });
});

test('dead letters are told when there are some and were none, then when more, at most hourly', async () => {
  const { webhook } = await world.add(receiver.url(), { events: ['dlq.not_empty'] });
  const webhooks = start();
  const told = async (minutes: number, counts: Record<string, number>): Promise<unknown[]> => {
    world.nowMs += minutes * 60_000;
    letters.clear();
    for (const [reason, count] of Object.entries(counts)) letters.set(reason, count);
    receiver.received.length = 0;
    await round(webhooks);
    return receiver.bodies().map(({ data }) => data.by_reason);
  };
  expect(await told(1, {})).toEqual([]);
  expect(await told(1, { undecodable: 2 })).toEqual([{ undecodable: 2 }]);
  expect(await told(1, { undecodable: 2 })).toEqual([]);
  expect(await told(1, { undecodable: 5, unsupported_version: 1 })).toEqual([]);
  expect(await told(60, { undecodable: 5, unsupported_version: 1 })).toEqual([
    { undecodable: 5, unsupported_version: 1 },
  ]);
  // The same that waited an hour ago is no news.
  expect(await told(120, { undecodable: 5, unsupported_version: 1 })).toEqual([]);
  expect(await told(1, {})).toEqual([]);
  expect(await told(1, { undecodable: 1 })).toEqual([{ undecodable: 1 }]);
  expect(await keysOf(webhook)).toHaveLength(3);
});
