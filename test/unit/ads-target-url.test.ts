import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import {
  appendQuery,
  checkTargetUrl,
  compileTarget,
  isPlainTarget,
  locationBytes,
  MAX_TARGET_BYTES,
} from '../../src/ads/target-url.ts';
import { fcParams } from '../support/seed.ts';

const values = {
  impressionId: 'i~1',
  adId: 'a.1',
  campaignId: 'c_1',
  country: 'DE',
  device: 'mobile',
  timestampMs: 1_700_000_000_123,
};

describe('a target is accepted', () => {
  test.each([
    'https://shop.example',
    'HTTP://shop.example:8080/p?a=1&utm_source=x#top',
    'https://shop.example?only=query',
    'https://shop.example#only',
    'http://[2001:db8::1]:80/',
    'http://日本語.jp/é',
    'https://shop.example/a b?q="x"',
    'https://e.com/?u=https%3A%2F%2Ft.example%2F%3Fa%3D%2520b',
    'https://e.com/%0d%0aSet-Cookie:x=1',
    'https://e.com/%zz{not_a_macro}',
    'https://e.com/x@y\\z?u=//evil',
    'https://e.com/{ad_id}?c={campaign_id}#{device}',
  ])('%s', (target) => {
    expect(checkTargetUrl(target)).toEqual({ ok: true });
  });
});

describe('a target is refused', () => {
  test.each([
    '',
    'shop.example',
    'myapp://item/1',
    'mailto:a@e.com',
    'javascript:alert(1)',
    'data:text/html,x',
    '//evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    'https:evil.example',
    'https:/evil.example',
    'https:///evil.example',
    'https://\\evil.example',
    'https://',
    'https://?a=1',
    'https://:80/',
    'http://a@evil.example',
    'http://a:b@evil.example/',
    'http://good.example\\@evil.example/',
    'http://good.example\\.evil.example/',
    'http://good%2eexample/',
    'http://good example/',
    'http://e.com:99999/',
    'http://e.com:x/',
    'http://1.2.3.4.5/',
    'http://{ad_id}.e.com/',
    'http://e.com{ad_id}/',
    '{ad_id}://e.com/',
    'ht\ttp://e.com/',
    'https://e.com/\n',
    ' https://e.com/',
    'https://e.com/ ',
    '\ufeffhttps://e.com/',
    'https://e\u3000.com/',
  ])('%j', (target) => {
    expect(checkTargetUrl(target)).toMatchObject({ ok: false });
  });

  test('with any control or line-separator character anywhere in it', () => {
    const codes = [
      ...Array(0x20).keys(),
      0x7f,
      ...Array(0x20)
        .keys()
        .map((at) => at + 0x80),
    ];
    for (const code of [...codes, 0x2028, 0x2029, 0xd800]) {
      const bad = String.fromCharCode(code);
      for (const target of [
        `http${bad}://e.com/`,
        `http://e${bad}.com/`,
        `http://e.com/a${bad}b`,
      ]) {
        expect(checkTargetUrl(target)).toMatchObject({ ok: false });
      }
    }
  });

  test('when its location would be longer than the limit, before or after encoding', () => {
    const base = 'https://e.com/';
    const longest = base + 'x'.repeat(MAX_TARGET_BYTES - base.length);
    expect(checkTargetUrl(longest).ok).toBe(true);
    expect(checkTargetUrl(`${longest}x`).ok).toBe(false);
    expect(checkTargetUrl(base + 'é'.repeat(MAX_TARGET_BYTES / 6)).ok).toBe(false);
  });
});

describe('location bytes', () => {
  test('leave every layer of encoding as it is', () => {
    for (const target of [
      'https://e.com/p?a=1&utm_source=x&amp;b=%2B%20%2b',
      'https://e.com/?u=http://t.e/?u=http%3A%2F%2Fx%2F%3Fu%3Dhttp%253A%252F%252Fy',
      'HTTPS://E.com/../a/./b//c?#%0d%0a%zz%',
      'https://e.com/"<>\\^`{|}\'()*!$;',
    ]) {
      expect(locationBytes(target)).toBe(target);
    }
  });

  test('encode spaces and non-ASCII as UTF-8, and a non-ASCII host as IDNA', () => {
    expect(locationBytes('https://e.com/日 é?”=😀#ü%C3%BC')).toBe(
      'https://e.com/%E6%97%A5%20%C3%A9?%E2%80%9D=%F0%9F%98%80#%C3%BC%C3%BC',
    );
    expect(locationBytes('http://日本語.jp:8080/é')).toBe('http://xn--wgv71a119e.jp:8080/%C3%A9');
  });

  test('of any accepted target are printable ASCII, go to the same place, and stay so', () => {
    const tail = fc.string({ unit: 'binary' });
    const host = fc.constantFrom('e.com', 'bücher.example', 'e.com:81', '[::1]');
    const property = fc.property(host, tail, (where, rest) => {
      const target = `https://${where}/${rest}`;
      if (!checkTargetUrl(target).ok) return;
      const location = locationBytes(target);
      expect(location).toMatch(/^[\x21-\x7e]+$/);
      expect(new URL(location).host).toBe(new URL(target).host);
      expect(bytesOf(location.slice(location.indexOf('/', 8)))).toBe(bytesOf(`/${rest}`));
      expect(locationBytes(location)).toBe(location);
      expect(checkTargetUrl(location).ok).toBe(true);
    });
    fc.assert(property, fcParams(500));
  });
});

