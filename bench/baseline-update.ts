/**
 * What the redirect path would pay for counting: one `UPDATE ads SET n = n + 1` per click, done
 * before the answer, against one append to the click log. Same machine, same disk, same number of
 * callers in flight, in turns.
 *
 *     npx bun bench/baseline-update.ts [--seconds 2] [--rounds 3] [--dir FOLDER]
 *
 * Measured: requests per second and the 99th percentile of the time from a caller's request to its
 * answer, waiting included, as ratios to the log of the same round; the median round is printed.
 *
 * Not measured: HTTP, signatures and the catalog (the same for all). The update does less than the
 * log does: it keeps neither the click nor whether its impression was seen before. SQLite with
 * `synchronous=NORMAL` does not wait for the disk and can lose acknowledged clicks with the power;
 * it is here to show what the lock and the statement cost by themselves.
 */
import { Database } from 'bun:sqlite';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { ClickEvent } from '../src/event/click-event.ts';
import { encodeEvent, MAX_EVENT_BYTES } from '../src/event/codec.ts';
import { DiskLogWriter } from '../src/log/disk/writer.ts';
import { systemClock } from '../src/platform/clock.ts';
import { startPostgres } from './postgres.ts';

const CALLERS = 64;
const ADS = 1_000;
const HOT_SHARE = 0.3;
const CONNECTIONS = 16;
const WARM_UP_MS = 300;

/** Counts or logs one click of the ad; resolves when the redirect may be sent. */
type TakeClick = (ad: number) => Promise<void>;

interface Contestant {
  readonly name: string;
  readonly hot: boolean;
  readonly take: TakeClick;
}

interface Result {
  readonly perSecond: number;
  readonly p99Ms: number;
}

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '3' },
    dir: { type: 'string', default: tmpdir() },
  },
});
const dir = mkdtempSync(join(values.dir, 'clickledger-bench-'));
const closers: (() => Promise<void> | void)[] = [() => rmSync(dir, { recursive: true })];
try {
  await main(Number(values.seconds) * 1_000, Number(values.rounds));
} finally {
  for (const close of closers.reverse()) await close();
}

async function main(durationMs: number, rounds: number): Promise<void> {
  const log: Contestant = { name: 'click log (disk, group commit)', hot: false, take: openLog() };
  const others = [...sqliteContestants(), ...(await postgresContestants())];
  const results = new Map<Contestant, { rate: number[]; p99: number[] }>();
  const logResults: Result[] = [];
  for (let round = 0; round < rounds; round++) {
    const base = await measure(log, durationMs);
    logResults.push(base);
    for (const contestant of others) {
      const result = await measure(contestant, durationMs);
      const ratios = results.get(contestant) ?? { rate: [], p99: [] };
      ratios.rate.push(result.perSecond / base.perSecond);
      ratios.p99.push(result.p99Ms / base.p99Ms);
      results.set(contestant, ratios);
    }
  }
  const rate = median(logResults.map((each) => each.perSecond));
  const p99 = median(logResults.map((each) => each.p99Ms));
  console.log(`${CALLERS} callers in flight, ${rounds} rounds of ${durationMs / 1_000} s each\n`);
  console.log(`${log.name}: ${Math.round(rate)} requests/s, p99 ${p99.toFixed(1)} ms\n`);
  console.log('| one UPDATE per click | ads | requests/s | p99 |\n|---|---|---|---|');
  for (const [{ name, hot }, ratios] of results) {
    const ads = hot ? `one takes ${HOT_SHARE * 100} %` : 'uniform';
    const [slower, later] = [median(ratios.rate), median(ratios.p99)];
    console.log(`| ${name} | ${ads} | ${slower.toFixed(3)} × log | ${later.toFixed(1)} × log |`);
  }
}

