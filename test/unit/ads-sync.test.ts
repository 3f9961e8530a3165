import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { CatalogSync, type CatalogSyncOptions } from '../../src/ads/catalog-sync.ts';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import type { AdCatalog, CatalogChange, ChangeCounts } from '../../src/ads/port.ts';
import { MemoryAdSource, type MemoryRow } from '../support/memory-ad-source.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const row = (number: number, more: Partial<MemoryRow> = {}): MemoryRow => ({
  ad: { adId: `ad-${String(number).padStart(6, '0')}` },
  updatedAtUs: 1_000_000 + number,
  ...more,
});

let folder: ReturnType<typeof tempDir>;
let catalog: AdCatalog;
let source: MemoryAdSource;
let nowMs: number;
beforeEach(() => {
  folder = tempDir('ads-sync');
  catalog = openLmdbCatalog({ dir: join(folder.path, 'catalog'), readOnly: false });
  source = new MemoryAdSource();
  nowMs = 1_000_000;
});
afterEach(async () => {
  await catalog.close();
  folder.remove();
});

const newSync = (more: Partial<CatalogSyncOptions> = {}): CatalogSync =>
  new CatalogSync({
    catalog,
    source,
    clock: () => nowMs,
    monotonic: () => nowMs,
    pollMs: 2_000,
    overlapMs: 60_000,
    fullReloadMs: 6 * HOUR_MS,
    maxRemovedShare: 0.2,
    ...more,
  });

/** Turns until there is nothing to do at once. */
async function settle(sync: CatalogSync): Promise<void> {
  while ((await sync.turn()) === 0);
}

async function nextPoll(sync: CatalogSync): Promise<void> {
  nowMs += 2_000;
  await settle(sync);
}

const ids = (): string[] => catalog.list({ limit: 1e6 }).map(({ adId }) => adId);
const tableIds = (): string[] => [...source.table.keys()].sort();

