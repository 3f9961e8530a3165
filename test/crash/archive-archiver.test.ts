// Proves INV-6 of SPEC.md.
/**
 * The archiver's process dies right before or right after each of its effects, and again while it
 * recovers; meanwhile the log grows. Afterwards every record must be archived exactly once, with no
 * object that nothing names. A wrong order of effects, a range that is chosen anew after a crash, or
 * bytes that depend on anything but the range would each fail here.
 */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import fc from 'fast-check';
import { Archiver } from '../../src/archive/archiver.ts';
import { checkArchive } from '../../src/archive/audit.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest } from '../../src/archive/manifest.ts';
import { objectName, planName } from '../../src/archive/names.ts';
import { encodePlan, planOf } from '../../src/archive/plan.ts';
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

const MAX_SKEW_MS = 600_000;
const APPENDED_AT_MS = T0 + 3 * HOUR_MS;

let dir: ReturnType<typeof tempDir>;
let disk: ObjectStore;
let log: MemoryLog;
let written: Map<string, string>;

async function reset(): Promise<void> {
  dir?.remove();
  dir = tempDir('archiver-crash');
  disk = await openFolderStore({ dir: dir.path });
  log = new MemoryLog();
  written = new Map();
}
beforeEach(reset);
afterEach(() => dir.remove());

/** Appends clicks of three hours, every fifth record a dead letter. */
function grow(partition: number, count: number): void {
  const start = [...written.keys()].filter((key) => key.startsWith(`${partition}:`)).length;
  const records: Buffer[] = [];
  for (let offset = start; offset < start + count; offset++) {
    const isDead = offset % 5 === 4;
    const impressionId = `imp-${partition}-${offset}`;
    const clickedAtMs = T0 + (offset % 3) * HOUR_MS;
    records.push(isDead ? Buffer.from('junk') : eventBytes(click(impressionId, { clickedAtMs })));
    written.set(`${partition}:${offset}`, isDead ? 'dead undecodable' : impressionId);
  }
  log.appendBytes(partition, records, APPENDED_AT_MS);
}

async function start(store: ObjectStore, rotateRecords: number, maxSkewMs = MAX_SKEW_MS) {
  const manifest = await loadManifest(store);
  const clock = () => APPENDED_AT_MS;
  const options = { reader: log, store, manifest, clock, rotateMs: 0, rotateRecords, maxSkewMs };
  return new Archiver(options);
}

async function expectExact(): Promise<void> {
  const manifest = await loadManifest(disk);
  expect(manifest.problems).toEqual([]);
  expect(await checkArchive(disk, manifest)).toEqual([]);
  expect(await namesOf(disk, 'plan/')).toEqual([]);
  const byKey = (a: [string, string], b: [string, string]) => (a[0] < b[0] ? -1 : 1);
  expect([...(await readArchive(disk))].sort(byKey)).toEqual([...written].sort(byKey));
}

/** Runs one life of the archiver; true when it died at the given effect. */
async function live(effect: number, when: 'before' | 'after', rotateRecords: number) {
  const store = new FaultyStore(disk);
  const archiver = await start(store, rotateRecords);
  store.failAt = { effect, when, error: new Crash('the process died') };
  try {
    await archiver.flush();
    return false;
  } catch (error) {
    if (!(error instanceof Crash)) throw error;
    return true;
  }
}

test('after a death at any effect, with more in the log, the archive becomes exact', async () => {
  for (const when of ['before', 'after'] as const) {
    for (let effect = 0; ; effect++) {
      await reset();
      grow(0, 10);
      const died = await live(effect, when, 100);
      if (!died) {
        // E1, four objects (three hours, dead letters), E3, E4.
        expect(effect).toBe(7);
        break;
      }
      // No reader trusts a half-written step: what the manifest covers is sound at every moment.
      expect(await checkArchive(disk, await loadManifest(disk))).toEqual([]);
      grow(0, 7);
      await (await start(disk, 100)).flush();
      await expectExact();
    }
  }
});

test('a death while recovering from a death changes nothing either', async () => {
  for (let first = 0; first < 7; first++) {
    for (let second = 0; second < 8; second++) {
      await reset();
      grow(0, 10);
      await live(first, 'after', 100);
      grow(0, 3);
      await live(second, second % 2 === 0 ? 'after' : 'before', 100);
      grow(0, 2);
      await (await start(disk, 100)).flush();
      await expectExact();
    }
  }
});

test('random deaths on several partitions with small ranges leave an exact archive', async () => {
  const life = fc.record({
    partition: fc.nat({ max: 2 }),
    count: fc.integer({ min: 0, max: 12 }),
    effect: fc.nat({ max: 25 }),
    when: fc.constantFrom('before' as const, 'after' as const),
    rotateRecords: fc.integer({ min: 1, max: 9 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(life, { minLength: 1, maxLength: 8 }), async (lives) => {
      await reset();
      for (const { partition, count, effect, when, rotateRecords } of lives) {
        if (count > 0) grow(partition, count);
        await live(effect, when, rotateRecords);
      }
      await (await start(disk, 5)).flush();
      await expectExact();
    }),
    fcParams(25),
  );
});

test('a planned range is kept after a crash, also when a restart would choose a longer one', async () => {
  grow(0, 10);
  await live(2, 'after', 100);
  const before = await namesOf(disk, 'dt=');
  grow(0, 50);
  await (await start(disk, 100)).flush();
  expect(await namesOf(disk, 'dt=')).toEqual(expect.arrayContaining(before));
  expect(await namesOf(disk, 'manifest/')).toEqual([
    'manifest/p00000/00000000000000000000.json',
    'manifest/p00000/00000000000000000010.json',
  ]);
  await expectExact();
});

test('a step that was planned under other rules is undone: no object of it stays behind', async () => {
  // Under a negative skew every click of the last hour is a dead letter, so other objects come out.
  grow(0, 10);
  const store = new FaultyStore(disk);
  const earlier = await start(store, 100, -2 * HOUR_MS);
  store.failAt = { effect: 3, when: 'after', error: new Crash('the process died') };
  await expect(earlier.flush()).rejects.toThrow(Crash);
  expect(await namesOf(disk, 'plan/')).toHaveLength(1);
  await (await start(disk, 100)).flush();
  await expectExact();
});

test('a leftover object with other bytes is replaced, unless a manifest entry names it', async () => {
  grow(0, 10);
  const range = { partition: 0, firstOffset: 0, lastOffset: 9 };
  const other = objectName(T0, range);
  await disk.putIfAbsent(planName(range), encodePlan(planOf(range, [other])));
  await disk.putIfAbsent(other, new Uint8Array(Buffer.from('of an earlier version')));
  await (await start(disk, 100)).flush();
  await expectExact();
});

test('a second archiver that does not know of an entry takes it over and removes nothing of it', async () => {
  grow(0, 10);
  const second = await start(disk, 100, -2 * HOUR_MS);
  await (await start(disk, 100)).flush();
  await second.flush();
  await expectExact();
});
