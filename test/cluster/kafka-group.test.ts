/** A consumer group on real brokers: who has which partition, and who may commit, whatever happens. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { Admin } from '@platformatic/kafka';
import { Random } from '../../src/demo/random.ts';
import { Connections, parseAddress } from '../../src/log/kafka/connections.ts';
import { KafkaGroupProgress } from '../../src/log/kafka/group-progress.ts';
import { findCoordinator } from '../../src/log/kafka/group-protocol.ts';
import type { KafkaBroker } from '../support/kafka.ts';
import { until } from '../support/kafka-clicks.ts';
import { ChildMember, type Member, Members } from '../support/kafka-members.ts';
import { FIRST, KafkaWorld } from '../support/kafka-world.ts';
import { fcParams } from '../support/seed.ts';

const PARTITIONS = 32;

let world: KafkaWorld;
beforeAll(async () => {
  world = await KafkaWorld.start({
    brokers: 3,
    // Members that start together come together in the first generation.
    settings: { 'group.min.session.timeout.ms': 1_000, 'group.initial.rebalance.delay.ms': 400 },
  });
});
afterAll(() => world?.stop());

async function members(partitions = PARTITIONS): Promise<Members> {
  return new Members(world, await world.topic({ partitions }), partitions);
}

const commitOf = (partition: number, offset: number, note = '') =>
  new Map([[partition, { offset, note }]]);

describe('sharing out', () => {
  test('one, three, two members: each partition has one owner at a time and shares are even', async () => {
    const all = await members();
    const a = all.add('a', { pauseMs: 300 });
    await until('one has all', () => all.settledOn(a));
    const ofA = a.partitions;
    const b = all.add('b', { pauseMs: 50 });
    const c = all.add('c');
    await until('three share', () => all.settledOn(a, b, c));
    expect(a.partitions.every((each) => ofA.includes(each))).toBe(true);
    expect(a.group.status()).toMatchObject({ waitsFor: null, partitions: a.partitions });
    const [ofB, ofC] = [b.partitions, c.partitions];
    await b.group.leave();
    await until('two share', () => all.settledOn(a, c));
    // What c had stays with it.
    expect(ofC.every((each) => c.partitions.includes(each))).toBe(true);
    expect(b.partitions).toEqual([]);
    expect(ofB.length).toBeGreaterThan(9);
    expect(all.overlaps).toEqual([]);
    expect([a, b, c].some(({ told }) => told.includes('lost'))).toBe(false);
    await a.group.leave();
    await until('one has all', () => all.settledOn(c));
    expect(c.group.status().logId).toMatch(/-/);
  });

  test('a partition moves when the pause has ended, not before', async () => {
    const all = await members(4);
    const slow = all.add('slow', { pauseMs: 4_000 });
    await until('one has all', () => all.settledOn(slow));
    const startedMs = performance.now();
    const other = all.add('other');
    await until('it is asked to pause', () => slow.told.includes('pause'));
    // Longer than a session: beats go on.
    await until('both share', () => all.settledOn(slow, other));
    expect(performance.now() - startedMs).toBeGreaterThan(4_000);
    expect(slow.told).not.toContain('lost');
    expect(all.overlaps).toEqual([]);
  });

  test('new partitions of the topic are found and shared out', async () => {
    const all = await members(4);
    const [a, b] = ['a', 'b'].map((name) => all.add(name, { lookIntervalMs: 300 }));
    await until('both share four', () => all.settledOn(a!, b!));
    const admin = new Admin({ clientId: 'admin', bootstrapBrokers: world.servers.addresses });
    await admin.createPartitions({ topics: [{ name: all.topic, count: 7, assignments: null }] });
    await admin.close();
    const more = new Members(world, all.topic, 7);
    await until('both share seven', () => more.settledOn(a!, b!));
    expect(all.overlaps).toEqual([]);
  });

  test('what a machine remembers goes to it when everybody begins anew', async () => {
    const all = await members(6);
    const remembering = (name: string, ...partitions: number[]) =>
      all.add(name, { remembers: () => partitions.map((each) => FIRST + each) });
    const a = remembering('a', 1, 3, 5);
    const b = remembering('b', 0, 2, 4);
    await until('both share', () => all.settledOn(a, b));
    expect(a.partitions).toEqual([1, 3, 5].map((each) => FIRST + each));
    expect(b.partitions).toEqual([0, 2, 4].map((each) => FIRST + each));
  });

  test('members without names of their own share as well', async () => {
    const all = await members(5);
    const [a, b] = ['a', 'b'].map((name) => all.add(name, { instanceId: null }));
    await until('both share', () => all.settledOn(a!, b!));
    await a!.group.commit(commitOf(a!.partitions[0]!, 3));
    await b!.group.leave();
    await until('one has all', () => all.settledOn(a!));
    expect(all.overlaps).toEqual([]);
  });

  test('a handler that fails is told that it has lost, and asked again', async () => {
    const all = await members(2);
    const a = all.add('a');
    const { assigned } = a;
    a.assigned = async (partitions) => {
      a.assigned = assigned;
      throw new Error(`not today: ${partitions.length}`);
    };
    await until('it has all', () => all.settledOn(a));
    expect(a.told).toEqual(['lost', 'assigned 2']);
  });

  test('a pause that never ends holds up the others no longer than the rebalance timeout', async () => {
    const all = await members(4);
    const stuck = all.add('stuck', { pauseMs: 60_000, rebalanceTimeoutMs: 2_000 });
    await until('one has all', () => all.settledOn(stuck));
    const startedMs = performance.now();
    const other = all.add('other', { rebalanceTimeoutMs: 2_000 });
    await until('the other has its share', () => other.partitions.length > 0);
    expect(performance.now() - startedMs).toBeLessThan(10_000);
    expect(stuck.told).toContain('lost');
    expect(all.overlaps).toEqual([]);
  });
});

describe('members that come and go at random', () => {
  const { seed = Date.now() } = fcParams();

  test(`never have a partition at once, and share evenly in the end (FC_SEED=${seed})`, async () => {
    const random = new Random(seed);
    const all = await members(13);
    const there = new Map<string, Member>();
    const leaving: Promise<void>[] = [];
    for (let step = 0; step < 40; step++) {
      const name = `m${random.below(5)}`;
      const member = there.get(name);
      if (member === undefined) {
        const options = { pauseMs: random.below(400), keepSeat: random.below(2) === 0 };
        there.set(name, all.add(name, options));
      } else {
        there.delete(name);
        const left = member.group.leave();
        // Now and then the next process of that name is there before the last has gone.
        if (random.below(3) > 0) await left;
        leaving.push(left);
      }
      await Bun.sleep(random.below(300));
    }
    if (there.size === 0) there.set('last', all.add('last'));
    await Promise.all(leaving);
    await until('it is settled', () => all.settledOn(...there.values()));
    expect(all.overlaps).toEqual([]);
  });
});

describe('members that go', () => {
  test('one that is killed loses its partitions after its session', async () => {
    const all = await members();
    const a = all.add('a');
    const child = new ChildMember(world, all.topic, 'child');
    await until('both share', () => a.partitions.length === 16 && child.partitions.length === 16);
    await child.kill();
    const killedMs = performance.now();
    await until('the other has all', () => all.settledOn(a));
    expect(performance.now() - killedMs).toBeGreaterThan(1_500);
    expect(a.told).not.toContain('lost');
  });

  test('one that was stopped for longer than its session is refused, and told that it has lost', async () => {
    const all = await members();
    const a = all.add('a');
    const child = new ChildMember(world, all.topic, 'child');
    await until('both share', () => a.partitions.length === 16 && child.partitions.length === 16);
    const [partition] = child.partitions;
    child.commit(partition!, 7);
    await until('it commits', () => child.has('committed'));
    child.stop();
    await until('the other has all', () => all.settledOn(a));
    await a.group.commit(commitOf(partition!, 9, 'a'));
    child.commit(partition!, 8);
    child.goOn();
    await until('it is refused', () => child.has('refused') && child.has('lost'));
    expect(child.said.find(({ told }) => told === 'refused')).toMatchObject({
      code: 'partition_lost',
    });
    expect((await a.group.committed()).get(partition!)).toEqual({ offset: 9, note: 'a' });
    await until('it is in it again', () => child.partitions.length === 16);
    await child.kill();
  });

  test('one that restarts under its name within its session has its partitions back and moves nobody', async () => {
    const all = await members();
    const a = all.add('a');
    const b = all.add('b', { keepSeat: true });
    await until('both share', () => all.settledOn(a, b));
    const [ofB, toldA, rebalances] = [b.partitions, [...a.told], a.group.status().rebalances];
    await b.group.leave();
    const again = all.add('b');
    await until('it has them back', () => again.partitions.length === 16);
    expect(again.partitions).toEqual(ofB);
    await Bun.sleep(3_500);
    expect(a.told).toEqual(toldA);
    expect(a.group.status().rebalances).toBe(rebalances);
    await again.group.commit(commitOf(ofB[0]!, 1));
    expect(all.overlaps).toEqual([]);
  });

  test('the leader that restarts so moves nobody either', async () => {
    const all = await members();
    const leader = all.add('a', { keepSeat: true });
    await until('one has all', () => all.settledOn(leader));
    const b = all.add('b');
    await until('both share', () => all.settledOn(leader, b));
    const [before, rebalances] = [leader.partitions, b.group.status().rebalances];
    await leader.group.leave();
    const again = all.add('a');
    await until('it has them back', () => again.partitions.length === 16);
    expect(again.partitions).toEqual(before);
    expect(b.group.status().rebalances).toBe(rebalances);
  });

  test('a second process of one name takes over; the first says so, stays out, and is back when the name is free', async () => {
    const all = await members(4);
    const first = all.add('same', { fencedRetryMs: 1_500 });
    await until('it has all', () => all.settledOn(first));
    const second = all.add('same');
    await until('the first has lost', () => first.told.includes('lost'));
    await until('the second has all', () => second.partitions.length === 4);
    await until('it says why', () => first.group.status().waitsFor !== null);
    expect(first.group.status().waitsFor).toBe('another process uses the instance name same');
    await expect(first.group.commit(commitOf(FIRST, 1))).rejects.toMatchObject({
      code: 'partition_lost',
    });
    // It tries again meanwhile, and does not take the name away.
    await Bun.sleep(3_500);
    expect(second.told).toEqual(['assigned 4']);
    await second.group.commit(commitOf(FIRST, 2));
    await second.group.leave();
    await until('the first is back', () => first.partitions.length === 4);
    await first.group.commit(commitOf(FIRST, 3));
  });
});

describe('commits', () => {
  test('offset and note come back, also to who is no member', async () => {
    const all = await members(3);
    const a = all.add('a');
    await until('it has all', () => all.settledOn(a));
    expect(await a.group.committed()).toEqual(new Map());
    const note = `{"text":"${'ü'.repeat(1_400)}"}`;
    await a.group.commit(
      new Map([
        [FIRST, { offset: 5, note: '' }],
        [FIRST + 2, { offset: 2 ** 40, note }],
      ]),
    );
    const progress = new KafkaGroupProgress({
      ...{ connection: world.connection, groupId: `${all.topic}-group`, topic: all.topic },
      firstPartition: FIRST,
    });
    expect(await progress.committed()).toEqual(
      new Map([
        [FIRST, { offset: 5, note: '' }],
        [FIRST + 2, { offset: 2 ** 40, note }],
      ]),
    );
    await a.group.leave();
    // They outlive the members.
    expect((await progress.committed()).get(FIRST)).toEqual({ offset: 5, note: '' });
    await progress.close();
  });

  test('a partition of somebody else is refused, and nothing of the commit was done', async () => {
    const all = await members(4);
    const [a, b] = [all.add('a'), all.add('b')];
    await until('both share', () => all.settledOn(a, b));
    const commits = new Map([...commitOf(a.partitions[0]!, 1), ...commitOf(b.partitions[0]!, 1)]);
    await expect(a.group.commit(commits)).rejects.toMatchObject({ code: 'partition_lost' });
    expect(await a.group.committed()).toEqual(new Map());
  });

  test('what is committed within the pause counts', async () => {
    const all = await members(2);
    const a = all.add('a');
    await until('it has all', () => all.settledOn(a));
    const { pause } = a;
    a.pause = async () => {
      await a.group.commit(commitOf(FIRST, 11, 'paused'));
      await pause.call(a);
    };
    const b = all.add('b');
    await until('both share', () => all.settledOn(a, b));
    expect((await b.group.committed()).get(FIRST)).toEqual({ offset: 11, note: 'paused' });
  });
});

describe('brokers', () => {
  /** The broker that coordinates the group of a topic. */
  async function coordinatorOf(topic: string): Promise<KafkaBroker> {
    const [broker] = world.servers.addresses.map(parseAddress);
    const connections = new Connections(world.connection);
    const lane = { name: 'test', requestTimeoutMs: 2_000 };
    const connection = await connections.get(broker!, lane);
    const { address } = await findCoordinator(connection, `${topic}-group`);
    await connections.close();
    const isIt = (each: KafkaBroker): boolean => each.address.endsWith(`:${address.port}`);
    return world.servers.brokers.find(isIt)!;
  }

  for (const how of ['dies', 'hangs'] as const) {
    test(`the coordinator ${how}: the group goes on at another broker`, async () => {
      const all = await members(8);
      const [a, b] = [all.add('a'), all.add('b')];
      await until('both share', () => all.settledOn(a, b));
      const broker = await coordinatorOf(all.topic);
      if (how === 'dies') await broker.kill();
      else broker.freeze();
      await until('commits are taken again', () =>
        Promise.all(
          [a, b].map((each) =>
            each.group.commit(commitOf(each.partitions[0] ?? 0, 5)).then(() => true),
          ),
        ).then(
          () => true,
          () => false,
        ),
      );
      const c = all.add('c');
      await until('three share', () => all.settledOn(a, b, c));
      if (how === 'dies') {
        broker.start();
        await world.servers.ready(broker);
      } else broker.thaw();
      await c.group.leave();
      await until('two share', () => all.settledOn(a, b));
      expect(all.overlaps).toEqual([]);
    });
  }

  test('all away: members count as lost after a session, say so, and have their partitions again when brokers are back', async () => {
    const all = await members(4);
    const a = all.add('a');
    await until('it has all', () => all.settledOn(a));
    for (const broker of world.servers.brokers) broker.freeze();
    await until('it counts as lost', () => a.told.includes('lost'));
    await until('it says why', () => a.group.status().waitsFor === 'the brokers do not answer');
    await expect(a.group.commit(commitOf(FIRST, 1))).rejects.toMatchObject({
      code: 'partition_lost',
    });
    await expect(a.group.committed()).rejects.toMatchObject({
      code: 'log_unavailable',
      kind: 'retry',
    });
    for (const broker of world.servers.brokers) broker.thaw();
    await until('it has all again', () => all.settledOn(a));
    await until('it commits', () =>
      a.group.commit(commitOf(FIRST, 1)).then(
        () => true,
        () => false,
      ),
    );
  });
});
