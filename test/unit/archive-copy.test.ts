/** Copying an archive: everything or a clear word, whenever it is cut off. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { parseArchiveUrl } from '../../src/archive/archive-url.ts';
import { Archiver } from '../../src/archive/archiver.ts';
import { checkArchive } from '../../src/archive/audit.ts';
import { writeCheckpoint } from '../../src/archive/checkpoint-writer.ts';
import { type CopyProgress, copyArchive } from '../../src/archive/copy.ts';
import { openFolderSource, openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest } from '../../src/archive/manifest.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import {
  Crash,
  click,
  FaultyStore,
  HOUR_MS,
  namesOf,
  readArchive,
  T0,
} from '../support/archive-fixtures.ts';
import { eventBytes, MemoryLog } from '../support/memory-log.ts';
import { fcParams } from '../support/seed.ts';
import { tempDir } from '../support/temp-dir.ts';

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text));

let dir: ReturnType<typeof tempDir>;
let from: ObjectStore;
let to: ObjectStore;
let log: MemoryLog;
beforeEach(async () => {
  dir = tempDir('copy');
  from = await openFolderStore({ dir: join(dir.path, 'from') });
  to = await openFolderStore({ dir: join(dir.path, 'to') });
  log = new MemoryLog();
  for (const partition of [0, 1]) await grow(partition, 40);
  for (const [name, text] of OTHERS) await from.putIfAbsent(name, bytesOf(text));
});
afterEach(() => dir.remove());

const OTHERS = [
  ['final/dt=2026-01-31/hr=07/000001.json', '{"revision":1}'],
  ['verdicts/0001.parquet', 'verdicts'],
  ['statements/adv/1.json', 'a statement'],
  ['what-a-later-version-keeps/x', 'something'],
] as const;

/** Appends clicks of three hours and dead letters, and archives them ten at a time. */
async function grow(partition: number, count: number, store = from): Promise<void> {
  const records = Array.from({ length: count }, (_, i) => {
    const clickedAtMs = T0 + (i % 3) * HOUR_MS;
    const impressionId = `imp-${partition}-${i}-${count}`;
    return i % 5 === 4 ? Buffer.from('junk') : eventBytes(click(impressionId, { clickedAtMs }));
  });
  log.appendBytes(partition, records, T0 + 3 * HOUR_MS);
  await archiverOf(store, await loadManifest(store)).flush();
}

function archiverOf(store: ObjectStore, manifest: Awaited<ReturnType<typeof loadManifest>>) {
  const clock = () => T0 + 3 * HOUR_MS;
  const rotate = { rotateMs: 0, rotateRecords: 10, maxSkewMs: 600_000 };
  return new Archiver({ reader: log, store, manifest, clock, ...rotate });
}

async function expectCopied(): Promise<void> {
  const names = (await namesOf(from)).filter((name) => !/^(plan|checkpoint)\//.test(name));
  expect(await namesOf(to)).toEqual(names);
  for (const name of names) expect(await to.get(name)).toEqual(await from.get(name));
  expect(await checkArchive(to, await loadManifest(to))).toEqual([]);
  expect(await readArchive(to)).toEqual(await readArchive(from));
}

test('everything is copied but plans and checkpoints, and the progress ends at all of it', async () => {
  const manifest = await loadManifest(from);
  await writeCheckpoint(from, manifest, { minEntries: 1 });
  expect(await namesOf(from, 'checkpoint/')).toHaveLength(1);
  const progress: CopyProgress[] = [];
  const result = await copyArchive({ from, to, onProgress: (each) => progress.push(each) });
  await expectCopied();
  const { objects, bytes } = result;
  expect(result.copied).toBe(objects);
  expect(progress.at(-1)).toEqual({ objects, bytes, ofObjects: objects, ofBytes: bytes });
  // Once more: nothing is new.
  expect(await copyArchive({ from, to })).toEqual({ objects, bytes, copied: 0 });
});

test('what was archived since the last copy is copied too', async () => {
  await copyArchive({ from, to });
  await grow(0, 35);
  await grow(5, 12);
  await copyArchive({ from, to });
  await expectCopied();
});

test('a copy that was cut off anywhere is no archive that looks whole, and is completed by another', async () => {
  const all = (await namesOf(from, 'manifest/')).length;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat({ max: 60 }), { maxLength: 4 }), async (cuts) => {
      to = await openFolderStore({ dir: join(dir.path, `to-${cuts.join('-')}`) });
      for (const cut of cuts) {
        const faulty = new FaultyStore(to);
        const when = cut % 2 === 0 ? 'before' : 'after';
        faulty.failAt = { effect: cut, when, error: new Crash('cut off') };
        const failure = await copyArchive({ from, to: faulty }).then(
          () => null,
          (error: Error) => error,
        );
        if (failure !== null && !(failure instanceof Crash)) throw failure;
        const manifest = await loadManifest(to);
        // What it covers is there, and a part of the entries has a hole before it.
        const problems = await checkArchive(to, manifest);
        expect(problems.filter(({ kind }) => !['orphan', 'hole'].includes(kind))).toEqual([]);
        const entries = (await namesOf(to, 'manifest/')).length;
        const covered = manifest.partitions().filter((p) => manifest.problemOf(p) === null);
        for (const partition of covered) {
          expect(manifest.archivedUpTo(partition).nextOffset).toBe(40);
        }
        expect(entries).toBeLessThanOrEqual(all);
      }
      await copyArchive({ from, to });
      await expectCopied();
    }),
    fcParams(40),
  );
});

