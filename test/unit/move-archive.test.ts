// Proves INV-6 of SPEC.md.
/** Bringing an archive in, beside reconcilers that go on: no hour turns final on a part of it. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { Archiver } from '../../src/archive/archiver.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest } from '../../src/archive/manifest.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import { dataPaths } from '../../src/config/paths.ts';
import { configSchema } from '../../src/config/schema.ts';
import { openLocalLeases } from '../../src/control/local/leases.ts';
import type { Leases } from '../../src/control/port.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { LEASE_NAME } from '../../src/reconcile/turns.ts';
import { requireKnownLog } from '../../src/roles/known-log.ts';
import { moveArchive } from '../../src/roles/move-archive.ts';
import { SharedFacts } from '../../src/roles/shared-facts.ts';
import { click, namesOf, T0 } from '../support/archive-fixtures.ts';
import { eventBytes, MemoryLog } from '../support/memory-log.ts';
import { MemoryState } from '../support/memory-state.ts';
import { tempDir } from '../support/temp-dir.ts';

const logger = createLogger('silent' as 'error', 'test');

let dir: ReturnType<typeof tempDir>;
let old: string;
let state: MemoryState;
let leases: Leases;
let target: ObjectStore;
beforeEach(async () => {
  dir = tempDir('move');
  old = join(dir.path, 'old');
  state = new MemoryState();
  leases = openLocalLeases({ holder: 'test', clock: Date.now });
  target = await openFolderStore({ dir: dataPaths(join(dir.path, 'new')).archive });
});
afterEach(() => dir.remove());

/** An archive of partitions 0 and 1, with one entry each. */
async function fillOld(): Promise<void> {
  const log = new MemoryLog();
  for (const partition of [0, 1]) {
    const events = [1, 2, 3].map((i) => eventBytes(click(`imp-${partition}-${i}`)));
    log.appendBytes(partition, events, T0);
  }
  const store = await openFolderStore({ dir: old });
  const manifest = await loadManifest(store);
  const times = { clock: () => T0, rotateMs: 1_000, rotateRecords: 100, maxSkewMs: 1_000 };
  await new Archiver({ reader: log, store, manifest, ...times }).flush();
}

function move(progress: () => void = () => {}) {
  const config = configSchema.parse({ dataDir: join(dir.path, 'new') });
  return moveArchive(old, { config, state, leases, clock: () => T0, logger, progress });
}

const facts = () => new SharedFacts(state);

describe('an archive that is brought in', () => {
  test('is all there, and known to all, when hours may turn final again', async () => {
    await fillOld();
    const noted: unknown[] = [];
    const watching = async () => noted.push((await facts().move())?.from);
    const { objects, copied } = await move(() => void watching());
    expect(copied).toBe(objects);
    expect(noted[0]).toBe(old);
    expect(await facts().move()).toBeNull();
    expect(await facts().movedPartitions()).toEqual([0, 1]);
    expect((await move()).copied).toBe(0);
  });

  test('waits for the turn that has begun before it, and puts nothing until it is over', async () => {
    await fillOld();
    const turn = await leases.tryTake(LEASE_NAME, 'an hour');
    const moving = move();
    while ((await facts().move()) === null) await Bun.sleep(5);
    await Bun.sleep(300);
    expect(await namesOf(target)).toEqual([]);
    await turn!.release();
    await moving;
    expect((await namesOf(target)).length).toBeGreaterThan(0);
  });

  test('leaves no note when it is refused before anything was changed', async () => {
    await openFolderStore({ dir: old });
    await expect(move()).rejects.toMatchObject({ code: 'archive_empty' });
    expect(await facts().move()).toBeNull();
    await fillOld();
    const [entry] = await namesOf(await openFolderStore({ dir: old }), 'manifest/');
    await target.putIfAbsent(entry!, new Uint8Array([1]));
    await expect(move()).rejects.toMatchObject({ code: 'archive_not_empty' });
    expect(await facts().move()).toBeNull();
  });

  test('is brought in by one command at a time', async () => {
    await fillOld();
    const other = await leases.tryTake('move', 'another command');
    await expect(move()).rejects.toMatchObject({ code: 'archive_moving', kind: 'retry' });
    await other!.release();
    await move();
  });
});

test('a topic that was made anew under the numbers of the old one is refused, others are not', async () => {
  const config = (firstPartition: number) => ({
    log: {
      ...configSchema.parse({}).log,
      kafka: { ...configSchema.parse({}).log.kafka, firstPartition },
    },
  });
  const known = (logId: string, firstPartition = 10_000) =>
    requireKnownLog(config(firstPartition), {
      ...{ facts: facts(), reader: { logId: async () => logId } },
    });
  await known('one');
  await known('one');
  await expect(known('two')).rejects.toMatchObject({ code: 'log_replaced', kind: 'retry' });
  await known('two', 11_000);
  await known('one');
});
