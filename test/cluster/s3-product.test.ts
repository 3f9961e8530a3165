/** The product with its archive in a bucket: final numbers, their proof, and the way back from it. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import { dataPaths } from '../../src/config/paths.ts';
import { namesOf, readArchive } from '../support/archive-fixtures.ts';
import { cleanUp, eventually, Product } from '../support/product.ts';
import { type Fault, S3FaultProxy } from '../support/s3-fault-proxy.ts';
import { BUCKET, S3World } from '../support/s3-world.ts';
import { fcParams } from '../support/seed.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

let world: S3World | undefined;
const files = tempDir('s3-product');
beforeAll(async () => {
  world = await S3World.start();
});
afterEach(cleanUp);
afterAll(async () => {
  files.remove();
  await world?.stop();
});

/** The one change of configuration. */
const inBucket = (prefix: string, endpoint = world!.server.endpoint) => ({
  CLICKLEDGER_ARCHIVE_KIND: 's3',
  CLICKLEDGER_ARCHIVE_S3_BUCKET: BUCKET,
  CLICKLEDGER_ARCHIVE_S3_PREFIX: prefix,
  CLICKLEDGER_ARCHIVE_S3_ENDPOINT: endpoint,
  CLICKLEDGER_ARCHIVE_S3_REGION: 'us-east-1',
  CLICKLEDGER_ARCHIVE_S3_FORCE_PATH_STYLE: 'true',
});

const FAST = {
  CLICKLEDGER_ARCHIVE_ROTATE_MS: '200',
  CLICKLEDGER_RECONCILE_DELAY_MS: '0',
  CLICKLEDGER_RECONCILE_INTERVAL_MS: '300',
};

/** Clicks of six hours that have been over for at least one: every third impression comes twice. */
function recorded(label: string, count: number): string {
  const endMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - HOUR_MS - MINUTE_MS;
  const lines = Array.from({ length: count }, (_, i) => {
    const impression = i % 3 === 2 ? i - 1 : i;
    const clicked_at = new Date(endMs - ((i * 7_919_000) % (6 * HOUR_MS))).toISOString();
    const ad_id = `ad-${1 + (impression % 3)}`;
    const country = ['DE', 'FR', 'US'][i % 3];
    return JSON.stringify({ impression_id: `${label}-${impression}`, ad_id, clicked_at, country });
  });
  const path = join(files.path, `${label}.ndjson`);
  writeFileSync(path, `${lines.join('\n')}\n`);
  return path;
}

const impressionsOf = (count: number): number => count - Math.floor(count / 3);

async function setUp(product: Product): Promise<string> {
  const ads = Array.from({ length: 3 }, (_, i) =>
    JSON.stringify({
      ad_id: `ad-${i + 1}`,
      advertiser_id: 'adv-1',
      campaign_id: 'camp-1',
      target_url: 'https://shop.example/',
    }),
  );
  const path = join(files.path, 'ads.ndjson');
  writeFileSync(path, ads.join('\n'));
  await product.do('ads', 'import', path);
  return (await product.do('token', 'create', '--advertiser', 'adv-1')).trim();
}

interface Row {
  readonly clicks: number;
  readonly final: boolean;
}

async function rowsOf(product: Product, token: string): Promise<Row[]> {
  const thisHourMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  const query = new URLSearchParams({
    from: new Date(thisHourMs - 12 * HOUR_MS).toISOString(),
    to: new Date(thisHourMs - HOUR_MS).toISOString(),
    granularity: 'minute',
    group_by: 'country,device',
    limit: '10000',
  });
  const answer = await fetch(`${product.apiUrl}/v1/ads/metrics?${query}`, {
    headers: { Authorization: `Bearer ${token}` },
  });
  const { rows } = (await answer.json()) as { rows?: Row[] };
  return rows ?? [];
}

const clicksIn = (rows: readonly Row[]): number =>
  rows.reduce((sum, { clicks }) => sum + clicks, 0);
const areFinal = (rows: readonly Row[]): boolean =>
  rows.length > 0 && rows.every((row) => row.final);

async function finalRows(product: Product, token: string): Promise<Row[]> {
  await product.do('reconcile');
  let rows: Row[] = [];
  await eventually('the hours are final', async () => {
    rows = await rowsOf(product, token);
    return areFinal(rows);
  });
  return rows;
}

async function expectVerified(product: Product): Promise<void> {
  expect(await product.do('verify')).toContain('0 differences, 0 archive problems');
}

