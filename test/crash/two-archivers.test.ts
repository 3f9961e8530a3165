// Proves INV-6 of SPEC.md.
/**
 * Two archivers work on one partition, each with a manifest of its own: one was stopped while the
 * other took its partitions over, and goes on later, not knowing. Each stops at every call of the store,
 * before and after it. Afterwards every record must be archived exactly once, without a hole, an overlap
 * or an object that nothing names. A commit whose name depends on its end, an undo that asks first and
 * removes later, or a look at the store in another order would each fail here.
 */
import { afterEach, expect, test } from 'bun:test';
import fc from 'fast-check';
import { Archiver } from '../../src/archive/archiver.ts';
import { checkArchive } from '../../src/archive/audit.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest } from '../../src/archive/manifest.ts';
import { rangeOfName } from '../../src/archive/names.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import { click, HOUR_MS, namesOf, readArchive, T0 } from '../support/archive-fixtures.ts';
import { eventBytes, MemoryLog } from '../support/memory-log.ts';
import { fcParams } from '../support/seed.ts';
import { Actor } from '../support/stalled-store.ts';
import { tempDir } from '../support/temp-dir.ts';

const APPENDED_AT_MS = T0 + 3 * HOUR_MS;
const MAX_SKEW_MS = 600_000;
/** Under it clicks of the last hour are dead letters: the same range gives other objects. */
const OTHER_SKEW_MS = -2 * HOUR_MS;

let worlds: World[] = [];
afterEach(() => {
  for (const world of worlds) world.dir.remove();
  worlds = [];
});

interface Settings {
  readonly rotateRecords: number;
  readonly maxSkewMs: number;
}

class World {
  readonly dir = tempDir('two-archivers');
  readonly log = new MemoryLog();
  readonly ids: string[] = [];
  disk!: ObjectStore;

  static async make(records: number): Promise<World> {
    const world = new World();
    worlds.push(world);
    world.disk = await openFolderStore({ dir: world.dir.path });
    world.grow(records);
    return world;
  }

  /** Appends clicks of three hours, every fifth record a dead letter. */
  grow(count: number): void {
    const records: Buffer[] = [];
    for (let i = 0; i < count; i++) {
      const offset = this.ids.length;
      const impressionId = `imp-${offset}`;
      const clickedAtMs = T0 + (offset % 3) * HOUR_MS;
      this.ids.push(impressionId);
      const isDead = offset % 5 === 4;
      records.push(isDead ? Buffer.from('junk') : eventBytes(click(impressionId, { clickedAtMs })));
    }
    this.log.appendBytes(0, records, APPENDED_AT_MS);
  }

  async archiver(store: ObjectStore, settings: Settings): Promise<Archiver> {
    const manifest = await loadManifest(this.disk);
    const clock = () => APPENDED_AT_MS;
    return new Archiver({ reader: this.log, store, manifest, clock, rotateMs: 0, ...settings });
  }

  /** Every record once; with `orphans`, objects may lie around behind the archive's end. */
  async expectExact({ orphans = false } = {}): Promise<void> {
    const manifest = await loadManifest(this.disk);
    expect(manifest.problems).toEqual([]);
    expect(manifest.archivedUpTo(0).nextOffset).toBe(this.ids.length);
    const problems = await checkArchive(this.disk, manifest);
    const end = manifest.archivedUpTo(0).nextOffset;
    for (const { kind, name } of problems) {
      expect({ kind, orphans }).toEqual({ kind: 'orphan', orphans: true });
      expect(rangeOfName(name)!.firstOffset).toBeLessThan(end);
    }
    expect(await namesOf(this.disk, 'plan/')).toEqual([]);
    const archived = await readArchive(this.disk);
    expect(archived.size).toBe(this.ids.length);
    for (const [offset, id] of this.ids.entries()) {
      const found = archived.get(`0:${offset}`)!;
      if (!found.startsWith('dead')) expect(found).toBe(id);
    }
  }
}

const CASES: readonly [string, Settings, Settings][] = [
  [
    'the same settings',
    { rotateRecords: 100, maxSkewMs: MAX_SKEW_MS },
    { rotateRecords: 100, maxSkewMs: MAX_SKEW_MS },
  ],
  [
    'shorter ranges',
    { rotateRecords: 100, maxSkewMs: MAX_SKEW_MS },
    { rotateRecords: 6, maxSkewMs: MAX_SKEW_MS },
  ],
  [
    'other objects of one range',
    { rotateRecords: 100, maxSkewMs: MAX_SKEW_MS },
    { rotateRecords: 100, maxSkewMs: OTHER_SKEW_MS },
  ],
];