describe('a source that is not sound', () => {
  test('a damaged object is refused by its name, and no entry is written', async () => {
    const [name] = await namesOf(from, 'dt=');
    const path = join(dir.path, 'from', name!);
    const bytes = readFileSync(path);
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(path, bytes);
    await expect(copyArchive({ from, to })).rejects.toMatchObject({
      code: 'object_damaged',
      message: expect.stringContaining(name!),
    });
    expect(await namesOf(to, 'manifest/')).toEqual([]);
  });

  test('a missing object, one of another size and a hole are refused before the first write', async () => {
    const [gone, short] = await namesOf(from, 'dt=');
    const kept = await from.get(gone!);
    await from.remove(gone!);
    const refused = expect.objectContaining({ code: 'archive_damaged' });
    await expect(copyArchive({ from, to })).rejects.toEqual(refused);
    await from.putIfAbsent(gone!, kept!);
    writeFileSync(join(dir.path, 'from', short!), 'short');
    await expect(copyArchive({ from, to })).rejects.toThrow(short);
    const [, entry] = await namesOf(from, 'manifest/');
    await from.remove(entry!);
    await expect(copyArchive({ from, to })).rejects.toThrow('hole at offsets 10 to 19');
    expect(await namesOf(to)).toEqual([]);
  });

  test('an open plan says that the old ledger is not done; a stale one says nothing', async () => {
    await from.putIfAbsent(
      'plan/p00000/00000000000000000010-00000000000000000019.json',
      bytesOf('{}'),
    );
    await copyArchive({ from, to });
    const open = 'plan/p00000/00000000000000000040-00000000000000000049.json';
    await from.putIfAbsent(open, bytesOf('{}'));
    await expect(copyArchive({ from, to })).rejects.toMatchObject({
      code: 'archive_unfinished',
      message: expect.stringContaining(open),
      hint: expect.stringContaining('stop it'),
    });
  });

  test('one that is archived into while it is copied is found out, and looks unfinished', async () => {
    let isFirst = true;
    const onProgress = async () => {
      if (!isFirst) return;
      isFirst = false;
      await grow(0, 10);
    };
    const slow: ObjectStore = {
      ...bound(to),
      putIfAbsent: async (name, bytes) => {
        await onProgress();
        await to.putIfAbsent(name, bytes);
      },
    };
    await expect(copyArchive({ from, to: slow })).rejects.toMatchObject({
      code: 'archive_unfinished',
    });
    expect((await loadManifest(to)).archivedUpTo(0).nextOffset).toBe(0);
    await copyArchive({ from, to });
    await expectCopied();
  });

  test('an empty one is a wrong place', async () => {
    const empty = await openFolderStore({ dir: join(dir.path, 'empty') });
    await expect(copyArchive({ from: empty, to })).rejects.toMatchObject({ code: 'archive_empty' });
    const nowhere = openFolderSource({ dir: join(dir.path, 'nowhere') });
    await expect(nowhere).rejects.toMatchObject({ code: 'archive_missing' });
  });

  test('objects that nothing names stay behind', async () => {
    const orphan = 'dt=2026-01-31/hr=07/p0-00000000000000000000-00000000000000000005.parquet';
    await from.putIfAbsent(orphan, bytesOf('left over'));
    await copyArchive({ from, to });
    await from.remove(orphan);
    await expectCopied();
  });
});

function bound(store: ObjectStore): ObjectStore {
  return {
    putIfAbsent: (name, bytes) => store.putIfAbsent(name, bytes),
    get: (name) => store.get(name),
    list: (prefix, options) => store.list(prefix, options),
    remove: (name) => store.remove(name),
  };
}

describe('a target that holds another archive is refused before the first write', () => {
  const refused = expect.objectContaining({ code: 'archive_not_empty' });

  test('with other entries of a partition, or with more of them', async () => {
    const before = log;
    log = new MemoryLog();
    await grow(1, 10, to);
    log = before;
    const names = await namesOf(to);
    await expect(copyArchive({ from, to })).rejects.toEqual(refused);
    expect(await namesOf(to)).toEqual(names);
    to = await openFolderStore({ dir: join(dir.path, 'longer') });
    await copyArchive({ from, to });
    await grow(1, 10, to);
    await expect(copyArchive({ from, to })).rejects.toEqual(refused);
  });

  test('with another final record of an hour', async () => {
    await to.putIfAbsent(OTHERS[0][0], bytesOf('{"revision":2}'));
    await expect(copyArchive({ from, to })).rejects.toEqual(refused);
    expect(await namesOf(to)).toEqual([OTHERS[0][0]]);
  });

  test('but other partitions may be there', async () => {
    await grow(10_000, 15, to);
    await copyArchive({ from, to });
    const manifest = await loadManifest(to);
    expect(manifest.partitions()).toEqual([0, 1, 10_000]);
    expect(await checkArchive(to, manifest)).toEqual([]);
  });
});

test('the place of an archive is a bucket and a prefix, or a folder', () => {
  expect(parseArchiveUrl('s3://clicks-archive')).toEqual({
    kind: 's3',
    bucket: 'clicks-archive',
    prefix: '',
  });
  for (const text of ['s3://bucket/production/clicks', 's3://bucket/production/clicks/']) {
    const place = { kind: 's3', bucket: 'bucket', prefix: 'production/clicks' } as const;
    expect(parseArchiveUrl(text)).toEqual(place);
  }
  for (const dir of ['/var/lib/clickledger/archive', './archive', 'archive', 'C:\\archive']) {
    expect(parseArchiveUrl(dir)).toEqual({ kind: 'folder', dir });
  }
  const wrong = ['', ' ', 's3://', 's3:///x', 's3://B/x', 's3://bucket/a//b', 's3://bucket/.x'];
  for (const text of [...wrong, 'gs://bucket/x', 'https://host/x', 's3://bucket/a b']) {
    expect(() => parseArchiveUrl(text), text).toThrow(
      expect.objectContaining({ code: 'archive_url' }),
    );
  }
});
