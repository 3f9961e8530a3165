// Proves INV-11 of SPEC.md.
/** Sending events to a receiver behind a real port: what counts as delivered, and what comes after not. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { Delivery, WebhookStore } from '../../src/webhooks/port.ts';
import { backoffMs } from '../../src/webhooks/sender.ts';
import { signatureOf } from '../../src/webhooks/signature.ts';
import { fcParams } from '../support/seed.ts';
import { Receiver, rawReceiver } from '../support/webhook-receiver.ts';
import { START_MS, WebhookWorld, withMethod } from '../support/webhook-world.ts';

const HOUR_MS = 3_600_000;
let world: WebhookWorld;
let receiver: Receiver;
beforeEach(() => {
  world = new WebhookWorld();
  receiver = new Receiver();
});
afterEach(async () => {
  await world.dispose();
  await receiver.close();
  expect(world.errors).toEqual([]);
});

describe('an event', () => {
  test('arrives signed, with its type, and is not sent again', async () => {
    const { webhook, secret } = await world.add(receiver.url('/in?x=1'));
    await world.enqueue(webhook.id, 'a');
    await world.send();
    await world.send();
    expect(receiver.received).toHaveLength(1);
    const { headers, body } = receiver.received[0]!;
    const { id } = receiver.bodies()[0]!;
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'clickledger-event': 'hour.final',
      'clickledger-delivery': `${id}.1`,
      'clickledger-signature': signatureOf(secret, body, START_MS / 1000),
    });
    expect(await world.backlog(webhook.id)).toEqual({ waiting: 0, oldestAtMs: null });
    expect(world.deliveries).toMatchObject([{ outcome: 'delivered', status: 200, attempt: 1 }]);
  });

  test('that failed comes again after its backoff, with the same id', async () => {
    receiver.answer = (_, nth) => new Response('broken', { status: nth < 3 ? 500 : 204 });
    const { webhook } = await world.add(receiver.url());
    await world.enqueue(webhook.id, 'a');
    await world.send();
    expect(await world.store.deliveries(webhook.id, { limit: 10, before: null })).toMatchObject([
      { outcome: 'failed', status: 500, error: 'broken', attempt: 1, atMs: START_MS },
    ]);
    world.nowMs += 9_999;
    await world.send();
    expect(receiver.received).toHaveLength(1);
    world.nowMs += 1;
    await world.send();
    world.nowMs += 20_000;
    await world.send();
    expect(world.deliveries.map(({ outcome }) => outcome)).toEqual([
      'failed',
      'failed',
      'delivered',
    ]);
    expect(new Set(receiver.bodies().map(({ id }) => id)).size).toBe(1);
    expect(receiver.received.map(({ headers }) => headers['clickledger-delivery'])).toEqual(
      [1, 2, 3].map((attempt) => `${receiver.bodies()[0]!.id}.${attempt}`),
    );
  });

  test('is given up after a day of failing, and says so', async () => {
    receiver.answer = () => new Response(null, { status: 503 });
    const { webhook } = await world.add(receiver.url());
    await world.enqueue(webhook.id, 'a');
    for (let hour = 0; hour < 30; hour++) {
      await world.send();
      world.nowMs += HOUR_MS;
    }
    const outcomes = world.deliveries.map(({ outcome }) => outcome);
    expect(outcomes.at(-1)).toBe('given_up');
    expect(outcomes.filter((outcome) => outcome === 'given_up')).toHaveLength(1);
    expect(outcomes).toHaveLength(24);
    expect((await world.backlog(webhook.id)).waiting).toBe(0);
  });

  test('is given up after the most attempts, and is tried once however old it is', async () => {
    await world.sender.stop();
    world.sender = world.newSender({ maxAttempts: 2 });
    receiver.answer = () => new Response(null, { status: 400 });
    const { webhook } = await world.add(receiver.url());
    await world.enqueue(webhook.id, 'a');
    await world.send();
    world.nowMs += HOUR_MS;
    await world.send();
    expect(world.deliveries.map(({ outcome }) => outcome)).toEqual(['failed', 'given_up']);
    await world.enqueue(webhook.id, 'b');
    world.nowMs += 72 * HOUR_MS;
    await world.send();
    expect(world.deliveries.at(-1)).toMatchObject({ outcome: 'given_up', attempt: 1 });
  });
});

describe('what is no delivery', () => {
  const attempt = async (url: string): Promise<{ status: number | null; error: string | null }> => {
    const { webhook } = await world.add(url);
    await world.enqueue(webhook.id, 'a');
    await world.send();
    const { status, error, outcome } = world.deliveries.at(-1)!;
    expect(outcome).toBe('failed');
    return { status, error };
  };

  test('a redirect, which is not followed', async () => {
    const other = new Receiver();
    for (const status of [301, 302, 303, 307, 308]) {
      receiver.answer = () =>
        new Response(null, { status, headers: { Location: other.url('/elsewhere') } });
      expect(await attempt(receiver.url())).toEqual({
        status,
        error: 'a redirect, which is not followed',
      });
    }
    expect(other.received).toEqual([]);
    await other.close();
  });

  test('no answer in time, whether nothing comes or the answer never ends', async () => {
    await world.sender.stop();
    world.sender = world.newSender({ timeoutMs: 150 });
    receiver.answer = () => new Promise(() => undefined);
    expect(await attempt(receiver.url())).toEqual({
      status: null,
      error: 'no answer within 150 ms',
    });
    const halfAnswer = await rawReceiver('HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nhalf');
    expect(await attempt(halfAnswer.url)).toEqual({
      status: null,
      error: 'no answer within 150 ms',
    });
    const halfHead = await rawReceiver('HTTP/1.1 200 OK\r\nX-Slow: ');
    expect(await attempt(halfHead.url)).toEqual({ status: null, error: 'no answer within 150 ms' });
    halfAnswer.close();
    halfHead.close();
  });

  test('nobody there, no such host, or an answer that is no HTTP', async () => {
    const gone = new Receiver();
    const url = gone.url();
    await gone.close();
    expect((await attempt(url)).error).toContain('ECONNREFUSED');
    expect((await attempt('http://no-such-host.invalid/')).status).toBeNull();
    const noise = await rawReceiver('SSH-2.0-OpenSSH\r\n\r\n');
    expect((await attempt(noise.url)).status).toBeNull();
    noise.close();
  });

  test('an error answer of any length; its first bytes are kept, on one line', async () => {
    let pulled = 0;
    receiver.answer = () =>
      new Response(
        new ReadableStream({
          pull(controller) {
            pulled++;
            controller.enqueue(new Uint8Array(65_536).fill(0x78));
          },
        }),
        { status: 500 },
      );
    expect(await attempt(receiver.url())).toEqual({ status: 500, error: 'x'.repeat(200) });
    // Not read on: the socket's buffers are full long before this.
    expect(pulled).toBeLessThan(2_000);
    receiver.answer = () => new Response('one\r\n\u001b[31mtwo\u2028three', { status: 400 });
    expect((await attempt(receiver.url())).error).toBe('one [31mtwo three');
  });
});

test('a 2xx counts from its status on, even when its body never ends', async () => {
  const endless = await rawReceiver('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf');
  const { webhook } = await world.add(endless.url);
  await world.enqueue(webhook.id, 'a');
  await world.send();
  expect(world.deliveries).toMatchObject([{ outcome: 'delivered', status: 200 }]);
  endless.close();
});

test('a receiver that does not answer holds up its own events only', async () => {
  const slow = new Receiver();
  let release = (): void => undefined;
  slow.answer = () =>
    new Promise((resolve) => {
      release = () => resolve(new Response('late'));
    });
  const stuck = await world.add(slow.url());
  const fast = await world.add(receiver.url());
  await world.enqueue(stuck.webhook.id, 'a', 'b');
  await world.enqueue(fast.webhook.id, 'a', 'b', 'c');
  await world.startSending();
  await slow.arrived(1);
  await receiver.arrived(3);
  // Another round while the first is still on its way sends nothing twice.
  await world.startSending();
  expect(slow.received).toHaveLength(1);
  slow.answer = () => new Response('ok');
  release();
  await world.sender.idle();
  expect(slow.received).toHaveLength(2);
  expect(receiver.received).toHaveLength(3);
  await slow.close();
});

test('an attempt that was broken off by stopping is made again by the next process', async () => {
  receiver.answer = () => new Promise(() => undefined);
  const { webhook } = await world.add(receiver.url());
  await world.enqueue(webhook.id, 'a');
  await world.startSending();
  await receiver.arrived(1);
  await world.sender.stop();
  expect(world.deliveries).toEqual([]);
  receiver.answer = () => new Response('ok');
  world.sender = world.newSender();
  await world.send();
  expect(receiver.bodies().map(({ id }) => id)).toEqual([
    receiver.bodies()[0]!.id,
    receiver.bodies()[0]!.id,
  ]);
  expect(world.deliveries).toMatchObject([{ outcome: 'delivered', attempt: 1 }]);
});

test('a sender that was stopped begins nothing until it is asked again', async () => {
  const { webhook } = await world.add(receiver.url());
  await world.enqueue(webhook.id, 'a');
  const asked = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  const due: WebhookStore['due'] = async (...args) => {
    asked.resolve();
    await gate.promise;
    return world.store.due(...args);
  };
  await world.sender.stop();
  world.sender = world.newSender({ store: withMethod(world.store, 'due', due) });
  const looking = world.startSending();
  await asked.promise;
  // A second look meanwhile leaves to the first what it looks for.
  await world.startSending();
  await world.sender.stop();
  gate.resolve();
  await looking;
  await world.sender.idle();
  expect(receiver.received).toEqual([]);
  await world.send();
  expect(receiver.received).toHaveLength(1);
});

test('an attempt that cannot be recorded is not repeated at once', async () => {
  const { webhook } = await world.add(receiver.url());
  await world.enqueue(webhook.id, 'a');
  const failure = new Error('disk full');
  const broken = withMethod(world.store, 'record', async () => {
    throw failure;
  });
  await world.sender.stop();
  world.sender = world.newSender({ store: broken });
  await world.send();
  await world.send();
  expect(receiver.received).toHaveLength(1);
  world.nowMs += 60_000;
  await world.sender.stop();
  world.sender = world.newSender();
  await world.send();
  expect(receiver.received).toHaveLength(2);
  expect(world.errors.splice(0)).toEqual([failure]);
});

test('a test event is sent once, logged, and not tried again', async () => {
  receiver.answer = () => new Response('nope', { status: 418 });
  const { webhook, secret } = await world.add(receiver.url());
  expect(await world.sender.test(webhook)).toMatchObject({ status: 418, outcome: 'failed' });
  world.nowMs += HOUR_MS;
  await world.send();
  expect(receiver.received).toHaveLength(1);
  const { headers, body } = receiver.received[0]!;
  expect(headers['clickledger-event']).toBe('webhook.test');
  expect(headers['clickledger-signature']).toBe(signatureOf(secret, body, START_MS / 1000));
  expect(receiver.bodies()[0]!.data).toEqual({ webhook_id: webhook.id });
  expect(await world.store.deliveries(webhook.id, { limit: 5, before: null })).toHaveLength(1);
});

test('backoff grows, has a bound, and lies anywhere below it', () => {
  const attempts = fc.integer({ min: 1, max: 1_000 });
  fc.assert(
    fc.property(attempts, fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (n, r) => {
      const ms = backoffMs(n, () => r);
      expect(ms).toBeGreaterThanOrEqual(1_000);
      expect(ms).toBeLessThanOrEqual(Math.max(1_000, Math.min(HOUR_MS, 10_000 * 2 ** (n - 1))));
      expect(ms).toBe(Math.max(1_000, Math.floor(r * backoffMs(n, () => 1))));
    }),
    fcParams(),
  );
});

describe('with private addresses refused', () => {
  const results: Delivery[] = [];
  const refusing = () =>
    new WebhookWorld({ allowPrivate: false, onDelivery: (each) => results.push(each) });

  test('names and addresses of this machine are not connected to, however they are written', async () => {
    const own = refusing();
    const port = new URL(receiver.url()).port;
    const hosts = ['127.0.0.1', 'localhost', '[::1]', '0x7f.1', '2130706433', '[::ffff:127.0.0.1]'];
    for (const host of hosts) {
      const { webhook } = await own.add(`http://${host}:${port}/`);
      await own.enqueue(webhook.id, 'a');
      await own.send();
      expect([host, results.at(-1)]).toMatchObject([host, { status: null }]);
      expect(results.at(-1)!.error).toContain('not public');
    }
    expect(receiver.received).toEqual([]);
    await own.dispose();
  });
});
