/** Live streams behind a real socket, with the real warehouse and token store. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { connect } from 'node:net';
import { createApi } from '../../src/api/api.ts';
import { LiveHub } from '../../src/api/live.ts';
import { liveFeature } from '../../src/api/live-routes.ts';
import { requestLimits } from '../../src/auth/limits.ts';
import { openTokenStore } from '../../src/auth/sqlite/tokens.ts';
import type { TokenStore } from '../../src/auth/tokens.ts';
import { monotonicMs, systemClock } from '../../src/platform/clock.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { LiveRow, Warehouse } from '../../src/warehouse/port.ts';
import { FakeAdmin, READY_OPS, testFinality } from '../support/api.ts';
import { testAudit } from '../support/audit.ts';
import { eventually } from '../support/product.ts';
import { tempDir } from '../support/temp-dir.ts';

const MINUTE_MS = 60_000;
/** Heartbeats come every half second and tokens are checked every second: 30 times as fast. */
const HASTE = 30;
const folder = tempDir('live-http');
const errors: unknown[] = [];
let warehouse: Warehouse;
let tokens: TokenStore;
let hub: LiveHub;
let server: Bun.Server<undefined>;
let changes = 0;
let version = 0;
let token: string;
let tokenId: string;

beforeAll(async () => {
  warehouse = await openChdbWarehouse({
    path: `${folder.path}/warehouse`,
    minuteTtlDays: 0,
    hourTtlDays: 0,
  });
  await warehouse.migrate();
  tokens = openTokenStore({ path: `${folder.path}/tokens.db`, clock: systemClock });
});
afterAll(async () => {
  await tokens.close();
  await warehouse.close();
  folder.remove();
  expect(errors).toEqual([]);
});
beforeEach(async () => {
  await warehouse.reset();
  const asOfMs = systemClock;
  const finalUntilMs = (): number => 0;
  const log = (error: unknown): number => errors.push(error);
  hub = new LiveHub({
    warehouse,
    clock: systemClock,
    finalUntilMs,
    asOfMs,
    changes: () => changes,
    isRebuilding: () => false,
    log,
    elapsedMs: () => monotonicMs() * HASTE,
  });
  const api = createApi({
    config: { maxRows: 10_000, maxAdIds: 10_000 },
    tokens,
    limits: requestLimits(0, systemClock),
    audit: testAudit(),
    warehouse,
    finalUntilMs,
    finality: testFinality(),
    asOfMs,
    admin: new FakeAdmin(),
    features: [liveFeature({ hub, tokens })],
    ops: READY_OPS,
    log,
  });
  server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    // A stream that is silent for longer than this is closed after eight seconds.
    idleTimeout: 5,
    fetch: (request) => api.fetch(request),
  });
  ({ token, id: tokenId } = await tokens.create({ scope: 'read', advertiserId: 'adv-1' }));
});
afterEach(async () => {
  await hub.close();
  await server.stop(true);
});

const headers = () => ({ Authorization: `Bearer ${token}` });
const get = (path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(new URL(path, server.url), { headers: headers(), ...init });

/** Clicks of an ad in the minute that is running. */
async function upsert(clicks: number, over: Partial<LiveRow> = {}): Promise<void> {
  const minuteMs = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
  const row: LiveRow = {
    advertiserId: 'adv-1',
    campaignId: 'c1',
    adId: 'a',
    minuteMs,
    country: 'DE',
    device: 'mobile',
    shard: 0,
    clicks,
    ...over,
  };
  await warehouse.upsertLive([row], ++version);
  changes++;
}

const NO_GROUPS = {
  bucketStart: undefined,
  campaignId: undefined,
  country: undefined,
  device: undefined,
};

/** A stream as a client that keeps reading has it. */
class Stream {
  text = '';
  isOver = false;
  readonly abort = new AbortController();

  async open(path: string): Promise<Response> {
    const response = await get(path, { signal: this.abort.signal });
    void this.#read(response).catch(() => undefined);
    return response;
  }

  async #read(response: Response): Promise<void> {
    try {
      for await (const chunk of response.body!) this.text += new TextDecoder().decode(chunk);
    } finally {
      this.isOver = true;
    }
  }

  totals(): number[] {
    return this.events().map(({ total }) => total);
  }

  events(): { total: number; from: string; to: string; as_of: string }[] {
    return [...this.text.matchAll(/^data: (.*)$/gm)].map((match) => JSON.parse(match[1]!));
  }
}

test('clicks show up within seconds, and are those of the metrics endpoint', async () => {
  await upsert(3);
  await upsert(9, { advertiserId: 'adv-2' });
  const stream = new Stream();
  const response = await stream.open('/v1/live?minutes=10');
  expect(response.status).toBe(200);
  expect(response.headers.get('Content-Type')).toBe('text/event-stream');
  expect(response.headers.get('Cache-Control')).toBe('no-store');
  await eventually('the first event', () => stream.totals().at(-1) === 3);
  await upsert(5);
  await upsert(2, { adId: 'b' });
  await eventually('both changes', () => stream.totals().at(-1) === 7);
  const { from, to } = stream.events().at(-1)!;
  const asked = new URLSearchParams({ from, to, granularity: 'total' });
  const metrics = (await (await get(`/v1/ads/metrics?${asked}`)).json()) as {
    rows: { clicks: number }[];
  };
  expect(metrics.rows.reduce((sum, { clicks }) => sum + clicks, 0)).toBe(7);
});

