// Proves INV-1, INV-2, INV-3, INV-4 of SPEC.md.
/**
 * The product as processes, killed with SIGKILL at random moments: clicks that were acknowledged are
 * billed exactly once, whatever died, and everything derived comes out the same.
 *
 * `CRASH_ROUNDS` sets the rounds, `CRASH_SEED` the first round's seed; each round prints its own.
 */
import { afterEach, expect, test } from 'bun:test';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { dataPaths } from '../../src/config/paths.ts';
import { DEMO_ADS } from '../../src/demo/ads.ts';
import { Random } from '../../src/demo/random.ts';
import { systemClock } from '../../src/platform/clock.ts';
import {
  type AnswerRow,
  allMinuteRows,
  completeAnswers,
  HOUR_MS,
  offsetPast,
  startOfHour,
} from '../support/answers.ts';
import { EXACT, type Judgement, judgeLoads } from '../support/judgement.ts';
import { Load } from '../support/load.ts';
import {
  cleanUp,
  environment,
  eventually,
  isAlive,
  Product,
  startCommand,
} from '../support/product.ts';
import { awaitCounted, setUpWorld, type World } from './world.ts';

const ROUNDS = Number(process.env.CRASH_ROUNDS ?? '4');
const SEED = Number(process.env.CRASH_SEED ?? String(systemClock() % 1_000_000));
const ROUND_MS = 180_000;
const SETTINGS = {
  CLICKLEDGER_CLICK_TRUSTED_PROXIES: '1',
  CLICKLEDGER_ARCHIVE_ROTATE_MS: '400',
  CLICKLEDGER_COUNTER_UPSERT_INTERVAL_MS: '100',
  CLICKLEDGER_LOG_SEGMENT_BYTES: '65536',
  CLICKLEDGER_LOG_LEVEL: 'error',
};

afterEach(cleanUp);

async function newWorld(workers = 2): Promise<World> {
  return setUpWorld(await Product.create({ workers, env: SETTINGS }));
}

function isWhole(product: Product, workers: number): boolean {
  return product.children('click').length === workers && product.children('ledger').length === 1;
}

/** Lets load run for a while with crashes in it; everything under way is answered at the end. */
async function loadWithCrashes(world: World, random: Random, crashes: number): Promise<Load> {
  const { product } = world;
  const load = new Load(world, random.uint32());
  for (let crash = 0; crash < crashes; crash++) {
    await Bun.sleep(200 + random.below(1_000));
    switch (random.below(4)) {
      case 0:
        product.crash('click', random.below(2));
        break;
      case 1:
        product.crash('ledger');
        break;
      case 2:
        product.crash('ledger');
        product.crash('click', random.below(2));
        break;
      case 3:
        product.crash('click', 0);
        product.crash('click', 1);
        break;
    }
  }
  await eventually('every child runs again', () => isWhole(product, 2));
  await product.ready();
  await Bun.sleep(300);
  await load.stop();
  expect(load.unexpected).toEqual([]);
  expect(load.acknowledged.size).toBeGreaterThan(100);
  return load;
}

async function judgeAll(
  world: World,
  load: Load,
  numbers: { live: readonly AnswerRow[]; final: readonly AnswerRow[] },
): Promise<Judgement> {
  const store = await openFolderStore({ dir: dataPaths(world.product.dataDir).archive });
  return judgeLoads(store, [load], numbers);
}

/** Starts the stopped product after the end of the current hour, with everything counted. */
async function startAfterTheHour(world: World): Promise<number> {
  const hourEndMs = startOfHour(systemClock()) + HOUR_MS;
  await world.product.start('--clock-offset', String(Math.round(offsetPast(hourEndMs))));
  const { records, outcomes } = await awaitCounted(world.product);
  expect(outcomes).toBe(records);
  return hourEndMs;
}

/** Live equals final, and both hold every acknowledged click once. */
async function expectExact(world: World, load: Load, untilMs: number): Promise<void> {
  const live = await allMinuteRows(world, untilMs);
  await world.product.do('reconcile', '--until', new Date(untilMs).toISOString());
  const final = await allMinuteRows(world, untilMs);
  expect(live).toEqual(final);
  expect(await judgeAll(world, load, { live, final })).toEqual(EXACT);
}

async function expectVerified(product: Product): Promise<void> {
  const { code, stdout, stderr } = await product.run('verify');
  expect({ code, stdout, stderr }).toMatchObject({ code: 0 });
}

