// Proves INV-6, INV-7 of SPEC.md.
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { Archiver, type ArchiverOptions } from '../../src/archive/archiver.ts';
import { checkArchive } from '../../src/archive/audit.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest } from '../../src/archive/manifest.ts';
import type { ManifestEntry, ObjectStore } from '../../src/archive/port.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import {
  click,
  clicks,
  FaultyStore,
  HOUR_MS,
  namesOf,
  readArchive,
  T0,
} from '../support/archive-fixtures.ts';
import { eventBytes, MemoryLog } from '../support/memory-log.ts';
import { tempDir } from '../support/temp-dir.ts';

const ROTATE_MS = 60_000;
const MAX_SKEW_MS = 600_000;

let dir: ReturnType<typeof tempDir>;
let store: FaultyStore;
let log: MemoryLog;
let nowMs: number;
let entries: ManifestEntry[];
let errors: string[];

beforeEach(async () => {
  dir = tempDir('archiver');
  store = new FaultyStore(await openFolderStore({ dir: dir.path }));
  log = new MemoryLog();
  nowMs = T0 + 2_000;
  entries = [];
  errors = [];
});
afterEach(() => dir.remove());

async function open(over: Partial<ArchiverOptions> = {}): Promise<Archiver> {
  return new Archiver({
    reader: log,
    store,
    manifest: await loadManifest(store),
    clock: () => nowMs,
    rotateMs: ROTATE_MS,
    rotateRecords: 100,
    maxSkewMs: MAX_SKEW_MS,
    onEntry: (entry) => entries.push(entry),
    onError: (error, partition) => errors.push(`${partition} ${error.code}`),
    ...over,
  });
}

const ranges = () => entries.map((e) => `p${e.partition} ${e.firstOffset}-${e.lastOffset}`);

async function expectSound(inner: ObjectStore = store): Promise<void> {
  expect(await checkArchive(inner, await loadManifest(inner))).toEqual([]);
  expect(await namesOf(inner, 'plan/')).toEqual([]);
}

describe('when a range is written', () => {
  test('few clicks and then silence are archived within the rotation time', async () => {
    const archiver = await open();
    log.append(0, clicks(5), nowMs);
    expect(await archiver.pass()).toBe(true);
    expect(ranges()).toEqual([]);
    nowMs += ROTATE_MS - 1;
    await archiver.pass();
    expect(ranges()).toEqual([]);
    nowMs += 1;
    await archiver.pass();
    expect(ranges()).toEqual(['p0 0-4']);
    nowMs += 3 * HOUR_MS;
    await archiver.pass();
    expect(ranges()).toEqual(['p0 0-4']);
  });

  test('full ranges are written at once, the rest waits for its own rotation time', async () => {
    const archiver = await open();
    log.append(0, clicks(250), nowMs);
    await archiver.pass();
    expect(ranges()).toEqual(['p0 0-99', 'p0 100-199']);
    nowMs += ROTATE_MS;
    await archiver.pass();
    expect(ranges()).toEqual(['p0 0-99', 'p0 100-199', 'p0 200-249']);
    log.append(0, clicks(1, 250), nowMs);
    await archiver.pass();
    expect(entries).toHaveLength(3);
  });

  test('a clock that was set back does not put the rotation off', async () => {
    const archiver = await open();
    log.append(0, clicks(5), nowMs);
    await archiver.pass();
    nowMs -= 5 * HOUR_MS;
    await archiver.pass();
    nowMs += ROTATE_MS;
    await archiver.pass();
    expect(ranges()).toEqual(['p0 0-4']);
  });

  test('flush archives what was durable when it was called, on every partition', async () => {
    const archiver = await open();
    log.create(2);
    log.append(0, clicks(230), nowMs);
    log.append(1, clicks(3, 500), nowMs);
    const flushed = archiver.flush();
    await flushed;
    expect(ranges()).toEqual(['p0 0-99', 'p0 100-199', 'p0 200-229', 'p1 0-2']);
    await archiver.flush();
    expect(entries).toHaveLength(4);
    expect((await readArchive(store)).size).toBe(233);
    await expectSound();
  });

  test('a flush while the loop is running never overlaps with it', async () => {
    const archiver = await open({ pollMs: 1, rotateMs: 1, clock: () => nowMs++ });
    const stop = new AbortController();
    const running = archiver.run(stop.signal);
    for (let i = 0; i < 10; i++) {
      log.append(i % 2, clicks(30, i * 100), nowMs);
      await archiver.flush();
    }
    stop.abort();
    await running;
    expect((await readArchive(store)).size).toBe(300);
    await expectSound();
  });
});