test('numbers become final out of the bucket, and everything derived can be lost and built again', async () => {
  const prefix = world!.freshPrefix();
  const product = await Product.create({ env: { ...FAST, ...inBucket(prefix) } });
  const token = await setUp(product);
  await product.start();
  await product.do('ingest', recorded('final', 900));
  const rows = await finalRows(product, token);
  expect(clicksIn(rows)).toBe(impressionsOf(900));
  await expectVerified(product);
  expect(existsSync(dataPaths(product.dataDir).archive)).toBe(false);
  const store = await world!.open({ prefix });
  expect((await readArchive(store)).size).toBe(900);

  await product.do('rebuild');
  expect(await rowsOf(product, token)).toEqual(rows);
  await expectVerified(product);

  await product.stop();
  const { warehouse, counterState, recountIndex } = dataPaths(product.dataDir);
  for (const derived of [warehouse, counterState, recountIndex]) {
    rmSync(derived, { recursive: true });
  }
  await product.start();
  expect(await finalRows(product, token)).toEqual(rows);
  await expectVerified(product);
  expect(await product.stop()).toBe(0);
  // Also without a running ledger, and such a command ends by itself.
  await expectVerified(product);
}, 180_000);

test('killed in the middle of archiving through a bad network, it loses nothing and counts nothing twice', async () => {
  const prefix = world!.freshPrefix();
  const proxy = await S3FaultProxy.start(world!.server.port, 100);
  try {
    const product = await Product.create({
      env: {
        ...FAST,
        ...inBucket(prefix, proxy.endpoint),
        CLICKLEDGER_ARCHIVE_ROTATE_RECORDS: '40',
      },
    });
    const token = await setUp(product);
    await product.start();
    const [parts, count] = [3, 500];
    const [faults = []] = fc.sample(someFaults(), { ...fcParams(1) });
    proxy.faults = [...faults];
    for (let part = 0; part < parts; part++) {
      const before = proxy.seen.length;
      const ingested = product.run('ingest', recorded(`kill-${part}`, count));
      await eventually('it is archiving', () => proxy.seen.length > before + 10);
      product.crash('ledger');
      await eventually('the ledger runs again', () => product.children('ledger').length > 0);
      await product.ready();
      // What the crash has cut off is sent again, as its sender would.
      await ingested;
      await product.do('ingest', join(files.path, `kill-${part}.ndjson`));
    }
    proxy.faults = [];
    const rows = await finalRows(product, token);
    expect(clicksIn(rows)).toBe(parts * impressionsOf(count));
    await expectVerified(product);
    await product.stop();
    // Every record once: `readArchive` throws when one is archived twice.
    const archived = await readArchive(await world!.open({ prefix }));
    expect(new Set(archived.values()).size).toBe(parts * impressionsOf(count));
  } finally {
    await proxy.stop();
  }
}, 240_000);

function someFaults(): fc.Arbitrary<Fault[]> {
  const fault = fc.constantFrom<Fault>(
    ...(['none', 'none', 'none', 'reset', 'answer lost', '500', '503', '429', 'late'] as const),
  );
  return fc.array(fault, { minLength: 400, maxLength: 400, size: 'max' });
}

test('an archive moves from its folder into a bucket with one change of configuration', async () => {
  const prefix = world!.freshPrefix();
  const folder = await Product.create({ env: FAST });
  const token = await setUp(folder);
  await folder.start();
  await folder.do('ingest', recorded('move', 300));
  const rows = await finalRows(folder, token);
  await folder.stop();

  const { archive } = dataPaths(folder.dataDir);
  await copyAll(await openFolderStore({ dir: archive }), await world!.open({ prefix }));
  rmSync(archive, { recursive: true });
  const env = { ...FAST, ...inBucket(prefix) };
  const moved = await Product.create({ dataDir: folder.dataDir, env });
  await moved.start();
  await expectVerified(moved);
  await moved.do('ingest', recorded('moved', 300));
  await eventually('later clicks restate the hours', async () => {
    await moved.do('reconcile');
    const now = await rowsOf(moved, token);
    return areFinal(now) && clicksIn(now) === 2 * clicksIn(rows);
  });
  await moved.do('rebuild');
  expect(clicksIn(await finalRows(moved, token))).toBe(2 * clicksIn(rows));
  await expectVerified(moved);
}, 180_000);

/** As an operator does with a tool for S3: objects as they are. */
async function copyAll(from: ObjectStore, to: ObjectStore): Promise<void> {
  for (const name of await namesOf(from)) await to.putIfAbsent(name, (await from.get(name))!);
}
