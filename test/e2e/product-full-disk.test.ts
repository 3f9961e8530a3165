/** A full disk under the whole data folder: refused clicks, no redirects, recovery by itself (D7). */
import { afterAll, expect, test } from 'bun:test';
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/platform/clock.ts';
import { signedLink } from '../../src/signing/signature.ts';
import { setUpWorld } from '../crash/world.ts';
import { cleanUp, eventually, Product } from '../support/product.ts';
import { tempDir } from '../support/temp-dir.ts';

const SIZE_MB = 160;
const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';
const home = tempDir('full-disk');
const disk = join(home.path, 'disk');
const isMounted = mountSmallDisk();
if (!isMounted)
  process.stderr.write('full disk: skipped, mounting a tmpfs is not permitted here\n');

function mountSmallDisk(): boolean {
  mkdirSync(disk);
  const options = ['-t', 'tmpfs', '-o', `size=${SIZE_MB}m`, 'tmpfs', disk];
  try {
    return Bun.spawnSync(['mount', ...options]).success;
  } catch {
    return false;
  }
}

afterAll(async () => {
  await cleanUp();
  if (isMounted) Bun.spawnSync(['umount', '-l', disk]);
  home.remove();
});

/** Takes all space that is left; segments that were given their space before still have it. */
function fill(path: string): void {
  const { bavail, bsize } = statfsSync(disk);
  try {
    writeFileSync(path, Buffer.alloc(bavail * bsize));
    for (;;) writeFileSync(path, Buffer.alloc(4096), { flag: 'a' });
  } catch (error) {
    if ((error as { code?: string }).code !== 'ENOSPC') throw error;
  }
}

test.skipIf(!isMounted)(
  'a full disk gives 503 with Retry-After and no redirect, and clicks are taken again once it has room',
  async () => {
    const dataDir = join(disk, 'data');
    const env = {
      CLICKLEDGER_LOG_SEGMENT_BYTES: '65536',
      CLICKLEDGER_RECONCILE_INTERVAL_MS: '500',
    };
    const product = await Product.create({ dataDir, env });
    const { key, tokens, fromMs } = await setUpWorld(product);
    await product.start();
    const acknowledged = new Set<string>();
    let next = 0;
    const visit = async (): Promise<Response> => {
      const imp = `full-${next++}`;
      const link = signedLink({ base: product.clickUrl, imp, ad: 'shoes-hero', ...key });
      const headers = { 'User-Agent': BROWSER, Referer: `https://news.example/${'x'.repeat(400)}` };
      const response = await fetch(link, { redirect: 'manual', headers });
      if (response.status === 302) acknowledged.add(imp);
      return response;
    };
    expect((await visit()).status).toBe(302);

    const filler = join(disk, 'filler');
    fill(filler);
    // What the open segment was given in advance is used up first.
    let refused: Response | null = null;
    await eventually('a click is refused', async () => {
      const response = await visit();
      if (response.status === 503) refused = response;
      return refused !== null;
    });
    expect(refused!.headers.get('Location')).toBeNull();
    expect(Number(refused!.headers.get('Retry-After'))).toBeGreaterThan(0);
    const startedMs = performance.now();
    expect((await visit()).status).toBe(503);
    expect(performance.now() - startedMs).toBeLessThan(2_000);
    expect((await fetch(`${product.clickUrl}/healthz`)).status).toBe(200);
    expect((await fetch(`${product.clickUrl}/readyz`)).status).toBe(503);

    rmSync(filler);
    await eventually('clicks are taken again', async () => (await visit()).status === 302);
    await eventually('the product is ready again', async () => {
      return (await fetch(`${product.clickUrl}/readyz`)).ok;
    });
    await product.ready();
    await eventually('every acknowledged click is counted', async () => {
      const query = new URLSearchParams({
        from: new Date(fromMs).toISOString(),
        to: new Date(systemClock() + 3_600_000).toISOString().replace(/:\d\d\.\d+Z/, ':00Z'),
        granularity: 'total',
      });
      const response = await fetch(`${product.apiUrl}/v1/ads/metrics?${query}`, {
        headers: { Authorization: `Bearer ${tokens.get('acme-shoes')}` },
      });
      const { rows } = (await response.json()) as { rows: { clicks: number }[] };
      return rows[0]?.clicks === acknowledged.size;
    });
    await eventually('what could not be written for a while is no problem any more', async () => {
      return (await product.admin.status()).problems.length === 0;
    });
    expect(await product.stop()).toBe(0);
  },
  120_000,
);
