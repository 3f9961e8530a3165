/**
 * `clickledger demo`: the whole product on a temporary folder, real clicks through it, and a judge
 * that measures from what was acknowledged.
 *
 * An hour cannot turn final before it is over. So after the traffic the demo starts the product again
 * with its clock moved beyond the end of the current hour, which it says; everything else is as it
 * always is.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { importAds } from '../ads/import.ts';
import { createKey } from '../ads/keys.ts';
import { connectAdmin } from '../api/admin-client.ts';
import type { LedgerAdmin } from '../api/admin-port.ts';
import { dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { DEMO_ADS, demoAdsNdjson } from '../demo/ads.ts';
import { readArchiveImpressions } from '../demo/archive-impressions.ts';
import { type DriveResult, driveTraffic } from '../demo/drive.ts';
import { formatTable, isClean, judge } from '../demo/judge.ts';
import { lateRows, planTraffic, type TrafficPlan } from '../demo/plan.ts';
import { loadUserAgents } from '../demo/visitors.ts';
import { shiftedClock, systemClock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { withCatalog, withTokens } from './access.ts';
import { openStore } from './open-store.ts';

const HOUR_MS = 3_600_000;
const MAIN = join(import.meta.dir, '..', 'main.ts');
const READY_MS = 60_000;
const STREAM_MS = 60_000;

export interface DemoOptions {
  readonly config: Config;
  readonly clicks: number;
  readonly seed: number;
  readonly keep: boolean;
  readonly print: (line?: string) => void;
  readonly progress: (message: string, done?: number, total?: number) => void;
}

interface Product {
  readonly config: Config;
  readonly admin: LedgerAdmin;
  stop(): Promise<void>;
}

/** Returns whether nothing was lost and nothing counted twice. */
export async function runDemo(options: DemoOptions): Promise<boolean> {
  const dataDir = mkdtempSync(join(tmpdir(), 'clickledger-demo-'));
  // The demo's late clicks are meant to make live differ from final: no alarm about that.
  const reconcile = { ...options.config.reconcile, driftAlert: 1 };
  // The demo plays the proxy that tells where its visitors come from.
  const click = { ...options.config.click, trustedProxies: 1 };
  // Made-up clicks never go where real ones are, whatever the configuration says.
  const archive = { ...options.config.archive, kind: 'folder' } as const;
  const own = { dataDir, archive, click, reconcile, logLevel: 'error' } as const;
  const config: Config = { ...options.config, ...own };
  try {
    return await new Demo({ ...options, config }).run();
  } finally {
    if (options.keep) {
      options.print(`kept ${dataDir}; look around with: clickledger up --data ${dataDir}`);
    } else {
      rmSync(dataDir, { recursive: true, force: true });
    }
  }
}

class Demo {
  readonly #options: DemoOptions;
  readonly #tokens = new Map<string, string>();

  constructor(options: DemoOptions) {
    this.#options = options;
  }

  async run(): Promise<boolean> {
    const { config, print } = this.#options;
    const key = await this.#setUp();
    print(`starting the product on ${config.dataDir}`);
    const product = await startProduct(config);
    let plan: TrafficPlan;
    let driven: DriveResult;
    let live: Map<string, number>;
    try {
      this.#introduce();
      plan = this.#plan();
      driven = await this.#drive(product, plan, key);
      live = await this.#clicksPerAd(product);
    } finally {
      await product.stop();
    }
    return this.#finish(plan, driven, live);
  }

