// Proves INV-1 of SPEC.md.
/**
 * The click service behind a real socket, with the real catalog, log and address database.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import type { AdCatalog } from '../../src/ads/port.ts';
import { openGeo } from '../../src/click/geo.ts';
import { ClickCounters } from '../../src/click/metrics.ts';
import { createOpsFetch } from '../../src/click/ops.ts';
import { type ClickService, createClickService } from '../../src/click/service.ts';
import { configSchema } from '../../src/config/schema.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';
import { decodeEvent } from '../../src/event/codec.ts';
import { DiskLogReader } from '../../src/log/disk/reader.ts';
import { DiskLogWriter } from '../../src/log/disk/writer.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { signedLink } from '../../src/signing/signature.ts';
import { ad, clickPath, KEY } from '../support/click.ts';
import { rawRequest } from '../support/raw-http.ts';
import { fcParams } from '../support/seed.ts';
import { tempDir } from '../support/temp-dir.ts';

const TARGET = 'https://shop.example/p?a=1&name=日本#é';
const LOCATION = 'https://shop.example/p?a=1&name=%E6%97%A5%E6%9C%AC#%C3%A9';
const folder = tempDir('click-http');
const metrics = new ClickCounters();
const errors: unknown[] = [];
let catalog: AdCatalog;
let log: DiskLogWriter;
let service: ClickService;
let server: Bun.Server<undefined>;
let port = 0;

beforeAll(async () => {
  catalog = openLmdbCatalog({ dir: `${folder.path}/catalog`, readOnly: false });
  await catalog.putKey(KEY);
  await catalog.putAll([ad('a1', TARGET), ad('a2', 'https://pass.example/x#f', true)]);
  log = new DiskLogWriter({
    logDir: `${folder.path}/log`,
    partition: 0,
    segmentBytes: 1 << 20,
    clock: systemClock,
  });
  service = createClickService({
    config: { ...configSchema.parse({}).click, trustedProxies: 1, storeAddress: 'whole' },
    ads: catalog,
    log,
    geo: await openGeo(),
    clock: systemClock,
    metrics,
    opsFetch: createOpsFetch({ ads: catalog, log, metricsText: () => '' }),
    onInternalError: (error) => errors.push(error),
  });
  server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (req, bunServer) => service.fetch(req, bunServer),
  });
  port = server.port!;
});

afterAll(async () => {
  await server.stop(true);
  await service.drain();
  await log.close();
  await catalog.close();
  folder.remove();
});

/** Every click in the log, read as another process would. */
async function logged(): Promise<ClickEvent[]> {
  const reader = new DiskLogReader(`${folder.path}/log`);
  const events: ClickEvent[] = [];
  const { endOffset } = await reader.range(0);
  let offset = 0;
  while (offset < endOffset) {
    for (const batch of await reader.read(0, offset, 1 << 20)) {
      for (let i = offset - batch.firstOffset; i < batch.count; i++) {
        events.push(decodeEvent(batch.bytes, batch.bounds[2 * i]!, batch.bounds[2 * i + 1]!)!);
      }
      offset = batch.firstOffset + batch.count;
    }
  }
  await reader.close();
  return events;
}