for (let round = 0; round < ROUNDS; round++) {
  const seed = SEED + round;
  test(
    `a product whose children are killed under load loses and doubles nothing (CRASH_SEED=${seed})`,
    async () => {
      const random = new Random(seed);
      const world = await newWorld();
      const { product } = world;
      await product.start();
      const load = await loadWithCrashes(world, random, 3 + random.below(3));
      expect(await product.stop()).toBe(0);

      const untilMs = await startAfterTheHour(world);
      await expectExact(world, load, untilMs);
      await expectVerified(product);

      const before = await completeAnswers(world, untilMs);
      const again = await product.do('reconcile', '--until', new Date(untilMs).toISOString());
      expect(again).toContain('nothing to do');
      await product.do('rebuild');
      expect(await completeAnswers(world, untilMs)).toEqual(before);
      await expectVerified(product);
      expect((await product.admin.status()).problems).toEqual([]);
      expect(await product.stop()).toBe(0);
    },
    ROUND_MS,
  );
}

test(
  `when "up" is killed its children stop by themselves, and a new "up" starts (CRASH_SEED=${SEED})`,
  async () => {
    const world = await newWorld();
    const { product } = world;
    await product.start();
    const load = new Load(world, SEED);
    await eventually('clicks are acknowledged', () => load.acknowledged.size > 200);
    const children = [...product.children('click'), ...product.children('ledger')];
    expect(children).toHaveLength(3);
    await product.crashUp();
    await eventually('the children have stopped', () => !children.some(isAlive), 30_000);
    await product.start();
    await load.stop();
    expect(load.unexpected).toEqual([]);
    expect(await product.stop()).toBe(0);

    const untilMs = await startAfterTheHour(world);
    await expectExact(world, load, untilMs);
  },
  ROUND_MS,
);

interface Killing {
  readonly world: World;
  readonly random: Random;
  readonly offsetMs: number;
}

/**
 * Runs a command on the stopped product and kills it: a random time after it has said one of these
 * lines, or has ended. So every part of it is hit, on a machine of any speed.
 */
async function killCommand(args: readonly string[], lines: readonly string[], killing: Killing) {
  const { world, random, offsetMs } = killing;
  const env = environment({ ...SETTINGS, CLICKLEDGER_CLOCK_OFFSET_MS: String(offsetMs) });
  for (let round = 0; round < ROUNDS; round++) {
    const line = lines[round % lines.length]!;
    const command = startCommand([...args, '--data', world.product.dataDir], env);
    let said = '';
    for await (const chunk of command.stderr) {
      said += new TextDecoder().decode(chunk);
      if (said.includes(line)) break;
    }
    expect(said).toContain(line);
    await Promise.race([command.exited, Bun.sleep(random.below(250))]);
    command.kill('SIGKILL');
    await command.exited;
  }
}

test(
  `reconcile and rebuild that are killed at any moment give the same numbers (CRASH_SEED=${SEED})`,
  async () => {
    const world = await newWorld();
    const { product } = world;
    await product.start();
    const load = new Load(world, SEED + 1);
    await eventually('clicks are acknowledged', () => load.acknowledged.size > 500);
    await load.stop();
    await awaitCounted(product);
    const untilMs = startOfHour(systemClock()) + HOUR_MS;
    const live = await allMinuteRows(world, untilMs);
    expect(await product.stop()).toBe(0);

    const offsetMs = Math.round(offsetPast(untilMs));
    const until = ['reconcile', '--until', new Date(untilMs).toISOString()];
    const killing = { world, random: new Random(SEED), offsetMs };
    await killCommand(until, ['archiving and counting'], killing);
    await product.start('--clock-offset', String(offsetMs));
    await product.do(...until);
    const final = await allMinuteRows(world, untilMs);
    expect(final).toEqual(live);
    expect(await judgeAll(world, load, { live, final })).toEqual(EXACT);

    // A late click, so that there is a revision and a restatement to find again; and a live one.
    await takeRecorded(product, untilMs - 1_000, 'late-for-the-hour');
    await product.do(...until);
    expect((await product.admin.status()).recentHours[0]).toMatchObject({ revision: 2 });
    await takeRecorded(product, untilMs + 1_000, 'in-the-next-hour');
    await awaitCounted(product);
    const toMs = untilMs + HOUR_MS;
    const before = await completeAnswers(world, toMs);
    expect(await product.stop()).toBe(0);

    const said = ['dropping state', 'counting the log', 'recounting', 'archiving'];
    await killCommand(['rebuild'], said, killing);
    await product.start('--clock-offset', String(offsetMs));
    await eventually('what was final is final again', async () => {
      return (await product.admin.status()).finalUntilMs === untilMs;
    });
    await awaitCounted(product);
    expect(await completeAnswers(world, toMs)).toEqual(before);
    await expectVerified(product);
    await product.do('rebuild');
    expect(await completeAnswers(world, toMs)).toEqual(before);
    expect(await product.stop()).toBe(0);
  },
  ROUND_MS,
);

async function takeRecorded(product: Product, clickedAtMs: number, impressionId: string) {
  const ad_id = DEMO_ADS[0]!.adId;
  const record = { impression_id: impressionId, ad_id, clicked_at: clickedAtMs, country: 'DE' };
  const rows = (async function* () {
    yield { line: 1, record };
  })();
  return product.admin.ingest(rows, () => {});
}
