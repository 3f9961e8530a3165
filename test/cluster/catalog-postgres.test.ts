/** The PostgreSQL source and the sync with a real server, in this process. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SQL } from 'bun';
import { CatalogSync, type CatalogSyncOptions } from '../../src/ads/catalog-sync.ts';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import type { AdCatalog } from '../../src/ads/port.ts';
import { PostgresSource, type PostgresSourceOptions } from '../../src/ads/postgres/source.ts';
import { configSchema } from '../../src/config/schema.ts';
import { monotonicMs, systemClock } from '../../src/platform/clock.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { postgresMissing, TestPostgres } from '../support/postgres.ts';
import { eventually } from '../support/product.ts';
import { ROOT } from '../support/source-tree.ts';
import { tempDir } from '../support/temp-dir.ts';

const missing = postgresMissing();
if (missing !== null) process.stderr.write(`catalog-postgres: skipped, ${missing}\n`);

const TABLE = `
  CREATE TABLE ads (ad_id text PRIMARY KEY, advertiser_id text NOT NULL, campaign_id text NOT NULL,
    target_url text, pass_query boolean NOT NULL DEFAULT false,
    updated_at timestamptz NOT NULL DEFAULT now(), deleted_at timestamptz);
  CREATE INDEX ON ads (updated_at, ad_id)`;
const FILL = (count: number): string => `
  INSERT INTO ads (ad_id, advertiser_id, campaign_id, target_url, updated_at)
  SELECT 'ad-' || i, 'adv-' || i % 50, 'camp-' || i % 500, 'https://shop.example/' || i,
    now() - interval '1 day' + i * interval '1 ms'
  FROM generate_series(1, ${count}) i`;

describe.skipIf(missing !== null)('ads out of PostgreSQL', () => {
  let server: TestPostgres;
  let sql: SQL;
  let folder: ReturnType<typeof tempDir>;
  let catalog: AdCatalog;
  let opened: PostgresSource[];
  beforeAll(async () => {
    server = await TestPostgres.create();
  });
  afterAll(() => server?.dispose());
  beforeEach(async () => {
    sql = server.connect(4);
    await sql.unsafe(
      'DROP SCHEMA IF EXISTS "Ad ""Server""" CASCADE; DROP SCHEMA public CASCADE; CREATE SCHEMA public',
    );
    await sql.unsafe(TABLE);
    folder = tempDir('catalog-postgres');
    catalog = openLmdbCatalog({ dir: join(folder.path, 'catalog'), readOnly: false });
    opened = [];
  });
  afterEach(async () => {
    for (const source of opened) await source.close();
    await sql.close({ timeout: 0 });
    await catalog.close();
    folder.remove();
  });

  const { postgres: defaults } = configSchema.parse({}).catalog;
  const columns = { ...defaults.columns, passQuery: 'pass_query', deletedAt: 'deleted_at' };
  function open(more: Partial<PostgresSourceOptions> = {}): PostgresSource {
    const own = { onNotify: () => {}, onListenFailed: () => {} };
    const source = new PostgresSource({ ...defaults, columns, url: server.url, ...own, ...more });
    opened.push(source);
    return source;
  }
  function newSync(source = open(), more: Partial<CatalogSyncOptions> = {}): CatalogSync {
    const clocks = { clock: systemClock, monotonic: monotonicMs };
    return new CatalogSync({ ...defaults, ...clocks, catalog, source, pollMs: 0, ...more });
  }
  /** A whole load. */
  async function load(sync: CatalogSync): Promise<void> {
    do await sync.turn();
    while (sync.state.load !== null);
  }
  const failure = async (work: Promise<unknown>): Promise<LedgerError> => {
    const error = await work.then(
      () => null,
      (reason: unknown) => reason,
    );
    if (error instanceof LedgerError) return error;
    throw new Error(`no expected failure, but ${error}`);
  };

  test('a full load takes every row, and changes follow', async () => {
    await sql.unsafe(FILL(50_000));
    const sync = newSync();
    await load(sync);
    expect(catalog.count()).toBe(50_000);
    expect(catalog.find('ad-777')).toEqual({
      adId: 'ad-777',
      advertiserId: 'adv-27',
      campaignId: 'camp-277',
      targetUrl: 'https://shop.example/777',
      passQuery: false,
    });
    await sql`UPDATE ads SET target_url = 'https://é.example/日本', pass_query = true, updated_at = now() WHERE ad_id = 'ad-1'`;
    await sql`INSERT INTO ads (ad_id, advertiser_id, campaign_id, target_url) VALUES ('new', 'a', 'c', 'https://e.com')`;
    await sql`UPDATE ads SET deleted_at = now(), updated_at = now() WHERE ad_id = 'ad-2'`;
    await sync.turn();
    const changed = { targetUrl: 'https://é.example/日本', passQuery: true };
    expect(catalog.find('ad-1')).toMatchObject(changed);
    expect(catalog.find('new')).not.toBeNull();
    expect(catalog.find('ad-2')).toBeNull();
    expect(catalog.count()).toBe(50_000);
  });

  test('a transaction that commits after a later one is not missed', async () => {
    await sql.unsafe(FILL(10));
    const sync = newSync();
    await load(sync);
    const slow = await sql.reserve();
    // Its `now()` is that of the beginning.
    await slow`BEGIN`;
    await slow`INSERT INTO ads (ad_id, advertiser_id, campaign_id, target_url) VALUES ('slow', 'a', 'c', 'https://e.com')`;
    for (const adId of ['quick-1', 'quick-2']) {
      await sql`INSERT INTO ads (ad_id, advertiser_id, campaign_id, target_url) VALUES (${adId}, 'a', 'c', 'https://e.com')`;
      await sync.turn();
      expect(catalog.find(adId)).not.toBeNull();
    }
    expect(catalog.find('slow')).toBeNull();
    await slow`COMMIT`;
    slow.release();
    await eventually('it is read', async () => {
      await sync.turn();
      return catalog.find('slow') !== null;
    });
  });

  test('many rows of one instant are read page by page', async () => {
    const sync = newSync(open(), { pageRows: 100 });
    await load(sync);
    await sql`INSERT INTO ads (ad_id, advertiser_id, campaign_id, target_url)
      SELECT 'same-' || i, 'a', 'c', 'https://e.com/' FROM generate_series(1, 1050) i`;
    await sync.turn();
    expect(catalog.count()).toBe(1_050);
  });

  test('wrong rows are left out by name, and the others are taken', async () => {
    await sql.unsafe(FILL(10));
    await load(newSync());
    await sql`UPDATE ads SET target_url = 'javascript:alert(1)', updated_at = now() WHERE ad_id = 'ad-3'`;
    await sql`UPDATE ads SET target_url = NULL, updated_at = now() WHERE ad_id = 'ad-4'`;
    await sql`INSERT INTO ads (ad_id, advertiser_id, campaign_id, target_url)
      VALUES ('has space', 'a', 'c', 'https://e.com'), ('', 'a', 'c', 'https://e.com'), ('fine', 'a', 'c', 'https://e.com'), ('ünïcode', 'a', 'c', 'https://e.com')`;
    await newSync().turn();
    const { count, rows } = catalog.refusedRows(10);
    expect(count).toBe(5);
    expect(rows.map(({ adId }) => adId).sort()).toEqual([
      '',
      'ad-3',
      'ad-4',
      'has space',
      'ünïcode',
    ]);
    expect(catalog.find('fine')).not.toBeNull();
    expect(catalog.find('ad-3')?.targetUrl).toBe('https://shop.example/3');
  });

  test('rows that vanished are found by a full load, and a table that is emptied keeps its ads', async () => {
    await sql.unsafe(FILL(1_000));
    const reload = () => load(newSync(open(), { fullReloadMs: 0 }));
    await reload();
    await sql`DELETE FROM ads WHERE ad_id LIKE 'ad-9%'`;
    await reload();
    expect(catalog.count()).toBe(1_000 - 111);
    await sql`TRUNCATE ads`;
    await reload();
    expect(catalog.count()).toBe(1_000 - 111);
  });

  for (const [type, id] of [
    ['bigint', (i: number) => String(i)],
    ['uuid', (i: number) => `00000000-0000-4000-8000-${String(i).padStart(12, '0')}`],
    ['varchar(40)', (i: number) => `v~${i}`],
  ] as const) {
    test(`ids of type ${type}, a table with other names, times without a zone`, async () => {
      await sql.unsafe(`CREATE SCHEMA "Ad ""Server"""; CREATE TABLE "Ad ""Server"""."The Ads"
        ("Id" ${type} PRIMARY KEY, owner bigint, c int, url text, at timestamp, live boolean)`);
      for (let i = 1; i <= 25; i++) {
        await sql.unsafe(
          'INSERT INTO "Ad ""Server"""."The Ads" VALUES ($1, 7, 8, $2, now() - interval \'1 hour\', true)',
          [id(i), `https://e.com/${i}`],
        );
      }
      await catalog.putAll([
        {
          adId: 'left-over',
          advertiserId: 'a',
          campaignId: 'c',
          targetUrl: 'https://e.com',
          passQuery: false,
        },
      ]);
      const source = open({
        table: 'Ad "Server".The Ads',
        columns: {
          ...{ adId: 'Id', advertiserId: 'owner', campaignId: 'c', targetUrl: 'url' },
          ...{ updatedAt: 'at', active: 'live', passQuery: '', deletedAt: '' },
        },
      });
      const sync = newSync(source, { pageRows: 10 });
      await load(sync);
      expect(catalog.count()).toBe(25);
      expect(catalog.find(id(3))).toMatchObject({ advertiserId: '7', campaignId: '8' });
      await sql.unsafe(
        'UPDATE "Ad ""Server"""."The Ads" SET live = false, at = now() WHERE "Id" = $1',
        [id(3)],
      );
      await sync.turn();
      expect(catalog.find(id(3))).toBeNull();
      expect(catalog.count()).toBe(24);
    });
  }

  test('a query takes the place of a table', async () => {
    await sql.unsafe(FILL(20));
    const query = "SELECT *, 'x' AS more FROM ads WHERE advertiser_id <> 'adv-1' -- only these";
    await load(newSync(open({ table: '', query })));
    expect(catalog.count()).toBe(19);
  });

  test('rows without a time, or of an endless one, are taken by loads and stop nothing', async () => {
    await sql`ALTER TABLE ads ALTER updated_at DROP NOT NULL`;
    await sql.unsafe(FILL(5));
    await sql`UPDATE ads SET updated_at = 'infinity' WHERE ad_id = 'ad-1'`;
    await sql`UPDATE ads SET updated_at = '-infinity' WHERE ad_id = 'ad-2'`;
    await sql`UPDATE ads SET updated_at = NULL WHERE ad_id = 'ad-3'`;
    await sql`UPDATE ads SET updated_at = '2999-01-01' WHERE ad_id = 'ad-4'`;
    const sync = newSync();
    await load(sync);
    expect(catalog.count()).toBe(5);
    await sql`UPDATE ads SET campaign_id = 'other', updated_at = now() WHERE ad_id = 'ad-5'`;
    await sync.turn();
    expect(catalog.find('ad-5')?.campaignId).toBe('other');
  });

  test('it only reads, with no more rights than SELECT', async () => {
    await sql.unsafe(FILL(10));
    await sql.unsafe(
      'DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT ON ads TO reader',
    );
    await load(newSync(open({ url: server.urlOf('reader') })));
    expect(catalog.count()).toBe(10);
    const writing = open({ query: `SELECT * FROM change_ads()` });
    await sql.unsafe(`CREATE FUNCTION change_ads() RETURNS SETOF ads LANGUAGE sql AS
      $$ UPDATE ads SET campaign_id = 'changed' RETURNING * $$`);
    expect((await failure(writing.page(null, 10))).message).toContain('read-only transaction');
    await sql.unsafe('REVOKE SELECT ON ads FROM reader');
    const refused = await failure(open({ url: server.urlOf('reader') }).page(null, 10));
    expect(refused.code).toBe('catalog_source_failed');
    expect(refused.kind).toBe('retry');
    expect(refused.hint).toContain('Grant SELECT');
    await sql.unsafe('DROP OWNED BY reader; DROP ROLE reader');
  });

  test('the statements of the operating page set it up: grants, index, triggers', async () => {
    await sql.unsafe(FILL(100));
    const page = readFileSync(join(ROOT, 'docs/operating/catalog-from-postgresql.md'), 'utf8');
    const blocks = [...page.matchAll(/^```sql\n(.*?)^```/gms)].map((match) => match[1]!);
    const statements = blocks.flatMap((block) => block.split(/;\n/)).filter((each) => each.trim());
    expect(statements.length).toBeGreaterThan(6);
    for (const each of statements) await sql.unsafe(each);
    let calls = 0;
    const url = server.urlOf('clickledger');
    const source = open({ url, channel: 'ads_changed', onNotify: () => calls++ });
    const sync = newSync(source);
    await load(sync);
    expect(catalog.count()).toBe(100);
    await eventually('it listens', () => calls === 1);
    // A writer that forgets `updated_at`.
    await sql`UPDATE ads SET target_url = 'https://new.example/' WHERE ad_id = 'ad-5'`;
    await eventually('it is called', () => calls === 2);
    await sync.turn();
    expect(catalog.find('ad-5')?.targetUrl).toBe('https://new.example/');
    await source.close();
    await sql.unsafe('DROP OWNED BY clickledger; DROP ROLE clickledger');
  });

  test('a failure says what to look at, and never shows the password', async () => {
    const url = server.url.replace('postgres@', 'postgres:hunter2@');
    const wrong: readonly [Partial<PostgresSourceOptions>, string][] = [
      [{ table: 'nothing' }, 'catalog.postgres.table'],
      [{ columns: { ...columns, updatedAt: 'nothing' } }, 'catalog.postgres.columns'],
      [{ query: 'SELECT 1 1', table: '' }, 'does not understand'],
      [{ url: `${url}-absent` }, 'database'],
      [{ url: url.replace(String(server.port), '1') }, 'Clicks go on'],
    ];
    for (const [more, hint] of wrong) {
      const error = await failure(open({ url, ...more }).changes({ updatedAtUs: 0 }, 10));
      expect(error.hint).toContain(hint);
      expect(`${error.message}${error.hint}${error.cause}`).not.toContain('hunter2');
    }
    expect(() => open({ table: 'a..b' })).toThrow('names nothing');
    expect(() => open({ table: `${'x'.repeat(64)}` })).toThrow('names nothing');
  });

  test('a query that takes too long is ended by the server', async () => {
    const query = 'SELECT ads.* FROM ads, pg_sleep(30)';
    await sql.unsafe(FILL(1));
    const beganMs = monotonicMs();
    const error = await failure(open({ query, timeoutMs: 1_000 }).page(null, 10));
    expect(error.hint).toContain('timeout_ms');
    expect(monotonicMs() - beganMs).toBeLessThan(15_000);
  });

  test('a server that does not answer at all is given up, and asked again over a new connection', async () => {
    await sql.unsafe(FILL(10));
    const source = open({ timeoutMs: 1_000 });
    await source.page(null, 10);
    const [{ pid }] =
      await sql`SELECT pid FROM pg_stat_activity WHERE application_name = 'clickledger'`;
    process.kill(pid, 'SIGSTOP');
    try {
      const error = await failure(source.page(null, 10));
      expect(error.message).toContain('no answer within');
      expect(await source.page(null, 10)).toHaveLength(10);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });

  test('a connection that is killed in mid-load is made anew, and the load goes on where it was', async () => {
    await sql.unsafe(FILL(30_000));
    const sync = newSync(open(), { pageRows: 1_000 });
    for (let turns = 0; turns < 5; turns++) await sync.turn();
    const pages = sync.state.load;
    expect(pages).toMatchObject({ phase: 'pages' });
    // Held up in its query by a lock, so that the connection dies under it.
    const locking = await sql.reserve();
    await locking`BEGIN`;
    await locking`LOCK TABLE ads IN ACCESS EXCLUSIVE MODE`;
    const failed = failure(sync.turn());
    const OWN = "application_name = 'clickledger' AND wait_event_type = 'Lock'";
    await eventually('it waits in a query', async () => {
      return (await sql.unsafe(`SELECT pid FROM pg_stat_activity WHERE ${OWN}`)).length === 1;
    });
    await sql.unsafe(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${OWN}`);
    const error = await failed;
    expect(error.code).toBe('catalog_source_failed');
    await locking`COMMIT`;
    locking.release();
    expect(sync.state.load).toEqual(pages);
    await load(sync);
    expect(catalog.count()).toBe(30_000);
  });

  test('a server that is away and comes back is read again, with all that was written meanwhile', async () => {
    await sql.unsafe(FILL(100));
    const sync = newSync();
    await load(sync);
    await server.stop();
    const error = await failure(sync.turn());
    expect(error.kind).toBe('retry');
    expect(catalog.find('ad-7')).not.toBeNull();
    await server.start();
    await server.connect()`INSERT INTO ads (ad_id, advertiser_id, campaign_id, target_url) VALUES ('meanwhile', 'a', 'c', 'https://e.com')`;
    await sync.turn();
    expect(catalog.find('meanwhile')).not.toBeNull();
  });

  test('a notification calls at once, also after the connection was lost', async () => {
    let calls = 0;
    const source = open({ channel: 'ads "changed"', onNotify: () => calls++ });
    await source.page(null, 1);
    await eventually('it listens', () => calls === 1);
    await sql.notify('ads "changed"', 'ad-1');
    await eventually('it is called', () => calls === 2);
    await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'clickledger'`;
    await source.page(null, 1).catch(() => source.page(null, 1));
    await eventually('it listens again', () => calls >= 3);
    const before = calls;
    await sql.notify('ads "changed"', 'ad-2');
    await eventually('it is called again', () => calls > before);
  });
});

