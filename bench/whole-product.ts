/**
 * The whole product under a steady load: `up` with one click worker and the ledger, the load
 * generator beside them on the same cores. Redirect latency from when each request was due; freshness
 * as the API shows it; nothing lost, nothing double, by the recount of the archive.
 */
import { connectAdmin } from '../src/api/admin-client.ts';
import { openFolderStore } from '../src/archive/folder/store.ts';
import { openTokenStore } from '../src/auth/sqlite/tokens.ts';
import { dataPaths } from '../src/config/paths.ts';
import { configSchema } from '../src/config/schema.ts';
import { readArchiveImpressions } from '../src/demo/archive-impressions.ts';
import { systemClock } from '../src/platform/clock.ts';
import { prepareCatalog } from './click-path.ts';
import { load } from './load.ts';
import {
  BUN,
  freePort,
  heading,
  megabytes,
  memoryOf,
  ROOT,
  respondsTo,
  thousands,
  waitFor,
  withChild,
  withTempDir,
} from './support.ts';

const RATE = 10_000;
const HOUR_MS = 3_600_000;

export async function benchWholeProduct(seconds: number): Promise<void> {
  heading(`The whole product at ${thousands(RATE)} clicks a second for ${seconds} s`);
  await withTempDir(async (dataDir) => {
    const key = await prepareCatalog(dataDir, 1_000);
    const tokens = openTokenStore({ path: dataPaths(dataDir).control, clock: systemClock });
    const { token } = await tokens.create({ scope: 'admin' });
    await tokens.close();
    const config = configSchema.parse({
      dataDir,
      logLevel: 'error',
      click: { port: freePort(), workers: 1 },
      api: { port: freePort() },
    });
    const command = [
      BUN,
      `${ROOT}/src/main.ts`,
      'run-role',
      'up',
      '--config-json',
      JSON.stringify(config),
    ];
    await withChild(command, async (pid) => {
      for (const port of [config.click.port, config.api.port]) {
        await waitFor(`port ${port}`, respondsTo(`http://127.0.0.1:${port}/readyz`, 200));
      }
      const traffic = {
        secret: key.secret,
        kid: key.kid,
        ads: 1_000,
        hotShare: 0.33,
        seed: 3,
        prepared: 0,
      };
      const options = { port: config.click.port, connections: 64, rate: RATE, signed: traffic };
      await load({ ...options, seconds: 3, signed: { ...traffic, seed: 2 } });
      const freshness = watchFreshness(config.api.port, token);
      const result = await load({ ...options, seconds });
      const lagsMs = await freshness.stop();
      await report(dataDir, result, lagsMs, pid);
    });
  });
}

/**
 * Notes how long the API takes to show clicks: a probe asks the log's end of the click partition and
 * waits until the live numbers are complete up to that moment.
 */
function watchFreshness(apiPort: number, token: string) {
  const lagsMs: number[] = [];
  let running = true;
  const work = (async () => {
    while (running) {
      const askedMs = systemClock();
      const hourMs = askedMs - (askedMs % HOUR_MS);
      const query = new URLSearchParams({
        advertiser_id: 'advertiser-0',
        from: new Date(hourMs - HOUR_MS).toISOString(),
        to: new Date(hourMs + HOUR_MS).toISOString(),
        granularity: 'total',
      });
      for (;;) {
        const response = await fetch(`http://127.0.0.1:${apiPort}/v1/ads/metrics?${query}`, {
          headers: { Authorization: `Bearer ${token}` },
        });
        const { as_of: asOf } = (await response.json()) as { as_of: string | null };
        if (asOf !== null && Date.parse(asOf) >= askedMs) break;
        await Bun.sleep(100);
      }
      lagsMs.push(systemClock() - askedMs);
      await Bun.sleep(500);
    }
  })();
  return {
    async stop(): Promise<number[]> {
      running = false;
      await work;
      return lagsMs.sort((a, b) => a - b);
    },
  };
}

async function report(
  dataDir: string,
  result: Awaited<ReturnType<typeof load>>,
  lagsMs: readonly number[],
  pid: number,
): Promise<void> {
  const admin = connectAdmin(dataPaths(dataDir).adminSocket);
  const logged = (await admin.status()).partitions.reduce(
    (sum, each) => sum + each.logEndOffset,
    0,
  );
  await waitFor('the stream', async () => {
    const { outcomes } = await admin.status();
    return Object.values(outcomes).reduce((sum, n) => sum + n, 0) >= logged;
  });
  // Writes out what the log holds; no hour is closed, so nothing turns final here.
  await admin.reconcile({ untilMs: 0 }, () => {});
  const archive = await readArchiveImpressions(
    await openFolderStore({ dir: dataPaths(dataDir).archive }),
  );
  let mine = 0;
  for (const impressionId of archive.keys()) if (impressionId.startsWith('0198a6d2-0003-')) mine++;
  const { outcomes, rssBytes } = await admin.status();
  const worker = await childOf(pid);
  console.log(`requests                   ${thousands(result.sent)} sent, ${thousands(result.redirected)} redirected, ${result.other} other, ${result.failed} failed
redirect                   p50 ${result.p50Ms.toFixed(2)} ms, p99 ${result.p99Ms.toFixed(2)} ms, max ${result.maxMs.toFixed(0)} ms   (target p99 < 10 ms)
visible in the API         median ${median(lagsMs)} ms, at most ${lagsMs.at(-1)} ms   (target < 5,000 ms)
lost                       ${result.redirected - mine}   (acknowledged and not in the archive; target 0)
double                     ${outcomes.duplicate}   (counted as duplicates: none were sent; counted ${thousands(outcomes.counted ?? 0)}; target 0)
memory                     ledger ${megabytes(rssBytes)}, click worker ${megabytes(worker)}`);
}

const median = (sorted: readonly number[]): number => sorted[Math.floor(sorted.length / 2)] ?? 0;

/** Resident memory of the click worker below `up`. */
async function childOf(pid: number): Promise<number> {
  const children = (await Bun.file(`/proc/${pid}/task/${pid}/children`).text()).trim().split(' ');
  return (await memoryOf(Number(children[0]))).peakBytes;
}

if (import.meta.main) {
  await benchWholeProduct(Number(process.argv[2] ?? 60));
  process.exit(0);
}
