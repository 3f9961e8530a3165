import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { chmodSync, copyFileSync, mkdirSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import type { AdCatalog } from '../../src/ads/port.ts';
import type { LedgerError } from '../../src/platform/errors.ts';
import { anAd, within1s } from '../conformance/catalog-suite.ts';
import { tempDir } from '../support/temp-dir.ts';

const CHILD = join(import.meta.dir, '../support/catalog-child.ts');

let folder: ReturnType<typeof tempDir>;
let dir: string;
let opened: AdCatalog[];
beforeEach(() => {
  folder = tempDir('lmdb');
  dir = join(folder.path, 'catalog.d');
  opened = [];
});
afterEach(async () => {
  for (const catalog of opened) await catalog.close();
  folder.remove();
});

function open(readOnly: boolean, at = dir): AdCatalog {
  const catalog = openLmdbCatalog({ dir: at, readOnly });
  opened.push(catalog);
  return catalog;
}

async function child(...args: string[]): Promise<number> {
  return Bun.spawn([process.execPath, CHILD, ...args], { stderr: 'inherit' }).exited;
}

describe('an LMDB catalog shared by processes', () => {
  test('a reader opened before the first import sees another process’s imports', async () => {
    const reader = open(true);
    expect(reader.find('a1')).toBeNull();
    expect(reader.count()).toBe(0);
    expect(await child('put', dir, 'a', '3000', 'camp-1')).toBe(0);
    await within1s(() => reader.find('a2999')?.campaignId === 'camp-1');
    expect(await child('put', dir, 'a', '3000', 'camp-2')).toBe(0);
    await within1s(() => reader.find('a2999')?.campaignId === 'camp-2');
    expect(reader.count()).toBe(3000);
  });

  test('a reader that never lets its thread go idle still notices', async () => {
    const reader = open(true);
    const running = Bun.spawn([process.execPath, CHILD, 'put', dir, 'b', '10']);
    const start = performance.now();
    while (reader.find('b9') === null) {
      if (performance.now() - start > 20_000) throw new Error('never seen');
    }
    expect(await running.exited).toBe(0);
  });

  test('a process killed in its import leaves the catalog as it was, and nobody locked out', async () => {
    const writer = open(false);
    await writer.putAll([anAd('a0'), anAd('z')]);
    expect(await child('die', dir, 'a', '20000')).not.toBe(0);
    expect(writer.count()).toBe(2);
    expect(writer.find('a0')).toEqual(anAd('a0'));
    expect(await writer.putAll([anAd('y')])).toEqual({ added: 1, changed: 0, unchanged: 0 });
  });

  test('two processes that import at once both end up in the catalog', async () => {
    const codes = await Promise.all([
      child('put', dir, 'a', '2000'),
      child('put', dir, 'b', '2000'),
    ]);
    expect(codes).toEqual([0, 0]);
    expect(open(true).count()).toBe(4000);
  });
});

describe('an LMDB catalog on disk', () => {
  test('is for its owner only', async () => {
    open(false);
    const mode = (path: string) => statSync(path).mode & 0o777;
    expect(mode(dir)).toBe(0o700);
    expect(mode(join(dir, 'data.mdb'))).toBe(0o600);
    expect(mode(join(dir, 'lock.mdb'))).toBe(0o600);
  });

  test('refuses writes through a read-only handle', async () => {
    const reader = open(true);
    await expect(reader.putAll([anAd('a1')])).rejects.toThrow('read-only');
  });

  test('keeps ads with the longest fields', async () => {
    const long = 'x'.repeat(128);
    const targetUrl = `https://e.example/${'é'.repeat(2000)}`;
    const ad = anAd(long, { advertiserId: long, campaignId: long, targetUrl });
    await open(false).putAll([ad]);
    expect(open(true).find(long)).toEqual(ad);
  });

  test('damage is an error with a hint, never a crash', async () => {
    const catalog = open(false);
    await catalog.putAll(Array.from({ length: 2_000 }, (_, at) => anAd(`a${at}`)));
    const damage: Record<string, (file: string) => void> = {
      garbage: (file) => writeFileSync(file, Buffer.alloc(50_000, 7)),
      short: (file) => {
        copyFileSync(join(dir, 'data.mdb'), file);
        truncateSync(file, 1_000);
      },
      cut: (file) => {
        copyFileSync(join(dir, 'data.mdb'), file);
        truncateSync(file, 65_536);
      },
    };
    for (const [name, apply] of Object.entries(damage)) {
      const bad = join(folder.path, name);
      mkdirSync(bad);
      apply(join(bad, 'data.mdb'));
      const error = await thrown(() => open(true, bad));
      expect(error.code).toBe('catalog_damaged');
      expect(error.hint).toContain('backup');
    }
  });

  test.skipIf(process.getuid?.() === 0)('a folder of another user is an error', async () => {
    mkdirSync(dir, { mode: 0o500 });
    expect((await thrown(() => open(true))).code).toBe('catalog_no_access');
    chmodSync(dir, 0o700);
  });
});

async function thrown(action: () => unknown): Promise<LedgerError> {
  try {
    await action();
  } catch (error) {
    return error as LedgerError;
  }
  throw new Error('nothing was thrown');
}
