// Proves INV-11 of SPEC.md.
/**
 * Disputes, webhooks and dead letters in a real PostgreSQL: their contracts, what happens when several
 * processes (here: connections of their own) use them at once, and how they are copied there.
 */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { copyDeadLetters } from '../../src/counter/copy-letters.ts';
import { openPgDeadLetters } from '../../src/counter/postgres/dead-letters.ts';
import { openDeadLetters } from '../../src/counter/sqlite/dead-letters.ts';
import { copyDisputes } from '../../src/disputes/copy.ts';
import { openPgDisputes } from '../../src/disputes/postgres/store.ts';
import { openDisputes } from '../../src/disputes/sqlite/store.ts';
import { monotonicMs } from '../../src/platform/clock.ts';
import { Postgres } from '../../src/platform/postgres.ts';
import { importControl } from '../../src/roles/import-control.ts';
import { copyWebhooks } from '../../src/webhooks/copy.ts';
import { openPgWebhooks } from '../../src/webhooks/postgres/store.ts';
import { openWebhookStore } from '../../src/webhooks/sqlite/store.ts';
import { deadLetterStoreSuite, letterOf } from '../conformance/dead-letter-store-suite.ts';
import {
  ADMIN,
  disputeStoreSuite,
  READER,
  SUBJECT,
  UPHELD,
  WITHDRAWN,
} from '../conformance/dispute-store-suite.ts';
import {
  deliveryOf,
  eventOf,
  NOW_MS,
  newWebhookAt,
  webhookStoreSuite,
} from '../conformance/webhook-store-suite.ts';
import { codeOf } from '../support/code-of.ts';
import { postgresMissing, TestPostgres } from '../support/postgres.ts';
import { tempDir } from '../support/temp-dir.ts';

const missing = postgresMissing();
if (missing !== null) process.stderr.write(`control-stores: skipped, ${missing}\n`);

