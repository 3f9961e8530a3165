// Proves INV-6 of SPEC.md.
/** Archivers that share partitions: what they begin and end when the group moves them. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { checkArchive } from '../../src/archive/audit.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { GroupArchiver, type GroupArchiverOptions } from '../../src/archive/group-archiver.ts';
import { loadManifest } from '../../src/archive/manifest.ts';
import type { ManifestEntry, ObjectStore } from '../../src/archive/port.ts';
import type { GroupHandlers, PartitionGroup } from '../../src/log/group.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { clicks, readArchive, T0 } from '../support/archive-fixtures.ts';
import { MemoryLog } from '../support/memory-log.ts';
import { Actor } from '../support/stalled-store.ts';
import { tempDir } from '../support/temp-dir.ts';

const ROTATE_MS = 60_000;

let dir: ReturnType<typeof tempDir>;
let disk: ObjectStore;
let log: MemoryLog;
let nowMs: number;
let entries: string[];
let errors: string[];
beforeEach(async () => {
  dir = tempDir('group-archiver');
  disk = await openFolderStore({ dir: dir.path });
  log = new MemoryLog();
  nowMs = T0 + 2_000;
  entries = [];
  errors = [];
});
afterEach(() => dir.remove());

class Group implements Pick<PartitionGroup, 'join' | 'leave' | 'status'> {
  handlers: GroupHandlers | null = null;
  readonly calls: string[] = [];
  join(handlers: GroupHandlers): void {
    this.calls.push('join');
    this.handlers = handlers;
  }
  async leave(): Promise<void> {
    this.calls.push('leave');
    await this.handlers?.pause();
  }
  status() {
    return { waitsFor: 'its partitions', partitions: [], rebalances: 3, logId: null };
  }
}

async function open(
  name: string,
  over: Partial<GroupArchiverOptions> = {},
): Promise<GroupArchiver> {
  const onEntry = ({ partition, firstOffset, lastOffset }: ManifestEntry) =>
    entries.push(`${name} p${partition} ${firstOffset}-${lastOffset}`);
  return new GroupArchiver({
    group: new Group(),
    reader: log,
    store: disk,
    manifest: await loadManifest(disk),
    clock: () => nowMs,
    rotateMs: ROTATE_MS,
    rotateRecords: 100,
    maxSkewMs: 600_000,
    onEntry,
    onError: (error, partition) => errors.push(`${partition} ${error.code}`),
    ...over,
  });
}

/** The partitions are ours once the step in progress is done, which here there is none. */
async function give(archiver: GroupArchiver, partitions: number[]): Promise<void> {
  await archiver.assigned(partitions);
  await Bun.sleep(0);
}

async function expectExact(records: number): Promise<void> {
  const manifest = await loadManifest(disk);
  expect(await checkArchive(disk, manifest)).toEqual([]);
  expect((await readArchive(disk)).size).toBe(records);
}

test('it archives the partitions that it was given, and no others', async () => {
  const archiver = await open('a');
  for (const partition of [0, 1, 2]) log.append(partition, clicks(100), nowMs);
  await archiver.pass();
  expect(entries).toEqual([]);
  await give(archiver, [0, 2]);
  await archiver.pass();
  expect(entries).toEqual(['a p0 0-99', 'a p2 0-99']);
  const { partitions } = archiver.status();
  expect(partitions.map(({ partition }) => partition)).toEqual([0, 2]);
  await archiver.pause();
  log.append(0, clicks(100, 100), nowMs);
  await archiver.pass();
  expect(entries).toHaveLength(2);
  expect(archiver.status().partitions).toEqual([]);
});

test('partitions that move are gone on with where the other one has come, also back again', async () => {
  const a = await open('a');
  const b = await open('b');
  await give(a, [0]);
  let records = 0;
  for (const [from, to] of [
    [a, b],
    [b, a],
    [a, b],
  ] as const) {
    log.append(0, clicks(100, records), nowMs);
    records += 100;
    await from.pass();
    await from.pause();
    await give(to, [0]);
  }
  expect(entries).toEqual(['a p0 0-99', 'b p0 100-199', 'a p0 200-299']);
  await expectExact(300);
});

test('a pause ends when the step in progress is done, and no other begins', async () => {
  const actor = new Actor(disk);
  const archiver = await open('a', { store: actor.store });
  await give(archiver, [0, 1]);
  log.append(0, clicks(300), nowMs);
  log.append(1, clicks(100), nowMs);
  await actor.begin(() => archiver.pass());
  // Somewhere in the first step: its plan is there.
  while (!(await planned())) await actor.go();
  let isPaused = false;
  const pause = archiver.pause().then(() => {
    isPaused = true;
  });
  await Bun.sleep(5);
  expect(isPaused).toBe(false);
  await actor.finish();
  await pause;
  expect(entries).toEqual(['a p0 0-99']);
  await expectExact(100);
});

