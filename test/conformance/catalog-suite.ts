/** What every `AdCatalog` adapter must do, whatever it stores its ads in. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { Ad, AdCatalog, AdLookup } from '../../src/ads/port.ts';
import { fcParams } from '../support/seed.ts';

export interface CatalogHarness {
  open(): AdCatalog;
  /** A second handle on the same store, as a click worker has it. */
  openLookup(): AdLookup;
  remove(): void;
}

export const anAd = (adId: string, change: Partial<Ad> = {}): Ad => ({
  adId,
  advertiserId: 'adv-1',
  campaignId: 'camp-1',
  targetUrl: `https://shop.example/${adId}?é=日本`,
  passQuery: false,
  ...change,
});

const aKey = (kid: string, createdAtMs: number, retiredAtMs: number | null = null) => ({
  kid,
  secret: `secret of ${kid}`,
  createdAtMs,
  retiredAtMs,
});

/** Waits for what another handle must see within a second, and fails when it does not. */
export async function within1s(holds: () => boolean): Promise<void> {
  const start = performance.now();
  while (!holds()) {
    if (performance.now() - start > 1_000) throw new Error('not seen within a second');
    await Bun.sleep(5);
  }
}

export function catalogSuite(name: string, createHarness: () => CatalogHarness): void {
  describe(`an ad catalog in ${name}`, () => {
    let harness: CatalogHarness;
    let catalog: AdCatalog;
    beforeEach(() => {
      harness = createHarness();
      catalog = harness.open();
    });
    afterEach(async () => {
      await catalog.close();
      harness.remove();
    });
    adTests(
      () => catalog,
      () => harness,
    );
    keyTests(
      () => catalog,
      () => harness,
    );
    changeTests(
      () => catalog,
      () => harness,
    );
    modelTest(() => catalog);
  });
}

function adTests(catalogOf: () => AdCatalog, harnessOf: () => CatalogHarness): void {
  test('gives back what was put, and null for what was not', async () => {
    const ad = anAd('a1', { passQuery: true });
    expect(await catalogOf().putAll([ad])).toEqual({ added: 1, changed: 0, unchanged: 0 });
    expect(catalogOf().find('a1')).toEqual(ad);
    for (const absent of ['a', 'a11', 'A1', '', 'ı1', 'š1', 'x'.repeat(5000), 'a\u0000']) {
      expect(catalogOf().find(absent)).toBeNull();
    }
  });

  test('counts added, changed and unchanged ads', async () => {
    await catalogOf().putAll([anAd('a1'), anAd('a2')]);
    const again = [anAd('a1'), anAd('a2', { passQuery: true }), anAd('a3')];
    expect(await catalogOf().putAll(again)).toEqual({ added: 1, changed: 1, unchanged: 1 });
    expect(catalogOf().count()).toBe(3);
    expect(catalogOf().find('a2')?.passQuery).toBe(true);
  });

  test('puts nothing when the ads end in an error', async () => {
    await catalogOf().putAll([anAd('a1')]);
    const failing = function* (): Generator<Ad> {
      yield anAd('a1', { campaignId: 'other' });
      yield anAd('a2');
      throw new Error('the source failed');
    };
    await expect(catalogOf().putAll(failing())).rejects.toThrow('the source failed');
    expect(catalogOf().find('a1')).toEqual(anAd('a1'));
    expect(catalogOf().find('a2')).toBeNull();
    expect(catalogOf().count()).toBe(1);
  });

  test('lists in order of id, page by page, also for one advertiser', async () => {
    const ads = Array.from({ length: 25 }, (_, at) =>
      anAd(`a${at}`, { advertiserId: at % 3 === 0 ? 'adv' : 'adv-2' }),
    );
    await catalogOf().putAll(ads);
    const ids = ads.map((ad) => ad.adId).sort();
    const pages: string[] = [];
    for (let afterAdId: string | undefined; ; ) {
      const page = catalogOf().list({ limit: 7, ...(afterAdId && { afterAdId }) });
      if (page.length === 0) break;
      pages.push(...page.map((ad) => ad.adId));
      afterAdId = page.at(-1)!.adId;
    }
    expect(pages).toEqual(ids);
    const own = ids.filter((id) => Number(id.slice(1)) % 3 === 0);
    const first = catalogOf().list({ advertiserId: 'adv', limit: 4 });
    expect(first.map((ad) => ad.adId)).toEqual(own.slice(0, 4));
    const rest = catalogOf().list({ advertiserId: 'adv', limit: 99, afterAdId: own[3]! });
    expect(rest.map((ad) => ad.adId)).toEqual(own.slice(4));
  });

  test('an ad that moves to another advertiser leaves the first one’s list', async () => {
    await catalogOf().putAll([anAd('a1'), anAd('a2')]);
    await catalogOf().putAll([anAd('a1', { advertiserId: 'adv-2' })]);
    const listed = (advertiserId: string) =>
      catalogOf()
        .list({ advertiserId, limit: 9 })
        .map((ad) => ad.adId);
    expect(listed('adv-1')).toEqual(['a2']);
    expect(listed('adv-2')).toEqual(['a1']);
  });

  test('a second handle sees changes within a second, also of ads it has read before', async () => {
    await catalogOf().putAll([anAd('a1')]);
    const lookup = harnessOf().openLookup();
    await within1s(() => lookup.find('a1') !== null);
    await catalogOf().putAll([anAd('a1', { campaignId: 'camp-2' }), anAd('a2')]);
    await within1s(() => lookup.find('a1')?.campaignId === 'camp-2' && lookup.find('a2') !== null);
    await lookup.close();
  });
}

