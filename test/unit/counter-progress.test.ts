/** How far counters are, as a process sees it that reads their notes only. */
import { afterEach, expect, test } from 'bun:test';
import { CounterProgress } from '../../src/counter/progress.ts';
import { CounterWorld, Machine, MINUTE_MS } from '../support/counter-world.ts';
import { until } from '../support/log-tools.ts';

const worlds: CounterWorld[] = [];

afterEach(async () => {
  for (const world of worlds.splice(0)) await world.dispose();
});

function newWorld(): { world: CounterWorld; progress: CounterProgress } {
  const world = new CounterWorld([10_000, 10_001, 10_002]);
  worlds.push(world);
  const { log, clock } = world;
  const progress = new CounterProgress({ group: world.group.member('api'), reader: log, clock });
  return { world, progress };
}

test('records that nobody has counted hold back the whole, empty partitions do not', async () => {
  const { world, progress } = newWorld();
  await progress.poll();
  expect(progress.asOfMs).toBe(world.nowMs);
  world.appendClicks(10_001, 3);
  world.nowMs += MINUTE_MS;
  await progress.poll();
  expect(progress.asOfMs).toBe(0);
  expect(progress.isOfRebuild(0)).toBe(false);
  world.start(new Machine('a'));
  await world.group.shareOut();
  world.appendClicks(10_000, 2);
  await world.caughtUp();
  await progress.poll();
  expect(progress.asOfMs).toBe(world.nowMs);
  expect(progress.isOfRebuild(0)).toBe(true);
  expect(progress.outcomes()).toMatchObject({ counted: 5, duplicate: 0 });
  expect(progress.partitions()[1]).toMatchObject({ nextOffset: 3, endOffset: 3, holder: 'a' });
});

test('with no counter at all, it is as of now until the next record comes', async () => {
  const { world, progress } = newWorld();
  const machine = new Machine('a');
  const process = world.start(machine);
  await world.group.shareOut();
  world.appendClicks(10_000, 2);
  await world.caughtUp();
  await until(() => world.note(10_000).asOfMs === world.nowMs, 'as of then');
  const stoppedMs = world.nowMs;
  world.kill(process, machine);
  world.nowMs += MINUTE_MS;
  await progress.poll();
  expect(progress.asOfMs).toBe(world.nowMs);
  world.appendClicks(10_000, 1);
  await progress.poll();
  expect(progress.asOfMs).toBe(stoppedMs);
  expect(progress.watermarkMs()).toBe(world.note(10_000).watermarkMs);
});

test('what stops a partition is told, and it holds back the whole', async () => {
  const { world, progress } = newWorld();
  world.appendClicks(10_000, 2);
  world.group.committed.set(10_000, { offset: 2, note: 'of another product' });
  await progress.poll();
  expect(progress.asOfMs).toBe(0);
  expect(progress.problems()).toMatchObject([
    { partition: 10_000, problem: { code: 'note_unreadable' } },
  ]);
});
