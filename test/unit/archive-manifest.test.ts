// Proves INV-6 of SPEC.md.
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkArchive } from '../../src/archive/audit.ts';
import { sha256Hex } from '../../src/archive/checksum.ts';
import { decodeEntry, encodeEntry } from '../../src/archive/entry.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest, Manifest, readObject } from '../../src/archive/manifest.ts';
import {
  entryName,
  entryOfName,
  objectName,
  oldEntryName,
  planName,
  rangeOfName,
  variantOf,
} from '../../src/archive/names.ts';
import type { ManifestEntry, ObjectStore } from '../../src/archive/port.ts';
import { HOUR_MS, T0 } from '../support/archive-fixtures.ts';
import { tempDir } from '../support/temp-dir.ts';

let dir: ReturnType<typeof tempDir>;
let store: ObjectStore;
beforeEach(async () => {
  dir = tempDir('manifest');
  store = await openFolderStore({ dir: dir.path });
});
afterEach(() => dir.remove());

const BODY = new Uint8Array(Buffer.from('an object'));
const SHA256 = await sha256Hex(BODY);

function entry(partition: number, first: number, last: number, hourMs = T0): ManifestEntry {
  const range = { partition, firstOffset: first, lastOffset: last };
  const rows = last - first + 1;
  const name = objectName(hourMs, range);
  const object = { name, hourMs, rows, sizeBytes: BODY.length, sha256: SHA256 };
  return { ...range, objects: [object], lastAppendedAtMs: T0 + last };
}

async function put(
  entries: ManifestEntry[],
  {
    withObjects = true,
    nameOf = entryName,
  }: { withObjects?: boolean; nameOf?: typeof oldEntryName } = {},
): Promise<void> {
  for (const one of entries) {
    if (withObjects) for (const { name } of one.objects) await store.putIfAbsent(name, BODY);
    await store.putIfAbsent(nameOf(one), encodeEntry(one));
  }
}

test('names are those of the contract and carry their range', () => {
  const range = { partition: 3, firstOffset: 5, lastOffset: 1_234_567 };
  const offsets = '00000000000000000005-00000000000001234567';
  const names = {
    clicks: objectName(T0, range),
    variant: objectName(T0, range, '0123456789abcdef'),
    dead: objectName(null, range),
    plan: planName(range),
    planOfVariant: planName(range, '0123456789abcdef'),
  };
  expect(names).toEqual({
    clicks: `dt=2026-01-31/hr=07/p3-${offsets}.parquet`,
    variant: `dt=2026-01-31/hr=07/p3-${offsets}-0123456789abcdef.parquet`,
    dead: `dead/p3-${offsets}.parquet`,
    plan: `plan/p00003/${offsets}.json`,
    planOfVariant: `plan/p00003/${offsets}-0123456789abcdef.json`,
  });
  for (const name of Object.values(names)) expect(rangeOfName(name)).toEqual(range);
  expect(variantOf(names.clicks, T0, range)).toBe('');
  expect(variantOf(names.variant, T0, range)).toBe('0123456789abcdef');
  expect(variantOf(names.variant, T0 + HOUR_MS, range)).toBeNull();
});

test('a commit is named by its first offset, and was once named by its whole range', () => {
  const range = { partition: 3, firstOffset: 5, lastOffset: 1_234_567 };
  expect(entryName(range)).toBe('manifest/p00003/00000000000000000005.json');
  expect(entryOfName(entryName(range))).toEqual({ ...range, lastOffset: null });
  const old = 'manifest/p00003/00000000000000000005-00000000000001234567.json';
  expect(oldEntryName(range)).toBe(old);
  expect(entryOfName(old)).toEqual(range);
  expect(entryOfName('manifest/p00003/notes.json')).toBeNull();
  expect(rangeOfName(old)).toBeNull();
});

test('entries under old names go on under new ones, and the same entry under both counts once', async () => {
  await put([entry(0, 0, 9), entry(0, 10, 19)], { nameOf: oldEntryName });
  await put([entry(0, 10, 19), entry(0, 20, 29)]);
  const manifest = await loadManifest(store);
  expect(manifest.problems).toEqual([]);
  expect(manifest.archivedUpTo(0).nextOffset).toBe(30);
  expect(manifest.entryCount(0)).toBe(3);
  expect(manifest.objectCount(T0)).toBe(3);
});

test('entries that follow each other are indexed by partition and hour', async () => {
  const other = entry(1, 0, 4, T0 + HOUR_MS);
  await put([entry(0, 0, 9), entry(0, 10, 19), entry(0, 20, 20, T0 + HOUR_MS), other]);
  const manifest = await loadManifest(store);
  expect(manifest.problems).toEqual([]);
  expect(manifest.partitions()).toEqual([0, 1]);
  expect(manifest.archivedUpTo(0)).toEqual({ nextOffset: 21, lastAppendedAtMs: T0 + 20 });
  expect(manifest.archivedUpTo(7)).toEqual({ nextOffset: 0, lastAppendedAtMs: 0 });
  expect(manifest.hours()).toEqual([T0, T0 + HOUR_MS]);
  expect(manifest.objectsOfHour(T0).map(({ name }) => rangeOfName(name)?.firstOffset)).toEqual([
    0, 10,
  ]);
  expect(manifest.objectsOfHour(T0 + 2 * HOUR_MS)).toEqual([]);
});