function changeTests(catalogOf: () => AdCatalog, harnessOf: () => CatalogHarness): void {
  test('one change puts and removes, and keeps how far the source was read', async () => {
    expect(catalogOf().syncState()).toBeNull();
    await catalogOf().putAll([anAd('a1'), anAd('a2'), anAd('a3', { advertiserId: 'adv-2' })]);
    const counts = await catalogOf().apply({
      put: [anAd('a1'), anAd('a2', { passQuery: true }), anAd('a4')],
      remove: ['a3', 'absent', 'no id!'],
      syncState: 'up to here',
    });
    expect(counts).toEqual({ added: 1, changed: 1, unchanged: 1, removed: 1 });
    expect(catalogOf().count()).toBe(3);
    expect(catalogOf().find('a3')).toBeNull();
    expect(catalogOf().list({ limit: 9, advertiserId: 'adv-2' })).toEqual([]);
    expect(catalogOf().syncState()).toBe('up to here');
    await catalogOf().apply({ put: [] });
    expect(catalogOf().syncState()).toBe('up to here');
  });

  test('a change that fails changes nothing', async () => {
    await catalogOf().apply({ put: [anAd('a1')], syncState: 'before' });
    const failing = catalogOf().apply({
      put: [anAd('a2'), anAd('not an id')],
      remove: ['a1'],
      syncState: 'after',
    });
    await expect(failing).rejects.toThrow();
    expect(catalogOf().find('a1')).toEqual(anAd('a1'));
    expect(catalogOf().find('a2')).toBeNull();
    expect(catalogOf().syncState()).toBe('before');
  });

  test('a second handle sees removed ads go within a second', async () => {
    await catalogOf().putAll([anAd('a1'), anAd('a2')]);
    const lookup = harnessOf().openLookup();
    await within1s(() => lookup.find('a1') !== null);
    await catalogOf().apply({ put: [], remove: ['a1'] });
    await within1s(() => lookup.find('a1') === null);
    expect(lookup.find('a2')).toEqual(anAd('a2'));
    await lookup.close();
  });

  test('refused rows are remembered until their ad is put or removed, or a round went without', async () => {
    const refuse = (round: number, ...ids: string[]) =>
      catalogOf().apply({
        put: [],
        refused: { round, rows: ids.map((adId) => ({ adId, reason: `${adId} is wrong` })) },
      });
    const ids = () =>
      catalogOf()
        .refusedRows(9)
        .rows.map((row) => row.adId);
    await refuse(1, 'a1', 'a2', 'a3', 'nö id', 'x'.repeat(2_000));
    await refuse(1, 'a1');
    expect(catalogOf().refusedRows(2)).toEqual({
      count: 5,
      rows: ['a1', 'a2'].map((adId) => ({ adId, reason: `${adId} is wrong` })),
    });
    expect(ids()).toContain('nö id');
    await catalogOf().apply({ put: [anAd('a1')], remove: ['a2'] });
    expect(ids()).toEqual(['a3', 'nö id', expect.stringMatching(/^x+$/)]);
    await refuse(2, 'a3');
    await catalogOf().apply({ put: [], forgetRefusedBefore: 2 });
    expect(ids()).toEqual(['a3']);
  });
}

