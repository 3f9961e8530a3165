import { afterAll, afterEach, describe, expect, test } from 'bun:test';
import { readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AdMap, AdMapWriter, removeOtherMaps } from '../../src/ads/lmdb/ad-map.ts';
import { decodeAd, encodeAd } from '../../src/ads/lmdb/ad-value.ts';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import { ChangedAds } from '../../src/ads/lmdb/changed-ads.ts';
import { openEnvironment } from '../../src/ads/lmdb/environment.ts';
import { Meta } from '../../src/ads/lmdb/meta.ts';
import type { Ad, AdCatalog } from '../../src/ads/port.ts';
import { tempDir } from '../support/temp-dir.ts';

const ad = (number: number, targetUrl = `https://e.com/é/${number}`): Ad => ({
  adId: `ad-${number}`,
  advertiserId: `advertiser-${number % 7}`,
  campaignId: 'c'.repeat((number % 128) + 1),
  targetUrl,
  passQuery: number % 2 === 0,
});
async function write(dir: string, version: number, ads: readonly Ad[]): Promise<void> {
  const writer = new AdMapWriter(dir, version, ads.length);
  for (const each of ads) expect(writer.add(each.adId, encodeAd(each))).toBe(true);
  await writer.finish();
}

describe('the ad map', () => {
  let dir = tempDir('ad-map');
  afterEach(() => {
    dir.remove();
    dir = tempDir('ad-map');
  });

  test('finds every ad that it was made of, and no other', async () => {
    const ads = Array.from({ length: 5_000 }, (_, i) => ad(i));
    await write(dir.path, 3, ads);
    const map = AdMap.open(dir.path, 3);
    for (const each of ads) expect(map?.find(each.adId)).toEqual(each);
    for (const id of ['ad-5000', 'ad', 'ad-00', 'x'.repeat(128)]) expect(map?.find(id)).toBeNull();
  });

  test('is there for exactly its own version, until it is removed', async () => {
    await write(dir.path, 1, [ad(1)]);
    await write(dir.path, 2, [ad(2)]);
    expect(AdMap.open(dir.path, 1)?.find('ad-2')).toBeNull();
    expect(AdMap.open(dir.path, 2)?.find('ad-2')).toEqual(ad(2));
    expect(AdMap.open(dir.path, 3)).toBeNull();
    removeOtherMaps(dir.path, 2);
    expect(readdirSync(dir.path)).toEqual(['ads-2.map']);
  });

  test('what a writer left that died is removed, what another one writes is not', async () => {
    await write(dir.path, 5, [ad(1)]);
    for (const name of ['ads-4.map.0a1b2c3d.tmp', 'ads-4.map.tmp', 'ads-5.map.0a1b2c3d.tmp']) {
      writeFileSync(join(dir.path, name), 'x');
    }
    writeFileSync(join(dir.path, 'ads-6.map.0a1b2c3d.tmp'), 'x');
    writeFileSync(join(dir.path, 'data.mdb'), 'x');
    removeOtherMaps(dir.path, 5);
    const left = ['ads-5.map', 'ads-6.map.0a1b2c3d.tmp', 'data.mdb'];
    expect(readdirSync(dir.path).sort()).toEqual(left);
  });

  test('has room for half as many ads more than were expected, and refuses to fill up', () => {
    const writer = new AdMapWriter(dir.path, 1, 100);
    let added = 0;
    while (added < 1_000 && writer.add(`ad-${added}`, encodeAd(ad(added)))) added++;
    expect(added).toBeGreaterThanOrEqual(150);
    expect(added).toBeLessThan(1_000);
    writer.abandon();
    expect(readdirSync(dir.path)).toEqual([]);
  });

  test('a foreign, empty or cut file reads as not there', async () => {
    for (const bytes of [Buffer.alloc(0), Buffer.alloc(4_096), Buffer.from('x'.repeat(100))]) {
      writeFileSync(join(dir.path, 'ads-9.map'), bytes);
      expect(AdMap.open(dir.path, 9)).toBeNull();
    }
    const ads = Array.from({ length: 100 }, (_, i) => ad(i));
    await write(dir.path, 9, ads);
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

describe('changes since the map was made', () => {
  const dir = tempDir('ad-map-changes');
  afterAll(dir.remove);
  const maps = () => readdirSync(dir.path).filter((name) => name.endsWith('.map'));
  const FIRST = Array.from({ length: 12_000 }, (_, i) => ad(i));
  let nowMs = 0;
  let writer: AdCatalog;
  let reader: AdCatalog;
  const later = () => {
    nowMs += 1_000;
  };

  test('are seen by readers without a new map, and so are removed ads', async () => {
    writer = openLmdbCatalog({ dir: dir.path, readOnly: false });
    await writer.putAll(FIRST);
    reader = openLmdbCatalog({ dir: dir.path, readOnly: true, clock: () => nowMs });
    expect(maps()).toEqual(['ads-1.map']);
    expect(reader.find('ad-7')).toEqual(ad(7));
    await writer.apply({ put: [ad(7, 'https://e.com/new'), ad(20_000)], remove: ['ad-8'] });
    later();
    expect(reader.find('ad-7')?.targetUrl).toBe('https://e.com/new');
    expect(reader.find('ad-8')).toBeNull();
    expect(reader.find('ad-20000')).toEqual(ad(20_000));
    expect(reader.find('ad-9')).toEqual(ad(9));
    expect(await writer.refreshIndex()).toBe(false);
    expect(maps()).toEqual(['ads-1.map']);
  });

  test('a map that is given up for too many of them is not asked any more', async () => {
    const changed = Array.from({ length: 70_000 }, (_, i) => ad(i, `https://e.com/b/${i}`));
    const { changed: count } = await writer.apply({ put: changed });
    expect(count).toBe(FIRST.length);
    later();
    for (const at of [0, 7, 11_999, 12_000, 69_999]) {
      expect(reader.find(`ad-${at}`)?.targetUrl).toBe(`https://e.com/b/${at}`);
    }
    expect(await writer.refreshIndex()).toBe(true);
    expect(maps()).toEqual(['ads-3.map']);
    later();
    expect(reader.find('ad-69999')?.targetUrl).toBe('https://e.com/b/69999');
    expect(reader.find('ad-70000')).toBeNull();
  });

  test('that come while a map is written are noted for it', async () => {
    // More than a quarter of what may be noted, so that a new map is due.
    await writer.apply({ put: Array.from({ length: 17_000 }, (_, i) => ad(i, 'https://e.com/c')) });
    const refreshed = writer.refreshIndex();
    // The first slice of the file is written by now; these ads lie in it and behind it.
    await writer.apply({ put: [ad(0, 'https://e.com/d'), ad(9_999, 'https://e.com/d')] });
    await writer.apply({ put: [], remove: ['ad-1', 'ad-9998'] });
    expect(await refreshed).toBe(true);
    expect(maps()).toEqual(['ads-4.map']);
    later();
    for (const at of [0, 9_999]) {
      expect(reader.find(`ad-${at}`)?.targetUrl).toBe('https://e.com/d');
    }
    for (const id of ['ad-1', 'ad-9998']) expect(reader.find(id)).toBeNull();
    expect(reader.find('ad-2')?.targetUrl).toBe('https://e.com/c');
    await reader.close();
    await writer.close();
  });

  test('a map file that is lost is written again', async () => {
    rmSync(join(dir.path, 'ads-4.map'));
    writer = openLmdbCatalog({ dir: dir.path, readOnly: false });
    expect(await writer.refreshIndex()).toBe(true);
    expect(maps()).toEqual(['ads-6.map']);
    await writer.close();
  });
});

describe('a map that dies while it is made', () => {
  let dir = tempDir('ad-map-death');
  afterEach(() => {
    dir.remove();
    dir = tempDir('ad-map-death');
  });
  const ADS = Array.from({ length: 12_000 }, (_, i) => ad(i));
  const maps = () => readdirSync(dir.path).filter((name) => name.startsWith('ads-'));

  /** Does the first effects of a new map as `map-refresh.ts` numbers them, and no more. */
  async function dieAfter(effect: 1 | 2 | 3): Promise<void> {
    const db = openEnvironment(dir.path, false);
    const changed = new ChangedAds(db.changed, new Meta(db.meta));
    const version = db.root.transactionSync(() => changed.begin());
    const now = [...db.ads.getRange({ start: '' })].map(({ key, value }) =>
      decodeAd(key, { bytes: value, start: 0, end: value.length }),
    );
    if (effect >= 2) await write(dir.path, version, now);
    if (effect >= 3) db.root.transactionSync(() => changed.use(version));
    await db.root.close();
  }

  for (const effect of [1, 2, 3] as const) {
    test(`after its effect ${effect} leaves readers right, and the next one cleans up`, async () => {
      let writer = openLmdbCatalog({ dir: dir.path, readOnly: false });
      await writer.putAll(ADS);
      await writer.apply({ put: [ad(5, 'https://e.com/2')], remove: ['ad-6'] });
      await writer.close();
      await dieAfter(effect);
      writer = openLmdbCatalog({ dir: dir.path, readOnly: false });
      const expectRight = async () => {
        const reader = openLmdbCatalog({ dir: dir.path, readOnly: true });
        for (const one of [ad(4), ad(7), ad(11_999)]) expect(reader.find(one.adId)).toEqual(one);
        expect(reader.find('ad-5')?.targetUrl).toBe('https://e.com/2');
        expect(reader.find('ad-6')).toBeNull();
        await reader.close();
      };
      await expectRight();
      await writer.apply({ put: [ad(8, 'https://e.com/3')] });
      const many = Array.from({ length: 20_000 }, (_, i) => ad(20_000 + i));
      await writer.apply({ put: many });
      expect(await writer.refreshIndex()).toBe(true);
      expect(maps()).toEqual(['ads-4.map']);
      await expectRight();
      const reader = openLmdbCatalog({ dir: dir.path, readOnly: true });
      expect(reader.find('ad-8')?.targetUrl).toBe('https://e.com/3');
      expect(reader.find('ad-39999')).toEqual(ad(39_999));
      await reader.close();
      await writer.close();
    });
  }

  test('that is aborted leaves nothing behind but the old one', async () => {
    const writer = openLmdbCatalog({ dir: dir.path, readOnly: false });
    await writer.putAll(ADS);
    await writer.apply({ put: Array.from({ length: 20_000 }, (_, i) => ad(i, 'https://e.com/')) });
    const stop = new AbortController();
    const refreshed = writer.refreshIndex(stop.signal);
    stop.abort();
    expect(await refreshed).toBe(false);
    expect(maps()).toEqual(['ads-1.map']);
    await writer.close();
  });

  test('a folder of an older release, whose map is named by the version alone, is taken over', async () => {
    const db = openEnvironment(dir.path, false);
    const meta = new Meta(db.meta);
    db.root.transactionSync(() => {
      for (const each of ADS) db.ads.putSync(each.adId, encodeAd(each));
      for (const name of ['version', 'ads_version'] as const) meta.write(name, 7);
    });
    await db.root.close();
    await write(dir.path, 7, ADS);
    let nowMs = 0;
    const writer = openLmdbCatalog({ dir: dir.path, readOnly: false });
    const reader = openLmdbCatalog({ dir: dir.path, readOnly: true, clock: () => nowMs });
    expect(reader.find('ad-3')).toEqual(ad(3));
    await writer.apply({ put: [ad(3, 'https://e.com/new')], remove: ['ad-4'] });
    nowMs += 1_000;
    expect(reader.find('ad-3')?.targetUrl).toBe('https://e.com/new');
    expect(reader.find('ad-4')).toBeNull();
    expect(reader.find('ad-5')).toEqual(ad(5));
    await reader.close();
    await writer.close();
  });
});