test('a hole is reported with partition and offsets, and nothing behind it counts as archived', () => {
  const manifest = new Manifest([entry(0, 0, 9), entry(0, 15, 19), entry(1, 3, 4)]);
  expect(manifest.problems.map(({ message }) => message)).toEqual([
    'manifest of partition 0: hole at offsets 10 to 14',
    'manifest of partition 1: hole at offsets 0 to 2',
  ]);
  expect(manifest.archivedUpTo(0)).toEqual({ nextOffset: 10, lastAppendedAtMs: T0 + 9 });
  expect(manifest.archivedUpTo(1).nextOffset).toBe(0);
  expect(() => manifest.add(entry(0, 10, 14))).toThrow('behind a hole');
});

test('an overlap is reported with partition and offsets', () => {
  const manifest = new Manifest([entry(0, 0, 9), entry(0, 5, 19), entry(0, 20, 21)]);
  expect(manifest.problems).toMatchObject([
    { kind: 'overlap', partition: 0, firstOffset: 5, lastOffset: 9 },
  ]);
  expect(manifest.archivedUpTo(0).nextOffset).toBe(10);
});

test('an entry that cannot be read is reported, wherever it stands, and blocks its partition', async () => {
  await put([entry(0, 0, 9), entry(0, 20, 29), entry(1, 0, 3)]);
  for (const range of [
    { partition: 0, firstOffset: 10, lastOffset: 19 },
    { partition: 1, firstOffset: 4, lastOffset: 7 },
  ]) {
    await store.putIfAbsent(oldEntryName(range), new Uint8Array());
  }
  const manifest = await loadManifest(store);
  expect(manifest.archivedUpTo(0).nextOffset).toBe(10);
  expect(manifest.archivedUpTo(1).nextOffset).toBe(4);
  expect(manifest.problemOf(1)).toMatchObject({
    kind: 'unreadable',
    firstOffset: 4,
    lastOffset: 7,
  });
  expect(manifest.problems.map(({ kind }) => kind).sort()).toEqual([
    'hole',
    'unreadable',
    'unreadable',
  ]);
});

test('an entry whose parts do not fit together is refused', () => {
  const good = entry(2, 10, 19);
  const name = entryName(good);
  expect(decodeEntry(name, encodeEntry(good))).toMatchObject(good);
  const [object] = good.objects;
  const bad: [string, ManifestEntry][] = [
    ['another range', { ...good, lastOffset: 20 }],
    ['other rows', { ...good, objects: [{ ...object!, rows: 9 }] }],
    ['no objects', { ...good, objects: [] }],
    ['another hour', { ...good, objects: [{ ...object!, hourMs: T0 + HOUR_MS }] }],
    ['twice', { ...good, objects: [1, 9].map((rows) => ({ ...object!, rows })) }],
    ['no checksum', { ...good, objects: [{ ...object!, sha256: 'x' }] }],
  ];
  for (const [why, wrong] of bad) {
    expect(() => decodeEntry(name, encodeEntry(wrong)), why).toThrow();
  }
});

test('an object is read only when size and checksum are those of the manifest', async () => {
  const [object] = entry(0, 0, 9).objects;
  await expect(readObject(store, object!)).rejects.toMatchObject({ code: 'object_missing' });
  await store.putIfAbsent(object!.name, BODY);
  expect(await readObject(store, object!)).toEqual(Buffer.from(BODY));
  for (const bytes of ['', 'an objec', 'an object!', 'an Object']) {
    writeFileSync(join(dir.path, object!.name), bytes);
    await expect(readObject(store, object!)).rejects.toMatchObject({
      code: 'object_damaged',
      message: expect.stringContaining(object!.name),
    });
  }
});

test('the audit of a sound archive finds nothing', async () => {
  await put([entry(0, 0, 9), entry(0, 10, 19), entry(1, 0, 9)]);
  expect(await checkArchive(store, await loadManifest(store))).toEqual([]);
});

test('the audit names objects that are missing, of another size, or in no manifest entry', async () => {
  await put([entry(0, 0, 9), entry(0, 10, 19), entry(0, 20, 29, T0 + HOUR_MS)]);
  const manifest = await loadManifest(store);
  const gone = objectName(T0, { partition: 0, firstOffset: 0, lastOffset: 9 });
  const shorter = objectName(T0 + HOUR_MS, { partition: 0, firstOffset: 20, lastOffset: 29 });
  const orphan = objectName(T0, { partition: 0, firstOffset: 10, lastOffset: 15 });
  await store.remove(gone);
  writeFileSync(join(dir.path, shorter), 'short');
  await store.putIfAbsent(orphan, BODY);
  const found = async (hours?: number[]) =>
    (await checkArchive(store, manifest, hours)).map(({ kind, name }) => `${kind} ${name}`).sort();
  expect(await found()).toEqual([`missing ${gone}`, `orphan ${orphan}`, `size_differs ${shorter}`]);
  expect(await found([T0])).toEqual([`missing ${gone}`, `orphan ${orphan}`]);
  expect(await found([T0 + HOUR_MS])).toEqual([`size_differs ${shorter}`]);
  expect(await found([T0 + 5 * HOUR_MS])).toEqual([]);
});

test('an object of a range that is being written is no orphan', async () => {
  await put([entry(0, 0, 9)]);
  const range = { partition: 0, firstOffset: 10, lastOffset: 15 };
  await store.putIfAbsent(planName(range), new Uint8Array());
  await store.putIfAbsent(objectName(T0, range), BODY);
  expect(await checkArchive(store, await loadManifest(store))).toEqual([]);
});

test('a hole in the manifest is among the problems that the audit finds', async () => {
  await put([entry(0, 0, 9), entry(0, 15, 19)]);
  expect(await checkArchive(store, await loadManifest(store), [])).toMatchObject([
    { kind: 'hole' },
  ]);
});
