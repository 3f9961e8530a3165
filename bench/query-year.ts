/**
 * The query API on a year of counted clicks: is every kind of question answered within a second?
 *
 * What it measures: the time from sending a request to the answer's last byte, over HTTP on this
 * machine, from another process; token check, parameters, planning, SQL, chDB and JSON are in it. The
 * API is the real one over the real warehouse, in a process without the rest of the ledger. 200
 * questions of each kind, seeded and shuffled, one at a time; then a shorter run with four at once.
 *
 * The year: 1,000 ads of one advertiser in 40 campaigns (Zipf; each campaign aimed at 5 of 20
 * countries; 4 devices), 85M clicks in 31M hour rows, and another advertiser with a tenth of that in
 * the same tables. 1 hour of 100 restated, so that rows of replaced attempts lie between those in force.
 * Minute rows of the last week. "Now" is 12:37 on the day after the year: final until 10:00, live
 * rows after it, of three shards, each in up to four versions that are not merged. Half of the
 * questions end there, half at the end of a final day. Every question is of about a year but the last
 * kind, of 24 hours.
 *
 * Beside it the same questions to the same clicks, raw: all of the year and of the hours after it, in
 * one table of the same engine, sorted by advertiser, ad and time. This favours the raw side: no HTTP,
 * no JSON for the client, no removal of duplicates, no impression ids in the table. A question about
 * few ads or one day is quick there too: the clicks lie together. The more clicks an hour row stands
 * for (here 2.7), the further the two are apart.
 *
 * What it does not measure: queries while clicks are counted and hours recounted in the same process
 * (`bench product` has writes), a cold page cache, TTLs (the year ends at a fixed date), many
 * advertisers, ClickHouse as a server.
 *
 * Before the times count, the answers are checked: the first question of each kind equals the raw
 * clicks row by row, and all kinds give the same total.
 *
 * BENCH_YEAR_DIR    where the year is kept and found again; without it a folder that is removed
 * BENCH_YEAR_SCALE  1 is 1,000 ads; 0.02 is for trying it out
 * BENCH_YEAR_SEED   another year
 */
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { openTokenStore } from '../src/auth/sqlite/tokens.ts';
import { systemClock } from '../src/platform/clock.ts';
import { checkAgainstRaw, checkTotals, expectEqual, RAW_TOTAL } from './query-year/checks.ts';
import { ApiClient } from './query-year/client.ts';
import { ADVERTISER, adsOf, type YearOptions } from './query-year/model.ts';
import {
  askKind,
  hourlyOfAllAds,
  KINDS,
  type Params,
  type Question,
  rawSqlOf,
  type World,
} from './query-year/questions.ts';
import { askRaw, type RawAnswer } from './query-year/raw.ts';
import { openYear, type Year } from './query-year/year.ts';
import {
  BUN,
  cpuMsOf,
  freePort,
  heading,
  median,
  megabytes,
  memoryOf,
  quantile,
  ROOT,
  respondsTo,
  thousands,
  waitFor,
  withChild,
  withTempDir,
} from './support.ts';
import { random } from './traffic.ts';

const PER_KIND = 200;
const PER_KIND_AT_ONCE = 40;
const AT_ONCE = 4;
const WARM_UP_PER_KIND = 3;
const RAW_RUNS = 3;
const DEEP_RANGES = 5;
const DEEP_PAGE = 100;
const TARGET_MS = 1_000;

