/** Ads out of PostgreSQL as an operator has them: `clickledger up` on one or two machines' folders. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SQL } from 'bun';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import { dataPaths } from '../../src/config/paths.ts';
import { signedLink } from '../../src/signing/signature.ts';
import { postgresMissing, TestPostgres } from '../support/postgres.ts';
import { cleanUp, eventually, Product } from '../support/product.ts';
import { tempDir } from '../support/temp-dir.ts';

const missing = postgresMissing();
if (missing !== null) process.stderr.write(`catalog-product: skipped, ${missing}\n`);

const SOON_MS = 30_000;
const TABLE = `
  CREATE TABLE ads (ad_id text PRIMARY KEY, advertiser_id text NOT NULL, campaign_id text NOT NULL,
    target_url text, updated_at timestamptz NOT NULL DEFAULT now(), deleted_at timestamptz);
  CREATE INDEX ON ads (updated_at, ad_id)`;
const fill = (first: number, last: number): string => `
  INSERT INTO ads (ad_id, advertiser_id, campaign_id, target_url, updated_at)
  SELECT 'ad-' || i, 'adv-1', 'camp-1', 'https://shop.example/' || i, now() - interval '1 day'
  FROM generate_series(${first}, ${last}) i`;

describe.skipIf(missing !== null)('a product whose ads come from PostgreSQL', () => {
  let server: TestPostgres;
  let sql: SQL;
  let impressions = 0;
  const env = (): Record<string, string> => ({
    CLICKLEDGER_CATALOG_KIND: 'postgres',
    CLICKLEDGER_CATALOG_POSTGRES_URL: server.url,
    CLICKLEDGER_CATALOG_POSTGRES_POLL_MS: '500',
    CLICKLEDGER_CATALOG_POSTGRES_COLUMNS_DELETED_AT: 'deleted_at',
    CLICKLEDGER_CATALOG_POSTGRES_CHANNEL: 'ads_changed',
  });
  beforeAll(async () => {
    server = await TestPostgres.create();
  });
  afterAll(() => server?.dispose());
  beforeEach(async () => {
    sql = server.connect();
    await sql.unsafe('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
    await sql.unsafe(TABLE);
  });
  afterEach(async () => {
    await cleanUp();
    await sql.close({ timeout: 0 });
  });

  /** Where a click on the ad leads, and with which status. */
  async function click(product: Product, ad: string): Promise<string> {
    const keys = (await product.do('key', 'list', '--secrets')).split('\n')[1]!.trim().split(/ +/);
    const [kid, secret] = [keys[0]!, keys.at(-1)!];
    clickOn.set(product, { kid, secret });
    return follow(product, ad);
  }
  const clickOn = new Map<Product, { kid: string; secret: string }>();
  async function follow(product: Product, ad: string): Promise<string> {
    const imp = `imp-${impressions++}`;
    const link = signedLink({ ...clickOn.get(product)!, base: product.clickUrl, imp, ad });
    const { status, headers } = await fetch(link, { redirect: 'manual' });
    return `${status} ${headers.get('location') ?? ''}`.trim();
  }
  async function started(
    more: { dataDir?: string; env?: Record<string, string> } = {},
  ): Promise<Product> {
    const product = await Product.create({ ...more, env: { ...env(), ...more.env } });
    await product.start();
    return product;
  }
  const leadsTo = (product: Product, ad: string, answer: string): Promise<void> =>
    eventually(
      `a click on ${ad} is answered with ${answer}`,
      async () => (await follow(product, ad)) === answer,
      SOON_MS,
    );
  const metricsOf = async (product: Product): Promise<string> =>
    (await fetch(`${product.apiUrl}/metrics`)).text();
  const metric = async (product: Product, name: string): Promise<number> =>
    Number(new RegExp(`^clickledger_${name} (.*)$`, 'm').exec(await metricsOf(product))?.[1]);

  test('clicks follow the table: new, changed, deleted; imports are refused; status says all', async () => {
    await sql.unsafe(fill(1, 20_000));
    const product = await started();
    await click(product, 'ad-1');
    await leadsTo(product, 'ad-20000', '302 https://shop.example/20000');
    await sql`UPDATE ads SET target_url = 'https://new.example/', updated_at = now() WHERE ad_id = 'ad-1'`;
    await sql`INSERT INTO ads (ad_id, advertiser_id, campaign_id, target_url) VALUES ('new', 'a', 'c', 'https://e.com/n')`;
    await sql`UPDATE ads SET deleted_at = now(), updated_at = now() WHERE ad_id = 'ad-2'`;
    await sql`UPDATE ads SET target_url = 'ftp://e.com', updated_at = now() WHERE ad_id = 'ad-3'`;
    await leadsTo(product, 'ad-1', '302 https://new.example/');
    await leadsTo(product, 'new', '302 https://e.com/n');
    await leadsTo(product, 'ad-2', '404');
    await leadsTo(product, 'ad-3', '302 https://shop.example/3');
    expect(await metric(product, 'catalog_ads')).toBe(20_000);
    expect(await metric(product, 'catalog_refused_rows')).toBe(1);
    expect(await metric(product, 'catalog_sync_age_seconds')).toBeLessThan(SOON_MS / 1_000);
    const status = await product.do('ads', 'status');
    expect(status).toContain('rows left out 1');
    expect(status).toMatch(/ad-3 +target_url "ftp:\/\/e\.com"/);
    const files = tempDir('catalog-product');
    const file = join(files.path, 'ads.csv');
    writeFileSync(file, 'ad_id,advertiser_id,campaign_id,target_url\nx,a,c,https://e.com\n');
    const refused = await product.run('ads', 'import', file);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('ads come from PostgreSQL');
    expect(await follow(product, 'x')).toBe('404');
    files.remove();
  });

  test('a database that is away matters to no click, and is read again when it is back', async () => {
    await sql.unsafe(fill(1, 100));
    const product = await started();
    await click(product, 'ad-1');
    await leadsTo(product, 'ad-7', '302 https://shop.example/7');
    await server.stop();
    await eventually(
      'failures are counted',
      async () => (await metric(product, 'catalog_sync_failures_total')) > 0,
    );
    // A worker and a ledger that start now find the ads where they were.
    product.crash('click');
    product.crash('ledger');
    await product.ready();
    expect(await follow(product, 'ad-7')).toBe('302 https://shop.example/7');
    await eventually(
      'its age grows',
      async () => (await metric(product, 'catalog_sync_age_seconds')) > 1,
    );
    await server.start();
    await server.connect()`UPDATE ads SET target_url = 'https://back.example/', updated_at = now() WHERE ad_id = 'ad-7'`;
    await leadsTo(product, 'ad-7', '302 https://back.example/');
    expect(product.output).toContain('the table cannot be read');
  });

  test('a ledger that is killed in mid-load, again and again, ends with the whole table', async () => {
    await sql.unsafe(fill(1, 150_000));
    const product = await Product.create({ env: env() });
    // Ready it is when the first load is through: a new machine must not answer 404 for the rest.
    const starting = product.start();
    const notReady = async () => (await fetch(`${product.clickUrl}/readyz`)).text();
    await eventually('clicks are taken', () =>
      notReady().then(
        () => true,
        () => false,
      ),
    );
    expect(await notReady()).toBe('the ads table has not been read to its end yet\n');
    const reader = openLmdbCatalog({ dir: dataPaths(product.dataDir).catalog, readOnly: true });
    let kills = 0;
    for (const atLeast of [1_000, 30_000, 70_000]) {
      await eventually(`${atLeast} ads are there`, () => reader.count() >= atLeast);
      if (reader.count() < 150_000 && product.crash('ledger') !== null) kills++;
    }
    expect(kills).toBeGreaterThan(0);
    await eventually('all ads are there', () => reader.count() === 150_000);
    await reader.close();
    await starting;
    await click(product, 'ad-150000');
    await leadsTo(product, 'ad-150000', '302 https://shop.example/150000');
    await sql`UPDATE ads SET target_url = 'https://new.example/', updated_at = now() WHERE ad_id = 'ad-1'`;
    await leadsTo(product, 'ad-1', '302 https://new.example/');
  });

  test('two machines follow one table, each with its own copy', async () => {
    await sql.unsafe(fill(1, 1_000));
    const machines = [await started(), await started()];
    for (const machine of machines) {
      await click(machine, 'ad-1');
      await leadsTo(machine, 'ad-1000', '302 https://shop.example/1000');
    }
    await sql`UPDATE ads SET target_url = 'https://new.example/', updated_at = now() WHERE ad_id = 'ad-5'`;
    for (const machine of machines) await leadsTo(machine, 'ad-5', '302 https://new.example/');
    await machines[0]!.stop();
    await sql`UPDATE ads SET deleted_at = now(), updated_at = now() WHERE ad_id = 'ad-6'`;
    await leadsTo(machines[1]!, 'ad-6', '404');
    await machines[0]!.start();
    await leadsTo(machines[0]!, 'ad-6', '404');
  });
});
