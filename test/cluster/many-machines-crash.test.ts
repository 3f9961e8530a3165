// Proves INV-1, INV-2 of SPEC.md.
/**
 * Many machines on which everything dies or hangs at random under load, the servers included: every
 * acknowledged click is billed once, and everything derived comes out the same.
 *
 * `CLUSTER_CRASH_ROUNDS` sets the rounds, `CLUSTER_CRASH_EVENTS` how often something happens in one,
 * `CLUSTER_CRASH_SEED` the first round's seed; each round prints its own.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { Random } from '../../src/demo/random.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { Chaos } from '../support/chaos.ts';
import { endOfHour, expectFinal, expectLiveExact } from '../support/final-machines.ts';
import { Load, quantile } from '../support/load.ts';
import { eventually } from '../support/product.ts';
import { RoleCluster } from '../support/role-cluster.ts';
import { RoleServers, serversMissing } from '../support/role-servers.ts';

const missing = serversMissing();
if (missing !== null) process.stderr.write(`many-machines-crash: skipped, ${missing}\n`);

const ROUNDS = Number(process.env.CLUSTER_CRASH_ROUNDS ?? '1');
const SEED = Number(process.env.CLUSTER_CRASH_SEED ?? String(systemClock() % 1_000_000));
const ROUND_MS = 300_000;
/** A group gives up a member that it has not heard of for so long: the least that brokers allow. */
const SESSION_MS = 6_000;
const EVENTS = Number(process.env.CLUSTER_CRASH_EVENTS ?? '14');
const KILLS = 5;

describe.skipIf(missing !== null)('machines and servers that die and hang under load', () => {
  let servers: RoleServers;
  let cluster: RoleCluster;
  beforeAll(async () => {
    servers = await RoleServers.start({ brokers: 3 });
  }, 180_000);
  afterEach(async () => {
    servers.thawAll();
    await cluster?.dispose();
  });
  afterAll(() => servers?.stop());

  async function startCluster(): Promise<void> {
    cluster = await RoleCluster.create(servers, {
      partitions: 6,
      env: {
        CLICKLEDGER_LOG_KAFKA_SESSION_TIMEOUT_MS: String(SESSION_MS),
        // Reconcilers turn an hour final by themselves, as soon as it is closed.
        CLICKLEDGER_RECONCILE_DELAY_MS: '0',
      },
    });
    await cluster.startAll([
      ['m1', 'catalog'],
      ['m2', 'catalog'],
    ]);
    await cluster.startAll([
      ['m1', 'click'],
      ['m2', 'click'],
      ['m1', 'counter'],
      ['m1', 'archiver'],
      ['m2', 'archiver'],
      ['m1', 'reconciler'],
      ['m2', 'reconciler'],
      ['a1', 'api'],
    ]);
  }

  /** What a redirect takes while no broker answers, as it is on this machine just now. */
  async function redirectsWithoutKafka(load: Load): Promise<void> {
    await eventually('clicks are taken', () => load.answeredMs.length > 300);
    const before = load.answeredMs.length;
    for (const broker of servers.kafka.brokers) broker.freeze();
    await Bun.sleep(5_000);
    const took = load.answeredMs.slice(before);
    for (const broker of servers.kafka.brokers) broker.thaw();
    const [p50, p99] = [quantile(took, 0.5), quantile(took, 0.99)];
    process.stderr.write(
      `redirects while Kafka hangs: ${took.length}, p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, slowest ${Math.max(...took).toFixed(1)} ms\n`,
    );
    expect(took.length).toBeGreaterThan(100);
    expect(p99).toBeLessThan(1_000);
  }

  /** Reconcilers do it, and each time one has begun, one of them is killed. */
  async function turnFinalUnderKills(random: Random): Promise<number> {
    const untilMs = endOfHour();
    const reconcilers = cluster.roles('reconciler');
    for (const each of reconcilers) await each.stop();
    await cluster.moveBehind(untilMs);
    for (const each of reconcilers) each.start();
    for (let kill = 0; kill < KILLS; kill++) {
      await Bun.sleep(500 + random.below(2_000));
      const killed = random.pick(reconcilers);
      await killed.kill();
      killed.start();
    }
    return untilMs;
  }

  for (let round = 0; round < ROUNDS; round++) {
    const seed = SEED + round;
    test(
      `lose and double nothing (CLUSTER_CRASH_SEED=${seed})`,
      async () => {
        await startCluster();
        const random = new Random(seed);
        const load = new Load(cluster, random.uint32(), { connections: 4, hotShare: 0.3 });
        await redirectsWithoutKafka(load);
        const chaos = new Chaos({ cluster, servers, random, sessionMs: SESSION_MS });
        try {
          await chaos.run(EVENTS);
          await chaos.mendAll();
          await load.stop();
          expect(load.unexpected).toEqual([]);
          expect(load.acknowledged.size).toBeGreaterThan(1_000);
          await cluster.awaitCounted();
          const live = await expectLiveExact(cluster, [load]);
          const untilMs = await turnFinalUnderKills(random);
          expect(await expectFinal(cluster, [load], untilMs)).toEqual(live);
        } catch (error) {
          process.stderr.write(`${chaos.told.join('\n')}\n`);
          throw error;
        }
        expect((await cluster.status()).problems).toEqual([]);
        expect(cluster.endedByThemselves).toEqual([]);
      },
      ROUND_MS,
    );
  }
});
