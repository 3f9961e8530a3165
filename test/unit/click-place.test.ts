import { describe, expect, test } from 'bun:test';
import { parseAddress, withoutPort } from '../../src/click/address.ts';
import { BoundedCache } from '../../src/click/bounded-cache.ts';
import { COUNTRY_COUNT, countryOf } from '../../src/click/countries.ts';
import { type GeoLookup, openGeo } from '../../src/click/geo.ts';
import { ClickCounters } from '../../src/click/metrics.ts';
import { nthFromRight, type PlaceOptions, Places } from '../../src/click/place.ts';

describe('reading an address', () => {
  test.each([
    ['8.8.4.4', '8.8.4.4', '8.8.4.0'],
    ['2001:DB8:0:0:1:0:0:1', '2001:db8::1:0:0:1', '2001:db8::'],
    ['2001:0db8:00a1:0002:0003:0004:0005:0006', '2001:db8:a1:2:3:4:5:6', '2001:db8:a1::'],
    ['2001:db8:1:2:3:4:5::', '2001:db8:1:2:3:4:5:0', '2001:db8:1::'],
    ['1::', '1::', '1::'],
    ['::1', '::1', '::'],
    ['::ffff:8.8.4.4', '8.8.4.4', '8.8.4.0'],
    ['::ffff:808:404', '8.8.4.4', '8.8.4.0'],
    ['0:0:0:0:0:FFFF:0808:0404', '8.8.4.4', '8.8.4.0'],
    ['64:ff9b::8.8.4.4', '64:ff9b::808:404', '64:ff9b::'],
    ['fe80::1%eth0', 'fe80::1', 'fe80::'],
  ])('%s is stored as %s or %s', (raw, text, truncated) => {
    expect(parseAddress(raw)).toMatchObject({ text, truncated });
  });

  test.each([
    '',
    'unknown',
    '1.2.3',
    '1.2.3.4.5',
    '256.1.1.1',
    '1.2.3.4:80',
    ':::1',
    '1::2::3',
    'g::1',
    '[::1]',
    '1.2.3.4\n',
    '日本',
    'x'.repeat(5_000),
  ])('%p is no address', (raw) => {
    expect(parseAddress(raw)).toBeNull();
  });

  test.each([
    ['10.1.2.3', true],
    ['172.16.0.1', true],
    ['172.32.0.1', false],
    ['192.168.9.9', true],
    ['127.0.0.1', true],
    ['169.254.1.1', true],
    ['100.64.0.1', true],
    ['100.128.0.1', false],
    ['::1', true],
    ['::', true],
    ['::2', false],
    ['fd00::1', true],
    ['fe80::1', true],
    ['2a00::1', false],
    ['::ffff:10.0.0.1', true],
  ])('%s is private: %p', (raw, expected) => {
    expect(parseAddress(raw)?.isPrivate).toBe(expected);
  });

  test('a port is taken off, an IPv6 address is not cut', () => {
    expect(withoutPort('1.2.3.4:5678')).toBe('1.2.3.4');
    expect(withoutPort('[2001:db8::1]:443')).toBe('2001:db8::1');
    expect(withoutPort('[2001:db8::1]')).toBe('2001:db8::1');
    expect(withoutPort('2001:db8::1')).toBe('2001:db8::1');
    expect(withoutPort('[broken')).toBe('[broken');
  });
});

describe('naming a country', () => {
  test('the list holds the 249 assigned codes and Kosovo', () => {
    expect(COUNTRY_COUNT).toBe(250);
  });

  test.each(['XX', 'T1', 'EU', 'A1', 'AP', 'ZZ', 'UK', '', ' ', 'USA', '日本', null, undefined])(
    '%p is not a country and becomes ZZ',
    (code) => {
      expect(countryOf(code)).toBe('ZZ');
    },
  );

  test.each([
    ['TW', 'TW'],
    ['HK', 'HK'],
    ['XK', 'XK'],
    ['de', 'DE'],
    [' us ', 'US'],
  ])('%p is the country %s', (code, expected) => {
    expect(countryOf(code)).toBe(expected);
  });
});

