/** The routes of webhooks, over a real store and a real receiver. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { webhooksFeature } from '../../src/api/webhook-routes.ts';
import type { WebhookEventType } from '../../src/webhooks/port.ts';
import { WebhookWatcher } from '../../src/webhooks/watcher.ts';
import { Webhooks } from '../../src/webhooks/webhooks.ts';
import { FakeWarehouse, jsonOf, setUpApi } from '../support/api.ts';
import { Receiver } from '../support/webhook-receiver.ts';
import { WebhookWorld } from '../support/webhook-world.ts';

const PATH = '/v1/admin/webhooks';
let world: WebhookWorld;
let receiver: Receiver;
let isRebuilding: boolean;
let api: ReturnType<typeof setUpApi>;

beforeEach(() => {
  world = new WebhookWorld();
  receiver = new Receiver();
  isRebuilding = false;
  const { store, sender, clock } = world;
  const watcher = new WebhookWatcher({
    store,
    clock,
    warehouse: new FakeWarehouse(),
    deadLetters: async () => new Map(),
    finalUntilMs: () => 0,
    driftAlert: 0.001,
  });
  const webhooks = new Webhooks({
    store,
    sender,
    watcher,
    clock,
    finalUntilMs: () => 0,
    publications: () => 0,
    isRebuilding: () => isRebuilding,
  });
  api = setUpApi({ features: [webhooksFeature({ webhooks })] });
});
afterEach(async () => {
  await world.dispose();
  await receiver.close();
});

const send = (path: string, method = 'GET', body?: object, token = 'admin'): Promise<Response> =>
  api.send(
    path,
    {
      method,
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } }),
    },
    token,
  );
const EVENTS: WebhookEventType[] = ['hour.final', 'hour.restated'];

test('a webhook is registered, listed without its secret, tested, and removed', async () => {
  const answer = await send(PATH, 'POST', { url: receiver.url(), events: EVENTS });
  expect(answer.status).toBe(201);
  const created = await jsonOf(answer);
  expect(created).toEqual({
    id: expect.stringMatching(/^wh_[0-9a-f]{16}$/),
    url: receiver.url(),
    events: EVENTS,
    advertiser_id: null,
    created_at: '2026-03-10T12:00:00.000Z',
    secret: expect.stringMatching(/^whsec_/),
  });
  const { secret, ...shown } = created;
  expect(await jsonOf(send(PATH))).toEqual({
    webhooks: [{ ...shown, waiting: 0, oldest_waiting_at: null }],
    next_cursor: null,
  });
  expect(await jsonOf(send(`${PATH}/${created.id}/test`, 'POST'))).toMatchObject({
    type: 'webhook.test',
    outcome: 'delivered',
    status: 200,
    attempt: 1,
    error: null,
  });
  expect(receiver.received).toHaveLength(1);
  const { deliveries } = await jsonOf(send(`${PATH}/${created.id}/deliveries`));
  expect(deliveries).toMatchObject([{ type: 'webhook.test', outcome: 'delivered' }]);
  expect(JSON.stringify(deliveries)).not.toContain(String(secret));
  expect((await send(`${PATH}/${created.id}`, 'DELETE')).status).toBe(204);
  for (const [path, method] of [
    [`${PATH}/${created.id}`, 'DELETE'],
    [`${PATH}/${created.id}/deliveries`, 'GET'],
    [`${PATH}/${created.id}/test`, 'POST'],
  ] as const) {
    const gone = await send(path, method);
    expect([path, gone.status, (await jsonOf(gone)).code]).toEqual([path, 404, 'webhook_unknown']);
  }
});

test('its attempts come page by page', async () => {
  const { webhook } = await world.add(receiver.url());
  for (let n = 0; n < 5; n++) await send(`${PATH}/${webhook.id}/test`, 'POST');
  const ids: unknown[] = [];
  let cursor: unknown = null;
  do {
    const more = cursor === null ? '' : `&cursor=${cursor}`;
    const page = await jsonOf(send(`${PATH}/${webhook.id}/deliveries?limit=2${more}`));
    ids.push(...(page.deliveries as { id: string }[]).map(({ id }) => id));
    cursor = page.next_cursor;
  } while (cursor !== null);
  expect(ids).toEqual(['5', '4', '3', '2', '1']);
});

describe('what is refused', () => {
  const codeOf = async (body: object, token = 'admin'): Promise<unknown[]> => {
    const answer = await send(PATH, 'POST', body, token);
    return [answer.status, (await jsonOf(answer)).code];
  };

  test('whoever is no admin', async () => {
    const body = { url: receiver.url(), events: EVENTS };
    expect(await codeOf(body, 'reader')).toEqual([403, 'scope_insufficient']);
    expect((await send(PATH, 'GET', undefined, 'reader')).status).toBe(403);
    expect(await world.store.list()).toEqual([]);
  });

  test('addresses that are none to send to', async () => {
    for (const url of [
      'ftp://r.example/',
      'javascript:alert(1)',
      'https:r.example',
      'https:///path',
      'http://user:secret@r.example/',
      'http://r.example:99999/',
      '//r.example/',
      '/hook',
      '',
      `https://r.example/${'x'.repeat(2_048)}`,
    ]) {
      expect([url, ...(await codeOf({ url, events: EVENTS }))]).toEqual([
        url,
        400,
        'webhook_url_invalid',
      ]);
    }
  });

  test('events that there are not, none at all, and those that are no advertiser’s', async () => {
    const url = receiver.url();
    for (const body of [{ url }, { url, events: [] }, { url, events: ['hour.finale'] }]) {
      expect(await codeOf(body)).toEqual([400, 'parameters_invalid']);
    }
    const events = ['hour.final', 'drift.exceeded'];
    expect(await codeOf({ url, events, advertiser_id: 'adv-1' })).toEqual([
      400,
      'webhook_events_invalid',
    ]);
    expect(await codeOf({ url, events: EVENTS, advertiser_id: 'adv-1' })).toEqual([201, undefined]);
  });

  test('a body that is too large, and registering while it is not known what is final', async () => {
    const url = receiver.url();
    const large = { url, events: EVENTS, advertiser_id: 'x'.repeat(20_000) };
    expect(await codeOf(large)).toEqual([413, 'body_too_large']);
    isRebuilding = true;
    expect(await codeOf({ url, events: EVENTS })).toEqual([503, 'rebuilding']);
  });

  test('a second test while one is on its way', async () => {
    const { webhook } = await world.add(receiver.url());
    let release = (): void => undefined;
    receiver.answer = () =>
      new Promise((resolve) => {
        release = () => resolve(new Response('ok'));
      });
    const first = send(`${PATH}/${webhook.id}/test`, 'POST');
    await receiver.arrived(1);
    const second = await send(`${PATH}/${webhook.id}/test`, 'POST');
    expect([second.status, (await jsonOf(second)).code]).toEqual([503, 'webhook_test_running']);
    release();
    expect((await first).status).toBe(200);
    expect(receiver.received).toHaveLength(1);
  });
});
