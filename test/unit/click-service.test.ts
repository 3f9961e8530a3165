// Proves INV-1 of SPEC.md.
import { describe, expect, test } from 'bun:test';
import { createOpsFetch } from '../../src/click/ops.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { ad, clickPath, HeldLog, KEY, MapAds, NOW_MS, setUpClicks } from '../support/click.ts';

const CHROME =
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36';
const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1';

describe('a good click', () => {
  test('is logged with everything that counting needs and then redirected', async () => {
    const { send, log, metrics } = setUpClicks();
    const answer = await send(clickPath('i1', 'a1'), {
      headers: {
        'user-agent': CHROME,
        referer: 'https://pub.example/x',
        'sec-ch-ua-mobile': '?0',
        'sec-ch-ua-platform': '"Android"',
      },
    });
    expect(answer.status).toBe(302);
    expect(Object.fromEntries(answer.headers)).toEqual({
      location: 'https://shop.example/p?a=1&utm_source=x',
      'cache-control': 'no-store',
    });
    expect(await answer.text()).toBe('');
    expect(log.events).toEqual([
      {
        impressionId: 'i1',
        adId: 'a1',
        advertiserId: 'adv-1',
        campaignId: 'camp-1',
        clickedAtMs: NOW_MS,
        country: 'US',
        device: 'tablet',
        class: 'click',
        source: 'http',
        geoVersion: 20260617,
        ip: '203.0.113.0',
        userAgent: CHROME,
        referer: 'https://pub.example/x',
      },
    ]);
    expect(metrics.outcomes.redirected_click).toBe(1);
  });

  test('gets its 302 only after the log has called back (D1)', async () => {
    const { send, log, metrics } = setUpClicks({ log: new HeldLog() });
    let status = 0;
    const answer = send(clickPath('i1', 'a1')).then((response) => {
      status = response.status;
    });
    await Bun.sleep(0);
    expect([status, metrics.outcomes.redirected_click]).toEqual([0, 0]);
    log.held[0]!(null);
    await answer;
    expect([status, metrics.outcomes.redirected_click]).toEqual([302, 1]);
  });

  test('from a browser without a user agent stays a billable click', async () => {
    const { send, log } = setUpClicks();
    expect((await send(clickPath('i1', 'a1'))).status).toBe(302);
    expect(log.events[0]).toMatchObject({ class: 'click', device: 'other', userAgent: '' });
  });

  test('with headers of any length is logged with the text cut at its limit (D11)', async () => {
    const { send, log } = setUpClicks();
    const long = `${'é'.repeat(4_000)}`;
    await send(clickPath('i1', 'a1'), { headers: { 'user-agent': long, referer: long } });
    expect(log.events[0]!.userAgent).toBe('é'.repeat(512));
    expect(log.events[0]!.referer).toBe('é'.repeat(512));
  });
});

describe('the class of a click', () => {
  test('one post on a social network is 1 preview and 3 heads, none of them a click (A2)', async () => {
    const { send, log, metrics } = setUpClicks();
    const path = clickPath('i1', 'a1');
    await send(path, { headers: { 'user-agent': 'Twitterbot/1.0' } });
    await send(path, { method: 'HEAD', headers: { 'user-agent': IPHONE } });
    await send(path, { method: 'HEAD', headers: { 'user-agent': CHROME } });
    await send(path, { method: 'HEAD' });
    expect(log.events.map((event) => event.class)).toEqual(['preview', 'head', 'head', 'head']);
    expect(metrics.outcomes).toMatchObject({ redirected_preview: 1, redirected_head: 3 });
  });

  test('every class gets the same redirect, a prefetch too (A1, A4, A5)', async () => {
    const { send, log, metrics } = setUpClicks();
    const path = clickPath('i1', 'a1');
    const answers = [
      await send(path, { method: 'HEAD' }),
      await send(path, { headers: { 'Sec-Purpose': 'prefetch;prerender' } }),
      await send(path, { headers: { 'user-agent': 'WhatsApp/2' } }),
      await send(path, { headers: { 'user-agent': IPHONE } }),
    ];
    for (const answer of answers) {
      expect(answer.status).toBe(302);
      expect(Object.fromEntries(answer.headers)).toEqual(Object.fromEntries(answers[3]!.headers));
    }
    expect(log.events.map((event) => event.class)).toEqual([
      'head',
      'prefetch',
      'preview',
      'click',
    ]);
    expect(log.events[3]!.device).toBe('mobile');
    expect(metrics.outcomes.redirected_prefetch).toBe(1);
  });
});

