import { describe, expect, test } from 'bun:test';
import { openGeo } from '../../src/click/geo.ts';
import { type RecordedClickOptions, RecordedClicks } from '../../src/ingest/recorded-click.ts';
import { ad, MapAds, NOW_MS, US_GEO } from '../support/click.ts';

const CLICKED_AT_MS = NOW_MS - 3_600_000;
const IPHONE =
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.6 Mobile/15E148 Safari/604.1';

const rowOf = (more: Record<string, unknown> = {}) => ({
  impression_id: 'imp-1',
  ad_id: 'a1',
  clicked_at: CLICKED_AT_MS,
  ...more,
});

function check(record: Record<string, unknown>, over: Partial<RecordedClickOptions> = {}) {
  return new RecordedClicks({
    ads: new MapAds(ad('a1', 'https://shop.example/')),
    geo: US_GEO,
    clock: () => NOW_MS,
    config: { maxSkewMs: 600_000, storeAddress: 'truncated' },
    ...over,
  }).check(record);
}

function eventOf(record: Record<string, unknown>, over: Partial<RecordedClickOptions> = {}) {
  const result = check(record, over);
  if (!result.ok) throw new Error(result.reason);
  return result.event;
}

function reasonOf(record: Record<string, unknown>): string {
  const result = check(record);
  return result.ok ? 'accepted' : result.reason;
}

describe('a row of recorded clicks', () => {
  test('with the three required columns becomes a click of an unknown country and device', () => {
    expect(eventOf(rowOf())).toEqual({
      impressionId: 'imp-1',
      adId: 'a1',
      advertiserId: 'adv-1',
      campaignId: 'camp-1',
      clickedAtMs: CLICKED_AT_MS,
      country: 'ZZ',
      device: 'other',
      class: 'click',
      source: 'ingest',
      geoVersion: 0,
      ip: '',
      userAgent: '',
      referer: '',
    });
    const empty = { country: '', device: '', ip: '', ua: '' };
    expect(eventOf(rowOf(empty))).toEqual(eventOf(rowOf()));
    const absent = { country: null, device: null, ip: null, ua: null };
    expect(eventOf(rowOf(absent))).toEqual(eventOf(rowOf()));
  });

  test('takes the country that is given, then the one of the address, and truncates the address', async () => {
    const over = { geo: await openGeo() };
    const fromAddress = eventOf(rowOf({ ip: '91.10.20.33' }), over);
    expect(fromAddress).toMatchObject({ country: 'DE', ip: '91.10.20.0' });
    expect(fromAddress.geoVersion).toBe(over.geo.version);
    const given = eventOf(rowOf({ country: 'fr', ip: '[2003:c0:1::1]:443' }), over);
    expect(given).toMatchObject({ country: 'FR', geoVersion: 0, ip: '2003:c0:1::' });
    for (const country of ['XX', 'EU', 'Germany', '12']) {
      expect(eventOf(rowOf({ country, ip: '91.10.20.33' }), over).country).toBe('ZZ');
    }
    expect(eventOf(rowOf({ ip: '192.168.1.1' }), over).country).toBe('ZZ');
  });

  test('keeps as much of the address as is configured', () => {
    const stored = (storeAddress: 'whole' | 'truncated' | 'none') =>
      eventOf(rowOf({ ip: '203.0.113.9' }), { config: { maxSkewMs: 0, storeAddress } }).ip;
    expect([stored('whole'), stored('truncated'), stored('none')]).toEqual([
      '203.0.113.9',
      '203.0.113.0',
      '',
    ]);
  });

  test('takes the device that is given, else the one of the user agent', () => {
    expect(eventOf(rowOf({ ua: IPHONE })).device).toBe('mobile');
    expect(eventOf(rowOf({ ua: IPHONE, device: 'Tablet' })).device).toBe('tablet');
    expect(reasonOf(rowOf({ device: 'phone' }))).toContain('device "phone" is not desktop');
  });

  test('of a link preview is logged with that class and never billed (A4)', () => {
    expect(eventOf(rowOf({ ua: 'WhatsApp/2.24.1 A' })).class).toBe('preview');
    expect(eventOf(rowOf({ ua: IPHONE })).class).toBe('click');
  });

  test('says everything that is wrong with it at once', () => {
    const reason = reasonOf({
      impression_id: 'a b',
      ad_id: 'nope',
      clicked_at: 1_767_225_600,
      ip: 'x',
    });
    expect(reason).toContain('impression_id "a b" is not 1 to 128');
    expect(reason).toContain('ad_id "nope" is not in the catalog');
    expect(reason).toContain('looks like epoch seconds');
    expect(reason).toContain('ip "x" is not an IP address');
  });

  test('with a column that is missing, unknown or of the wrong type is refused', () => {
    expect(reasonOf({ ad_id: 'a1', clicked_at: 1 })).toBe('missing column "impression_id"');
    expect(reasonOf(rowOf({ timestamp: 1 }))).toBe('unknown column "timestamp"');
    expect(reasonOf(rowOf({ impression_id: 7 }))).toContain('impression_id "7" is not');
    expect(reasonOf(rowOf({ ua: 7 }))).toContain('ua "7" is not text');
    expect(reasonOf(rowOf({ ad_id: null }))).toContain('ad_id "null" is not');
  });
});
