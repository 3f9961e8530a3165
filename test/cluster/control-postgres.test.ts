// Proves INV-12 of SPEC.md.
/** The database that roles share: its connections, tokens and audit log in it, and their import. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SQL } from 'bun';
import { openPgAuditLines, openPgAuditLog } from '../../src/auth/postgres/audit-log.ts';
import { openPgTokenRows, openPgTokens } from '../../src/auth/postgres/tokens.ts';
import { recordAct } from '../../src/auth/record-act.ts';
import { openAuditLog } from '../../src/auth/sqlite/audit-log.ts';
import { openTokenStore } from '../../src/auth/sqlite/tokens.ts';
import { dataPaths } from '../../src/config/paths.ts';
import { configSchema } from '../../src/config/schema.ts';
import { monotonicMs, systemClock } from '../../src/platform/clock.ts';
import { assert, LedgerError } from '../../src/platform/errors.ts';
import { Postgres, type PostgresOptions, whole } from '../../src/platform/postgres.ts';
import { type Control, openControl } from '../../src/roles/open-control.ts';
import { auditLogSuite } from '../conformance/audit-log-suite.ts';
import { tokenStoreSuite } from '../conformance/token-store-suite.ts';
import { jsonOf, setUpApi } from '../support/api.ts';
import { postgresMissing, TestPostgres } from '../support/postgres.ts';
import { ROOT } from '../support/source-tree.ts';
import { tempDir } from '../support/temp-dir.ts';

const missing = postgresMissing();
if (missing !== null) process.stderr.write(`control-postgres: skipped, ${missing}\n`);

const TIMEOUT_MS = 1_000;
/** The bound of one request, and what a machine under load needs beyond it. */
const BOUND_MS = TIMEOUT_MS + 2_000 + 1_500;

