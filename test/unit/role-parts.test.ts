/** What roles that run on their own have in common: waiting, leases that are held, shared facts, health. */
import { afterEach, describe, expect, test } from 'bun:test';
import { Registry } from 'prom-client';
import { configSchema } from '../../src/config/schema.ts';
import { openLocalLeases } from '../../src/control/local/leases.ts';
import type { Lease, Leases } from '../../src/control/port.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { HeldLease } from '../../src/roles/held-lease.ts';
import { Readiness, StoppedWaiting } from '../../src/roles/readiness.ts';
import { type RoleServer, serveRole } from '../../src/roles/role-server.ts';
import { instanceOf, requireShared, requireSingle } from '../../src/roles/run-role.ts';
import { requireNoMove, SharedFacts } from '../../src/roles/shared-facts.ts';
import { MemoryState } from '../support/memory-state.ts';

const logger = createLogger('silent' as 'error', 'test');
const away = () => new LedgerError('control_unavailable', 'it is away', { kind: 'retry' });

describe('a role that starts', () => {
  test('waits for what is away, says for what, and goes on when it is there', async () => {
    const readiness = new Readiness(new AbortController().signal, logger);
    let tries = 0;
    const opening = readiness.until('the archive', async () => {
      if (++tries < 2) throw away();
      return 'open';
    });
    await Bun.sleep(50);
    expect(readiness.waitsFor()).toBe('the archive: it is away');
    expect(await opening).toBe('open');
    readiness.works(() => null);
    expect(readiness.waitsFor()).toBeNull();
  });

  test('does not try again what no other try will mend', async () => {
    const readiness = new Readiness(new AbortController().signal, logger);
    const wrong = readiness.until('it', async () => {
      throw new LedgerError('password_wrong', 'no');
    });
    await expect(wrong).rejects.toMatchObject({ code: 'password_wrong' });
  });

  test('stops waiting when it is told to stop', async () => {
    const stop = new AbortController();
    const readiness = new Readiness(stop.signal, logger);
    const opening = readiness.until('it', () => Promise.reject(away()));
    await Bun.sleep(20);
    stop.abort();
    await expect(opening).rejects.toBeInstanceOf(StoppedWaiting);
  });
});

describe('the port of a role', () => {
  let server: RoleServer | null = null;
  afterEach(async () => {
    await server?.close();
    server = null;
  });

  test('says that it lives, what it waits for, and how it is doing', async () => {
    let reason: string | null = 'Kafka: the brokers do not answer';
    server = serveRole({
      config: { ...configSchema.parse({}).role, port: 0, host: '127.0.0.1' },
      registry: new Registry(),
      waitsFor: () => reason,
    });
    const get = (path: string) => fetch(`http://127.0.0.1:${server?.port}${path}`);
    expect((await get('/healthz')).status).toBe(200);
    const waiting = await get('/readyz');
    expect([waiting.status, await waiting.text()]).toEqual([
      503,
      'waits: Kafka: the brokers do not answer\n',
    ]);
    expect(await (await get('/metrics')).text()).toContain('clickledger_role_ready 0');
    reason = null;
    expect([(await get('/readyz')).status, (await get('/other')).status]).toEqual([200, 404]);
    expect(await (await get('/metrics')).text()).toContain('clickledger_role_ready 1');
  });
});