const noTls = missing !== null || Bun.which('openssl') === null;
describe.skipIf(noTls)('PostgreSQL over TLS', () => {
  const defaults = configSchema.parse({}).catalog.postgres;
  let server: TestPostgres;
  beforeAll(async () => {
    server = await TestPostgres.create({ tls: true });
    const sql = server.connect();
    await sql.unsafe(TABLE);
    await sql.unsafe(FILL(3));
  });
  afterAll(() => server?.dispose());

  async function rowsOver(more: Partial<PostgresSourceOptions>): Promise<number | string> {
    const own = { url: server.url, onNotify: () => {}, onListenFailed: () => {} };
    const source = new PostgresSource({ ...defaults, ...own, ...more });
    const result = await source.page(null, 9).then(
      (rows) => rows.length,
      (error: Error) => error.message,
    );
    await source.close();
    return result;
  }

  test('is used where it is there, and the server known by its certificate where that is asked', async () => {
    expect(await rowsOver({ tls: 'prefer' })).toBe(3);
    expect(await rowsOver({ tls: 'require' })).toBe(3);
    expect(await rowsOver({ tls: 'verify-full' })).toMatch(/self.signed|certificate/i);
    expect(await rowsOver({ tlsCaFile: server.certificate })).toBe(3);
    const byName = server.url.replace('127.0.0.1', 'localhost');
    expect(await rowsOver({ url: byName, tlsCaFile: server.certificate })).toBeString();
    const query = `SELECT ads.*, ssl FROM ads, pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl`;
    expect(await rowsOver({ tls: 'prefer', query })).toBe(3);
    expect(await rowsOver({ tls: 'disable', query })).toBe(0);
  });

  test('is never given up silently where it is required', async () => {
    const plain = await TestPostgres.create();
    try {
      await plain.connect().unsafe(TABLE);
      expect(await rowsOver({ url: plain.url, tls: 'prefer' })).toBe(0);
      expect(await rowsOver({ url: plain.url, tls: 'require' })).toBeString();
      expect(await rowsOver({ url: `${plain.url}?sslmode=disable`, tls: 'require' })).toBeString();
    } finally {
      await plain.dispose();
    }
  });
});