export async function benchQueryYear(options: YearOptions, root: string): Promise<void> {
  heading(`The query API on a year, scale ${options.scale}, seed ${options.seed}`);
  const { dir, year, reused } = await openYear(root, options);
  reportYear(year, reused);
  await withTempDir(async (temp) => {
    const path = join(temp, 'control.sqlite');
    const tokens = openTokenStore({ path, clock: systemClock });
    const { token } = await tokens.create({ scope: 'read', advertiserId: ADVERTISER });
    await tokens.close();
    const port = freePort();
    const server = [BUN, `${ROOT}/bench/query-year/server.ts`, dir, path, String(port)];
    const firsts: Question[] = [];
    const answers: Awaited<ReturnType<ApiClient['ask']>>['answer'][] = [];
    let total = Number.NaN;
    let alone: Measured[] = [];
    let atOnce: Measured[] = [];
    await withChild(server, async (pid) => {
      await waitFor('the API', respondsTo(`http://127.0.0.1:${port}/healthz`, 200));
      const client = new ApiClient(port, token);
      const world = await worldOf(client, options);
      const next = random(options.seed + 2);
      total = await checkTotals(client, world);
      for (const kind of KINDS.keys()) {
        firsts.push(askKind(kind, next, world));
        answers.push((await client.ask(firsts[kind]!)).answer);
      }
      await measure(client, questions(WARM_UP_PER_KIND, next, world), { clients: 1, pid });
      // Work of others on this machine is in the times, though not in the CPU column.
      console.log(`load of the machine        ${loadavg()[0]!.toFixed(1)} before`);
      alone = await measure(client, questions(PER_KIND, next, world), { clients: 1, pid });
      console.log(`                           ${loadavg()[0]!.toFixed(1)} after`);
      const memory = await memoryOf(pid);
      const shorter = questions(PER_KIND_AT_ONCE, next, world);
      atOnce = await measure(client, shorter, { clients: AT_ONCE, pid });
      const { peakBytes } = await memoryOf(pid);
      console.log(`memory of the API process  ${megabytes(memory.peakBytes)} at most with one client, ${megabytes(peakBytes)} with ${AT_ONCE}
`);
    });
    // Only now: one process may have the folder open.
    const runs = firsts.flatMap((first) => Array<string>(RAW_RUNS).fill(rawSqlOf(first)));
    const [rawTotal, ...raw] = await askRaw(dir, [rawSqlOf(RAW_TOTAL), ...runs]);
    expectEqual('the raw clicks', Number(rawTotal!.rows[0]!.at(-1)), total);
    checkAgainstRaw(firsts, answers, (kind) => raw[kind * RAW_RUNS]!);
    report(alone, atOnce, raw);
  });
}

/** Finds the hundredth pages by reading the 99 before them, as every client must. */
async function worldOf(client: ApiClient, options: YearOptions): Promise<World> {
  const pageRows = Math.max(100, Math.round(10_000 * options.scale));
  const shallow = { ads: adsOf(options), pageRows, deep: [], deepPage: DEEP_PAGE };
  const next = random(options.seed + 3);
  const deep: Params[] = [];
  const startedMs = performance.now();
  for (let range = 0; range < DEEP_RANGES; range++) {
    let params = hourlyOfAllAds(next, shallow);
    for (let page = 1; page < DEEP_PAGE; page++) {
      const { answer } = await client.metrics(params);
      if (typeof answer.next_cursor !== 'string') throw new Error(`there is no page ${DEEP_PAGE}`);
      params = { ...params, cursor: answer.next_cursor };
    }
    deep.push(params);
  }
  const pages = DEEP_RANGES * (DEEP_PAGE - 1);
  const seconds = (performance.now() - startedMs) / 1000;
  console.log(`walk                       ${pages} pages of ${thousands(pageRows)} rows one after the other in ${seconds.toFixed(1)} s: ${((seconds / pages) * 1000).toFixed(0)} ms a page
`);
  return { ...shallow, deep };
}

function questions(perKind: number, next: () => number, world: World): Question[] {
  const all = [...KINDS.keys()].flatMap((kind) =>
    Array.from({ length: perKind }, () => askKind(kind, next, world)),
  );
  for (let i = all.length - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    [all[i], all[j]] = [all[j]!, all[i]!];
  }
  return all;
}

/** What one kind took. */
interface Measured {
  readonly ms: number[];
  /** Of the API process, all questions together; known with one client only. */
  cpuMs: number;
  rows: number;
}

