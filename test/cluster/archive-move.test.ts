// Proves INV-6 of SPEC.md.
/** An archive moves from a folder into a bucket of a real S3 server, and two archivers go on there. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test';
import { Archiver } from '../../src/archive/archiver.ts';
import { checkArchive } from '../../src/archive/audit.ts';
import { writeCheckpoint } from '../../src/archive/checkpoint-writer.ts';
import { copyArchive } from '../../src/archive/copy.ts';
import { openFolderSource, openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest } from '../../src/archive/manifest.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import { openS3Source } from '../../src/archive/s3/store.ts';
import {
  CountingStore,
  Crash,
  click,
  FaultyStore,
  HOUR_MS,
  namesOf,
  readArchive,
  T0,
} from '../support/archive-fixtures.ts';
import { eventBytes, MemoryLog } from '../support/memory-log.ts';
import { BUCKET, S3World, useCredentials } from '../support/s3-world.ts';
import { OWNER, READER } from '../support/seaweedfs.ts';
import { tempDir } from '../support/temp-dir.ts';

let world: S3World | undefined;
beforeAll(async () => {
  world = await S3World.start();
});
afterAll(() => world?.stop());

const NOW_MS = T0 + 3 * HOUR_MS;
const FINAL = 'final/dt=2026-01-31/hr=07/000001.json';

let dir: ReturnType<typeof tempDir>;
let folder: ObjectStore;
let prefix: string;
let log: MemoryLog;
let grown: number;
beforeEach(async () => {
  useCredentials(OWNER);
  dir = tempDir('archive-move');
  folder = await openFolderStore({ dir: dir.path });
  prefix = world!.freshPrefix();
  log = new MemoryLog();
  grown = 0;
});
afterEach(() => dir.remove());

function grow(partition: number, count: number): void {
  const records = Array.from({ length: count }, () => {
    const i = grown++;
    const clickedAtMs = T0 + (i % 3) * HOUR_MS;
    return i % 5 === 4 ? Buffer.from('junk') : eventBytes(click(`imp-${i}`, { clickedAtMs }));
  });
  log.appendBytes(partition, records, NOW_MS);
}

async function archiverOn(store: ObjectStore, rotateRecords = 10): Promise<Archiver> {
  const manifest = await loadManifest(store);
  const options = { reader: log, store, manifest, clock: () => NOW_MS, maxSkewMs: 600_000 };
  return new Archiver({ ...options, rotateMs: 0, rotateRecords });
}

async function fillFolder(): Promise<void> {
  for (const partition of [0, 3]) grow(partition, 25);
  await (await archiverOn(folder)).flush();
  await folder.putIfAbsent(FINAL, new Uint8Array(Buffer.from('{"revision":1}')));
}

const sourceOptions = () => ({
  bucket: BUCKET,
  prefix,
  endpoint: world!.server.endpoint,
  region: 'us-east-1',
  forcePathStyle: true,
  conditionalPut: true,
  clock: Date.now,
  random: Math.random,
});

test('a copy into the bucket that is cut off twice and repeated is the same archive, and so is the way back', async () => {
  await fillFolder();
  const from = await openFolderSource({ dir: dir.path });
  const bucket = await world!.open({ prefix });
  for (const [effect, when] of [
    [3, 'after'],
    [9, 'before'],
  ] as const) {
    const faulty = new FaultyStore(bucket);
    faulty.failAt = { effect, when, error: new Crash('cut off') };
    await expect(copyArchive({ from, to: faulty })).rejects.toThrow(Crash);
  }
  await copyArchive({ from, to: bucket });
  expect(await namesOf(bucket)).toEqual(await namesOf(folder));
  expect(await readArchive(bucket)).toEqual(await readArchive(folder));
  expect(await checkArchive(bucket, await loadManifest(bucket))).toEqual([]);
  // Whoever may only read can be copied from.
  useCredentials(READER);
  const source = await openS3Source(sourceOptions());
  const other = tempDir('archive-back');
  const back = await openFolderStore({ dir: other.path });
  await copyArchive({ from: source, to: back });
  expect(await readArchive(back)).toEqual(await readArchive(folder));
  other.remove();
});

test('a bucket that is not there, or holds no archive, is said to', async () => {
  const empty = await openS3Source(sourceOptions());
  await expect(copyArchive({ from: empty, to: folder })).rejects.toMatchObject({
    code: 'archive_empty',
  });
  const nowhere = openS3Source({ ...sourceOptions(), bucket: 'no-such-bucket' });
  await expect(nowhere).rejects.toMatchObject({ code: 'archive_refused' });
});

test('two archivers go on in the bucket side by side: every record is there once', async () => {
  await fillFolder();
  const stores = [await world!.open({ prefix }), await world!.open({ prefix })];
  await copyArchive({ from: await openFolderSource({ dir: dir.path }), to: stores[0]! });
  const archivers = [await archiverOn(stores[0]!, 7), await archiverOn(stores[1]!, 4)];
  for (let round = 0; round < 5; round++) {
    grow(10_000, 10);
    grow(10_001, 3);
    await Promise.all(archivers.map((archiver) => archiver.flush()));
  }
  for (const archiver of archivers) {
    await archiver.release();
    await archiver.flush();
  }
  const manifest = await loadManifest(stores[0]!);
  expect(manifest.problems).toEqual([]);
  expect(await checkArchive(stores[0]!, manifest)).toEqual([]);
  expect(await namesOf(stores[0]!, 'plan/')).toEqual([]);
  expect((await readArchive(stores[0]!)).size).toBe(grown);
});

test('a refresh asks the server for what is new, and a start for checkpoints', async () => {
  const bucket = await world!.open({ prefix });
  grow(10_000, 60);
  await (await archiverOn(bucket, 1)).flush();
  const store = new CountingStore(bucket);
  const manifest = await loadManifest(store);
  grow(10_000, 2);
  await (await archiverOn(bucket, 1)).flush();
  store.gets.length = 0;
  await manifest.refresh(store, [10_000]);
  expect(store.gets).toHaveLength(2);
  expect(await writeCheckpoint(bucket, manifest, { minEntries: 50 })).toBe(62);
  store.gets.length = 0;
  const again = await loadManifest(store);
  expect(store.gets).toEqual(['checkpoint/0000000001.json.gz']);
  expect(again.archivedUpTo(10_000).nextOffset).toBe(62);
});