for (const [what, ofFirst, ofSecond] of CASES) {
  for (const more of [0, 7]) {
    test(`one that stops anywhere while another goes on (${what}, ${more} more records) does no harm`, async () => {
      for (let stopAt = 1; ; stopAt++) {
        const world = await World.make(10);
        const actor = new Actor(world.disk);
        const stopped = await world.archiver(actor.store, ofFirst);
        await actor.begin(() => stopped.flush());
        while (actor.isAtWork && actor.gates < stopAt) await actor.go();
        const isOver = !actor.isAtWork;
        world.grow(more);
        const other = await world.archiver(world.disk, ofSecond);
        await other.flush();
        // What the manifest covers is sound at every moment, also for whoever audits meanwhile.
        expect(await checkArchive(world.disk, await loadManifest(world.disk))).toEqual([]);
        await actor.finish();
        await other.release();
        await other.flush();
        await actor.begin(() => stopped.flush());
        await actor.finish();
        await world.expectExact();
        world.dir.remove();
        if (isOver) break;
      }
    });
  }
}

test('one that dies anywhere after another has gone on leaves at most objects that cost space', async () => {
  for (let stopAt = 1; ; stopAt++) {
    const world = await World.make(10);
    const actor = new Actor(world.disk);
    const stopped = await world.archiver(actor.store, CASES[1]![1]);
    await actor.begin(() => stopped.flush());
    for (let i = 1; i < stopAt && actor.isAtWork; i++) {
      // The other comes in the middle: the first one has planned, and has put some objects.
      if (i === 9) await (await world.archiver(world.disk, CASES[1]![2])).flush();
      await actor.go();
    }
    const isOver = !actor.isAtWork;
    if (actor.isAtWork) await actor.die();
    await (await world.archiver(world.disk, CASES[1]![2])).flush();
    await world.expectExact({ orphans: true });
    world.dir.remove();
    if (isOver) break;
  }
});

const move = fc.record({
  who: fc.nat({ max: 2 }),
  grow: fc.oneof({ weight: 9, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 8 })),
  dies: fc.oneof({ weight: 19, arbitrary: fc.constant(false) }, fc.constant(true)),
});
const settings = fc.record({
  rotateRecords: fc.integer({ min: 1, max: 9 }),
  maxSkewMs: fc.constantFrom(MAX_SKEW_MS, MAX_SKEW_MS, OTHER_SKEW_MS),
});
const schedule = fc.array(move, { minLength: 40, maxLength: 250 });

async function runSchedule(
  moves: readonly { who: number; grow: number; dies: boolean }[],
  each: readonly Settings[],
  mayDie: boolean,
): Promise<void> {
  const world = await World.make(9);
  const actors = each.map(() => new Actor(world.disk));
  const start = (i: number) => world.archiver(actors[i]!.store, each[i]!);
  const archivers = await Promise.all(each.map((_, i) => start(i)));
  for (const { who, grow, dies } of moves) {
    world.grow(grow);
    const actor = actors[who]!;
    if (!actor.isAtWork) await actor.begin(() => archivers[who]!.flush());
    else if (dies && mayDie) {
      await actor.die();
      archivers[who] = await start(who);
    } else await actor.go();
  }
  while (actors.some((actor) => actor.isAtWork)) {
    for (const actor of actors) if (actor.isAtWork) await actor.go();
  }
  for (const [i, archiver] of archivers.entries()) {
    await archiver.release();
    await actors[i]!.begin(() => archiver.flush());
    await actors[i]!.finish();
  }
  await world.expectExact({ orphans: mayDie });
  world.dir.remove();
}

test('three archivers in any order archive every record once and leave nothing behind', async () => {
  await fc.assert(
    fc.asyncProperty(schedule, fc.tuple(settings, settings, settings), (moves, each) =>
      runSchedule(moves, each, false),
    ),
    fcParams(30),
  );
});

test('three archivers in any order, of which some die, archive every record once', async () => {
  await fc.assert(
    fc.asyncProperty(schedule, fc.tuple(settings, settings, settings), (moves, each) =>
      runSchedule(moves, each, true),
    ),
    fcParams(30),
  );
});
