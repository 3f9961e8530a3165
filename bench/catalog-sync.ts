/**
 * `bun bench/catalog-sync.ts [ads]`: a machine's first copy of the ads table, and what comes after it.
 *
 * The load is compared with reading the same rows and dropping them: what is on top is checking, writing
 * and syncing them. Beside it: how long the thread was held, memory, how long one change takes to a
 * reader, and what the load costs a reader's look-ups meanwhile. Needs PostgreSQL; skipped without it.
 */
import { join } from 'node:path';
import { CatalogSync } from '../src/ads/catalog-sync.ts';
import { openLmdbCatalog } from '../src/ads/lmdb/catalog.ts';
import type { AdCatalog } from '../src/ads/port.ts';
import { PostgresSource } from '../src/ads/postgres/source.ts';
import { configSchema } from '../src/config/schema.ts';
import { startPostgres } from './postgres.ts';
import { heading, megabytes, thousands, withTempDir } from './support.ts';

const ADS = Number(process.argv[2] ?? 1_000_000);
const PAGE_ROWS = 20_000;
const TABLE = `CREATE TABLE ads (ad_id text PRIMARY KEY, advertiser_id text NOT NULL, campaign_id text NOT NULL,
  target_url text NOT NULL, updated_at timestamptz NOT NULL DEFAULT now())`;
const FILL = `INSERT INTO ads SELECT 'ad-' || i, 'adv-' || i % 1000, 'camp-' || i % 20000,
  'https://shop.example/products/' || i || '?utm_source=ads&utm_campaign=' || i % 20000,
  now() - interval '1 day' + i * interval '1 ms' FROM generate_series(1, ${ADS}) i`;

const { postgres: settings } = configSchema.parse({}).catalog;
const now = () => performance.now();
const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

heading(`ads out of PostgreSQL: ${thousands(ADS)} of them`);
const server = await startPostgres();
if (server === null) {
  console.log('skipped: PostgreSQL is not installed');
} else {
  const { sql, version } = server.connect(2);
  try {
    await sql.unsafe(TABLE);
    await sql.unsafe(FILL);
    await sql.unsafe('CREATE INDEX ON ads (updated_at, ad_id)');
    await sql.unsafe('VACUUM ANALYZE ads');
    console.log(`${version}, pages of ${thousands(PAGE_ROWS)} rows\n`);
    const none = { onNotify: () => {}, onListenFailed: () => {} };
    const source = new PostgresSource({ ...settings, ...none, url: server.url });
    await withTempDir((dir) => measure(source, dir));
    await source.close();
  } finally {
    await sql.close({ timeout: 0 });
    await server.stop();
  }
}

async function measure(source: PostgresSource, dir: string): Promise<void> {
  const readMs = await readOnly(source);
  print('reading the rows and dropping them', `${rate(readMs)}  (${seconds(readMs)})`);
  const catalogDir = join(dir, 'catalog');
  const catalog = openLmdbCatalog({ dir: catalogDir, readOnly: false });
  const reader = openLmdbCatalog({ dir: catalogDir, readOnly: true });
  const sync = new CatalogSync({
    ...settings,
    catalog,
    source,
    clock: Date.now,
    monotonic: now,
  });
  const held = holdTimes();
  const beganMs = now();
  let ownBytes = 0;
  do {
    await sync.turn();
    ownBytes = Math.max(ownBytes, await ownMemory());
  } while (sync.state.load !== null);
  const loadMs = now() - beganMs;
  print(
    'first load',
    `${rate(loadMs)}  (${seconds(loadMs)}, ${(loadMs / readMs).toFixed(1)} times the reading)`,
  );
  print('longest time the thread was held', `${held.stop().toFixed(0)} ms  (target: 100)`);
  print('memory of its own, at its highest', megabytes(ownBytes));
  print('look-ups without an index', lookUps(reader));
  const indexHeld = holdTimes();
  const indexMs = await timed(() => catalog.refreshIndex());
  print(
    'writing the index',
    `${seconds(indexMs)}, thread held ${indexHeld.stop().toFixed(0)} ms at most`,
  );
  await Bun.sleep(300);
  print('look-ups with it', lookUps(reader));
  // The first one reads the newest minute of the table again.
  sync.wake();
  await Bun.sleep(settings.pollMs);
  print('the reading after the load', `${(await timed(() => sync.turn())).toFixed(0)} ms`);
  await Bun.sleep(settings.pollMs);
  print('a reading that finds nothing', `${(await timed(() => sync.turn())).toFixed(1)} ms`);
  await changeOne(sync, reader);
  await reader.close();
  await catalog.close();
}

async function readOnly(source: PostgresSource): Promise<number> {
  return timed(async () => {
    for (let after: string | null = null; ; ) {
      const rows = await source.page(after, PAGE_ROWS);
      after = rows.at(-1)?.adId ?? null;
      if (rows.length < PAGE_ROWS) return;
    }
  });
}

/** From the commit in PostgreSQL to the answer of a reader; without the poll's own wait. */
async function changeOne(sync: CatalogSync, reader: AdCatalog): Promise<void> {
  const { sql } = server!.connect(1);
  await sql`UPDATE ads SET target_url = 'https://new.example/', updated_at = now() WHERE ad_id = 'ad-77'`;
  const beganMs = now();
  sync.wake();
  while (reader.find('ad-77')?.targetUrl !== 'https://new.example/') {
    await sync.turn();
    await Bun.sleep(5);
  }
  print('one change, from a notification to a reader', `${(now() - beganMs).toFixed(0)} ms`);
  await sql.close({ timeout: 0 });
}

function lookUps(reader: AdCatalog): string {
  const count = 200_000;
  const beganMs = now();
  let found = 0;
  for (let at = 0; at < count; at++) {
    if (reader.find(`ad-${1 + ((at * 7_919) % ADS)}`) !== null) found++;
  }
  if (found !== count) throw new Error(`${count - found} ads were not found`);
  return `${(((now() - beganMs) / count) * 1_000).toFixed(2)} µs`;
}

/** The longest that a timer of 1 ms was late. */
function holdTimes(): { stop: () => number } {
  let longestMs = 0;
  let lastMs = now();
  const timer = setInterval(() => {
    longestMs = Math.max(longestMs, now() - lastMs - 1);
    lastMs = now();
  }, 1);
  return {
    stop: () => {
      clearInterval(timer);
      return longestMs;
    },
  };
}

/** Without the mapped catalog, whose pages the system takes back when it needs them. */
async function ownMemory(): Promise<number> {
  const status = await Bun.file('/proc/self/status').text();
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1_024;
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const beganMs = now();
  await work();
  return now() - beganMs;
}

function rate(ms: number): string {
  return `${thousands((ADS / ms) * 1_000)} rows/s`;
}

function print(what: string, value: string): void {
  console.log(`${what.padEnd(46)} ${value}`);
}