describe('what a range holds', () => {
  test('clicks go to the object of their event hour, whatever the order they came in', async () => {
    const archiver = await open();
    const atMs = (ms: number) => click(`imp-${ms}`, { clickedAtMs: ms });
    const events = [T0, T0 - 1, T0 + HOUR_MS - 1, T0 - 24 * HOUR_MS, T0 + 5].map(atMs);
    log.append(0, events, T0 + HOUR_MS);
    await archiver.flush();
    expect(entries[0]?.objects.map(({ hourMs, rows }) => [hourMs, rows])).toEqual([
      [T0 - 24 * HOUR_MS, 1],
      [T0 - HOUR_MS, 1],
      [T0, 3],
    ]);
    const records = await readArchive(store);
    expect([...records.values()].sort()).toEqual(events.map((e) => e.impressionId).sort());
  });

  test('records that cannot be counted go to dead letters with their reason, none is lost', async () => {
    const archiver = await open();
    const unsupported = eventBytes(click('v2'));
    unsupported[0] = 2;
    const good = eventBytes(click('good'));
    log.appendBytes(
      0,
      [
        Buffer.from('what is this'),
        good,
        unsupported,
        eventBytes(click('seconds', { clickedAtMs: Math.floor(T0 / 1000) })),
        eventBytes(click('future', { clickedAtMs: nowMs + MAX_SKEW_MS + 1 })),
        eventBytes(click('skewed', { clickedAtMs: nowMs + MAX_SKEW_MS })),
        good.subarray(0, good.length - 1),
        Buffer.alloc(0),
      ],
      nowMs,
    );
    await archiver.flush();
    expect(Object.fromEntries(await readArchive(store))).toEqual({
      '0:0': 'dead undecodable',
      '0:1': 'good',
      '0:2': 'dead unsupported_version',
      '0:3': 'dead clicked_at_out_of_range',
      '0:4': 'dead clicked_at_ahead_of_log',
      '0:5': 'skewed',
      '0:6': 'dead undecodable',
      '0:7': 'dead undecodable',
    });
    expect(entries[0]?.objects.map(({ hourMs, rows }) => [hourMs, rows])).toEqual([
      [null, 6],
      [T0, 2],
    ]);
  });

  test('batches that reach over the end of a range are cut at the offset', async () => {
    const archiver = await open({ rotateRecords: 7 });
    for (let i = 0; i < 5; i++) log.append(0, clicks(5, 5 * i), nowMs + i);
    await archiver.flush();
    expect(ranges()).toEqual(['p0 0-6', 'p0 7-13', 'p0 14-20', 'p0 21-24']);
    expect(entries.map((e) => e.lastAppendedAtMs - nowMs)).toEqual([1, 2, 4, 4]);
    const records = await readArchive(store);
    for (let i = 0; i < 25; i++) expect(records.get(`0:${i}`)).toBe(`imp-${i}`);
  });
});

