// Proves INV-13 of SPEC.md.
/** Leases and shared state on a real PostgreSQL, with several processes, stops and restarts. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { z } from 'zod';
import type { Lease, Leases } from '../../src/control/port.ts';
import { openPgLeases } from '../../src/control/postgres/leases.ts';
import { openPgState } from '../../src/control/postgres/state.ts';
import { Postgres } from '../../src/platform/postgres.ts';
import { controlSuite } from '../conformance/control-suite.ts';
import { postgresMissing, TestPostgres } from '../support/postgres.ts';
import { ROOT } from '../support/source-tree.ts';

const missing = postgresMissing();
if (missing !== null) process.stderr.write(`control-leases: skipped, ${missing}\n`);
/** Short, so that tests need not wait long for it to run out. */
const LEASE_MS = 600;

describe.skipIf(missing !== null)('on PostgreSQL', () => {
  let server: TestPostgres;
  const open: Postgres[] = [];

  beforeAll(async () => {
    server = await TestPostgres.create();
  });
  afterEach(async () => {
    for (const db of open.splice(0)) await db.close();
  });
  afterAll(async () => {
    await server?.dispose();
  });

  function connect(): Postgres {
    const limits = { timeoutMs: 5_000, maxConnections: 2 };
    const db = new Postgres({ url: server.url, tls: 'disable', tlsCaFile: '', ...limits });
    open.push(db);
    return db;
  }

  /** As a process of its own has them. */
  const leasesOf = (holder: string, leaseMs = LEASE_MS): Promise<Leases> =>
    openPgLeases({ db: connect(), holder, leaseMs });

  async function clear(): Promise<void> {
    await connect().run((sql) => sql`TRUNCATE leases, shared_state`);
  }

  controlSuite('postgres', async () => {
    const [db, other] = [connect(), connect()];
    const leases = await openPgLeases({ db, holder: 'this process', leaseMs: 30_000 });
    const state = await openPgState(db);
    await clear();
    return { leases, state, reopenState: () => openPgState(other), remove: async () => {} };
  });

  test('a lease that another process holds is not given out; given back, it is at once (L1)', async () => {
    await clear();
    const [one, other] = [await leasesOf('one'), await leasesOf('other')];
    const lease = await one.tryTake('reconcile', 'hour 1');
    expect(await other.tryTake('reconcile', 'hour 2')).toBeNull();
    expect(await other.list()).toMatchObject([{ holder: 'one', note: 'hour 1' }]);
    await lease!.release();
    const next = await other.tryTake('reconcile', 'hour 2');
    expect(next!.epoch).toBeGreaterThan(lease!.epoch);
    await next!.release();
  });

  test('a lease is kept alive for as long as it is held', async () => {
    await clear();
    const [one, other] = [await leasesOf('one'), await leasesOf('other')];
    const lease = await one.tryTake('reconcile', '');
    await Bun.sleep(2.5 * LEASE_MS);
    expect(await other.tryTake('reconcile', '')).toBeNull();
    await lease!.assertHeld();
    await lease!.release();
  });

  test('two processes never hold at once by the server’s clock, and epochs rise', async () => {
    await clear();
    const db = connect();
    await db.run(
      (sql) => sql`CREATE TABLE held (epoch bigint, since timestamptz, until timestamptz)`,
    );
    /** Takes, asks the server twice for the time while holding, and gives back; some forget to. */
    const work = async (holder: string): Promise<void> => {
      const own = connect();
      for (let round = 0; round < 12; round++) {
        const leases = await openPgLeases({ db: own, holder, leaseMs: 150 });
        const lease = await leases.tryTake('reconcile', '');
        if (lease === null) {
          await Bun.sleep(5);
          continue;
        }
        await noteHolding(db, lease);
        if (round % 4 !== 3) await lease.release();
      }
    };
    await Promise.all(['a', 'b', 'c'].map(work));
    const [overlap] = await db.run<{ n: number }[]>(
      (sql) => sql`
        SELECT count(*)::int AS n FROM held AS one JOIN held AS other
        ON one.epoch < other.epoch AND one.until > other.since`,
    );
    const [held] = await db.run<{ n: number; epochs: number }[]>(
      (sql) => sql`SELECT count(*)::int AS n, count(DISTINCT epoch)::int AS epochs FROM held`,
    );
    expect(overlap!.n).toBe(0);
    expect(held!.n).toBeGreaterThan(3);
    expect(held!.epochs).toBe(held!.n);
  });

  async function noteHolding(db: Postgres, lease: Lease): Promise<void> {
    // Stored only when the lease was still held after the second look at the clock.
    const [since] = await db.run<{ at: string }[]>((sql) => sql`SELECT now()::text AS at`);
    await Bun.sleep(3);
    const [until] = await db.run<{ at: string }[]>((sql) => sql`SELECT now()::text AS at`);
    await lease.assertHeld();
    await db.run(
      (sql) => sql`
        INSERT INTO held VALUES (${lease.epoch}::bigint, ${since!.at}::timestamptz, ${until!.at}::timestamptz)`,
    );
  }

  test('a holder that was stopped finds out on waking, while another goes on (L1)', async () => {
    await clear();
    const child = Bun.spawn(
      [process.execPath, join(ROOT, 'test/support/lease-child.ts'), server.url, String(LEASE_MS)],
      { stdin: 'pipe', stdout: 'pipe' },
    );
    const lines = linesOf(child.stdout);
    expect(await lines.next()).toMatchObject({ value: expect.stringMatching(/^held \d+$/) });
    const ask = async (): Promise<string | undefined> => {
      child.stdin.write('?\n');
      child.stdin.flush();
      return (await lines.next()).value;
    };
    expect(await ask()).toBe('still held');
    const other = await leasesOf('other');
    expect(await other.tryTake('reconcile', '')).toBeNull();
    child.kill('SIGSTOP');
    const lease = await taken(other);
    child.kill('SIGCONT');
    expect(await ask()).toBe('lease_lost');
    await lease.assertHeld();
    await lease.release();
    // What it lost it does not get back by itself, though nobody holds it now.
    expect(await ask()).toBe('lease_lost');
    child.stdin.end();
    expect(await child.exited).toBe(0);
  });

  test('a restart of the server in between takes no lease away, and no value', async () => {
    await clear();
    const [one, other] = [await leasesOf('one', 30_000), await leasesOf('other', 30_000)];
    const state = await openPgState(connect());
    const lease = await one.tryTake('reconcile', '');
    await state.set('flush', { atMs: 7 });
    await server.stop();
    await expect(lease!.assertHeld()).rejects.toMatchObject({ code: 'control_unavailable' });
    await expect(other.tryTake('reconcile', '')).rejects.toMatchObject({ kind: 'retry' });
    await server.start();
    await eventually(() => lease!.assertHeld());
    expect(await eventually(() => other.tryTake('reconcile', ''))).toBeNull();
    const value = await eventually(() => state.get('flush', z.object({ atMs: z.int() })));
    expect(value).toEqual({ atMs: 7 });
    await lease!.release();
    const next = await eventually(() => other.tryTake('reconcile', ''));
    expect(next!.epoch).toBeGreaterThan(lease!.epoch);
    await next!.release();
  });

  test('while the server is away, giving back and heartbeats throw nothing', async () => {
    await clear();
    const leases = await leasesOf('one');
    const lease = await leases.tryTake('reconcile', '');
    await server.stop();
    await Bun.sleep(LEASE_MS);
    await lease!.release();
    await server.start();
    await eventually(() => leases.list());
    // It could not be given back: it has run out, or the same process takes it anew.
    const next = await eventually(() => leases.tryTake('reconcile', ''));
    expect(next!.epoch).toBeGreaterThan(lease!.epoch);
    await next!.release();
  });

  test('changes of many processes at once do not lose each other', async () => {
    await clear();
    const states = await Promise.all(Array.from({ length: 4 }, () => openPgState(connect())));
    const change = (at: number) =>
      states[at % 4]!.update('pending-hours', z.array(z.int()), (old = []) => [...old, at]);
    await Promise.all(Array.from({ length: 60 }, (_, at) => change(at)));
    const value = await states[0]!.get('pending-hours', z.array(z.int()));
    expect([...value!].sort((a, b) => a - b)).toEqual(Array.from({ length: 60 }, (_, at) => at));
  });
});

async function taken(leases: Leases): Promise<Lease> {
  for (let tries = 0; tries < 200; tries++) {
    const lease = await leases.tryTake('reconcile', 'taken over');
    if (lease !== null) return lease;
    await Bun.sleep(20);
  }
  throw new Error('the lease did not run out');
}

async function eventually<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries >= 100) throw error;
      await Bun.sleep(50);
    }
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, undefined> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  return undefined;
}