describe('the address database', () => {
  test('known addresses have a country, private and unknown ones have none', async () => {
    const geo = await openGeo();
    expect(geo.version).toBeGreaterThan(20_200_101);
    expect(geo.country('8.8.8.8')).toBe('US');
    expect(geo.country('5.9.1.1')).toBe('DE');
    expect(geo.country('2001:4860:4860::8888')).toBe('US');
    expect(geo.country('127.0.0.1')).toBe('ZZ');
  });
});

const FAKE_GEO: GeoLookup = {
  version: 20260101,
  country: (address) =>
    address.startsWith('8.8.') ? 'US' : address.startsWith('5.9.') ? 'DE' : 'ZZ',
};

function placeOf(
  config: Partial<PlaceOptions['config']>,
  headers: [string, string][],
  peer: string | null = '5.9.1.77',
) {
  const metrics = new ClickCounters();
  let peerAsked = 0;
  const places = new Places({
    config: {
      trustedProxies: 0,
      countryHeader: '',
      addressHeader: '',
      storeAddress: 'truncated',
      ...config,
    },
    geo: FAKE_GEO,
    metrics,
  });
  const place = places.of(new Request('http://t/', { headers }), {
    requestIP: () => {
      peerAsked += 1;
      return peer === null ? null : { address: peer };
    },
  });
  return { place, metrics, peerAsked };
}

const xff = (value: string): [string, string][] => [['x-forwarded-for', value]];

describe('whose address counts', () => {
  test('without trusted proxies the peer counts, whatever the client writes (C1)', () => {
    const { place, metrics } = placeOf({}, xff('8.8.8.8'));
    expect(place).toMatchObject({ country: 'DE', geoVersion: 20260101, ip: '5.9.1.0' });
    expect(metrics.xffInvalid).toBe(0);
  });

  test.each([
    [1, '8.8.8.8', '8.8.8.0'],
    [1, '1.1.1.1, 8.8.8.8', '8.8.8.0'],
    [2, '1.1.1.1, 8.8.8.8, 9.9.9.9', '8.8.8.0'],
    [2, ' 1.1.1.1 ,, 8.8.8.8 , ,9.9.9.9 , ', '8.8.8.0'],
    [1, '8.8.8.8:5123', '8.8.8.0'],
    [1, '[2001:db8:1:2::3]:443', '2001:db8:1::'],
    [1, '2001:db8:1:2::3', '2001:db8:1::'],
    [1, '::ffff:8.8.8.8', '8.8.8.0'],
  ])('with %p trusted proxies the client of %p is %s', (trustedProxies, list, ip) => {
    const { place, metrics } = placeOf({ trustedProxies }, xff(list));
    expect(place.ip).toBe(ip);
    expect(metrics.xffInvalid).toBe(0);
  });

  test('several headers are one list', () => {
    const headers: [string, string][] = [...xff('1.1.1.1'), ...xff('8.8.8.8'), ...xff('9.9.9.9')];
    expect(placeOf({ trustedProxies: 2 }, headers).place.ip).toBe('8.8.8.0');
  });

  test.each([
    [1, 'unknown'],
    [1, ''],
    [1, ',,'],
    [1, '8.8.8.8, <script>'],
    [2, '8.8.8.8'],
    [1, null],
  ])(
    'with %p trusted proxies the list %p falls back to the peer and is counted',
    (trustedProxies, list) => {
      const { place, metrics } = placeOf({ trustedProxies }, list === null ? [] : xff(list));
      expect(place.ip).toBe('5.9.1.0');
      expect(metrics.xffInvalid).toBe(1);
    },
  );

  test('a named header gives the address, garbage in it the peer', () => {
    const config = { addressHeader: 'cf-connecting-ip', trustedProxies: 1 };
    expect(placeOf(config, [['cf-connecting-ip', ' 8.8.8.8 ']]).place.ip).toBe('8.8.8.0');
    const bad = placeOf(config, [['cf-connecting-ip', '8.8.8.8, 9.9.9.9']]);
    expect(bad.place.ip).toBe('5.9.1.0');
    expect(bad.metrics.xffInvalid).toBe(1);
  });

  test('too few trusted proxies show in the share of private addresses (C2)', () => {
    const wrong = placeOf({ trustedProxies: 1 }, xff('8.8.8.8, 10.0.0.7'));
    expect(wrong.place.country).toBe('ZZ');
    expect(wrong.metrics).toMatchObject({ addresses: 1, addressesPrivate: 1 });
    const right = placeOf({ trustedProxies: 2 }, xff('8.8.8.8, 10.0.0.7'));
    expect(right.metrics).toMatchObject({ addresses: 1, addressesPrivate: 0 });
  });

  test('addresses are stored whole, truncated or not at all', () => {
    expect(placeOf({ storeAddress: 'whole' }, []).place.ip).toBe('5.9.1.77');
    expect(placeOf({ storeAddress: 'truncated' }, []).place.ip).toBe('5.9.1.0');
    const none = placeOf({ storeAddress: 'none' }, []);
    expect(none.place).toMatchObject({ ip: '', country: 'DE' });
  });

  test('a connection without a peer address is nowhere', () => {
    expect(placeOf({}, [], null).place).toEqual({ country: 'ZZ', geoVersion: 0, ip: '' });
  });
});