async function planned(): Promise<boolean> {
  for await (const _ of disk.list('plan/')) return true;
  return false;
}

test('one that has lost its partitions in the midst of a step does no harm to who has them', async () => {
  const actor = new Actor(disk);
  const a = await open('a', { store: actor.store });
  const b = await open('b', { rotateRecords: 30 });
  await give(a, [0]);
  log.append(0, clicks(250), nowMs);
  await actor.begin(() => a.pass());
  while (!(await planned())) await actor.go();
  a.lost();
  await give(b, [0]);
  await b.flush();
  await a.assigned([]);
  await actor.finish();
  await expectExact(250);
});

test('an assignment that comes before the last one is through replaces it', async () => {
  const archiver = await open('a');
  log.append(0, clicks(100), nowMs);
  log.append(1, clicks(100), nowMs);
  await Promise.all([archiver.assigned([0]), archiver.assigned([1])]);
  await Bun.sleep(0);
  await archiver.pass();
  expect(entries).toEqual(['a p1 0-99']);
  void archiver.assigned([0]);
  archiver.lost();
  await Bun.sleep(0);
  expect(archiver.status().partitions).toEqual([]);
});

test('a partition that has stopped is tried again by whoever gets it, also by the same one', async () => {
  const archiver = await open('a');
  await give(archiver, [0]);
  log.append(0, clicks(100), nowMs);
  await disk.putIfAbsent('manifest/p00000/00000000000000000050.json', new Uint8Array());
  await archiver.pass();
  expect(errors).toEqual(['0 manifest_broken']);
  await disk.remove('manifest/p00000/00000000000000000050.json');
  const next = await open('b');
  await archiver.pause();
  await give(next, [0]);
  await next.pass();
  expect(entries).toEqual(['b p0 0-99']);
});

test('a manifest that is merely old stops nothing', async () => {
  const a = await open('a');
  log.create(0);
  await give(a, [0]);
  await a.pass();
  log.append(0, clicks(100), nowMs);
  const b = await open('b');
  await give(b, [0]);
  await b.flush();
  log.append(0, clicks(100, 100), nowMs);
  // What `b` has archived is out of the log by now; `a` was stopped and knows nothing of it.
  log.removeBefore(0, 100);
  await a.pass();
  expect(errors).toEqual([]);
  await b.flush();
  await expectExact(200);
});

test('a request to flush is followed once by every partition, before its time', async () => {
  let requestedAtMs: number | null = null;
  const archiver = await open('a', { flushRequestedAtMs: () => requestedAtMs });
  await give(archiver, [0, 1]);
  log.append(0, clicks(5), nowMs);
  log.append(1, clicks(3), nowMs);
  await archiver.pass();
  expect(entries).toEqual([]);
  requestedAtMs = nowMs;
  await archiver.pass();
  expect(entries).toEqual(['a p0 0-4', 'a p1 0-2']);
  log.append(0, clicks(5, 5), nowMs);
  await archiver.pass();
  expect(entries).toHaveLength(2);
  requestedAtMs = nowMs + 1;
  await archiver.pass();
  expect(entries).toEqual(['a p0 0-4', 'a p1 0-2', 'a p0 5-9']);
});

test('who cannot be asked for requests to flush does not keep it from archiving', async () => {
  const away = new LedgerError('control_unavailable', 'away', { kind: 'retry' });
  const archiver = await open('a', { flushRequestedAtMs: () => Promise.reject(away) });
  await give(archiver, [0]);
  log.append(0, clicks(100), nowMs);
  expect(await archiver.pass()).toBe(false);
  expect(entries).toEqual(['a p0 0-99']);
  expect(errors).toEqual(['null control_unavailable']);
});

test('the status tells since when records wait, and what the group waits for', async () => {
  const archiver = await open('a');
  await give(archiver, [0, 1]);
  log.append(0, clicks(130), nowMs);
  log.create(1);
  await archiver.pass();
  const sinceMs = nowMs;
  nowMs += 5_000;
  await archiver.pass();
  expect(archiver.status()).toMatchObject({
    waitsFor: 'its partitions',
    rebalances: 3,
    lastError: null,
    partitions: [
      { partition: 0, archivedNextOffset: 100, logEndOffset: 130, waitingSinceMs: sinceMs },
      { partition: 1, archivedNextOffset: 0, logEndOffset: 0, waitingSinceMs: null },
    ],
  });
});

test('run joins, archives until it is stopped, and gives everything back', async () => {
  const group = new Group();
  const archiver = await open('a', { group, pollMs: 1 });
  log.append(0, clicks(100), nowMs);
  const stop = new AbortController();
  const running = archiver.run(stop.signal);
  await give(archiver, [0]);
  while (entries.length === 0) await Bun.sleep(1);
  stop.abort();
  await running;
  expect(group.calls).toEqual(['join', 'leave']);
  await expectExact(100);
});