describe('a click over HTTP', () => {
  test('is on disk when its 302 arrives, with country, device and address', async () => {
    const before = systemClock();
    const answer = await rawRequest(port, clickPath('e1', 'a1'), {
      headers: ['X-Forwarded-For: 1.1.1.1', 'X-Forwarded-For: 8.8.8.8', 'Sec-CH-UA-Mobile: ?1'],
    });
    expect(answer.status).toBe(302);
    expect(answer.headers.get('location')).toBe(LOCATION);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.has('etag')).toBe(false);
    const event = (await logged()).find((one) => one.impressionId === 'e1')!;
    expect(event).toMatchObject({ country: 'US', device: 'mobile', class: 'click', ip: '8.8.8.8' });
    expect(event.clickedAtMs).toBeGreaterThanOrEqual(before);
    expect(event.geoVersion).toBeGreaterThan(20_200_101);
  });

  test('HEAD gets the same headers and no body, a page as well as a redirect (A1)', async () => {
    for (const path of [clickPath('e2', 'a1'), '/v1/c?imp=e2']) {
      const get = await rawRequest(port, path);
      const head = await rawRequest(port, path, { method: 'HEAD' });
      expect(head.status).toBe(get.status);
      expect(head.body).toBe('');
      const own = ['location', 'cache-control', 'content-type', 'x-content-type-options'];
      for (const name of own) expect(head.headers.get(name)).toBe(get.headers.get(name));
    }
    const classes = (await logged()).filter((one) => one.impressionId === 'e2');
    expect(classes.map((one) => one.class)).toEqual(['click', 'head']);
  });

  test('a link made by the signing helper is taken', async () => {
    const link = signedLink({ base: 'https://t.example', imp: 'e3', ad: 'a1', secret: KEY.secret });
    const answer = await rawRequest(port, link.slice('https://t.example'.length));
    expect(answer.status).toBe(302);
  });

  test('passed-on parameters reach the target as they were sent (B11, B17)', async () => {
    const answer = await rawRequest(
      port,
      clickPath('e4', 'a2', '&my%20k=1&a[]=3&a[]=4&a&b=&z=%E0%A4%A'),
    );
    expect(answer.headers.get('location')).toBe(
      'https://pass.example/x?my%20k=1&a[]=3&a[]=4&a&b=&z=%E0%A4%A#f',
    );
  });

  test('a request in absolute form or with an unusable Host is read like any other', async () => {
    const path = clickPath('e5', 'a1');
    const answers = [
      await rawRequest(port, `http://other.example${path}`),
      await rawRequest(port, path, { host: '' }),
      await rawRequest(port, path, { host: 'x/v1/c?imp=i1' }),
      await rawRequest(port, path, { host: 'a b<>' }),
    ];
    for (const answer of answers) {
      expect([answer.status, answer.headers.get('location')]).toEqual([302, LOCATION]);
    }
  });

  test.each([2_000, 8_000, 8_193, 16_383, 16_385, 80_000])(
    'a link of %p bytes is taken or refused, never a 500 (B18)',
    async (length) => {
      const path = `${clickPath('e6', 'a1')}&x=`.padEnd(length, 'y');
      const { status, headers } = await rawRequest(port, path);
      // Bun itself refuses a request line and headers of more than 16 KB with 431.
      expect(status).toBe(length <= 8_192 ? 302 : length < 16_000 ? 414 : 431);
      expect(headers.has('location')).toBe(length <= 8_192);
    },
  );

  test.each(['x=%', 'x=%E0%A4%A', 'x=%83', '%25what%', 'x=%00'])(
    'bad percent-encoding %s neither breaks the link it is in nor the process (B17)',
    async (part) => {
      expect((await rawRequest(port, `${clickPath('e7', 'a1')}&${part}`)).status).toBe(302);
      expect((await rawRequest(port, `/v1/c?${part}`)).status).toBe(400);
      expect((await rawRequest(port, `/${part}`)).status).toBe(404);
    },
  );

  test('the pages for whoever runs it are answered beside it', async () => {
    expect((await rawRequest(port, '/readyz')).status).toBe(200);
    expect((await rawRequest(port, '/healthz')).status).toBe(200);
  });

  test('a hundred clicks at once are each logged once and each redirected', async () => {
    const ids = Array.from({ length: 100 }, (_, i) => `many-${i}`);
    const answers = await Promise.all(ids.map((id) => rawRequest(port, clickPath(id, 'a1'))));
    expect(answers.every((answer) => answer.status === 302)).toBe(true);
    const seen = (await logged())
      .map((one) => one.impressionId)
      .filter((id) => id.startsWith('many-'));
    expect(seen.sort()).toEqual(ids.sort());
  });
});