describe('a request that is no good click', () => {
  const good = clickPath('i1', 'a1');
  const sig = good.slice(good.indexOf('sig='));
  test.each([
    ['an unsigned link (B4)', '/v1/c?imp=i1&ad=a1', 400, 'malformed'],
    ['no parameters', '/v1/c', 400, 'malformed'],
    ['an unreplaced placeholder', `/v1/c?imp={imp}&ad=a1&${sig}`, 400, 'malformed'],
    [
      'a placeholder that looks like an id',
      `/v1/c?imp=INSERT_RANDOM_NUMBER_HERE&ad=a1&${sig}`,
      403,
      'bad_signature',
    ],
    ['a link escaped for HTML (B1)', good.replaceAll('&', '&amp;'), 400, 'html_escaped'],
    ['a repeated impression', `${good}&imp=i2`, 400, 'repeated_parameter'],
    [
      'another impression under the signature (A8)',
      `/v1/c?imp=i2&ad=a1&${sig}`,
      403,
      'bad_signature',
    ],
    ['another ad under the signature (B3)', `/v1/c?imp=i1&ad=a2&${sig}`, 403, 'bad_signature'],
    [
      'a signature in another case',
      `/v1/c?imp=i1&ad=a1&sig=${'a'.repeat(43)}`,
      403,
      'bad_signature',
    ],
    ['a short signature', '/v1/c?imp=i1&ad=a1&sig=abc', 403, 'bad_signature'],
    ['an unknown key', `${good}&kid=k9`, 403, 'bad_signature'],
    [
      'an unknown ad without a signature of its own',
      `/v1/c?imp=i1&ad=nope&${sig}`,
      403,
      'bad_signature',
    ],
    ['an unknown ad, signed', clickPath('i1', 'nope'), 404, 'unknown_ad'],
    ['another path', '/v1/click', 404, 'not_found'],
    ['a generic redirect (B19)', '/r?u=https://evil.example', 404, 'not_found'],
    ['a link over the limit (B18)', `${good}&x=${'y'.repeat(8_192)}`, 414, 'url_too_long'],
  ] as const)('%s is answered by reason', async (_what, path, status, reason) => {
    for (const method of ['GET', 'HEAD']) {
      const { send, log, metrics } = setUpClicks();
      const answer = await send(path, { method });
      expect(answer.status).toBe(status);
      expect(answer.headers.get('location')).toBeNull();
      expect(answer.headers.get('etag')).toBeNull();
      expect(answer.headers.get('cache-control')).toBe('no-store');
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
      expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8');
      const text = await answer.text();
      expect(text === '').toBe(method === 'HEAD');
      expect(text.length).toBeLessThan(200);
      expect(metrics.outcomes[reason]).toBe(1);
      expect(log.events).toEqual([]);
    }
  });

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH'])(
    'the method %s is refused and told what is allowed',
    async (method) => {
      const { send, log, metrics } = setUpClicks();
      const answer = await send(good, { method });
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
      expect(metrics.outcomes.method).toBe(1);
      expect(log.events).toEqual([]);
    },
  );

  test('a link of exactly the limit is taken', async () => {
    const { send } = setUpClicks({ config: { maxUrlBytes: 512 } });
    const fill = (length: number): string => `${good}&x=`.padEnd(length, 'y');
    expect((await send(fill(512))).status).toBe(302);
    expect((await send(fill(513))).status).toBe(414);
  });
});

describe('signing keys', () => {
  test('several are valid at once and a change is obeyed at the next click', async () => {
    const ads = new MapAds(ad('a1', 'https://shop.example/'));
    const { send } = setUpClicks({ ads });
    const next = { ...KEY, kid: 'k2', secret: 'secret-2' };
    const status = async (secret: string, rest = ''): Promise<number> =>
      (await send(clickPath('i1', 'a1', rest, secret))).status;
    expect(await status('secret-2')).toBe(403);
    ads.keys = [next, KEY];
    expect(await status('secret-2')).toBe(302);
    expect(await status('secret-2', '&kid=k2')).toBe(302);
    expect(await status('secret-2', '&kid=k1')).toBe(403);
    expect(await status('secret-1')).toBe(302);
    ads.keys = [next];
    expect(await status('secret-1')).toBe(403);
    ads.keys = [];
    expect(await status('secret-2')).toBe(403);
  });
});

