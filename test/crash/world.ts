/** What the crash tests of the product share: ads, keys and tokens on a folder, and waiting for its counts. */
import { importAds } from '../../src/ads/import.ts';
import { createKey } from '../../src/ads/keys.ts';
import { configSchema } from '../../src/config/schema.ts';
import { demoAdsNdjson } from '../../src/demo/ads.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { withCatalog, withTokens } from '../../src/roles/access.ts';
import { ADVERTISERS, type AnswerView, startOfHour } from '../support/answers.ts';
import type { LoadTarget } from '../support/load.ts';
import { eventually, type Product } from '../support/product.ts';

/** The API is asked from the start of the hour in which the test began. */
export interface World extends LoadTarget, AnswerView {
  readonly product: Product;
}

/** Ads, a key and tokens on the product's folder; nothing is started. */
export async function setUpWorld(product: Product): Promise<World> {
  const config = configSchema.parse({ dataDir: product.dataDir });
  const key = await withCatalog(config, async (catalog) => {
    const result = await importAds(textStream(demoAdsNdjson()), catalog, { format: 'ndjson' });
    if (!result.ok) throw new Error('the sample ads do not import');
    return createKey(catalog, systemClock, 'k1');
  });
  const tokens = new Map<string, string>();
  await withTokens(config, async (store) => {
    for (const advertiserId of ADVERTISERS) {
      tokens.set(advertiserId, (await store.create({ scope: 'read', advertiserId })).token);
    }
  });
  const { clickUrl, apiUrl } = product;
  const fromMs = startOfHour(systemClock());
  return { product, key, tokens, fromMs, apiUrl, clickUrls: [clickUrl] };
}

async function* textStream(text: string): AsyncGenerator<Uint8Array> {
  yield new TextEncoder().encode(text);
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
