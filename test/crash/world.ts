/**
 * What the crash tests of the product share: ads, keys and tokens on a folder, load that goes on
 * through crashes and writes down what was acknowledged, and the complete answers of the API.
 */
import { importAds } from '../../src/ads/import.ts';
import { createKey } from '../../src/ads/keys.ts';
import { configSchema } from '../../src/config/schema.ts';
import { DEMO_ADS, demoAdsNdjson } from '../../src/demo/ads.ts';
import { ConnectionLost, HttpConnection } from '../../src/demo/connection.ts';
import { isBillable, type PlannedRequest, planTraffic } from '../../src/demo/plan.ts';
import { loadUserAgents } from '../../src/demo/visitors.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { withCatalog, withTokens } from '../../src/roles/access.ts';
import { signedLink } from '../../src/signing/signature.ts';
import { eventually, type Product } from '../support/product.ts';

export const HOUR_MS = 3_600_000;
export const ADVERTISERS = [...new Set(DEMO_ADS.map((ad) => ad.advertiserId))];

export function startOfHour(timeMs: number): number {
  return timeMs - (timeMs % HOUR_MS);
}

export interface World {
  readonly product: Product;
  readonly key: { readonly kid: string; readonly secret: string };
  /** Advertiser → token that reads its numbers. */
  readonly tokens: ReadonlyMap<string, string>;
  /** Start of the hour in which the test began. */
  readonly fromMs: number;
}

/** Ads, a key and tokens on the product's folder; nothing is started. */
export async function setUpWorld(product: Product): Promise<World> {
  const config = configSchema.parse({ dataDir: product.dataDir });
  const key = await withCatalog(config, async (catalog) => {
    const result = await importAds(textStream(demoAdsNdjson()), catalog, { format: 'ndjson' });
    if (!result.ok) throw new Error('the sample ads do not import');
    return createKey(catalog, systemClock, 'k1');
  });
  const tokens = await withTokens(
    config,
    (store) =>
      new Map(
        ADVERTISERS.map((advertiserId) => {
          return [advertiserId, store.create({ scope: 'read', advertiserId }).token] as const;
        }),
      ),
  );
  return { product, key, tokens, fromMs: startOfHour(systemClock()) };
}

async function* textStream(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(text);
}

/**
 * Clicks, doubles on other connections, HEADs, previews and forged links, until `stop`. A request
 * whose answer was lost is sent again until it is answered, as a browser's user does.
 */
export class Load {
  /** Impression → ad of every billable request that was answered with a redirect. */
  readonly acknowledged = new Map<string, string>();
  /** Impression → ad of billable requests that were sent and are not acknowledged (yet). */
  readonly inDoubt = new Map<string, string>();
  /** Answers that no request of the kind may get. */
  readonly unexpected: string[] = [];
  resent = 0;
  readonly #world: World;
  readonly #requests: readonly PlannedRequest[];
  #next = 0;
  #stopped = false;
  readonly #connections: Promise<void>[];

