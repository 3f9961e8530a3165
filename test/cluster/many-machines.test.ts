/** The product on many machines: several of every role, on real servers that come and go. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { expectLiveExact, rowsOfAll, turnFinal } from '../support/final-machines.ts';
import { Load, type LoadOptions } from '../support/load.ts';
import { eventually } from '../support/product.ts';
import { RoleCluster } from '../support/role-cluster.ts';
import type { RoleProcess } from '../support/role-process.ts';
import { RoleServers, serversMissing } from '../support/role-servers.ts';

const missing = serversMissing();
if (missing !== null) process.stderr.write(`many-machines: skipped, ${missing}\n`);

const PARTITIONS = 8;
/** What a role has to end in by default. */
const GRACE_MS = 25_000;
/** Before it, nobody can know that a member of a group is gone unless it has said so. */
const SESSION_MS = 30_000;
const SEED = 4_711;
/** Clicks that go on while something happens. */
const TRICKLE = { connections: 2, pauseMs: 10 };

describe.skipIf(missing !== null)('roles on many machines', () => {
  let servers: RoleServers;
  let cluster: RoleCluster;
  const loads: Load[] = [];

  beforeAll(async () => {
    servers = await RoleServers.start();
    cluster = await RoleCluster.create(servers, {
      partitions: PARTITIONS,
      env: { CLICKLEDGER_LOG_KAFKA_SESSION_TIMEOUT_MS: String(SESSION_MS) },
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
      ['a2', 'api'],
    ]);
  }, 180_000);
  afterEach(async () => {
    for (const each of loads) await each.stop();
  });
  afterAll(async () => {
    await cluster?.dispose();
    await servers?.stop();
  });

  function load(options: LoadOptions): Load {
    const made = new Load(cluster, SEED + loads.length, { hotShare: 0.3, ...options });
    loads.push(made);
    return made;
  }

  const partitionsOf = (process: RoleProcess): Promise<number> =>
    process.metric(`${process.role}_partitions`);
  /** Every partition has one of them. */
  const sharedOut = (...processes: RoleProcess[]): Promise<void> =>
    eventually('the partitions are shared out', async () => {
      const counts = await Promise.all(processes.map(partitionsOf));
      const [least, most] = [Math.min(...counts), Math.max(...counts)];
      return counts.reduce((sum, each) => sum + each, 0) === PARTITIONS && most - least <= 1;
    });

  test('clicks on any machine are counted once, and every API says the same', async () => {
    await load({ clicks: 800 }).end();
    await cluster.awaitCounted();
    expect((await rowsOfAll(cluster)).length).toBeGreaterThan(0);
    await expectLiveExact(cluster, loads);
    for (const click of cluster.roles('click')) {
      expect(await click.metric('kafka_records_total')).toBeGreaterThan(0);
    }
  });

  test('one counter becomes three, and each counts its share though one ad has 30 % of the clicks', async () => {
    await cluster.startAll([
      ['m2', 'counter'],
      ['m3', 'counter'],
    ]);
    const counters = cluster.roles('counter');
    await sharedOut(...counters);
    const before = await Promise.all(counters.map(recordsOf));
    await load({ clicks: 4_000 }).end();
    await cluster.awaitCounted();
    const counted = (await Promise.all(counters.map(recordsOf))).map((now, i) => now - before[i]!);
    const all = counted.reduce((sum, each) => sum + each, 0);
    expect(all).toBeGreaterThanOrEqual(loads.at(-1)!.acknowledged.size);
    for (const [i, counter] of counters.entries()) {
      const share = (await partitionsOf(counter)) / PARTITIONS;
      expect(Math.abs(counted[i]! / all - share)).toBeLessThan(0.15);
    }
    await expectLiveExact(cluster, loads);
  });

  test('a counter that is stopped under load gives its partitions back at once', async () => {
    const running = load(TRICKLE);
    await eventually('clicks are taken', () => running.acknowledged.size > 200);
    const leaving = cluster.role('m3', 'counter')!;
    const { code, tookMs } = await leaving.stop();
    expect({ code, inTime: tookMs < GRACE_MS }).toEqual({ code: 0, inTime: true });
    const askedMs = performance.now();
    await sharedOut(cluster.role('m1', 'counter')!, cluster.role('m2', 'counter')!);
    expect(performance.now() - askedMs).toBeLessThan(SESSION_MS / 2);
    await running.stop();
    await cluster.awaitCounted();
    await expectLiveExact(cluster, loads);
  });

  /** Clicks go on, and each of the roles says what it waits for until it is back. */
  async function away(words: RegExp, waiting: readonly RoleProcess[], faults: Faults) {
    const running = load(TRICKLE);
    await faults.take();
    try {
      for (const each of waiting) await each.says(words);
      const soFar = running.acknowledged.size;
      await eventually('clicks are taken', () => running.acknowledged.size > soFar + 200);
    } finally {
      await faults.giveBack();
      await running.stop();
    }
    expect(running.unexpected).toEqual([]);
    await Promise.all(cluster.roles().map((each) => (each.isRunning ? each.ready() : null)));
    await cluster.awaitCounted();
    await expectLiveExact(cluster, loads);
  }

  test('without PostgreSQL clicks go on, and the others say that they wait for it', async () => {
    await away(/^503 .*(PostgreSQL|control database)/, cluster.roles('reconciler', 'api'), {
      take: () => servers.postgres.stop(),
      giveBack: () => servers.postgres.start(),
    });
  });

  test('without ClickHouse clicks go on, and the others say that they wait for it', async () => {
    const waiting = cluster.roles('counter', 'reconciler', 'api').filter((each) => each.isRunning);
    await away(/^503 .*(ClickHouse|warehouse)/, waiting, {
      take: () => servers.clickhouse.crash(),
      giveBack: () => servers.clickhouse.start(),
    });
  });

  test('while Kafka hangs clicks go on, and the others say that they wait for it', async () => {
    const [broker] = servers.kafka.brokers;
    const waiting = cluster.roles('counter', 'archiver').filter((each) => each.isRunning);
    await away(/^503 .*(Kafka|broker)/, waiting, {
      take: async () => broker!.freeze(),
      giveBack: async () => broker!.thaw(),
    });
  });

  test('roles that are started while every server is away wait, and clicks go on', async () => {
    const [broker] = servers.kafka.brokers;
    const others = cluster.roles().filter((each) => each.isRunning && each.role !== 'click');
    const running = load(TRICKLE);
    for (const each of others) await each.kill();
    broker!.freeze();
    await Promise.all([servers.s3.server, servers.clickhouse].map((each) => each.crash()));
    await servers.postgres.stop();
    try {
      for (const each of others) each.start();
      for (const each of others) await each.says(/^503 waits: (?!starting)/);
      const soFar = running.acknowledged.size;
      await eventually('clicks are taken', () => running.acknowledged.size > soFar + 200);
    } finally {
      broker!.thaw();
      const all = [servers.s3.server, servers.clickhouse, servers.postgres];
      await Promise.all(all.map((each) => each.start()));
    }
    for (const each of others) await each.ready();
    await running.stop();
    expect(running.unexpected).toEqual([]);
    await cluster.awaitCounted();
    await expectLiveExact(cluster, loads);
  });

  test('every role ends in time when it is told to, and its work goes on elsewhere', async () => {
    const running = load(TRICKLE);
    for (const role of ['archiver', 'reconciler', 'catalog', 'counter', 'click'] as const) {
      const leaving = cluster.role('m2', role)!;
      const { code, tookMs } = await leaving.stop();
      expect({ role, code, inTime: tookMs < GRACE_MS }).toEqual({ role, code: 0, inTime: true });
      if (role === 'archiver' || role === 'counter') await sharedOut(cluster.role('m1', role)!);
      leaving.start();
      await leaving.ready();
    }
    const api = cluster.role('a2', 'api')!;
    expect((await api.stop()).code).toBe(0);
    api.start();
    await api.ready();
    await running.stop();
    expect(running.unexpected).toEqual([]);
    await cluster.awaitCounted();
    await expectLiveExact(cluster, loads);
  });

  test('the hour turns final: row for row what was live, and a recount agrees', async () => {
    const { live, final } = await turnFinal(cluster, loads);
    expect(final).toEqual(live);
    expect(cluster.endedByThemselves).toEqual([]);
  });
});

interface Faults {
  readonly take: () => Promise<void>;
  readonly giveBack: () => Promise<void>;
}

function recordsOf(counter: RoleProcess): Promise<number> {
  return counter.metric('outcomes_total');
}