describe('hostile requests', () => {
  const value = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 60 }),
    fc.constantFrom(
      '%',
      '%00',
      '\u0000',
      '&',
      '=',
      '#',
      '?',
      '//evil.example',
      '\\',
      'amp;',
      '日本',
      '😀',
    ),
    fc.constantFrom('i1', 'a1', 'a2', 'A'.repeat(43), clickPath('i1', 'a1').slice(-43)),
  );
  const name = fc.oneof(
    fc.constantFrom('imp', 'ad', 'sig', 'kid', 'url', 'amp;imp', 'Location', ''),
    fc.string({ unit: 'binary', maxLength: 8 }),
  );
  const query = fc
    .array(fc.tuple(name, fc.constantFrom('=', '', '=='), value), { maxLength: 6 })
    .map((parts) => parts.map((part) => part.join('')).join('&'));
  const target = fc.oneof(
    query.map((text) => `/v1/c?${text}`),
    fc.string({ unit: 'binary', maxLength: 80 }).map((text) => `/v1/c${text}`),
    fc.string({ unit: 'binary', maxLength: 80 }).map((text) => `/${text}`),
  );

  test('no request target makes it answer 5xx, die, or redirect without a signature', async () => {
    const before = { ...metrics.outcomes };
    await fc.assert(
      fc.asyncProperty(target, fc.constantFrom('GET', 'HEAD', 'POST'), async (text, method) => {
        // The one thing a request line cannot hold is its own end.
        const line = text.replace(/[\r\n ]/g, '');
        // The generator knows one good signature; a target that puts it together is a real click.
        fc.pre(!/imp=i1/.test(line) || !/ad=a1/.test(line));
        const answer = await rawRequest(port, line, { method });
        // 0 and 505: Bun drops what is not HTTP before the service sees it.
        expect(answer.status === 505 || answer.status < 500).toBe(true);
        expect(answer.headers.has('location')).toBe(false);
        expect(answer.text).not.toContain('evil.example');
      }),
      fcParams(400),
    );
    expect(errors).toEqual([]);
    expect(metrics.outcomes.internal).toBe(0);
    expect(metrics.outcomes.redirected_click).toBe(before.redirected_click);
    // The generator must really reach the service, not only Bun's own refusals.
    expect(metrics.outcomes.malformed).toBeGreaterThan(before.malformed + 50);
    expect((await rawRequest(port, clickPath('after', 'a1'))).status).toBe(302);
  });

  test('whatever stands beside a good signature, the click leads to the ad it was signed for', async () => {
    await fc.assert(
      fc.asyncProperty(query, fc.constantFrom('a1', 'a2'), async (extra, adId) => {
        const line = extra.replace(/[\r\n ]/g, '').replace('\u0000', '');
        const answer = await rawRequest(port, `${clickPath('f1', adId)}&${line}`);
        const location = answer.headers.get('location');
        if (location === undefined) return;
        expect(answer.status).toBe(302);
        const host = adId === 'a1' ? 'shop.example' : 'pass.example';
        expect(URL.parse(location)?.host).toBe(host);
        expect(location).toMatch(/^[\x21-\x7e]+$/);
        if (adId === 'a1') expect(location).toBe(LOCATION);
      }),
      fcParams(400),
    );
    expect(errors).toEqual([]);
  });

  test('no header makes it answer 5xx or log an event that cannot be read', async () => {
    const text = fc
      .string({ unit: 'binary', maxLength: 200 })
      .map((raw) => raw.replace(/[\r\n]/g, '').replaceAll('\u0000', ''));
    const header = fc.tuple(
      fc.constantFrom(
        'User-Agent',
        'Referer',
        'X-Forwarded-For',
        'Sec-CH-UA-Mobile',
        'Sec-CH-UA-Platform',
        'Sec-Purpose',
      ),
      text,
    );
    await fc.assert(
      fc.asyncProperty(fc.array(header, { maxLength: 5 }), async (headers) => {
        const { status } = await rawRequest(port, clickPath('h1', 'a1'), {
          headers: headers.map((pair) => pair.join(': ')),
        });
        expect([302, 400, 0]).toContain(status);
      }),
      fcParams(300),
    );
    expect(errors).toEqual([]);
    for (const event of await logged()) expect(event).not.toBeNull();
  });
});