  constructor(world: World, seed: number, connections = 8) {
    this.#world = world;
    const userAgents = loadUserAgents();
    const nowMs = systemClock();
    this.#requests = planTraffic({
      seed,
      clicks: 40_000,
      userAgents,
      ads: DEMO_ADS,
      nowMs,
    }).requests;
    this.#connections = Array.from({ length: connections }, () => this.#work());
  }

  /** Finishes what is under way; every request that was begun has its answer then. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#connections);
  }

  async #work(): Promise<void> {
    const connection = new HttpConnection(new URL(this.#world.product.clickUrl));
    try {
      while (!this.#stopped && this.#next < this.#requests.length) {
        await this.#send(connection, this.#requests[this.#next++]!);
        // About 100 requests a second and connection: the tests share their machine.
        await Bun.sleep(8);
      }
    } finally {
      connection.close();
    }
  }

  async #send(connection: HttpConnection, request: PlannedRequest): Promise<void> {
    const { kind, impressionId, adId, expectedStatus } = request;
    const target = this.#targetOf(request);
    const untilMs = performance.now() + 60_000;
    for (;;) {
      if (isBillable(kind) && !this.acknowledged.has(impressionId)) {
        this.inDoubt.set(impressionId, adId);
      }
      try {
        const { status } = await connection.send(request.method, target, request.headers);
        // A worker that stops answers 503 to what it can no longer take.
        if (status !== 503) return this.#note(request, status);
      } catch (error) {
        if (!(error instanceof ConnectionLost)) throw error;
      }
      if (performance.now() > untilMs) {
        this.unexpected.push(`${kind} on ${impressionId} had no answer, not ${expectedStatus}`);
        return;
      }
      this.resent++;
      await Bun.sleep(20);
    }
  }

  #note({ kind, impressionId, adId, expectedStatus }: PlannedRequest, status: number): void {
    if (status !== expectedStatus) {
      this.unexpected.push(`${kind} on ${impressionId}: ${status}, not ${expectedStatus}`);
    }
    if (!isBillable(kind) || status !== 302) return;
    this.acknowledged.set(impressionId, adId);
    this.inDoubt.delete(impressionId);
  }

  #targetOf(request: PlannedRequest): string {
    const base = this.#world.product.clickUrl;
    const { kid, secret } = this.#world.key;
    const wrong = request.link === 'wrong_secret' ? '-not' : '';
    const parts = { imp: request.impressionId, ad: request.signedAdId, kid };
    const target = signedLink({ base, ...parts, secret: `${secret}${wrong}` }).slice(base.length);
    if (request.link === 'html_escaped') return target.replaceAll('&', '&amp;');
    if (request.link !== 'other_ad') return target;
    return target.replace(`&ad=${request.signedAdId}&`, `&ad=${request.adId}&`);
  }
}

export interface AnswerRow {
  readonly ad_id: string;
  readonly bucket_start: string;
  readonly country: string;
  readonly device: string;
  readonly clicks: number;
}

/** Rows of one advertiser, all pages; `toMs` is the end of the hour after the current one. */
export async function rowsOf(
  world: World,
  advertiserId: string,
  toMs: number,
  more: Readonly<Record<string, string>> = {},
): Promise<AnswerRow[]> {
  const rows: AnswerRow[] = [];
  for (let cursor: string | null = null; ; ) {
    const query: URLSearchParams = new URLSearchParams({
      from: new Date(world.fromMs).toISOString(),
      to: new Date(toMs).toISOString(),
      granularity: 'minute',
      group_by: 'ad,country,device',
      ...more,
      ...(cursor === null ? {} : { cursor }),
    });
    const response = await fetch(`${world.product.apiUrl}/v1/ads/metrics?${query}`, {
      headers: { Authorization: `Bearer ${world.tokens.get(advertiserId)}` },
    });
    if (!response.ok) throw new Error(`the API: ${response.status} ${await response.text()}`);
    const page = (await response.json()) as { rows: AnswerRow[]; next_cursor: string | null };
    rows.push(...page.rows);
    cursor = page.next_cursor ?? null;
    if (cursor === null) return rows;
  }
}

/** Every advertiser's rows per ad, minute, country and device; without whether they are final. */
export async function allMinuteRows(world: World, toMs: number): Promise<AnswerRow[]> {
  const rows: AnswerRow[] = [];
  for (const advertiserId of ADVERTISERS) rows.push(...(await rowsOf(world, advertiserId, toMs)));
  return rows.map(({ ad_id, bucket_start, country, device, clicks }) => {
    return { ad_id, bucket_start, country, device, clicks };
  });
}

/** Everything the API says of the range, at every granularity and grouping, and its history. */
export async function completeAnswers(world: World, toMs: number): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (const advertiserId of ADVERTISERS) {
    for (const granularity of ['minute', 'hour', 'day', 'total']) {
      for (const group_by of ['ad,country,device', 'campaign', 'none']) {
        const rows = await rowsOf(world, advertiserId, toMs, { granularity, group_by });
        answers.push({ advertiserId, granularity, group_by, rows });
      }
    }
    for (const path of ['hours', 'restatements']) {
      const from = new Date(world.fromMs).toISOString();
      const query = new URLSearchParams({ from, to: new Date(toMs).toISOString() });
      const response = await fetch(`${world.product.apiUrl}/v1/${path}?${query}`, {
        headers: { Authorization: `Bearer ${world.tokens.get(advertiserId)}` },
      });
      answers.push({ path, body: await response.json() });
    }
  }
  return answers;
}

export function clicksPerAd(rows: readonly AnswerRow[]): Map<string, number> {
  const clicks = new Map<string, number>();
  for (const row of rows) clicks.set(row.ad_id, (clicks.get(row.ad_id) ?? 0) + row.clicks);
  return clicks;
}

/** Waits until all that the log holds is counted and in the live rows; outcomes then sum to it. */
export async function awaitCounted(
  product: Product,
): Promise<{ records: number; outcomes: number }> {
  const calledMs = (await product.admin.status()).nowMs;
  await eventually('everything in the log is counted', async () => {
    const { asOfMs, partitions } = await product.admin.status();
    return asOfMs >= calledMs && partitions.every(({ backlog }) => backlog === 0);
  });
  const { partitions, outcomes } = await product.admin.status();
  return {
    records: partitions.reduce((sum, { logEndOffset }) => sum + logEndOffset, 0),
    outcomes: Object.values(outcomes).reduce((sum, count) => sum + count, 0),
  };
}

/** Moves the clock far enough that the hour which ends at `hourEndMs` is over and closed. */
export function offsetPast(hourEndMs: number): number {
  return hourEndMs + 5 * 60_000 + 1_000 - systemClock();
}