/** `clients` clients, each asks the next question when it has its answer. */
async function measure(
  client: ApiClient,
  asked: readonly Question[],
  { clients, pid }: { clients: number; pid: number },
): Promise<Measured[]> {
  const kinds = KINDS.map((): Measured => ({ ms: [], cpuMs: 0, rows: 0 }));
  let at = 0;
  const work = async (): Promise<void> => {
    for (let question = asked[at++]; question !== undefined; question = asked[at++]) {
      const cpuMs = clients === 1 ? await cpuMsOf(pid) : 0;
      const { ms, body } = await client.bytes(question);
      const kind = kinds[question.kind]!;
      kind.ms.push(ms);
      // Reading the rows is the client's work, and no part of the time.
      if (clients === 1) {
        kind.cpuMs += (await cpuMsOf(pid)) - cpuMs;
        const { rows } = JSON.parse(new TextDecoder().decode(body)) as { rows: unknown[] };
        kind.rows = Math.max(kind.rows, rows.length);
      }
    }
  };
  await Promise.all(Array.from({ length: clients }, work));
  return kinds;
}

function reportYear(year: Year, reused: boolean): void {
  const made = `made in ${year.productSeconds.toFixed(0)} s, raw clicks in ${year.rawSeconds.toFixed(0)} s`;
  console.log(`${reused ? `a year that was there, ${made}` : made}\n`);
  console.log('| table | rows | on disk | parts |\n|---|---|---|---|');
  for (const { table, rows, bytes, parts } of year.tables) {
    console.log(`| ${table} | ${thousands(rows)} | ${megabytes(bytes)} | ${parts} |`);
  }
  console.log('');
}

function report(
  alone: readonly Measured[],
  atOnce: readonly Measured[],
  raw: readonly RawAnswer[],
): void {
  const ms = (value: number): string => `${thousands(value)} ms`;
  const sorted = (values: readonly number[]) => Float64Array.from(values).sort();
  console.log(`| question | count | p50 | p99 | max | CPU, mean | rows | raw clicks, p50 of ${RAW_RUNS} (CPU) | raw / API | p50, p99 with ${AT_ONCE} clients |
|---|---|---|---|---|---|---|---|---|---|`);
  const missed: string[] = [];
  for (const [kind, { title }] of KINDS.entries()) {
    const times = sorted(alone[kind]!.ms);
    const busy = sorted(atOnce[kind]!.ms);
    const [p50, p99] = [quantile(times, 0.5), quantile(times, 0.99)];
    if (p99 >= TARGET_MS) missed.push(title);
    const runs = raw.slice(kind * RAW_RUNS, (kind + 1) * RAW_RUNS);
    const rawMs = median(runs.map((answer) => answer.ms));
    const cells = [
      title,
      times.length,
      ms(p50),
      ms(p99),
      ms(times.at(-1)!),
      ms(alone[kind]!.cpuMs / times.length),
      thousands(alone[kind]!.rows),
      `${ms(rawMs)} (${ms(median(runs.map((answer) => answer.cpuMs)))})`,
      `${(rawMs / p50).toFixed(1)} ×`,
      `${ms(quantile(busy, 0.5))}, ${ms(quantile(busy, 0.99))}`,
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
  console.log(`\ntarget p99 < ${thousands(TARGET_MS)} ms           ${missed.length === 0 ? 'met by every kind' : `missed by: ${missed.join('; ')}`}
`);
}

if (import.meta.main) {
  const {
    BENCH_YEAR_DIR: root,
    BENCH_YEAR_SCALE: scale = '1',
    BENCH_YEAR_SEED: seed = '1',
  } = process.env;
  const options = { scale: Number(scale), seed: Number(seed) };
  if (root === undefined) await withTempDir((dir) => benchQueryYear(options, dir));
  else await benchQueryYear(options, root);
  process.exit(0);
}