describe('the sync of ads with a table', () => {
  test('loads all, then takes new, changed and deleted rows', async () => {
    source.put(...Array.from({ length: 45_000 }, (_, i) => row(i)));
    const sync = newSync();
    await settle(sync);
    expect(ids()).toEqual(tableIds());
    const at = 2_000_000;
    source.put({ ad: { adId: 'ad-000003', targetUrl: 'https://new.example/' }, updatedAtUs: at });
    source.put({ ad: { adId: 'new' }, updatedAtUs: at + 1 });
    source.put({ ad: { adId: 'ad-000004' }, updatedAtUs: at + 2, isDeleted: true });
    await nextPoll(sync);
    expect(catalog.find('ad-000003')?.targetUrl).toBe('https://new.example/');
    expect(catalog.find('new')).not.toBeNull();
    expect(catalog.find('ad-000004')).toBeNull();
    expect(sync.state.newestUs).toBe(at + 2);
  });

  test('a load reads changes in between, and the older version of a page never wins', async () => {
    source.put(...Array.from({ length: 45_000 }, (_, i) => row(i)));
    const sync = newSync();
    await sync.turn();
    expect(sync.state.load).toEqual({ phase: 'pages', afterAdId: 'ad-019999' });
    source.put({ ad: { adId: 'ad-000001', campaignId: 'other' }, updatedAtUs: 2_000_000 });
    source.put({ ad: { adId: 'ad-044000', campaignId: 'other' }, updatedAtUs: 2_000_001 });
    nowMs += 2_000;
    await sync.turn();
    for (const adId of ['ad-000001', 'ad-044000']) {
      expect(catalog.find(adId)?.campaignId).toBe('other');
    }
    await settle(sync);
    for (const adId of ['ad-000001', 'ad-044000']) {
      expect(catalog.find(adId)?.campaignId).toBe('other');
    }
  });

  test('a row that is no valid ad keeps the version before, is remembered, and may be mended', async () => {
    source.put(row(1), row(2));
    const sync = newSync();
    await settle(sync);
    source.put({ ad: { adId: 'ad-000001', targetUrl: 'javascript:x' }, updatedAtUs: 2_000_000 });
    source.put({ ad: { adId: 'no id', targetUrl: 'ftp://e.com' }, updatedAtUs: 2_000_001 });
    await nextPoll(sync);
    expect(catalog.find('ad-000001')?.targetUrl).toBe('https://shop.example/ad-000001');
    const { count, rows } = catalog.refusedRows(9);
    expect(count).toBe(2);
    expect(rows.map(({ adId }) => adId)).toEqual(['ad-000001', 'no id']);
    expect(rows[0]?.reason).toContain('javascript:x');
    expect(rows[1]?.reason).toContain('ad_id');
    source.put({ ad: { adId: 'ad-000001', targetUrl: 'https://e.com/' }, updatedAtUs: 2_000_002 });
    source.table.delete('no id');
    await nextPoll(sync);
    expect(catalog.find('ad-000001')?.targetUrl).toBe('https://e.com/');
    expect(catalog.refusedRows(9).rows.map(({ adId }) => adId)).toEqual(['no id']);
    nowMs += 6 * HOUR_MS;
    await settle(sync);
    expect(catalog.refusedRows(9).count).toBe(0);
  });

  test('rows that vanished are found by the next full load', async () => {
    source.put(...Array.from({ length: 500 }, (_, i) => row(i)));
    const sync = newSync();
    await settle(sync);
    for (let i = 0; i < 100; i++) source.table.delete(row(i * 5).ad.adId);
    await nextPoll(sync);
    expect(catalog.count()).toBe(500);
    nowMs += 6 * HOUR_MS;
    await settle(sync);
    expect(ids()).toEqual(tableIds());
  });

  test('a table that reads as nearly empty takes no ads away, and says so', async () => {
    source.put(...Array.from({ length: 1_000 }, (_, i) => row(i)));
    const sync = newSync();
    await settle(sync);
    const rows = [...source.table.values()];
    source.table.clear();
    nowMs += 6 * HOUR_MS;
    await settle(sync);
    expect(catalog.count()).toBe(1_000);
    expect(sync.state.heldRemovals).toBe(1_000);
    source.put(...rows.slice(150));
    nowMs += 6 * HOUR_MS;
    await settle(sync);
    expect(catalog.count()).toBe(850);
    expect(sync.state.heldRemovals).toBe(0);
  });

  test('a row that comes back while others are looked at is not removed', async () => {
    source.put(...Array.from({ length: 10 }, (_, i) => row(i)));
    const sync = newSync();
    await settle(sync);
    source.table.delete('ad-000003');
    source.table.delete('ad-000004');
    let asked = 0;
    source.onAsk = (question) => {
      if (question === 'missing' && ++asked === 2) source.put(row(3));
    };
    nowMs += 6 * HOUR_MS;
    await settle(sync);
    expect(asked).toBe(2);
    expect(ids()).toEqual(tableIds());
  });

  test('a row dated into the future hides no later change', async () => {
    source.put(row(1), row(2));
    source.nowUs = 5_000_000;
    const sync = newSync();
    await settle(sync);
    source.put({ ad: { adId: 'future' }, updatedAtUs: 9_000_000_000 });
    await nextPoll(sync);
    expect(catalog.find('future')).not.toBeNull();
    source.put({ ad: { adId: 'now' }, updatedAtUs: 6_000_000 });
    source.nowUs = 6_000_000;
    await nextPoll(sync);
    expect(catalog.find('now')).not.toBeNull();
  });

  test('of another table everything is read anew; a state that cannot be read counts as none', async () => {
    source.put(row(1));
    await settle(newSync());
    source.name = 'another';
    source.put(row(2, { updatedAtUs: 1 }));
    expect(newSync().state.round).toBe(0);
    await settle(newSync());
    expect(ids()).toEqual(['ad-000001', 'ad-000002']);
    await catalog.apply({ put: [], syncState: '{"version":99}' });
    expect(newSync().state.round).toBe(0);
  });

  test('a large change is read again while others may still commit, and then no more', async () => {
    source.put(row(1));
    const sync = newSync();
    await settle(sync);
    source.put({ ad: { adId: 'late' }, updatedAtUs: 2_000_000 });
    for (let at = 0; at < 200; at++) await nextPoll(sync);
    expect(source.asked.at(-1)).toBe('changes 2000000');
    // Nothing is behind it: the next reading finds no row.
    expect((await source.changes({ updatedAtUs: 2_000_000 }, 9)).rows).toEqual([]);
  });

  test('a call to wake brings the next reading forward, a thousand of them only once', async () => {
    source.put(row(1));
    const sync = newSync();
    await settle(sync);
    const before = source.asked.length;
    nowMs += 10;
    for (let at = 0; at < 1_000; at++) sync.wake();
    expect(await sync.turn()).toBe(40);
    expect(source.asked.length).toBe(before);
    nowMs += 40;
    expect(await sync.turn()).toBe(2_000);
    expect(source.asked.length).toBe(before + 1);
  });
});

