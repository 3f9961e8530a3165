import { afterEach, describe, expect, test } from 'bun:test';
import { readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AdMap, writeAdMap } from '../../src/ads/lmdb/ad-map.ts';
import { encodeAd } from '../../src/ads/lmdb/ad-value.ts';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import type { Ad } from '../../src/ads/port.ts';
import { tempDir } from '../support/temp-dir.ts';

const ad = (number: number, targetUrl = `https://e.com/é/${number}`): Ad => ({
  adId: `ad-${number}`,
  advertiserId: `advertiser-${number % 7}`,
  campaignId: 'c'.repeat((number % 128) + 1),
  targetUrl,
  passQuery: number % 2 === 0,
});
const entries = (ads: readonly Ad[]) =>
  ads.map((each) => ({ key: each.adId, value: encodeAd(each) }));

describe('the ad map', () => {
  let dir = tempDir('ad-map');
  afterEach(() => {
    dir.remove();
    dir = tempDir('ad-map');
  });

  test('finds every ad that it was made of, and no other', () => {
    const ads = Array.from({ length: 5_000 }, (_, i) => ad(i));
    writeAdMap(dir.path, 3, ads.length, entries(ads));
    const map = AdMap.open(dir.path, 3);
    for (const each of ads) expect(map?.find(each.adId)).toEqual(each);
    for (const id of ['ad-5000', 'ad', 'ad-00', 'x'.repeat(128)]) expect(map?.find(id)).toBeNull();
  });

  test('is there for exactly its own version, and replaces the one before', () => {
    writeAdMap(dir.path, 1, 1, entries([ad(1)]));
    writeAdMap(dir.path, 2, 1, entries([ad(2)]));
    expect(AdMap.open(dir.path, 1)).toBeNull();
    expect(AdMap.open(dir.path, 2)?.find('ad-2')).toEqual(ad(2));
    expect(readdirSync(dir.path)).toEqual(['ads-2.map']);
  });

  test('a foreign, empty or cut file reads as not there', () => {
    for (const bytes of [Buffer.alloc(0), Buffer.alloc(4_096), Buffer.from('x'.repeat(100))]) {
      writeFileSync(join(dir.path, 'ads-9.map'), bytes);
      expect(AdMap.open(dir.path, 9)).toBeNull();
    }
    writeAdMap(dir.path, 9, 100, entries(Array.from({ length: 100 }, (_, i) => ad(i))));
    truncateSync(join(dir.path, 'ads-9.map'), 24 + 256 * 4 + 8);
    const map = AdMap.open(dir.path, 9);
    // Cut behind the table: what is not there any more is left to LMDB to answer.
    expect(map?.find('ad-99')).toBeUndefined();
  });

  test('a reader follows imports through the map, and answers without one', async () => {
    let nowMs = 0;
    const writer = openLmdbCatalog({ dir: dir.path, readOnly: false });
    await writer.putAll([ad(1)]);
    const reader = openLmdbCatalog({ dir: dir.path, readOnly: true, clock: () => nowMs });
    expect(reader.find('ad-1')).toEqual(ad(1));
    await writer.putAll([ad(1, 'https://e.com/new'), ad(2)]);
    nowMs += 1_000;
    expect(reader.find('ad-1')?.targetUrl).toBe('https://e.com/new');
    expect(reader.find('ad-2')).toEqual(ad(2));
    expect(reader.find('ad-3')).toBeNull();
    await reader.close();
    await writer.close();
  });
});