describe('the target', () => {
  const follow = async (target: string, rest = '', passQuery = false): Promise<Response> =>
    setUpClicks({ ads: new MapAds(ad('a1', target, passQuery)) }).send(clickPath('i1', 'a1', rest));

  test.each([
    ['http://e.com/p?a=1&utm_source=x', 'http://e.com/p?a=1&utm_source=x'],
    [
      'https://e.com/?q=b-%2Bprofessor%20%2Bespanhol',
      'https://e.com/?q=b-%2Bprofessor%20%2Bespanhol',
    ],
    ['https://e.com/?u=http%3A%2F%2Fx%2F%253F', 'https://e.com/?u=http%3A%2F%2Fx%2F%253F'],
    [
      'https://e.com/日本語?é=”#😀',
      'https://e.com/%E6%97%A5%E6%9C%AC%E8%AA%9E?%C3%A9=%E2%80%9D#%F0%9F%98%80',
    ],
    ['https://e.com/%0d%0aSet-Cookie:x=1', 'https://e.com/%0d%0aSet-Cookie:x=1'],
    [
      'https://e.com/?i={impression_id}&a={ad_id}&d={device}&c={country}',
      'https://e.com/?i=i1&a=a1&d=other&c=US',
    ],
  ])('%s is sent as %s (B1, B5, B6, B8, B15)', async (target, location) => {
    expect((await follow(target)).headers.get('location')).toBe(location);
  });

  test.each([
    'javascript:alert(1)',
    'data:text/html,x',
    '//evil.example/',
    '/\\evil.example',
    'https:evil.example',
    'http://good.example@evil.example/',
    'ht\ttp://evil.example/',
    'https://e.com/\r\nSet-Cookie: x=1',
    'myapp://item/1',
    'mailto:a@b.example',
    '',
  ])('%p in the catalog is never redirected to nor logged (B13, B14, B15)', async (target) => {
    const { send, log, metrics } = setUpClicks({ ads: new MapAds(ad('a1', target)) });
    const answer = await send(clickPath('i1', 'a1'));
    expect([answer.status, answer.headers.get('location')]).toEqual([404, null]);
    expect(metrics.outcomes.bad_target).toBe(1);
    expect(log.events).toEqual([]);
  });

  test('an ad that was changed leads to its new target at once', async () => {
    const ads = new MapAds(ad('a1', 'https://one.example/'));
    const { send } = setUpClicks({ ads });
    const location = async () => (await send(clickPath('i1', 'a1'))).headers.get('location');
    expect(await location()).toBe('https://one.example/');
    ads.ads.set('a1', ad('a1', 'https://two.example/'));
    expect(await location()).toBe('https://two.example/');
  });

  test('other parameters are passed on only if the ad asks for it, unchanged (B11)', async () => {
    const rest = '&my%20key=1&a.b=2&a[]=3&a[]=4&a=&a&url=https://evil.example';
    const without = await follow('https://e.com/p#f', rest);
    expect(without.headers.get('location')).toBe('https://e.com/p#f');
    const passed = await follow('https://e.com/p#f', rest, true);
    expect(passed.headers.get('location')).toBe(
      'https://e.com/p?my%20key=1&a.b=2&a[]=3&a[]=4&a=&a&url=https://evil.example#f',
    );
  });

  test.each(['url', 'u', 'dest', 'r', 'redirect', 'target', 'Location'])(
    'a parameter named %s cannot choose where the click leads (B3)',
    async (name) => {
      const answer = await follow('https://e.com/', `&${name}=https://evil.example/`);
      expect(answer.headers.get('location')).toBe('https://e.com/');
    },
  );
});