test('a stream outlives the server’s idle timeout, until its token is revoked', async () => {
  const stream = new Stream();
  await stream.open('/v1/live');
  const beats = () => stream.text.match(/^: $/gm)?.length ?? 0;
  await eventually('more heartbeats than fit into the idle timeout', () => beats() >= 11);
  expect(stream.isOver).toBe(false);
  await tokens.revoke(tokenId);
  await eventually('the stream has ended', () => stream.isOver);
  expect(stream.text).toEndWith('retry: 2000\n\n');
  expect(hub.connections).toBe(0);
});

test('a client that breaks off frees its place; HEAD takes none', async () => {
  const streams = Array.from({ length: 5 }, () => new Stream());
  for (const stream of streams) await stream.open('/v1/live');
  const refused = await get('/v1/live');
  expect([refused.status, refused.headers.get('Retry-After')]).toEqual([429, '60']);
  expect(((await refused.json()) as { code: string }).code).toBe('live_streams_of_token');
  streams[0]!.abort.abort();
  await eventually('its place is free', () => hub.connections === 4);
  const head = await get('/v1/live', { method: 'HEAD' });
  expect([head.status, head.headers.get('Content-Type')]).toEqual([200, 'text/event-stream']);
  expect(hub.connections).toBe(4);
});

test('a client that stops reading is sent no more than its socket holds, then the newest', async () => {
  // Rows made here, so that many large events cost no query.
  let round = 0;
  const rows = Array.from({ length: 1_000 }, (_, at) => ({ adId: `${'x'.repeat(120)}-${at}` }));
  const many = new LiveHub({
    warehouse: {
      metrics: async () => ({
        rows: rows.map(({ adId }) => ({ ...NO_GROUPS, adId, clicks: round })),
        next: undefined,
      }),
    },
    clock: systemClock,
    finalUntilMs: () => 0,
    asOfMs: systemClock,
    changes: () => round,
    isRebuilding: () => false,
    log: (error) => errors.push(error),
  });
  const filter = { advertiserId: 'adv-1', adIds: undefined, minutes: 1 };
  const plain = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () =>
      new Response(many.watch(filter, { tokenId: 't', isAllowed: async () => true }).stream),
  });
  const socket = connect(plain.port!, '127.0.0.1');
  socket.pause();
  socket.write('GET / HTTP/1.1\r\nHost: t\r\n\r\n');
  await eventually('it watches', () => many.connections === 1);
  const response = await fetch(plain.url);
  let readBytes = 0;
  let readTail = '';
  void (async () => {
    for await (const chunk of response.body!) {
      readBytes += chunk.length;
      readTail = readTail.slice(-300_000) + new TextDecoder().decode(chunk);
    }
  })().catch(() => undefined);
  while (++round < 150) {
    many.tick();
    await eventually(`round ${round}`, () => readTail.includes(`"total":${round * 1_000},`));
  }
  let bytes = 0;
  let tail = '';
  socket.on('data', (chunk) => {
    bytes += chunk.length;
    tail = tail.slice(-300_000) + chunk.toString('latin1');
  });
  socket.resume();
  await eventually('the newest numbers', () => tail.includes('"total":149000,'));
  expect(bytes).toBeLessThan(readBytes * 0.8);
  socket.destroy();
  await eventually('its place is free', () => many.connections === 1);
  await many.close();
  await plain.stop(true);
}, 60_000);

describe('what cannot be watched', () => {
  test('another advertiser, an admin without one, and parameters that there are not', async () => {
    const codeOf = async (path: string, as = token): Promise<unknown> => {
      const answer = await fetch(new URL(path, server.url), {
        headers: { Authorization: `Bearer ${as}` },
      });
      return [answer.status, ((await answer.json()) as { code: string }).code];
    };
    const admin = (await tokens.create({ scope: 'admin' })).token;
    expect(await codeOf('/v1/live?advertiser_id=adv-2')).toEqual([403, 'advertiser_forbidden']);
    expect(await codeOf('/v1/live', admin)).toEqual([400, 'parameters_invalid']);
    for (const query of ['minutes=0', 'minutes=1441', 'minute=5', 'ad_ids=', 'ad_ids=a,,b']) {
      expect([query, await codeOf(`/v1/live?${query}`)]).toEqual([
        query,
        [400, 'parameters_invalid'],
      ]);
    }
    expect(await codeOf('/v1/live', 'wrong')).toEqual([401, 'token_invalid']);
    expect(hub.connections).toBe(0);
  });

  test('another’s ad looks like one that does not exist', async () => {
    await upsert(4, { advertiserId: 'adv-2', adId: 'theirs' });
    const dataOf = async (adId: string): Promise<string> => {
      const stream = new Stream();
      await stream.open(`/v1/live?ad_ids=${adId}`);
      await eventually('the first event', () => stream.events().length > 0);
      stream.abort.abort();
      return JSON.stringify({ ...stream.events()[0], as_of: '', from: '', to: '' });
    };
    expect(await dataOf('theirs')).toBe(await dataOf('missing'));
  });
});
