// Proves INV-6 of SPEC.md.
/** Checkpoints: a start reads them instead of entries, and is never misled by one. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkArchive } from '../../src/archive/audit.ts';
import { decodeCheckpoint, encodeCheckpoint } from '../../src/archive/checkpoint.ts';
import { writeCheckpoint } from '../../src/archive/checkpoint-writer.ts';
import { encodeEntry } from '../../src/archive/entry.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest, type Manifest } from '../../src/archive/manifest.ts';
import { entryName, objectName } from '../../src/archive/names.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import { CountingStore, madeUpEntry, namesOf, T0 } from '../support/archive-fixtures.ts';
import { tempDir } from '../support/temp-dir.ts';

let dir: ReturnType<typeof tempDir>;
let disk: ObjectStore;
beforeEach(async () => {
  dir = tempDir('checkpoint');
  disk = await openFolderStore({ dir: dir.path });
});
afterEach(() => dir.remove());

/** `count` entries of ten records, by turns in the partitions, from the `from`-th on. */
async function commit(count: number, { from = 0, partitions = [0, 1] } = {}): Promise<void> {
  const work: Promise<void>[] = [];
  for (let i = from; i < from + count; i++) {
    const first = 10 * Math.floor(i / partitions.length);
    const entry = madeUpEntry(partitions[i % partitions.length]!, first, first + 9);
    work.push(disk.putIfAbsent(entryName(entry), encodeEntry(entry)));
  }
  await Promise.all(work);
}

const SMALL = { minEntries: 10, maxEntries: 16 };

/** What a start knows, and what it had to read. */
async function start(): Promise<{ manifest: Manifest; checkpoints: number; entries: number }> {
  const store = new CountingStore(disk);
  const manifest = await loadManifest(store);
  const checkpoints = store.gets.filter((name) => name.startsWith('checkpoint/')).length;
  return { manifest, checkpoints, entries: store.gets.length - checkpoints };
}

async function expectSame(manifest: Manifest): Promise<void> {
  const byEntries = await loadManifest(disk, { useCheckpoints: false });
  expect(manifest.problems).toEqual(byEntries.problems);
  expect(manifest.partitions()).toEqual(byEntries.partitions());
  for (const partition of byEntries.partitions()) {
    expect(manifest.archivedUpTo(partition)).toEqual(byEntries.archivedUpTo(partition));
    expect(manifest.entryCount(partition)).toBe(byEntries.entryCount(partition));
  }
  const objects = (of: Manifest) => of.hours().map((hour) => of.objectsOfHour(hour));
  expect(objects(manifest)).toEqual(objects(byEntries));
}

test('a checkpoint holds every field of its entries, variants and dead letters too', async () => {
  const range = { partition: 3, firstOffset: 5, lastOffset: 9 };
  const made = madeUpEntry(3, 5, 9);
  const variant = '0123456789abcdef';
  const [object] = made.objects;
  const dead = { ...object!, name: objectName(null, range, variant), hourMs: null, rows: 2 };
  const live = { ...object!, name: objectName(T0, range, variant), hourMs: T0, rows: 3 };
  const entries = [made, { ...made, objects: [dead, live] }];
  const upTo = new Map([[3, { nextOffset: 10, entries: 2 }]]);
  const bytes = await encodeCheckpoint({ entries, upTo });
  expect(await decodeCheckpoint(bytes)).toEqual({ entries, upTo });
});

test('a start reads checkpoints and the entries behind them, and knows the same', async () => {
  await commit(40);
  const manifest = await loadManifest(disk);
  expect(await writeCheckpoint(disk, manifest, SMALL)).toBe(40);
  expect(await namesOf(disk, 'checkpoint/')).toHaveLength(3);
  await commit(9, { from: 40 });
  const first = await start();
  expect(first).toMatchObject({ checkpoints: 3, entries: 9 });
  await expectSame(first.manifest);
  // Too few for another one, until there are enough.
  expect(await writeCheckpoint(disk, first.manifest, SMALL)).toBe(0);
  await commit(1, { from: 49 });
  await commit(3, { partitions: [9] });
  await first.manifest.refresh(disk, [0, 1, 9]);
  expect(await writeCheckpoint(disk, first.manifest, SMALL)).toBe(13);
  const second = await start();
  expect(second).toMatchObject({ checkpoints: 4, entries: 0 });
  await expectSame(second.manifest);
  expect(await checkpointedAudit(second.manifest)).toEqual([]);
});

async function checkpointedAudit(manifest: Manifest): Promise<string[]> {
  const problems = await checkArchive(disk, manifest);
  return problems.filter(({ name }) => name.startsWith('manifest')).map(({ message }) => message);
}