describe.skipIf(missing !== null)('stores in PostgreSQL', () => {
  let server: TestPostgres;
  beforeAll(async () => {
    server = await TestPostgres.create();
  });
  afterAll(() => server?.dispose());

  /** Databases of several processes over the same empty tables. */
  async function world(processes = 1) {
    const sql = server.connect(1);
    await sql.unsafe('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
    const dbs = Array.from(
      { length: processes },
      () =>
        new Postgres({
          url: server.url,
          tls: 'disable',
          tlsCaFile: '',
          timeoutMs: 10_000,
          maxConnections: 2,
        }),
    );
    const remove = async (): Promise<void> => {
      await Promise.all(dbs.map((db) => db.close()));
      await sql.close();
    };
    return { sql, dbs, db: dbs[0]!, remove };
  }

  disputeStoreSuite('PostgreSQL', async () => {
    const { db, remove } = await world();
    return { open: (options) => openPgDisputes(db, options), remove };
  });
  webhookStoreSuite('PostgreSQL', async () => {
    const { db, sql, remove } = await world();
    const loseOutbox = async () => void (await sql`DELETE FROM webhook_outbox`);
    return { open: () => openPgWebhooks(db), loseOutbox, remove };
  });
  deadLetterStoreSuite('PostgreSQL', async () => {
    const { db, remove } = await world();
    return { open: () => openPgDeadLetters(db), remove };
  });

  describe('disputes of several processes at once', () => {
    const clock = () => NOW_MS;

    test('are opened once, and no more than there may be', async () => {
      const { dbs, remove } = await world(4);
      const options = { clock, maxPerAdvertiser: 6 };
      const stores = await Promise.all(dbs.map((db) => openPgDisputes(db, options)));
      const same = await Promise.all(
        Array.from({ length: 12 }, (_, at) => stores[at % 4]!.open(SUBJECT, READER)),
      );
      expect(new Set(same.map(({ dispute }) => dispute.id)).size).toBe(1);
      expect(same.filter(({ created }) => created)).toHaveLength(1);
      const codes = await Promise.all(
        Array.from({ length: 12 }, (_, at) =>
          codeOf(stores[at % 4]!.open({ ...SUBJECT, adId: `ad-${at + 10}` }, READER)),
        ),
      );
      expect(codes.filter((code) => code === 'ok')).toHaveLength(5);
      expect(new Set(codes)).toEqual(new Set(['ok', 'disputes_too_many']));
      await remove();
    });

    test('end in one way', async () => {
      const { dbs, remove } = await world(4);
      const stores = await Promise.all(dbs.map((db) => openPgDisputes(db, { clock })));
      for (let round = 0; round < 10; round++) {
        const subject = { ...SUBJECT, adId: `ad-${round}` };
        const { id } = (await stores[0]!.open(subject, READER)).dispute;
        const codes = await Promise.all(
          stores.map((store, at) => {
            const end = at % 2 === 0 ? UPHELD : WITHDRAWN;
            return codeOf(store.end(id, { ...end, verdicts: 0 }, ADMIN));
          }),
        );
        const inForce = (await stores[0]!.find(id, undefined))!.closed!.state;
        const winner = inForce === 'resolved' ? 0 : 1;
        expect(codes.map((code, at) => [at % 2, code])).toEqual(
          codes.map((_, at) => [at % 2, at % 2 === winner ? 'ok' : 'dispute_closed']),
        );
      }
      await remove();
    });
  });

  describe('webhooks of several processes at once', () => {
    test('are registered no more than there may be', async () => {
      const { dbs, remove } = await world(3);
      const stores = await Promise.all(dbs.map((db) => openPgWebhooks(db)));
      const codes = await Promise.all(
        Array.from({ length: 60 }, (_, at) =>
          codeOf(stores[at % 3]!.create(newWebhookAt(NOW_MS + at))),
        ),
      );
      expect(codes.filter((code) => code === 'ok')).toHaveLength(50);
      expect(await stores[0]!.list()).toHaveLength(50);
      await remove();
    });

    test('have an event once, whoever finds it (W1)', async () => {
      const { dbs, remove } = await world(4);
      const stores = await Promise.all(dbs.map((db) => openPgWebhooks(db)));
      const { webhook } = await stores[0]!.create(newWebhookAt(NOW_MS));
      const keys = Array.from({ length: 40 }, (_, at) => `k${at}`);
      const added = await Promise.all(
        stores.map((store, at) => {
          const order = at % 2 === 0 ? keys : [...keys].reverse();
          return store.enqueue(
            webhook.id,
            order.map((key) => eventOf(key)),
            NOW_MS,
          );
        }),
      );
      expect(added.reduce((sum, n) => sum + n)).toBe(40);
      expect((await stores[1]!.backlogs()).get(webhook.id)!.waiting).toBe(40);
      await remove();
    });

    test('leave nothing behind that are removed while others write for them', async () => {
      const { dbs, sql, remove } = await world(4);
      const stores = await Promise.all(dbs.map((db) => openPgWebhooks(db)));
      for (let round = 0; round < 20; round++) {
        const [one, two, three, four] = stores as [(typeof stores)[0], ...typeof stores];
        const { webhook } = await one.create(newWebhookAt(NOW_MS));
        const { id } = webhook;
        await one.enqueue(id, [eventOf('a'), eventOf('b')], NOW_MS);
        const [waiting] = await one.due([id], NOW_MS);
        const told = { count: 1, atMs: NOW_MS };
        const works = [
          one!.record(waiting!, deliveryOf(waiting!, 'delivered'), null),
          two!.enqueue(id, [eventOf('c'), eventOf('b')], NOW_MS),
          three!.tellDeadLetters(id, told, eventOf(`d${round}`, 'dlq.not_empty')),
          one!.log(deliveryOf(waiting!, 'failed')),
          four!.remove(id),
        ];
        await Promise.all(works);
        expect(await one.list()).toEqual([]);
        const left = await sql`SELECT (SELECT count(*)::int FROM webhook_outbox) AS outbox,
          (SELECT count(*)::int FROM webhook_deliveries) AS log`;
        expect(left[0]).toEqual({ outbox: 0, log: 0 });
      }
      await remove();
    });

    test('settle an event once when two senders have sent it (W3)', async () => {
      const { dbs, sql, remove } = await world(2);
      const stores = await Promise.all(dbs.map((db) => openPgWebhooks(db)));
      const { webhook } = await stores[0]!.create(newWebhookAt(NOW_MS));
      for (let round = 0; round < 20; round++) {
        await stores[0]!.enqueue(webhook.id, [eventOf(`k${round}`)], NOW_MS);
        const found = await Promise.all(stores.map((store) => store.due([webhook.id], NOW_MS)));
        const [mine, theirs] = found.map(([event]) => event!);
        await Promise.all([
          stores[0]!.record(mine!, deliveryOf(mine!, 'delivered'), null),
          stores[1]!.record(theirs!, deliveryOf(theirs!, 'failed'), NOW_MS + 1),
        ]);
        const [entry] = await sql`
          SELECT outcome, body, attempts FROM webhook_outbox WHERE key = ${`k${round}`}`;
        expect(entry).toEqual({ outcome: 'delivered', body: null, attempts: 1 });
      }
      const log = await stores[0]!.deliveries(webhook.id, { limit: 100, before: null });
      expect(log).toHaveLength(40);
      await remove();
    });
  });

  describe('dead letters of several counters at once', () => {
    test('are kept once each, whatever order they come in', async () => {
      const { dbs, remove } = await world(4);
      const stores = await Promise.all(dbs.map((db) => openPgDeadLetters(db)));
      const letters = Array.from({ length: 3_000 }, (_, at) => letterOf(10_000 + (at % 7), at));
      await Promise.all(
        stores.map((store, at) => store.put(at % 2 === 0 ? letters : [...letters].reverse())),
      );
      expect(await stores[0]!.waiting()).toEqual(new Map([['undecodable', 3_000]]));
      await Promise.all(
        stores.map((store, at) =>
          store.markRedriven(
            letters.map(({ partition, offset }) => `${partition}-${offset}`),
            1_000 + at,
          ),
        ),
      );
      const marked = await stores[0]!.list({ limit: 5_000, waitingOnly: false });
      expect(marked.every(({ redrivenAtMs }) => redrivenAtMs! >= 1_000)).toBe(true);
      expect(await stores[0]!.waiting()).toEqual(new Map());
      await remove();
    });

    test('are counted and listed quickly among a million', async () => {
      const { db, sql, remove } = await world();
      const store = await openPgDeadLetters(db);
      await sql.unsafe(`
        INSERT INTO dead_letters SELECT 10000 + i % 32, i / 32, 1772000000000 + i, 'undecodable',
          '\\x00ff', CASE WHEN i % 1000 = 0 THEN NULL ELSE 1 END FROM generate_series(1, 1000000) i`);
      await sql.unsafe('ANALYZE dead_letters');
      await store.waiting();
      const startMs = monotonicMs();
      expect(await store.waiting()).toEqual(new Map([['undecodable', 1_000]]));
      expect(await store.list({ limit: 100, waitingOnly: true })).toHaveLength(100);
      const page = { limit: 100, waitingOnly: true, reason: 'undecodable', after: '10016-0' };
      expect((await store.list(page)).length).toBeGreaterThan(50);
      expect(monotonicMs() - startMs).toBeLessThan(500);
      const [plan] = await sql`EXPLAIN (FORMAT JSON) SELECT reason, count(*) FROM dead_letters
        WHERE redriven_at_ms IS NULL GROUP BY reason`;
      expect(JSON.stringify(plan)).toContain('dead_letters_waiting');
      await remove();
    });
  });

  describe('what one machine kept in its files', () => {
    const clock = () => NOW_MS;

    test('is copied whole, and once however often it is copied', async () => {
      const folder = tempDir('control-copy');
      const path = join(folder.path, 'control.sqlite');
      const { db, remove } = await world();
      const disputes = openDisputes({ path, clock });
      const target = await openPgDisputes(db, { clock });
      const ids: string[] = [];
      for (let at = 0; at < 7; at++) {
        ids.push((await disputes.open({ ...SUBJECT, adId: `ad-${at}` }, READER)).dispute.id);
      }
      await disputes.end(ids[0]!, { ...UPHELD, verdicts: 3 }, ADMIN);
      expect(await copyDisputes(disputes, target)).toBe(7);
      expect(await copyDisputes(disputes, target)).toBe(0);
      // What goes on there after a copy is taken along by the next; what went on here stays.
      await disputes.end(ids[1]!, { ...WITHDRAWN, verdicts: 0 }, READER);
      await target.end(ids[2]!, { ...WITHDRAWN, verdicts: 0 }, READER);
      expect(await copyDisputes(disputes, target)).toBe(1);
      for (const [at, id] of ids.entries()) {
        const there = await disputes.find(id, undefined);
        const here = await target.find(id, undefined);
        if (at === 2) expect(here!.closed!.state).toBe('withdrawn');
        else expect(here).toEqual(there);
      }
      await disputes.close();
      await remove();
      folder.remove();
    });

    test('webhooks go with secrets, outbox and log: nothing is told again', async () => {
      const folder = tempDir('control-copy');
      const from = openWebhookStore(join(folder.path, 'control.sqlite'));
      const { db, remove } = await world();
      const to = await openPgWebhooks(db);
      const { webhook, secret } = await from.create(newWebhookAt(NOW_MS));
      const { id } = webhook;
      const keys = Array.from({ length: 1_203 }, (_, at) => `k${at}`);
      await from.enqueue(
        id,
        keys.map((key) => eventOf(key)),
        NOW_MS,
      );
      await from.tellDeadLetters(id, { count: 4, atMs: NOW_MS }, null);
      const [first] = await from.due([id], NOW_MS);
      await from.record(first!, deliveryOf(first!, 'failed'), NOW_MS + 50);
      const [second] = await from.due([id], NOW_MS);
      await from.record(second!, deliveryOf(second!, 'delivered'), null);
      expect(await copyWebhooks(from, to)).toEqual({ webhooks: 1, events: 1_203 });
      expect(await copyWebhooks(from, to)).toEqual({ webhooks: 0, events: 0 });
      expect(await to.list()).toEqual([webhook]);
      expect(await to.secretOf(id)).toBe(secret);
      expect(await to.deadLettersTold(id)).toEqual({ count: 4, atMs: NOW_MS });
      expect(await to.known(id, keys)).toEqual(new Set(keys));
      expect(await to.backlogs()).toEqual(await from.backlogs());
      expect(await to.due([id], NOW_MS)).toEqual(await from.due([id], NOW_MS));
      expect(await to.due([id], NOW_MS + 50)).toEqual(await from.due([id], NOW_MS + 50));
      const logs = await Promise.all(
        [from, to].map((store) => store.deliveries(id, { limit: 10, before: null })),
      );
      expect(logs[1]!.map(({ id: _, ...each }) => each)).toEqual(
        logs[0]!.map(({ id: _, ...each }) => each),
      );
      // Settled there since: settled here with the next copy.
      const [third] = await from.due([id], NOW_MS);
      await from.record(third!, deliveryOf(third!, 'delivered'), null);
      expect(await copyWebhooks(from, to)).toEqual({ webhooks: 0, events: 1 });
      expect(await to.backlogs()).toEqual(await from.backlogs());
      await from.close();
      await remove();
      folder.remove();
    });

    test('dead letters go with their bytes and marks', async () => {
      const folder = tempDir('control-copy');
      const from = openDeadLetters(join(folder.path, 'dead-letters.sqlite'));
      const { db, remove } = await world();
      const to = await openPgDeadLetters(db);
      const letters = Array.from({ length: 2_345 }, (_, at) => letterOf(at % 3, at));
      await from.put(letters);
      await from.markRedriven(['0-0', '1-1'], 7);
      await from.markRedriven(['2-2'], 8);
      for (const copied of [2_345, 0, 1]) {
        expect(await copyDeadLetters(from, to)).toBe(copied);
        const all = { limit: 5_000, waitingOnly: false };
        expect(await to.list(all)).toEqual(await from.list(all));
        expect(await to.waiting()).toEqual(await from.waiting());
        expect(await to.read(['2-2'])).toEqual(await from.read(['2-2']));
        // What was redriven there in between is marked by the last copy.
        if (copied === 0) await from.markRedriven(['0-3'], 9);
      }
      await from.close();
      await remove();
      folder.remove();
    });

    test('is imported by one command, tokens and all', async () => {
      const folder = tempDir('control-copy');
      const source = {
        control: join(folder.path, 'control.sqlite'),
        deadLetters: join(folder.path, 'dead-letters.sqlite'),
      };
      const disputes = openDisputes({ path: source.control, clock });
      const { dispute } = await disputes.open(SUBJECT, READER);
      const webhooks = openWebhookStore(source.control);
      const { webhook } = await webhooks.create(newWebhookAt(NOW_MS));
      await webhooks.enqueue(webhook.id, [eventOf('a'), eventOf('b')], NOW_MS);
      const letters = openDeadLetters(source.deadLetters);
      await letters.put([letterOf(0, 1)]);
      for (const store of [disputes, webhooks, letters]) await store.close();
      const { db, remove } = await world();
      const kinds = { disputes: 1, webhooks: 1, webhookEvents: 2, deadLetters: 1 };
      expect(await importControl(source, { db, clock })).toMatchObject(kinds);
      const none = { disputes: 0, webhooks: 0, webhookEvents: 0, deadLetters: 0 };
      expect(await importControl(source, { db, clock })).toMatchObject(none);
      expect(await (await openPgDisputes(db, { clock })).find(dispute.id, 'adv-1')).toEqual(
        dispute,
      );
      expect(await (await openPgWebhooks(db)).get(webhook.id)).toEqual(webhook);
      expect(await (await openPgDeadLetters(db)).read(['0-1'])).toHaveLength(1);
      await remove();
      folder.remove();
    });
  });
});
