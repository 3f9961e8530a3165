import { afterEach, beforeEach, expect, test } from 'bun:test';
import { createKey, ensureFirstKey, retireKey } from '../../src/ads/keys.ts';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import type { AdCatalog } from '../../src/ads/port.ts';
import { createVerifier, sign } from '../../src/signing/signature.ts';
import { tempDir } from '../support/temp-dir.ts';

let folder: ReturnType<typeof tempDir>;
let catalog: AdCatalog;
let now = 1_000;
const clock = () => now++;
beforeEach(() => {
  folder = tempDir('keys');
  catalog = openLmdbCatalog({ dir: folder.path, readOnly: false });
});
afterEach(async () => {
  await catalog.close();
  folder.remove();
});

test('a fresh catalog gets one key, and only one', async () => {
  const key = await ensureFirstKey(catalog, clock);
  expect(catalog.activeKeys()).toEqual([key!]);
  expect(await ensureFirstKey(catalog, clock)).toBeNull();
  expect(key!.secret).toMatch(/^[A-Za-z0-9_-]{43}$/);
});

test('both keys verify during a rotation, and the retired one stops', async () => {
  const first = await createKey(catalog, clock, 'first');
  const second = await createKey(catalog, clock, 'second');
  const links = [first, second].map((key) => sign(key.secret, 'imp', 'ad'));
  const verified = () => {
    const verifier = createVerifier(catalog.activeKeys());
    return links.map((sig) => verifier.verify('imp', 'ad', sig, undefined));
  };
  expect(verified()).toEqual([true, true]);
  const retired = await retireKey(catalog, clock, { kid: 'first' });
  expect(verified()).toEqual([false, true]);
  expect(await retireKey(catalog, clock, { kid: 'first' })).toEqual(retired);
});

test('refuses a taken or invalid name, an unknown key, and retiring the last active key', async () => {
  await createKey(catalog, clock, 'k1');
  await expect(createKey(catalog, clock, 'k1')).rejects.toThrow('exists');
  await expect(createKey(catalog, clock, 'k 1')).rejects.toThrow('cannot name a key');
  await expect(createKey(catalog, clock, 'k'.repeat(33))).rejects.toThrow('cannot name a key');
  await expect(retireKey(catalog, clock, { kid: 'k2' })).rejects.toThrow('no key named k2');
  await expect(retireKey(catalog, clock, { kid: 'k1' })).rejects.toThrow('only key');
});

test('the last active key is retired with force, and another can be made after it', async () => {
  await createKey(catalog, clock, 'leaked');
  await retireKey(catalog, clock, { kid: 'leaked', force: true });
  expect(catalog.activeKeys()).toEqual([]);
  await createKey(catalog, clock, 'fresh');
  expect(catalog.activeKeys().map(({ kid }) => kid)).toEqual(['fresh']);
});