describe('the country of a click', () => {
  test.each([
    ['US', 'US'],
    ['us', 'US'],
    ['XK', 'XK'],
    ['TW', 'TW'],
    ['XX', 'ZZ'],
    ['T1', 'ZZ'],
    ['EU', 'ZZ'],
    ['A1', 'ZZ'],
    ['AP', 'ZZ'],
    ['', 'ZZ'],
    ['<b>', 'ZZ'],
  ])('a country header %p gives %s, and no geo version (C4)', (value, country) => {
    const { place } = placeOf({ countryHeader: 'cf-ipcountry' }, [['cf-ipcountry', value]]);
    expect(place).toMatchObject({ country, geoVersion: 0, ip: '5.9.1.0' });
  });

  test('a missing country header gives ZZ, never the country of the proxy', () => {
    expect(placeOf({ countryHeader: 'cf-ipcountry' }, []).place.country).toBe('ZZ');
  });

  test('the peer is not asked for when neither country nor storage needs it', () => {
    const config = { countryHeader: 'cf-ipcountry', storeAddress: 'none' } as const;
    expect(placeOf(config, [['cf-ipcountry', 'FR']])).toMatchObject({
      peerAsked: 0,
      place: { country: 'FR', ip: '' },
    });
  });

  test('a reloaded database changes country and version together (C6)', () => {
    let geo: GeoLookup = { version: 1, country: () => 'US' };
    const places = new Places({
      config: { trustedProxies: 0, countryHeader: '', addressHeader: '', storeAddress: 'none' },
      geo: {
        get version() {
          return geo.version;
        },
        country: (address) => geo.country(address),
      },
      metrics: new ClickCounters(),
    });
    const ask = () =>
      places.of(new Request('http://t/'), { requestIP: () => ({ address: '8.8.8.8' }) });
    expect(ask()).toMatchObject({ country: 'US', geoVersion: 1 });
    geo = { version: 2, country: () => 'CA' };
    expect(ask()).toMatchObject({ country: 'CA', geoVersion: 2 });
  });
});

test('the nth entry from the right does not exist in a shorter list', () => {
  expect(nthFromRight('a, b', 3)).toBeNull();
  expect(nthFromRight(null, 1)).toBeNull();
  expect(nthFromRight(',a', 1)).toBe('a');
});

test('a cache fed by strangers stays within twice its limit and keeps what is in use', () => {
  const cache = new BoundedCache<number>(10);
  cache.set('kept', 1);
  for (let i = 0; i < 1_000; i++) {
    cache.set(`k${i}`, i);
    expect(cache.get('kept')).toBe(1);
    expect(cache.size).toBeLessThanOrEqual(20);
  }
});