describe.skipIf(missing !== null)('the control database', () => {
  let server: TestPostgres;
  let sql: SQL;
  let opened: Postgres[] = [];
  beforeAll(async () => {
    server = await TestPostgres.create();
  });
  afterAll(() => server?.dispose());
  beforeEach(async () => {
    sql = server.connect();
    await sql.unsafe('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
  });
  afterEach(async () => {
    for (const db of opened) await db.close();
    opened = [];
    await sql.close({ timeout: 0 });
  });

  function connect(over: Partial<PostgresOptions> = {}): Postgres {
    const db = new Postgres({
      url: server.url,
      tls: 'disable',
      tlsCaFile: '',
      timeoutMs: TIMEOUT_MS,
      maxConnections: 4,
      ...over,
    });
    opened.push(db);
    return db;
  }
  const one = (db: Postgres): Promise<number> =>
    db.run(async (each) => whole((await each`SELECT 1::bigint AS n`)[0].n));
  async function failure(work: Promise<unknown>): Promise<LedgerError> {
    const error = await work.then(
      () => null,
      (reason: unknown) => reason,
    );
    if (!(error instanceof LedgerError)) throw error ?? new Error('it did not fail');
    return error;
  }
  const UNAVAILABLE = { code: 'control_unavailable', kind: 'retry' };
  /** Statements of a process of its own: opens what `open` gives as `name`. */
  function child(name: string, file: string, open: string) {
    const options = { url: server.url, tls: 'disable', tlsCaFile: '', timeoutMs: 20_000 };
    const path = (each: string): string => JSON.stringify(join(ROOT, each));
    return {
      open: `const { Postgres } = await import(${path('src/platform/postgres.ts')});
        const { ${open} } = await import(${path(file)});
        const db = new Postgres(${JSON.stringify({ ...options, maxConnections: 2 })});
        const ${name} = await ${open}(db, () => 5);`,
      close: 'await db.close();',
    };
  }

  tokenStoreSuite('PostgreSQL', () => ({
    open: (clock) => openPgTokens(connect(), clock),
    openRows: () => openPgTokenRows(connect()),
    contents: async () => JSON.stringify(await sql`SELECT t::text FROM tokens AS t`),
    child: child('store', 'src/auth/postgres/tokens.ts', 'openPgTokens'),
    remove: () => undefined,
  }));

  auditLogSuite('PostgreSQL', () => ({
    open: (clock) => openPgAuditLog(connect(), clock),
    openLines: () => openPgAuditLines(connect()),
    change: async (statements) => {
      await sql.unsafe(statements);
    },
    tamper: async (statements) => {
      await sql.unsafe(`DROP TRIGGER audit_keeps_lines ON audit; ${statements}`);
    },
    child: child('audit', 'src/auth/postgres/audit-log.ts', 'openPgAuditLog'),
    remove: () => undefined,
  }));

  describe('tokens', () => {
    test('are checked while somebody holds their row, and on a server that only reads', async () => {
      const store = await openPgTokens(connect(), systemClock);
      const { token, id } = await store.create({ scope: 'admin' });
      await sql.begin(async (transaction) => {
        await transaction`SELECT * FROM tokens WHERE id = ${id} FOR UPDATE`;
        expect(await store.authenticate(token)).not.toBeNull();
      });
      await sql.unsafe('ALTER DATABASE postgres SET default_transaction_read_only = on');
      try {
        const reading = await openPgTokens(connect(), systemClock);
        expect(await reading.authenticate(token)).not.toBeNull();
        expect((await reading.get(id))?.lastUsedAtMs).toBeNull();
        const refused = reading.create({ scope: 'admin' });
        expect(await failure(refused)).toMatchObject(UNAVAILABLE);
      } finally {
        await sql`SET default_transaction_read_only = off`;
        await sql.unsafe('ALTER DATABASE postgres RESET default_transaction_read_only');
      }
    });
  });

  describe('the audit log', () => {
    test('is not emptied at one go either', async () => {
      const audit = await openPgAuditLog(connect(), systemClock);
      await audit.begin({ actor: 'cli', action: 'a', target: '' });
      await expect(sql.unsafe('TRUNCATE audit').execute()).rejects.toThrow('stay');
    });

    test('is one chain whatever isolation the database has by default', async () => {
      await sql.unsafe(
        "ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'",
      );
      try {
        const logs = [connect(), connect()].map((db) => openPgAuditLog(db, systemClock));
        const [a, b] = await Promise.all(logs);
        const act = { actor: 'cli', action: 'a', target: '' };
        await Promise.all(Array.from({ length: 20 }, (_, at) => (at % 2 ? a : b)!.begin(act)));
        expect(await a!.verify()).toMatchObject({ broken: null, head: { line: 20 } });
      } finally {
        await sql.unsafe('ALTER DATABASE postgres RESET default_transaction_isolation');
      }
    });
  });

  describe('its tables', () => {
    test('are made once, by several processes at once', async () => {
      await Promise.all(Array.from({ length: 6 }, () => openPgAuditLog(connect(), systemClock)));
      expect(await sql`SELECT digest FROM ledger_schema`).toHaveLength(1);
    });

    test('are enough for a user with the documented grants, who cannot rewrite the audit log', async () => {
      const open = (user: string): Promise<Control> => {
        const control = { kind: 'postgres', postgres: { url: server.urlOf(user) } };
        const paths = dataPaths('/nowhere');
        return openControl(configSchema.parse({ control }), paths, systemClock);
      };
      await (await open('postgres')).close();
      await sql.unsafe(`DROP ROLE IF EXISTS clickledger; CREATE ROLE clickledger LOGIN;
        REVOKE CREATE ON SCHEMA public FROM PUBLIC`);
      await sql.unsafe(documentedGrants());
      const clerk = await open('clickledger');
      try {
        const { token, id } = await clerk.tokens.create({ scope: 'admin' });
        expect(await clerk.tokens.authenticate(token)).not.toBeNull();
        expect(await clerk.tokens.revoke(id)).toBe(true);
        const act = { actor: 'cli', action: 'a', target: '' };
        await recordAct(clerk.audit, act, async () => {
          await clerk.state.set('flush', { atMs: 1 });
          await (await clerk.leases.tryTake('webhooks', 'a test'))?.release();
          expect((await clerk.webhooks.list()).length).toBe(0);
          expect((await clerk.deadLetters.waiting()).size).toBe(0);
        });
        expect(await clerk.audit.verify()).toMatchObject({ broken: null, head: { line: 2 } });
        const own = connect({ url: server.urlOf('clickledger') });
        for (const change of [
          "UPDATE audit SET actor = 'x'",
          'DELETE FROM audit',
          'TRUNCATE audit',
        ]) {
          const refusal = await failure(own.run((each) => each.unsafe(change)));
          expect(refusal).toMatchObject(UNAVAILABLE);
          expect(refusal.hint).toContain('lacks a right');
        }
        // New tables need their owner.
        expect(await failure(own.migrate('CREATE TABLE more (n int)'))).toMatchObject(UNAVAILABLE);
      } finally {
        await clerk.close();
        await sql.unsafe('DROP OWNED BY clickledger; DROP ROLE clickledger');
      }
    });

    test('lie in the schema that the address names', async () => {
      await sql.unsafe('CREATE SCHEMA ledger');
      const store = await openPgTokens(
        connect({ url: `${server.url}?search_path=ledger` }),
        systemClock,
      );
      await store.create({ scope: 'admin' });
      expect(await sql`SELECT id FROM ledger.tokens`).toHaveLength(1);
      await sql.unsafe('DROP SCHEMA ledger CASCADE');
    });
  });

  describe('a request', () => {
    test('is refused at once while the server is away, and answered when it is back', async () => {
      const db = connect({ timeoutMs: 10_000 });
      expect(await one(db)).toBe(1);
      await server.stop();
      try {
        for (let at = 0; at < 3; at++) {
          const sinceMs = monotonicMs();
          const refusal = await failure(one(db));
          expect(refusal).toMatchObject(UNAVAILABLE);
          expect(monotonicMs() - sinceMs).toBeLessThan(2_000);
          // What the API says has no place in it; what is logged does.
          const place = `127.0.0.1:${server.port}`;
          expect(`${refusal.message} ${refusal.hint}`).not.toContain(place);
          expect((refusal.cause as Error).message).toContain(place);
        }
        // A process may start meanwhile; its tables are made when the server is there.
        const early = await openPgTokens(connect(), systemClock);
        expect(await failure(early.list())).toMatchObject(UNAVAILABLE);
        await server.start();
        sql = server.connect();
        expect(await one(db)).toBe(1);
        expect(await early.list()).toEqual([]);
      } finally {
        if (!(await isUp(server))) await server.start();
      }
    });

    test('to a server that stands still ends in its time, and the next ones are answered', async () => {
      const db = connect();
      await Promise.all([one(db), one(db), one(db)]);
      server.freeze();
      try {
        const sinceMs = monotonicMs();
        // More than there are connections: those that wait for one are bounded too.
        const running = Array.from({ length: 8 }, (_, at) =>
          failure(at % 2 ? one(db) : db.transaction((each) => each`SELECT 1`)),
        );
        for (const each of await Promise.all(running)) expect(each).toMatchObject(UNAVAILABLE);
        // A process that starts now waits for it once, however many tables it has.
        const anew = connect();
        for (const name of ['a', 'b', 'c']) await anew.migrate(`CREATE TABLE ${name} (n int)`);
        expect(monotonicMs() - sinceMs).toBeLessThan(2 * BOUND_MS);
      } finally {
        server.thaw();
      }
      expect(await Promise.all(Array.from({ length: 8 }, () => one(db)))).toEqual(Array(8).fill(1));
    });

    test('that works for too long is ended by the server, and leaves nothing behind', async () => {
      const db = connect();
      await db.migrate('CREATE TABLE kept (n int)');
      const slow = db.transaction(async (each) => {
        await each`INSERT INTO kept VALUES (1)`;
        await each`SELECT pg_sleep(30)`;
      });
      expect(await failure(slow)).toMatchObject(UNAVAILABLE);
      expect(await sql`SELECT * FROM kept`).toHaveLength(0);
      expect(await one(db)).toBe(1);
    });

    test('keeps apart what the database cannot do now and what is wrong with the request', async () => {
      const db = connect();
      await db.migrate('CREATE TABLE few (n int PRIMARY KEY)');
      const twice = db.transaction((each) => each`INSERT INTO few VALUES (1), (1)`);
      await expect(twice).rejects.not.toBeInstanceOf(LedgerError);
      const refusal = new LedgerError('few_full', 'there is no more room');
      const refused = db.transaction(async (each) => {
        await each`INSERT INTO few VALUES (2)`;
        throw refusal;
      });
      expect(await failure(refused)).toBe(refusal);
      const broken = db.run(async () => assert(false, 'a bug'));
      await expect(broken).rejects.toThrow('invariant broken');
      expect(await sql`SELECT * FROM few`).toHaveLength(0);
      const wrong = connect({ url: server.url.replace(/\w+$/, 'elsewhere') });
      expect((await failure(one(wrong))).hint).toContain('name of the database');
    });

    test('is refused when the certificates to trust are no file', () => {
      expect(() => connect({ tlsCaFile: '/nowhere/ca.pem' })).toThrow('/nowhere/ca.pem');
    });
  });

  describe('the API without it', () => {
    test('answers 503 with Retry-After, tells no place, and blames no token', async () => {
      const db = connect();
      const tokens = await openPgTokens(db, systemClock);
      const audit = await openPgAuditLog(db, systemClock);
      const { token } = await tokens.create({ scope: 'admin' });
      const { send, logged } = setUpApi({ tokens, audit });
      const ask = (path: string, init: RequestInit = {}) => send(path, init, token);
      expect((await ask('/v1/admin/status')).status).toBe(200);
      await server.stop();
      try {
        // More often than wrong tokens of one address are taken.
        for (let at = 0; at < 70; at++) {
          const answer = await ask('/v1/admin/status');
          expect(answer.status).toBe(503);
          expect(answer.headers.get('Retry-After')).toBe('5');
          expect(answer.headers.get('Content-Type')).toBe('application/problem+json');
          const body = await jsonOf(answer);
          expect(body.code).toBe('control_unavailable');
          expect(JSON.stringify(body)).not.toMatch(new RegExp(`127\\.0\\.0\\.1|${server.port}`));
        }
        expect(logged.length).toBe(70);
        for (const path of ['/healthz', '/metrics']) {
          expect((await send(path, {}, null)).status).toBe(200);
        }
      } finally {
        await server.start();
        sql = server.connect();
      }
      expect((await ask('/v1/admin/status')).status).toBe(200);
    });

    test('begins no act that it cannot record', async () => {
      const tokens = await openPgTokens(connect(), systemClock);
      const audit = await openPgAuditLog(connect(), systemClock);
      const { token } = await tokens.create({ scope: 'admin' });
      const { send, admin } = setUpApi({ tokens, audit });
      await sql.unsafe('ALTER TABLE audit RENAME TO audit_elsewhere');
      const answer = await send('/v1/admin/reconcile', { method: 'POST' }, token);
      expect([answer.status, (await jsonOf(answer)).code]).toEqual([503, 'control_unavailable']);
      expect(admin.calls).toEqual([]);
    });
  });

  describe('clickledger control', () => {
    const folder = tempDir('control-import');
    const file = join(folder.path, 'control.sqlite');
    afterAll(() => folder.remove());

    function run(...args: string[]) {
      const env = {
        ...process.env,
        CLICKLEDGER_DATA_DIR: join(folder.path, 'data'),
        CLICKLEDGER_LOG_KIND: 'kafka',
        CLICKLEDGER_LOG_KAFKA_BROKERS: '127.0.0.1:1',
        CLICKLEDGER_ARCHIVE_KIND: 's3',
        CLICKLEDGER_ARCHIVE_S3_BUCKET: 'clicks',
        CLICKLEDGER_WAREHOUSE_KIND: 'clickhouse',
        CLICKLEDGER_CONTROL_KIND: 'postgres',
        CLICKLEDGER_CONTROL_POSTGRES_URL: server.url,
      };
      const command = [process.execPath, join(ROOT, 'src/main.ts'), ...args];
      const { exitCode, stdout, stderr } = Bun.spawnSync(command, { env });
      return { code: exitCode, out: stdout.toString(), error: stderr.toString() };
    }

    test('import takes tokens and audit log of one machine, and nothing twice', async () => {
      const old = openTokenStore({ path: file, clock: systemClock });
      const { token, id } = await old.create({ scope: 'admin' }, { name: 'moved' });
      const oldLog = openAuditLog({ path: file, clock: systemClock });
      const act = { actor: 'cli', action: 'tokens.create', target: id };
      await oldLog.end(await oldLog.begin(act), { outcome: 'ok' });
      const noted = await oldLog.head();

      const first = run('control', 'import', file);
      expect(first).toMatchObject({ code: 0, error: '' });
      expect(first.out).toMatch(/tokens +1/);
      expect(first.out).toMatch(/auditLines +2/);
      expect(run('control', 'import', file).out).toMatch(/auditLines +0\ntokens +0/);

      const tokens = await openPgTokens(connect(), systemClock);
      expect(await tokens.authenticate(token)).toEqual({ scope: 'admin', tokenId: id });
      const audit = await openPgAuditLog(connect(), systemClock);
      expect(await audit.verify(noted)).toMatchObject({ broken: null, head: { line: 6 } });
      const listed = run('audit', 'list');
      expect(listed.out.match(/control\.import +ok/g)).toHaveLength(2);
      expect(run('token', 'list').out).toContain('moved');

      await oldLog.begin(act);
      const forked = run('control', 'import', file);
      expect(forked).toMatchObject({ code: 1, out: '' });
      expect(forked.error).toContain('not those of the file');
      expect(await audit.head()).toMatchObject({ line: 6 });
      for (const store of [old, oldLog]) await store.close();
    });

    test('import of a file that is not there makes none; init says when it cannot', async () => {
      const gone = join(folder.path, 'gone.sqlite');
      expect(run('control', 'import', gone).error).toContain(`no file ${gone}`);
      expect(await Bun.file(gone).exists()).toBe(false);
      expect(run('control', 'init')).toMatchObject({ code: 0, error: '' });
      expect(await sql`SELECT * FROM audit`).toHaveLength(0);
      await server.stop();
      try {
        const { code, error } = run('control', 'init');
        expect(code).toBe(1);
        // Whoever has a shell is told where.
        expect(error).toContain(`127.0.0.1:${server.port}`);
      } finally {
        await server.start();
        sql = server.connect();
      }
    });
  });
});

/** What docs/operating/control-database.md says that the roles' user needs. */
function documentedGrants(): string {
  const page = readFileSync(join(ROOT, 'docs/operating/control-database.md'), 'utf8');
  const block = /```sql\n(GRANT USAGE[^`]+)```/.exec(page)?.[1];
  assert(block !== undefined, 'the page has no grants');
  return block;
}

async function isUp(server: TestPostgres): Promise<boolean> {
  const probe = server.connect(1);
  return probe`SELECT 1`.then(
    () => true,
    () => false,
  );
}