describe('what stops it', () => {
  test('records that the log no longer has stop their partition, loudly; the others go on', async () => {
    const archiver = await open();
    log.append(0, clicks(10), nowMs);
    log.append(0, clicks(10, 10), nowMs);
    log.append(1, clicks(10, 50), nowMs);
    log.removeBefore(0, 10);
    nowMs += ROTATE_MS;
    await archiver.pass();
    nowMs += ROTATE_MS;
    await archiver.pass();
    await archiver.pass();
    expect(ranges()).toEqual(['p1 0-9']);
    expect(errors).toEqual(['0 offset_out_of_retention']);
    expect(archiver.status().lastError?.message).toContain('offsets 0 to 9');
    await expect(archiver.flush()).rejects.toMatchObject({ code: 'offset_out_of_retention' });
    expect(await archiver.coveredUntilMs()).toBe(0);
  });

  test('a log that is shorter than the archive stops it and proves no coverage', async () => {
    log.append(0, clicks(10), nowMs);
    await (await open()).flush();
    log = new MemoryLog();
    log.append(0, clicks(4, 900), nowMs);
    const archiver = await open();
    await archiver.pass();
    expect(errors).toEqual(['0 log_behind_archive']);
    await expect(archiver.coveredUntilMs()).rejects.toMatchObject({ code: 'log_behind_archive' });
  });

  test('a hole in the manifest stops it: the later offsets are not archived a second time', async () => {
    log.append(0, clicks(30), nowMs);
    await (await open({ rotateRecords: 10 })).flush();
    const [first, second] = await namesOf(store, 'manifest/');
    await store.remove(second!);
    log.append(0, clicks(30, 30), nowMs);
    const archiver = await open();
    await archiver.pass();
    expect(errors).toEqual(['0 manifest_broken']);
    expect(archiver.status().lastError?.message).toContain('hole at offsets 10 to 19');
    await expect(archiver.flush()).rejects.toMatchObject({ code: 'manifest_broken' });
    expect(first).toEndWith('/00000000000000000000.json');
    expect(await archiver.coveredUntilMs()).toBe(T0 + 2_000);
  });

  test('a full disk is waited for, and the status says so until it has passed', async () => {
    const archiver = await open({ pollMs: 1 });
    log.append(0, clicks(150), nowMs);
    const error = new LedgerError('archive_unavailable', 'no space', { kind: 'retry' });
    for (let failures = 0; failures < 12; failures++) {
      const when = failures % 2 === 0 ? 'before' : 'after';
      store.failAt = { effect: store.effects + (failures % 3), when, error };
      const clean = await archiver.pass();
      expect(archiver.status().lastError).toBe(clean ? null : error);
    }
    store.failAt = null;
    expect(await archiver.pass()).toBe(true);
    expect(archiver.status().lastError).toBeNull();
    await archiver.flush();
    expect(await namesOf(store, 'manifest/')).toEqual([
      'manifest/p00000/00000000000000000000.json',
      'manifest/p00000/00000000000000000100.json',
    ]);
    expect((await readArchive(store)).size).toBe(150);
    await expectSound();
  });

  test('an error that nobody expects ends the loop instead of being swallowed', async () => {
    const archiver = await open({ pollMs: 1 });
    log.append(0, clicks(100), nowMs);
    store.failAt = { effect: store.effects, when: 'before', error: new Error('a bug') };
    await expect(archiver.run(new AbortController().signal)).rejects.toThrow('a bug');
  });
});

describe('coverage', () => {
  test('it is now when everything is archived, else the append time of the last archived record', async () => {
    const archiver = await open();
    expect(await archiver.coveredUntilMs()).toBe(nowMs);
    log.create(0);
    expect(await archiver.coveredUntilMs()).toBe(nowMs);
    log.append(0, clicks(3), T0 + 10);
    expect(await archiver.coveredUntilMs()).toBe(0);
    await archiver.flush();
    expect(await archiver.coveredUntilMs()).toBe(nowMs);
    log.append(0, clicks(3, 3), T0 + 20);
    expect(await archiver.coveredUntilMs()).toBe(T0 + 10);
    log.append(1, clicks(1, 9), T0 + 20);
    expect(await archiver.coveredUntilMs()).toBe(0);
    await archiver.flush();
    nowMs += 5;
    expect(await archiver.coveredUntilMs()).toBe(nowMs);
  });

  test('an append time ahead of the clock does not prove more than now', async () => {
    const archiver = await open();
    log.append(0, clicks(3), nowMs + 5 * HOUR_MS);
    await archiver.flush();
    log.append(0, clicks(3, 3), nowMs);
    expect(await archiver.coveredUntilMs()).toBe(nowMs);
  });

  test('a record that is appended while the proof is made does not slip under it', async () => {
    const archiver = await open();
    log.append(0, clicks(3), nowMs);
    await archiver.flush();
    const range = log.range.bind(log);
    log.range = async (partition) => {
      log.append(partition, clicks(1, 3), nowMs + 1);
      nowMs += 10;
      return range(partition);
    };
    expect(await archiver.coveredUntilMs()).toBeLessThanOrEqual(T0 + 2_000);
  });

  test('the status tells how far each partition is', async () => {
    const archiver = await open();
    log.append(0, clicks(120), nowMs);
    log.create(1);
    await archiver.pass();
    expect(archiver.status()).toMatchObject({
      partitions: [
        { partition: 0, archivedNextOffset: 100, logEndOffset: 120, lastAppendedAtMs: nowMs },
        { partition: 1, archivedNextOffset: 0, logEndOffset: 0, stopped: null },
      ],
      lastError: null,
    });
  });
});