test('a damaged checkpoint is not believed, nor those behind it; the next writing puts it right', async () => {
  await commit(64);
  await writeCheckpoint(disk, await loadManifest(disk), SMALL);
  const names = await namesOf(disk, 'checkpoint/');
  expect(names).toHaveLength(4);
  const path = join(dir.path, names[1]!);
  const good = readFileSync(path);
  const flipped = Buffer.from(good);
  flipped[good.length >> 1]! ^= 1;
  const otherVersion = Bun.gzipSync(Buffer.from('{"version":2}\n'));
  for (const bad of [flipped, good.subarray(0, 20), new Uint8Array(), otherVersion]) {
    writeFileSync(path, bad);
    const { manifest, entries } = await start();
    expect(entries).toBe(48);
    await expectSame(manifest);
  }
  const { manifest } = await start();
  expect(await writeCheckpoint(disk, manifest, SMALL)).toBe(48);
  expect(await start()).toMatchObject({ checkpoints: 4, entries: 0 });
  await expectSame((await start()).manifest);
});

test('a checkpoint that is missing, or whose entries do not follow, ends those that are believed', async () => {
  await commit(64);
  await writeCheckpoint(disk, await loadManifest(disk), SMALL);
  const [first, second, third, fourth] = await namesOf(disk, 'checkpoint/');
  await disk.remove(third!);
  expect((await start()).entries).toBe(32);
  // The first one again in the place of the third.
  await disk.putIfAbsent(third!, (await disk.get(first!))!);
  const { manifest, entries } = await start();
  expect(entries).toBe(32);
  await expectSame(manifest);
  expect(await writeCheckpoint(disk, manifest, SMALL)).toBe(32);
  await disk.remove(fourth!);
  expect((await start()).entries).toBe(16);
  await disk.remove(second!);
  expect((await start()).entries).toBe(48);
});

test('two that write at once: one of them has the number, both go on later', async () => {
  await commit(20);
  const one = await loadManifest(disk);
  await commit(10, { from: 20 });
  const two = await loadManifest(disk);
  await Promise.all([writeCheckpoint(disk, one, SMALL), writeCheckpoint(disk, two, SMALL)]);
  await expectSame((await start()).manifest);
  await commit(20, { from: 30 });
  for (const each of [one, two]) {
    await each.refresh(disk, [0, 1]);
    await writeCheckpoint(disk, each, SMALL);
  }
  const { manifest, entries } = await start();
  expect(entries).toBeLessThan(10);
  await expectSame(manifest);
});

test('no entry behind a hole or an unreadable one is in a checkpoint', async () => {
  await commit(20, { partitions: [0] });
  await disk.remove(entryName(madeUpEntry(0, 150, 159)));
  const manifest = await loadManifest(disk);
  expect(await writeCheckpoint(disk, manifest, SMALL)).toBe(15);
  const again = await start();
  expect(again.manifest.problems).toMatchObject([{ kind: 'hole', firstOffset: 150 }]);
  await expectSame(again.manifest);
});

test('an entry that was lost behind a checkpoint is found by the audit', async () => {
  await commit(20);
  await writeCheckpoint(disk, await loadManifest(disk), SMALL);
  await disk.remove(entryName(madeUpEntry(1, 30, 39)));
  const { manifest } = await start();
  expect(manifest.problems).toEqual([]);
  expect(await checkpointedAudit(manifest)).toEqual([
    'manifest of partition 1: the store has 9 of 10 entries',
  ]);
});

test('of twenty thousand entries a start reads the checkpoints and what came after', async () => {
  const memory = new Map<string, Uint8Array>();
  disk = {
    putIfAbsent: async (name, bytes) => void memory.set(name, bytes),
    get: async (name) => memory.get(name) ?? null,
    remove: async (name) => void memory.delete(name),
    async *list(prefix, { after = '' } = {}) {
      const names = [...memory.keys()].filter((name) => name.startsWith(prefix) && name > after);
      for (const name of names.sort()) yield { name, sizeBytes: memory.get(name)!.length };
    },
  };
  const partitions = [10_000, 10_001, 10_002, 10_003];
  await commit(20_000, { partitions });
  const first = await start();
  expect(first).toMatchObject({ checkpoints: 0, entries: 20_000 });
  expect(await writeCheckpoint(disk, first.manifest)).toBe(20_000);
  await commit(4_000, { from: 20_000, partitions });
  const second = await start();
  expect(second).toMatchObject({ checkpoints: 1, entries: 4_000 });
  await expectSame(second.manifest);
});
