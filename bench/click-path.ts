/**
 * The click path of one worker, everything on: signature, look-up among 1M ads, durable before the
 * redirect. Against a bare `Bun.serve` and a bare `node:http` in the same run, in alternating rounds.
 */
import { ensureFirstKey } from '../src/ads/keys.ts';
import { openLmdbCatalog } from '../src/ads/lmdb/catalog.ts';
import type { Ad, SigningKey } from '../src/ads/port.ts';
import { dataPaths } from '../src/config/paths.ts';
import { configSchema } from '../src/config/schema.ts';
import { systemClock } from '../src/platform/clock.ts';
import { type LoadResult, load } from './load.ts';
import {
  BUN,
  freePort,
  heading,
  median,
  megabytes,
  memoryOf,
  ROOT,
  respondsTo,
  thousands,
  waitFor,
  withChild,
  withTempDir,
} from './support.ts';
import { adId, type SignedTraffic } from './traffic.ts';

const ADS = 1_000_000;
const CONNECTIONS = 128;
const ROUNDS = 5;
const SECONDS = 4;

export function* manyAds(count: number): Iterable<Ad> {
  for (let i = 0; i < count; i++) {
    yield {
      adId: adId(i),
      advertiserId: `advertiser-${i % 100}`,
      campaignId: `campaign-${i % 1_000}`,
      targetUrl: `https://shop-${i % 100}.example.com/landing/${i}?utm_source=clickledger`,
      passQuery: false,
    };
  }
}

export async function prepareCatalog(dataDir: string, ads: number): Promise<SigningKey> {
  const catalog = openLmdbCatalog({ dir: dataPaths(dataDir).catalog, readOnly: false });
  const key = (await ensureFirstKey(catalog, systemClock)) ?? catalog.activeKeys()[0]!;
  await catalog.putAll(manyAds(ads));
  await catalog.close();
  return key;
}

async function withChildren(
  commands: readonly (readonly string[])[],
  run: () => Promise<void>,
): Promise<void> {
  const [first, ...rest] = commands;
  if (first === undefined) return run();
  await withChild([...first], () => withChildren(rest, run));
}

export async function benchClickPath(): Promise<void> {
  heading('Click path, one worker, 1M ads, durable before the 302');
  await withTempDir(async (dataDir) => {
    const key = await prepareCatalog(dataDir, ADS);
    const traffic = {
      secret: key.secret,
      kid: key.kid,
      ads: ADS,
      hotShare: 0,
      seed: 1,
      prepared: 100_000,
    };
    const [bunPort, floorPort, nodePort, ownPort] = [
      freePort(),
      freePort(),
      freePort(),
      freePort(),
    ];
    const config = configSchema.parse({
      dataDir,
      logLevel: 'warn',
      click: { port: ownPort, workers: 1 },
    });
    const worker = [
      BUN,
      `${ROOT}/src/main.ts`,
      'run-role',
      'click',
      '0',
      '--config-json',
      JSON.stringify(config),
    ];
    const others = [
      [BUN, `${ROOT}/bench/bare-bun.ts`, String(bunPort)],
      [BUN, `${ROOT}/bench/floor-bun.ts`, String(floorPort)],
      ['node', `${ROOT}/bench/bare-node.mjs`, String(nodePort)],
    ];
    await withChildren(others, () =>
      withChild(worker, async (pid) => {
        for (const port of [bunPort, floorPort, nodePort]) {
          await waitFor(`port ${port}`, respondsTo(`http://127.0.0.1:${port}/`, 302));
        }
        await waitFor('click worker', respondsTo(`http://127.0.0.1:${ownPort}/readyz`, 200));
        await measure({ bunPort, floorPort, nodePort, ownPort, traffic, pid });
      }),
    );
  });
}

async function measure(at: {
  bunPort: number;
  floorPort: number;
  nodePort: number;
  ownPort: number;
  traffic: SignedTraffic;
  pid: number;
}): Promise<void> {
  const flat = (port: number, seconds = SECONDS) =>
    load({ port, connections: CONNECTIONS, seconds, rate: 0 });
  const anyone = (port: number, rate: number, seconds = SECONDS) =>
    load({ port, connections: CONNECTIONS, seconds, rate, signed: at.traffic });
  const own = (rate: number, seconds = SECONDS) => anyone(at.ownPort, rate, seconds);
  await flat(at.bunPort, 1);
  await flat(at.nodePort, 1);
  await anyone(at.floorPort, 0, 1);
  await own(0, 2);
  const rounds: { bun: LoadResult; floor: LoadResult; node: LoadResult; own: LoadResult }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push({
      bun: await flat(at.bunPort),
      own: await own(0),
      floor: await anyone(at.floorPort, 0),
      node: await flat(at.nodePort),
    });
    const last = rounds.at(-1)!;
    console.log(
      `round ${round + 1}: bare bun ${thousands(last.bun.perSecond)}/s, ours ${thousands(last.own.perSecond)}/s, floor ${thousands(last.floor.perSecond)}/s, bare node ${thousands(last.node.perSecond)}/s`,
    );
  }
  const maximum = median(rounds.map((round) => round.own.perSecond));
  const half = await own(Math.floor(maximum / 2), 10);
  const others = rounds.reduce((sum, round) => sum + round.own.other + round.own.failed, 0);
  const memory = await memoryOf(at.pid);
  console.log(`
ours / bare Bun.serve      ${median(rounds.map((r) => r.own.perSecond / r.bun.perSecond)).toFixed(2)}   (target >= 0.60)
ours / floor               ${median(rounds.map((r) => r.own.perSecond / r.floor.perSecond)).toFixed(2)}   (a Bun.serve that only reads what a click needs and answers a turn later: ${median(rounds.map((r) => r.floor.perSecond / r.bun.perSecond)).toFixed(2)} of bare)
ours / bare node:http      ${median(rounds.map((r) => r.own.perSecond / r.node.perSecond)).toFixed(2)}   (target > 1)
p99 at half of its maximum ${half.p99Ms.toFixed(2)} ms at ${thousands(half.perSecond)}/s   (target < 10 ms; p50 ${half.p50Ms.toFixed(2)} ms)
answers that were no 302   ${others}
memory of the worker       ${megabytes(memory.rssBytes)} now, ${megabytes(memory.peakBytes)} at most`);
}

if (import.meta.main) await benchClickPath();
