// Proves INV-6 of SPEC.md.
/** A manifest that others add to: what a refresh takes, what it costs, and the proof made with it. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { Archiver } from '../../src/archive/archiver.ts';
import { checkArchive } from '../../src/archive/audit.ts';
import { coveredUntilMs } from '../../src/archive/coverage.ts';
import { encodeEntry } from '../../src/archive/entry.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest, Manifest } from '../../src/archive/manifest.ts';
import { entryName, objectName } from '../../src/archive/names.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import { CountingStore, clicks, HOUR_MS, madeUpEntry, T0 } from '../support/archive-fixtures.ts';
import { MemoryLog } from '../support/memory-log.ts';
import { tempDir } from '../support/temp-dir.ts';

let dir: ReturnType<typeof tempDir>;
let store: CountingStore;
beforeEach(async () => {
  dir = tempDir('refresh');
  store = new CountingStore(await openFolderStore({ dir: dir.path }));
});
afterEach(() => dir.remove());

async function commit(partition: number, first: number, last: number): Promise<void> {
  const entry = madeUpEntry(partition, first, last);
  await store.putIfAbsent(entryName(entry), encodeEntry(entry));
}

describe('a refresh', () => {
  test('takes what has come since, of the partitions asked for, and reads nothing else', async () => {
    for (let i = 0; i < 5; i++) await commit(0, 10 * i, 10 * i + 9);
    const manifest = await loadManifest(store);
    await commit(0, 50, 59);
    await commit(7, 0, 3);
    await commit(8, 0, 3);
    store.gets.length = 0;
    await manifest.refresh(store, [0, 7]);
    expect(store.gets.sort()).toEqual([
      'manifest/p00000/00000000000000000050.json',
      'manifest/p00007/00000000000000000000.json',
    ]);
    expect(manifest.archivedUpTo(0).nextOffset).toBe(60);
    expect(manifest.archivedUpTo(7).nextOffset).toBe(4);
    expect(manifest.archivedUpTo(8).nextOffset).toBe(0);
    expect(manifest.objectsOfHour(T0)).toHaveLength(3);
  });

  test('with nothing new is one listing of a partition', async () => {
    for (let i = 0; i < 5; i++) await commit(0, 10 * i, 10 * i + 9);
    const manifest = await loadManifest(store);
    const { lists } = store;
    store.gets.length = 0;
    await manifest.refresh(store, [0, 1, 2]);
    expect(store.lists - lists).toBe(3);
    expect(store.gets).toEqual([]);
  });

  test('beside another, or beside the archiver that adds the same entry, counts it once', async () => {
    await commit(0, 0, 9);
    const manifest = await loadManifest(store);
    await commit(0, 10, 19);
    const refreshes = [1, 2, 3].map(() => manifest.refresh(store, [0]));
    manifest.add(madeUpEntry(0, 10, 19));
    await Promise.all(refreshes);
    manifest.add(madeUpEntry(0, 10, 19));
    expect(manifest.problems).toEqual([]);
    expect(manifest.entryCount(0)).toBe(2);
    expect(manifest.objectCount(T0 + 10 * HOUR_MS)).toBe(1);
  });

  test('reports a hole, an overlap and an entry that cannot be read, as the start does', async () => {
    for (const partition of [0, 1, 2, 3]) await commit(partition, 0, 9);
    const manifest = await loadManifest(store);
    await commit(0, 15, 19);
    await commit(1, 10, 19);
    await commit(1, 15, 29);
    await store.putIfAbsent('manifest/p00002/00000000000000000010.json', new Uint8Array());
    await commit(3, 10, 12);
    await manifest.refresh(store, [0, 1, 2, 3]);
    const found = manifest.problems.map(({ kind, partition }) => `${partition} ${kind}`).sort();
    expect(found).toEqual(['0 hole', '1 overlap', '2 unreadable']);
    const ends = [0, 1, 2, 3].map((partition) => manifest.archivedUpTo(partition).nextOffset);
    expect(ends).toEqual([10, 20, 10, 13]);
    const fresh = await loadManifest(store);
    expect(fresh.problems.map(({ kind, partition }) => `${partition} ${kind}`).sort()).toEqual(
      found,
    );
  });

  test('does not believe a hole that one listing shows and the next one does not', async () => {
    await commit(0, 0, 9);
    const manifest = await loadManifest(store);
    await commit(0, 10, 19);
    await commit(0, 20, 29);
    // As a folder is listed while entries are added: a later one is there, one before it is not.
    let listings = 0;
    const torn: Pick<ObjectStore, 'get' | 'list'> = {
      get: (name) => store.get(name),
      async *list(prefix, options) {
        const leavesOut = listings++ === 0;
        for await (const info of store.list(prefix, options)) {
          if (!(leavesOut && info.name.endsWith('10.json'))) yield info;
        }
      },
    };
    await manifest.refresh(torn, [0]);
    expect(manifest.problems).toEqual([]);
    expect(manifest.archivedUpTo(0).nextOffset).toBe(30);
  });

  test('that fails leaves the manifest as it was, and the next one goes on', async () => {
    await commit(0, 0, 9);
    const manifest = await loadManifest(store);
    await commit(0, 10, 19);
    const failing = {
      list: store.list.bind(store),
      get: () => Promise.reject(new Error('away')),
    };
    await expect(manifest.refresh(failing, [0])).rejects.toThrow('away');
    expect(manifest.archivedUpTo(0).nextOffset).toBe(10);
    await manifest.refresh(store, [0]);
    expect(manifest.archivedUpTo(0).nextOffset).toBe(20);
  });
});

describe('coverage by a process that does not archive', () => {
  const nowMs = T0 + 5_000;

  function archiverOn(log: MemoryLog, manifest: Manifest): Archiver {
    const rotate = { rotateMs: 0, rotateRecords: 100, maxSkewMs: 600_000 };
    return new Archiver({ reader: log, store, manifest, clock: () => nowMs, ...rotate });
  }

  test('knows of what another one has archived before the question', async () => {
    const log = new MemoryLog();
    log.append(0, clicks(3), T0 + 10);
    const manifest = await loadManifest(store);
    const refresh = (partitions: readonly number[]) => manifest.refresh(store, partitions);
    const covered = () => coveredUntilMs({ reader: log, manifest, clock: () => nowMs, refresh });
    expect(await covered()).toBe(0);
    await archiverOn(log, await loadManifest(store)).flush();
    expect(await covered()).toBe(nowMs);
    log.append(0, clicks(1, 3), T0 + 20);
    expect(await covered()).toBe(T0 + 10);
  });

  test('does not take for a lost log what was appended and archived while it asks', async () => {
    const log = new MemoryLog();
    log.append(0, clicks(3), T0 + 10);
    const archiver = archiverOn(log, await loadManifest(store));
    await archiver.flush();
    const manifest = await loadManifest(store);
    const covered = await coveredUntilMs({
      reader: log,
      manifest,
      clock: () => nowMs,
      refresh: async (partitions) => {
        log.append(0, clicks(2, 3), nowMs + 1);
        await archiver.flush();
        await manifest.refresh(store, partitions);
      },
    });
    expect(covered).toBe(nowMs);
  });

  test('ends where the log has more than the manifest, also when it came during the question', async () => {
    const log = new MemoryLog();
    log.append(0, clicks(3), T0 + 10);
    await archiverOn(log, await loadManifest(store)).flush();
    const manifest = await loadManifest(store);
    const covered = await coveredUntilMs({
      reader: log,
      manifest,
      clock: () => nowMs,
      refresh: async () => log.append(0, clicks(1, 3), T0 + 20),
    });
    expect(covered).toBe(T0 + 10);
  });
});

test('an audit takes no step of another process for an orphan, wherever that is', async () => {
  const log = new MemoryLog();
  log.append(0, clicks(5), T0 + 10);
  const rotate = { rotateMs: 0, rotateRecords: 100, maxSkewMs: 600_000 };
  const clock = () => T0 + 20;
  const archiver = new Archiver({
    ...{ reader: log, store, manifest: await loadManifest(store), clock },
    ...rotate,
  });
  const manifest = new Manifest();
  // The step ends between the audit's listing of objects and that of plans.
  const during: Pick<ObjectStore, 'get' | 'list'> = {
    get: (name) => store.get(name),
    async *list(prefix, options) {
      if (prefix === 'plan/') await archiver.flush();
      yield* store.list(prefix, options);
    },
  };
  const name = objectName(T0, { partition: 0, firstOffset: 0, lastOffset: 4 });
  const other = new CountingStore(await openFolderStore({ dir: `${dir.path}/other` }));
  const writer = new Archiver({
    ...{ reader: log, store: other, manifest: new Manifest(), clock },
    ...rotate,
  });
  await writer.flush();
  await store.putIfAbsent(name, (await other.get(name))!);
  expect(await checkArchive(during, manifest)).toEqual([]);
  expect(manifest.archivedUpTo(0).nextOffset).toBe(5);
});