describe('a sync that dies', () => {
  const SMALL = { pageRows: 100, chunkRows: 30 };
  /** Fails at the n-th transaction, before or after it is committed. */
  function dying(at: number, committed: boolean): AdCatalog {
    let transactions = 0;
    return applying(async (change) => {
      const isLast = ++transactions === at;
      if (isLast && !committed) throw new Error('died');
      const counts = await catalog.apply(change);
      if (isLast) throw new Error('died');
      return counts;
    });
  }

  const failing = (isFailing: () => boolean): AdCatalog =>
    applying(async (change) => {
      if (isFailing()) throw new Error('disk full');
      return catalog.apply(change);
    });

  function applying(apply: (change: CatalogChange) => Promise<ChangeCounts>): AdCatalog {
    return new Proxy(catalog, {
      get: (target, name) => {
        if (name === 'apply') return apply;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  for (const goesOn of [false, true]) {
    const what = goesOn ? 'fails and goes on' : 'dies and is started again';
    test(
      `${what}, before or after any of its effects, and ends with the same ads`,
      () => everyEffect(goesOn),
      120_000,
    );
  }

  async function everyEffect(goesOn: boolean): Promise<void> {
    source.put(...Array.from({ length: 260 }, (_, i) => row(i)));
    await settle(newSync(SMALL));
    await catalog.apply({ put: [], syncState: 'none' });
    let deaths = 0;
    for (let at = 1; ; at++) {
      for (const committed of [false, true]) {
        // What each run must find out: a new ad, a changed one, one deleted, one without a row, a bad row.
        const stamp = 2_000_000 + at * 10 + (committed ? 5 : 0);
        source.put({ ad: { adId: `new-${stamp}` }, updatedAtUs: stamp });
        source.put({ ad: { adId: 'ad-000007', campaignId: `c-${stamp}` }, updatedAtUs: stamp + 1 });
        source.put({ ad: { adId: `ad-000${100 + at}` }, updatedAtUs: stamp + 2, isDeleted: true });
        source.put({ ad: { adId: 'bad', targetUrl: 'ftp://x' }, updatedAtUs: stamp + 3 });
        source.table.delete(`new-${stamp - 5}`);
        nowMs += 6 * HOUR_MS;
        const sync = newSync({ ...SMALL, catalog: dying(at, committed) });
        const died = await settle(sync).catch(String);
        if (died !== undefined) deaths++;
        nowMs += 2_000;
        await settle(goesOn && died !== undefined ? sync : newSync(SMALL));
        const good = [...source.table.values()].filter((each) => !each.isDeleted);
        expect(ids()).toEqual(
          good
            .map(({ ad }) => ad.adId)
            .filter((adId) => adId !== 'bad')
            .sort(),
        );
        expect(catalog.find('ad-000007')?.campaignId).toBe(`c-${stamp}`);
        expect(catalog.refusedRows(9).rows.map(({ adId }) => adId)).toEqual(['bad']);
        if (died === undefined) {
          expect(deaths).toBeGreaterThan(15);
          return;
        }
      }
    }
  }

  test('in mid-load goes on after the last page, and reads no page twice', async () => {
    source.put(...Array.from({ length: 70_000 }, (_, i) => row(i)));
    const first = newSync();
    await first.turn();
    await first.turn();
    source.asked.length = 0;
    await settle(newSync());
    expect(source.asked.filter((each) => each.startsWith('page'))).toEqual([
      'page ad-039999',
      'page ad-059999',
    ]);
    expect(catalog.count()).toBe(70_000);
  });

  test('a late row whose writing failed is read again', async () => {
    source.put(row(1), row(2));
    const sync = newSync({ catalog: failing(() => failNext) });
    let failNext = false;
    await settle(sync);
    source.put({ ad: { adId: 'on-time' }, updatedAtUs: 2_000_000 });
    await nextPoll(sync);
    nowMs += 59_000;
    // Committed just in time; a moment later nothing so old would be read.
    source.put({ ad: { adId: 'late' }, updatedAtUs: 1_999_999 });
    failNext = true;
    await expect(nextPoll(sync)).rejects.toThrow('disk full');
    failNext = false;
    await nextPoll(sync);
    expect(catalog.find('late')).not.toBeNull();
  });

  test('a source that fails is asked again from where it was', async () => {
    source.put(...Array.from({ length: 70_000 }, (_, i) => row(i)));
    const sync = newSync();
    source.onAsk = (question) => {
      if (question === 'page ad-039999') throw new Error('connection lost');
    };
    await expect(settle(sync)).rejects.toThrow('connection lost');
    expect(catalog.count()).toBe(40_000);
    source.onAsk = () => {};
    await settle(sync);
    expect(catalog.count()).toBe(70_000);
  });
});