describe('a compiled target', () => {
  test('fills every macro, as often as it comes, and leaves other braces', () => {
    const target =
      'https://e.com/{ad_id}{ad_id}/é?i={impression_id}&c={campaign_id}&g={country}&d={device}&t={timestamp}&x={AD_ID}{other}{#{ad_id}}';
    expect(compileTarget(target)(values)).toBe(
      'https://e.com/a.1a.1/%C3%A9?i=i~1&c=c_1&g=DE&d=mobile&t=1700000000123&x={AD_ID}{other}{#a.1}',
    );
    expect(compileTarget('https://e.com/')(values)).toBe('https://e.com/');
  });

  test('percent-encodes what it fills in', () => {
    const fill = compileTarget('https://e.com/{device}?{country}');
    expect(fill({ ...values, device: 'a/b?é', country: '&#\r\n' })).toBe(
      'https://e.com/a%2Fb%3F%C3%A9?%26%23%0D%0A',
    );
  });

  test('never fills a macro that a value brings along', () => {
    const fill = compileTarget('https://e.com/{device}{ad_id}');
    expect(fill({ ...values, device: '{ad_id}' })).toBe('https://e.com/%7Bad_id%7Da.1');
  });
});

describe('passed-on parameters', () => {
  test.each([
    ['https://e.com/p', ['a=1'], 'https://e.com/p?a=1'],
    ['https://e.com/p?', ['a=1'], 'https://e.com/p?a=1'],
    ['https://e.com/p?x=1', ['a=1', 'b'], 'https://e.com/p?x=1&a=1&b'],
    ['https://e.com/p?x=1&', ['a=1'], 'https://e.com/p?x=1&a=1'],
    ['https://e.com/p#f?x', ['a=1'], 'https://e.com/p?a=1#f?x'],
    ['https://e.com/p?x=1#f', ['a=1'], 'https://e.com/p?x=1&a=1#f'],
    ['https://e.com', ['a=1'], 'https://e.com?a=1'],
    ['https://e.com/p?x=1#f', [], 'https://e.com/p?x=1#f'],
    ['https://e.com/p', ['', ''], 'https://e.com/p'],
  ])('go into the query of %s: %j', (location, parts, expected) => {
    expect(appendQuery(location, parts)).toBe(expected);
  });

  test('keep names, values, order, duplicates, and empty apart from absent values', () => {
    const parts = ['my%20key=1', 'a.b=2', 'a[]=3', 'a[]=4', 'a=', 'a', '=v', 'x=%zz+%2B', 'a[]=3'];
    expect(appendQuery('https://e.com/', parts)).toBe(`https://e.com/?${parts.join('&')}`);
  });

  test('cannot end the header, start a fragment or leave ASCII', () => {
    expect(appendQuery('https://e.com/', ['a=\r\nSet-Cookie: x', 'b=#é\ud800'])).toBe(
      'https://e.com/?a=%0D%0ASet-Cookie:%20x&b=%23%C3%A9%EF%BF%BD',
    );
  });
});

/** The bytes that a text stands for once percent-encoding is undone, as latin1. */
function bytesOf(text: string): string {
  return Buffer.from(text)
    .toString('latin1')
    .replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
}

describe('plain targets', () => {
  test('what counts as plain is accepted by the full check and is its own location', () => {
    const hosts = [
      'e.com',
      'a-b.c1.example.org',
      'xn--a.com',
      'a..com',
      '1.2.3.4',
      '-a.com',
      'e.com:80',
    ];
    const rests = [
      '',
      '/',
      '/p?a=1&b=%20#f',
      '/é',
      '/a b',
      '?x={ad_id}',
      '/\\evil',
      '#',
      '/a"b',
      '/%zz',
    ];
    for (const host of hosts) {
      for (const rest of rests) {
        const target = `https://${host}${rest}`;
        if (!isPlainTarget(target)) continue;
        expect(checkTargetUrl(target).ok).toBe(true);
        expect(locationBytes(target)).toBe(target);
        expect(compileTarget(target)({} as never)).toBe(target);
      }
    }
    expect(isPlainTarget('https://e.com/p?a=1&b=%20#f')).toBe(true);
  });

  test('nothing that needs a look at it counts as plain', () => {
    const targets = [
      'javascript:1',
      '//e.com',
      'https:e.com',
      'https://u@e.com/',
      'https://e.com/{ad_id}',
      'https://e.com/\n',
      'https://e.com/é',
      'https://xn--zz.com/',
      'https://1.2.3.4/',
      'https://E.com/',
    ];
    for (const target of targets) expect(isPlainTarget(target)).toBe(false);
  });
});