describe('when the log cannot take a click', () => {
  const refusals = [
    new LedgerError('log_unavailable', 'disk full', { kind: 'retry' }),
    new LedgerError('log_full_queue', 'too many', { kind: 'retry' }),
  ];

  test.each(refusals)('503 with Retry-After, no redirect (D4, D7): %s', async (refusal) => {
    const { send, log, metrics } = setUpClicks();
    log.refusal = refusal;
    const answer = await send(clickPath('i1', 'a1'));
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1']);
    expect(answer.headers.get('location')).toBeNull();
    expect(metrics.outcomes.log_unavailable).toBe(1);
    log.refusal = null;
    expect((await send(clickPath('i1', 'a1'))).status).toBe(302);
  });

  test('a write that fails after it was taken is a 503 as well', async () => {
    const { send, log, metrics } = setUpClicks({ log: new HeldLog() });
    const answer = send(clickPath('i1', 'a1'));
    log.held[0]!(new Error('EIO'));
    expect((await answer).status).toBe(503);
    expect(metrics.outcomes).toMatchObject({ log_failed: 1, redirected_click: 0 });
  });

  test('with onLogFailure = redirect the click is redirected and counted as given away', async () => {
    const { send, log, metrics } = setUpClicks({
      config: { onLogFailure: 'redirect' },
      log: new HeldLog(),
    });
    const failing = send(clickPath('i1', 'a1'));
    log.held[0]!(new Error('EIO'));
    log.refusal = refusals[0]!;
    expect((await failing).status).toBe(302);
    expect((await send(clickPath('i2', 'a1'))).status).toBe(302);
    expect(metrics.outcomes).toMatchObject({ given_away: 2, redirected_click: 0 });
  });

  test('more than maxPending waiting clicks get 503 until some are through', async () => {
    const { send, log, metrics } = setUpClicks({ config: { maxPending: 2 }, log: new HeldLog() });
    const first = send(clickPath('i1', 'a1'));
    const second = send(clickPath('i2', 'a1'));
    expect((await send(clickPath('i3', 'a1'))).status).toBe(503);
    expect(metrics.outcomes.log_unavailable).toBe(1);
    log.held[0]!(null);
    expect((await first).status).toBe(302);
    const fourth = send(clickPath('i4', 'a1'));
    for (const done of log.held.slice(1)) done(null);
    expect([(await second).status, (await fourth).status]).toEqual([302, 302]);
  });
});

describe('a fault inside', () => {
  test('is a 503, counted and reported, never a 500 and never a redirect', async () => {
    const { send, log, ads, metrics, errors } = setUpClicks({
      config: { onLogFailure: 'redirect' },
    });
    ads.find = () => {
      throw new Error('mapped memory is gone');
    };
    expect((await send(clickPath('i1', 'a1'))).status).toBe(503);
    ads.find = () => ad('a1', 'https://shop.example/');
    log.refusal = new Error('a bug in the log');
    expect((await send(clickPath('i1', 'a1'))).status).toBe(503);
    expect(metrics.outcomes.internal).toBe(2);
    expect(errors).toHaveLength(2);
  });

  test('before the append leaves nothing in the log', async () => {
    const { send, log } = setUpClicks({
      geo: {
        version: 1,
        country: () => {
          throw new Error('bad database');
        },
      },
    });
    // The double's peer is public, so the database is asked.
    expect((await send(clickPath('i1', 'a1'))).status).toBe(503);
    expect(log.events).toEqual([]);
  });
});

describe('draining', () => {
  test('ends when no click waits for the log, and at once when none does (D3)', async () => {
    const { service, send, log } = setUpClicks({ log: new HeldLog() });
    await service.drain();
    const answers = [send(clickPath('i1', 'a1')), send(clickPath('i2', 'a1'))];
    let drained = 0;
    const drains = [service.drain(), service.drain()].map((one) => one.then(() => drained++));
    log.held[0]!(null);
    await answers[0];
    expect(drained).toBe(0);
    log.held[1]!(new Error('EIO'));
    await Promise.all(drains);
    expect((await answers[1]!).status).toBe(503);
  });
});

describe('the pages for whoever runs it', () => {
  test('live, ready and metrics are answered, everything else stays 404', async () => {
    const ads = new MapAds();
    const log = new HeldLog();
    let adsProblem: string | null = null;
    const opsFetch = createOpsFetch({
      ...{ ads, log, metricsText: () => 'clicks 1\n' },
      adsProblem: () => adsProblem,
    });
    const { send } = setUpClicks({ ads, log, opsFetch });
    const status = async (path: string) => (await send(path)).status;
    expect(await status('/healthz')).toBe(200);
    expect(await status('/readyz')).toBe(200);
    expect(await (await send('/metrics?x')).text()).toBe('clicks 1\n');
    expect(await status('/')).toBe(404);
    log.healthy = false;
    expect(await (await send('/readyz')).text()).toContain('click log');
    log.healthy = true;
    adsProblem = 'the ads are not all there yet';
    const noAds = await send('/readyz');
    expect([noAds.status, await noAds.text()]).toEqual([503, 'the ads are not all there yet\n']);
    adsProblem = null;
    ads.keys = [];
    const noKeys = await send('/readyz');
    expect([noKeys.status, await noKeys.text()]).toEqual([
      503,
      'the catalog has no signing keys\n',
    ]);
    expect(await status('/healthz')).toBe(200);
  });
});