describe('work that one process of all does', () => {
  const work = (leases: Leases, onLost = async () => {}) =>
    new HeldLease(leases, { name: 'webhooks', note: 'sending', onLost });

  test('is done by whoever has the lease, again and again, and by another afterwards', async () => {
    const leases = openLocalLeases({ holder: 'h', clock: Date.now });
    const [one, other] = [work(leases), work(leases)];
    const done: string[] = [];
    const round = async (): Promise<void> => {
      await one.run(async () => void done.push('one'));
      await other.run(async () => void done.push('other'));
    };
    await round();
    await round();
    await one.release();
    await round();
    expect(done).toEqual(['one', 'one', 'one']);
    await one.release();
    await other.run(async () => void done.push('other'));
    expect(done.at(-1)).toBe('other');
  });

  test('ends when the lease was lost, and what was begun is told', async () => {
    let held = true;
    const lease: Lease = {
      ...{ name: 'webhooks', epoch: 1, release: async () => {} },
      async assertHeld() {
        if (!held) throw new LedgerError('lease_lost', 'lost', { kind: 'retry' });
      },
    };
    let taken = 0;
    const leases: Leases = {
      tryTake: async () => (++taken === 1 ? lease : null),
      list: async () => [],
    };
    let lost = 0;
    const own = work(leases, async () => void lost++);
    let rounds = 0;
    await own.run(async () => void rounds++);
    held = false;
    await expect(own.run(async () => void rounds++)).rejects.toMatchObject({ code: 'lease_lost' });
    await Bun.sleep(1);
    await own.run(async () => void rounds++);
    expect([rounds, lost]).toEqual([1, 1]);
  });

  test('is taken up again by a process that has lost the lease, when nobody else has it', async () => {
    const leases = openLocalLeases({ holder: 'h', clock: Date.now });
    let isHeld = true;
    const own = work({
      list: () => leases.list(),
      async tryTake(name, note) {
        const lease = await leases.tryTake(name, note);
        if (lease === null) return null;
        const assertHeld = async () => {
          if (!isHeld) throw new LedgerError('lease_lost', 'lost', { kind: 'retry' });
        };
        return { ...lease, assertHeld };
      },
    });
    let rounds = 0;
    const round = () => own.run(async () => void rounds++);
    await round();
    isHeld = false;
    await expect(round()).rejects.toMatchObject({ code: 'lease_lost' });
    isHeld = true;
    await round();
    expect(rounds).toBe(2);
  });
});

describe('facts that roles share', () => {
  test('a rebuild that begins on top of one that died still has to reach what was final before it', async () => {
    const facts = new SharedFacts(new MemoryState());
    expect(await facts.rebuild()).toEqual({ id: 0, untilMs: null, isToEmpty: false });
    await facts.noteEmptied(await facts.beginRebuild(7_200_000), 0);
    const again = await facts.beginRebuild(0);
    expect(again).toEqual({ id: 1, untilMs: 7_200_000, isToEmpty: true });
    // Whoever ends the first has not heard of the second.
    expect(await facts.endRebuild(1)).toEqual(again);
    const emptied = await facts.noteEmptied(again, 0);
    expect(emptied).toEqual({ id: 2, untilMs: 7_200_000, isToEmpty: false });
    expect(await facts.endRebuild(1)).toEqual(emptied);
    expect(await facts.endRebuild(2)).toEqual({ id: 2, untilMs: null, isToEmpty: false });
  });

  test('a gap is noted once, however often it is told', async () => {
    const facts = new SharedFacts(new MemoryState());
    const gap = { partition: 10_003, fromMs: 1, toMs: 2, atMs: 3 };
    await facts.noteLiveGap(gap);
    await facts.noteLiveGap({ ...gap, atMs: 9 });
    await facts.noteLiveGap({ ...gap, partition: 10_004 });
    expect(await facts.liveGaps()).toEqual([gap, { ...gap, partition: 10_004 }]);
  });

  test('a request to write out is seen even when the clock stands still', async () => {
    const facts = new SharedFacts(new MemoryState());
    expect(await facts.flushAskedAtMs()).toBeNull();
    await facts.askForFlush(5);
    await facts.askForFlush(5);
    expect(await facts.flushAskedAtMs()).toBe(6);
  });

  test('while an archive is brought in no hour may be worked on', async () => {
    const facts = new SharedFacts(new MemoryState());
    await requireNoMove(facts);
    await facts.setMove({ from: 's3://old/archive', atMs: 1 });
    await expect(requireNoMove(facts)).rejects.toMatchObject({
      code: 'archive_moving',
      kind: 'retry',
    });
    await facts.setMove(null);
    await requireNoMove(facts);
  });
});

describe('a configuration', () => {
  const of = (kind: 'sqlite' | 'postgres') => ({
    control: { ...configSchema.parse({}).control, kind },
  });

  test('is that of one ledger process or that of roles, never of both', () => {
    requireSingle(of('sqlite'));
    requireShared(of('postgres'));
    expect(() => requireSingle(of('postgres'))).toThrow('there is no ledger process');
    expect(() => requireShared(of('sqlite'))).toThrow('control.kind = "postgres"');
  });

  test('names the machine, or its host does', () => {
    const { role } = configSchema.parse({});
    expect(instanceOf({ role })).toMatch(/^[A-Za-z0-9._-]+$/);
    expect(instanceOf({ role: { ...role, instance: 'counter-3' } })).toBe('counter-3');
  });
});