function keyTests(catalogOf: () => AdCatalog, harnessOf: () => CatalogHarness): void {
  test('active keys come newest first and leave out retired ones', async () => {
    for (const key of [aKey('k1', 10), aKey('k3', 30), aKey('k2', 20, 25)]) {
      await catalogOf().putKey(key);
    }
    expect(catalogOf().activeKeys()).toEqual([aKey('k3', 30), aKey('k1', 10)]);
    expect(
      catalogOf()
        .keys()
        .map((key) => key.kid),
    ).toEqual(['k3', 'k2', 'k1']);
  });

  test('active keys are the same array until something changes', async () => {
    await catalogOf().putKey(aKey('k1', 10));
    const before = catalogOf().activeKeys();
    expect(catalogOf().activeKeys()).toBe(before);
    await catalogOf().putKey(aKey('k1', 10, 99));
    expect(catalogOf().activeKeys()).toEqual([]);
  });

  test('a second handle sees a retired key go within a second', async () => {
    await catalogOf().putKey(aKey('k1', 10));
    const lookup = harnessOf().openLookup();
    await within1s(() => lookup.activeKeys().length === 1);
    await catalogOf().putKey(aKey('k1', 10, 99));
    await within1s(() => lookup.activeKeys().length === 0);
    await lookup.close();
  });
}

const id = fc.string({
  unit: fc.constantFrom(...'abAB01._~-'.split('')),
  minLength: 1,
  maxLength: 5,
});
const ad = fc.record({
  adId: id,
  advertiserId: id,
  campaignId: id,
  targetUrl: fc.string({ unit: 'grapheme' }).map((path) => `https://e.example/${path}`),
  passQuery: fc.boolean(),
});

function modelTest(catalogOf: () => AdCatalog): void {
  test('agrees with a plain map over random imports', async () => {
    const model = new Map<string, Ad>();
    const property = fc.asyncProperty(fc.array(ad, { maxLength: 20 }), id, async (ads, who) => {
      const removed = catalogOf()
        .list({ limit: 2 })
        .map((each) => each.adId);
      await catalogOf().apply({ put: [], remove: [...removed, who] });
      for (const adId of [...removed, who]) model.delete(adId);
      await catalogOf().putAll(ads);
      for (const put of ads) model.set(put.adId, put);
      for (const put of ads) expect(catalogOf().find(put.adId)).toEqual(model.get(put.adId)!);
      expect(catalogOf().find(who)).toEqual(model.get(who) ?? null);
      expect(catalogOf().count()).toBe(model.size);
      const sorted = [...model.values()].sort((a, b) => (a.adId < b.adId ? -1 : 1));
      const own = sorted.filter((each) => each.advertiserId === who);
      expect(catalogOf().list({ limit: 1e6, advertiserId: who })).toEqual(own);
      expect(catalogOf().list({ limit: 1e6 })).toEqual(sorted);
    });
    await fc.assert(property, fcParams(60));
  });
}