function openLog(): TakeClick {
  const writer = new DiskLogWriter({
    logDir: dir,
    partition: 0,
    segmentBytes: 64 * 1024 * 1024,
    clock: systemClock,
  });
  closers.push(() => writer.close());
  const bytes = Buffer.alloc(MAX_EVENT_BYTES);
  return (ad) =>
    new Promise((resolve, reject) => {
      const length = encodeEvent(sampleEvent(ad), bytes, 0);
      writer.append(bytes, length, (error) => (error === null ? resolve() : reject(error)));
    });
}

function sampleEvent(ad: number): ClickEvent {
  return {
    impressionId: crypto.randomUUID(),
    adId: `ad-${ad}`,
    advertiserId: `advertiser-${ad % 50}`,
    campaignId: `campaign-${ad % 200}`,
    clickedAtMs: systemClock(),
    country: 'DE',
    device: 'mobile',
    class: 'click',
    source: 'http',
    geoVersion: 20260101,
    ip: '203.0.113.0',
    userAgent:
      'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36',
    referer: 'https://news.example/article/1',
  };
}

function sqliteContestants(): Contestant[] {
  return ['FULL', 'NORMAL'].flatMap((synchronous) => {
    const database = new Database(join(dir, `${synchronous}.sqlite`));
    closers.push(() => database.close());
    database.run('PRAGMA journal_mode = WAL');
    database.run(`PRAGMA synchronous = ${synchronous}`);
    database.run('CREATE TABLE ads (ad_id TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID');
    const insert = database.prepare('INSERT INTO ads VALUES (?, 0)');
    database.transaction(() => {
      for (let ad = 0; ad < ADS; ad++) insert.run(`ad-${ad}`);
    })();
    const update = database.prepare('UPDATE ads SET n = n + 1 WHERE ad_id = ?');
    // The statement blocks the event loop; callers queue for it, as requests of a server would.
    const take: TakeClick = async (ad) => {
      await new Promise<void>((resolve) => setImmediate(resolve));
      update.run(`ad-${ad}`);
    };
    const name = `SQLite, WAL, synchronous=${synchronous}`;
    return [
      { name, hot: false, take },
      { name, hot: true, take },
    ];
  });
}

async function postgresContestants(): Promise<Contestant[]> {
  const server = await startPostgres();
  if (server === null) {
    console.log('PostgreSQL: skipped, it is not installed (Debian: apt-get install postgresql)\n');
    return [];
  }
  closers.push(server.stop);
  const { sql, version } = server.connect(CONNECTIONS);
  closers.push(() => sql.close());
  await sql`CREATE TABLE ads (ad_id text PRIMARY KEY, n bigint NOT NULL)`;
  await sql`INSERT INTO ads SELECT 'ad-' || i, 0 FROM generate_series(0, ${ADS - 1}) AS i`;
  const take: TakeClick = async (ad) => {
    await sql`UPDATE ads SET n = n + 1 WHERE ad_id = ${`ad-${ad}`}`;
  };
  const name = `${version}, ${CONNECTIONS} connections`;
  return [
    { name, hot: false, take },
    { name, hot: true, take },
  ];
}

/** Lets all callers send one click after the other; a short time before the measured one is left out. */
async function measure({ take, hot }: Contestant, durationMs: number): Promise<Result> {
  const random = randomNumbers(42);
  const startMs = performance.now() + WARM_UP_MS;
  const endMs = startMs + durationMs;
  const latenciesMs: number[] = [];
  const caller = async (): Promise<void> => {
    for (;;) {
      const sentMs = performance.now();
      if (sentMs >= endMs) return;
      await take(hot && random() < HOT_SHARE ? 0 : Math.floor(random() * ADS));
      const doneMs = performance.now();
      if (doneMs >= startMs && doneMs < endMs) latenciesMs.push(doneMs - sentMs);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  const sorted = Float64Array.from(latenciesMs).sort();
  return {
    perSecond: sorted.length / (durationMs / 1_000),
    p99Ms: sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN,
  };
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** The same clicks for every contestant (a linear congruential generator). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
