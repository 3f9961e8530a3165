/**
 * Makes the year in a folder, in a process of its own: `generate.ts <folder> <options as JSON>`.
 *
 * The tables are the product's own, made by its `migrate`; rows come from `INSERT … SELECT` through
 * the same client. `year.json` is written last: a folder without it is not finished.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { closeChdbClient, openChdbClient } from '../../src/warehouse/chdb/client.ts';
import { refillRollups } from '../../src/warehouse/sql/schema.ts';
import { IN_PROCESS, SqlWarehouse } from '../../src/warehouse/sql-warehouse.ts';
import {
  DAY_MS,
  FINAL_UNTIL_MS,
  HOUR_MS,
  hoursOf,
  MINUTES_FROM_MS,
  NOW_MS,
  streamsOf,
  YEAR_END_MS,
  YEAR_START_MS,
  type YearHour,
  type YearOptions,
} from './model.ts';
import {
  finalDaySql,
  finalHourSql,
  finalMinuteSql,
  LIVE_PASSES,
  liveSql,
  publicationSql,
  rawSql,
  replacedDaySql,
  replacedHourSql,
  replacedMinuteSql,
  type Span,
  WORK_TABLES,
} from './rows-sql.ts';
import { NO_TTL, type TableSize, warehousePath, writeYear } from './year.ts';

type Run = (query: string) => Promise<void>;

async function generate(dir: string, options: YearOptions): Promise<void> {
  const client = openChdbClient(warehousePath(dir));
  const close = () => closeChdbClient(client);
  const warehouse = new SqlWarehouse({
    ...IN_PROCESS,
    client,
    ttl: NO_TTL,
    clock: () => NOW_MS,
    close,
  });
  await warehouse.migrate();
  const run: Run = async (query) => {
    await client.command({ query });
  };
  const startedMs = performance.now();
  const seconds = (): number => (performance.now() - startedMs) / 1000;
  await prepare(client, run, options);
  await finalRows(run, options);
  for (const tier of ['hour', 'day'] as const) {
    for (const query of refillRollups(tier)) await run(query);
  }
  await liveRows(run, options);
  const span = { fromMs: YEAR_START_MS, toMs: FINAL_UNTIL_MS };
  for (const query of publicationSql(span, YEAR_END_MS)) await run(query);
  const productSeconds = seconds();
  console.log(`  rows of the product made in ${productSeconds.toFixed(0)} s`);
  for (const month of months(hourEnd(NOW_MS))) await run(rawSql(options.seed, month));
  const rawSeconds = seconds() - productSeconds;
  console.log(`  raw clicks made in ${rawSeconds.toFixed(0)} s`);
  await mergesDone(client);
  for (const table of ['bench_stream', 'bench_hour']) await run(`DROP TABLE ${table} SYNC`);
  const tables = await tableSizes(client);
  await warehouse.close();
  writeYear(dir, { ...options, productSeconds, rawSeconds, tables });
}

async function prepare(client: ClickHouseClient, run: Run, options: YearOptions): Promise<void> {
  for (const query of WORK_TABLES) await run(query);
  // In the life of a warehouse live rows come every second; here their parts must stay unmerged.
  await run('ALTER TABLE live_minute MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1');
  const insert = (table: string, values: object[]) =>
    client.insert({ table, values, format: 'JSONEachRow' });
  const streams = streamsOf(options).map((stream) => ({
    id: stream.id,
    advertiser_id: stream.advertiserId,
    campaign_id: stream.campaignId,
    ad_id: stream.adId,
    country: stream.country,
    device: stream.device,
    per_hour: stream.perHour,
  }));
  await insert('bench_stream', streams);
  const hours = hoursOf(options);
  const restatedDays = new Set(hours.filter((hour) => hour.revision === 2).map(dayOf));
  await insert(
    'bench_hour',
    hours.map((hour) => ({
      n: hour.n,
      hour: hour.startMs / 1000,
      shape: hour.shape,
      revision: hour.revision,
      attempt: hour.attempt,
      day_attempt: restatedDays.has(dayOf(hour)) ? 2 : 1,
    })),
  );
}

const dayOf = (hour: YearHour): number => Math.floor(hour.startMs / DAY_MS);
const hourEnd = (ms: number): number => Math.ceil(ms / HOUR_MS) * HOUR_MS;

async function finalRows(run: Run, { seed }: YearOptions): Promise<void> {
  for (const month of months(FINAL_UNTIL_MS)) {
    for (const span of pieces(month, 10 * DAY_MS)) await run(finalHourSql(seed, span));
    await run(replacedHourSql(month));
    if (month.toMs <= YEAR_END_MS) {
      await run(finalDaySql(month));
      await run(replacedDaySql(month));
    }
    console.log(`  ${new Date(month.fromMs).toISOString().slice(0, 7)}`);
  }
  const minutes = { fromMs: MINUTES_FROM_MS, toMs: FINAL_UNTIL_MS };
  for (const day of pieces(minutes, DAY_MS)) {
    await run(finalMinuteSql(seed, day));
    await run(replacedMinuteSql(day));
  }
}

/** Final hours keep their live rows too, long merged; those after them stand in several versions. */
async function liveRows(run: Run, { seed }: YearOptions): Promise<void> {
  const merged = { fromMs: MINUTES_FROM_MS, toMs: FINAL_UNTIL_MS };
  for (const day of pieces(merged, DAY_MS)) await run(liveSql(seed, day, { n: 1, of: 1 }));
  const live = { fromMs: FINAL_UNTIL_MS, toMs: hourEnd(NOW_MS) };
  for (const hour of pieces(live, HOUR_MS)) {
    for (let n = 1; n <= LIVE_PASSES; n++) await run(liveSql(seed, hour, { n, of: LIVE_PASSES }));
  }
}

function months(endMs: number): Span[] {
  const spans: Span[] = [];
  for (let fromMs = YEAR_START_MS; fromMs < endMs; ) {
    const from = new Date(fromMs);
    const toMs = Math.min(endMs, Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1));
    spans.push({ fromMs, toMs });
    fromMs = toMs;
  }
  return spans;
}

function pieces(span: Span, stepMs: number): Span[] {
  const spans: Span[] = [];
  for (let fromMs = span.fromMs; fromMs < span.toMs; fromMs += stepMs) {
    spans.push({ fromMs, toMs: Math.min(span.toMs, fromMs + stepMs) });
  }
  return spans;
}

/** The tables as they lie when nobody writes: merges that are due have been done. */
async function mergesDone(client: ClickHouseClient): Promise<void> {
  for (let quiet = 0; quiet < 5; await Bun.sleep(1_000)) {
    const result = await client.query({
      query: 'SELECT count() FROM system.merges',
      format: 'JSONCompactEachRow',
    });
    const [row] = await result.json<[number | string]>();
    quiet = Number(row![0]) === 0 ? quiet + 1 : 0;
  }
}

async function tableSizes(client: ClickHouseClient): Promise<TableSize[]> {
  const result = await client.query({
    query: `SELECT table, sum(rows), sum(bytes_on_disk), count() FROM system.parts
      WHERE active AND database = currentDatabase() GROUP BY table ORDER BY table`,
    format: 'JSONCompactEachRow',
  });
  const rows = await result.json<[string, string, string, string]>();
  return rows.map(([table, count, bytes, parts]) => ({
    table,
    rows: Number(count),
    bytes: Number(bytes),
    parts: Number(parts),
  }));
}

if (import.meta.main) {
  const [dir, options] = process.argv.slice(2);
  await generate(dir!, JSON.parse(options!) as YearOptions);
  process.exit(0);
}