  async #setUp(): Promise<{ kid: string; secret: string }> {
    const { config, print } = this.#options;
    const key = await withCatalog(config, async (catalog) => {
      await importAds(bytesOf(demoAdsNdjson()), catalog, { format: 'ndjson' });
      return createKey(catalog, systemClock, 'demo');
    });
    await withTokens(config, async (tokens) => {
      for (const advertiserId of new Set(DEMO_ADS.map((ad) => ad.advertiserId))) {
        const { token } = await tokens.create({ scope: 'read', advertiserId });
        this.#tokens.set(advertiserId, token);
      }
    });
    print(`imported ${DEMO_ADS.length} ads of ${this.#tokens.size} advertisers`);
    return key;
  }

  #introduce(): void {
    const { config, print } = this.#options;
    const [advertiserId, token] = [...this.#tokens][0]!;
    print(`API    http://localhost:${config.api.port}`);
    print(`token  ${token}  (reads ${advertiserId})`);
    print(
      `try    curl -H "Authorization: Bearer ${token}" "http://localhost:${config.api.port}/v1/ads/metrics?from=${new Date(hourOf(systemClock())).toISOString()}&to=${new Date(hourOf(systemClock()) + HOUR_MS).toISOString()}&granularity=minute"`,
    );
    print();
  }

  #plan(): TrafficPlan {
    const { clicks, seed } = this.#options;
    const userAgents = loadUserAgents();
    return planTraffic({ seed, clicks, userAgents, ads: DEMO_ADS, nowMs: systemClock() });
  }

  async #drive(
    product: Product,
    plan: TrafficPlan,
    key: { kid: string; secret: string },
  ): Promise<DriveResult> {
    const { config, print, progress, seed } = this.#options;
    const driven = await driveTraffic({
      key,
      baseUrl: `http://127.0.0.1:${config.click.port}`,
      requests: plan.requests,
      onProgress: ({ sent, total, perSecond }) =>
        progress(`sending requests, ${Math.round(perSecond)} a second`, sent, total),
    });
    const kinds = Object.entries(driven.answered).map(([kind, count]) => `${count} ${kind}`);
    print(`sent ${plan.requests.length} requests (seed ${seed}): ${kinds.join(', ')}`);
    if (driven.unexpectedCount > 0) {
      const examples = driven.unexpected.map((each) => JSON.stringify(each)).join('\n  ');
      throw new LedgerError(
        'demo_unexpected',
        `${driven.unexpectedCount} answers were not as expected\n  ${examples}`,
      );
    }
    progress('taking late clicks into the log');
    const { taken } = await product.admin.ingest(lateRows(plan.late), progress);
    print(`took ${taken} recorded clicks, most of them too late for the stream`);
    await this.#awaitStream(product);
    return driven;
  }

  /** Waits until everything acknowledged so far is in the live numbers. */
  async #awaitStream(product: Product): Promise<void> {
    const sentMs = shiftedClock(product.config.clockOffsetMs)();
    const deadlineMs = systemClock() + STREAM_MS;
    for (;;) {
      const { asOfMs } = await product.admin.status();
      if (asOfMs >= sentMs) {
        this.#options.print(`live numbers complete ${asOfMs - sentMs} ms after the last click`);
        return;
      }
      if (systemClock() > deadlineMs) {
        throw new LedgerError('demo_stream', 'the stream did not catch up within a minute');
      }
      this.#options.progress('waiting for the stream');
      await Bun.sleep(50);
    }
  }

  async #finish(
    plan: TrafficPlan,
    driven: DriveResult,
    live: Map<string, number>,
  ): Promise<boolean> {
    const { config, print, progress } = this.#options;
    const nowMs = systemClock();
    const hourEndMs = hourOf(nowMs) + HOUR_MS;
    const closedMs = hourEndMs + config.counting.latenessMs + 1_000;
    const clockOffsetMs = closedMs - nowMs;
    print(
      `moving the clock ${Math.ceil(clockOffsetMs / 60_000)} minutes ahead: an hour is final only when it is over`,
    );
    const later = await startProduct({ ...config, clockOffsetMs });
    try {
      const { finalUntilMs } = await later.admin.reconcile({ untilMs: hourEndMs }, progress);
      const { recentHours } = await later.admin.status();
      const final = recentHours.filter((hour) => hour.records > 0).length;
      print(`${final} hours with clicks are final, until ${new Date(finalUntilMs).toISOString()}`);
      const finalClicks = await this.#clicksPerAd(later);
      const verified = await later.admin.verify(progress);
      const store = await openStore(config, systemClock, null);
      const rows = judge({
        ads: DEMO_ADS,
        acknowledged: driven.acknowledged,
        inDoubt: driven.inDoubt,
        ingested: plan.late,
        live,
        final: finalClicks,
        archive: await readArchiveImpressions(store),
      });
      print();
      print(formatTable(rows));
      print();
      const clean = isClean(rows) && verified.differences.length === 0;
      print(
        `verify: ${verified.rows} final rows recounted from the archive, ${verified.differences.length} differ`,
      );
      print('live is what the stream knew before the recount: late clicks are only in final');
      print(clean ? 'nothing lost, nothing counted twice' : 'THE NUMBERS ARE WRONG');
      return clean;
    } finally {
      await later.stop();
    }
  }

  /** Clicks per ad as each advertiser sees them in the API. */
  async #clicksPerAd(product: Product): Promise<Map<string, number>> {
    const clicks = new Map<string, number>();
    const nowMs = systemClock();
    for (const token of this.#tokens.values()) {
      const query = new URLSearchParams({
        from: new Date(hourOf(nowMs) - 48 * HOUR_MS).toISOString(),
        to: new Date(hourOf(nowMs) + HOUR_MS).toISOString(),
        granularity: 'total',
      });
      const response = await fetch(
        `http://127.0.0.1:${product.config.api.port}/v1/ads/metrics?${query}`,
        { headers: { Authorization: `Bearer ${token}` } },
      );
      if (!response.ok)
        throw new Error(`the API answered ${response.status}: ${await response.text()}`);
      const { rows } = (await response.json()) as { rows: { ad_id: string; clicks: number }[] };
      for (const row of rows) clicks.set(row.ad_id, row.clicks);
    }
    return clicks;
  }
}

/** Starts `up` as a user would and waits until both ports answer. */
async function startProduct(config: Config): Promise<Product> {
  const child = Bun.spawn(
    [process.execPath, MAIN, 'run-role', 'up', '--config-json', JSON.stringify(config)],
    { stdin: 'pipe', stdout: 'ignore', stderr: 'inherit' },
  );
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    await child.exited;
  };
  const urls = [config.click.port, config.api.port].map(
    (port) => `http://127.0.0.1:${port}/readyz`,
  );
  const deadlineMs = systemClock() + READY_MS;
  for (const url of urls) {
    while (!(await answers(url))) {
      if (child.exitCode !== null || systemClock() > deadlineMs) {
        await stop();
        throw new LedgerError('demo_start', 'the product did not start', {
          hint: 'Ports in use? Choose others with --click-port and --api-port.',
        });
      }
      await Bun.sleep(100);
    }
  }
  return { config, stop, admin: connectAdmin(dataPaths(config.dataDir).adminSocket) };
}

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(text);
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    (response) => response.ok,
    () => false,
  );
}

function hourOf(timeMs: number): number {
  return timeMs - (timeMs % HOUR_MS);
}
