/**
 * The product with a day and a half of clicks behind it, for tests of its console.
 *
 * Hours older than the recount's delay are final, those after it are live. One hour was restated. The
 * clicks are ingested in order, as an access log would be, so live and final agree but for that hour.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '../../src/platform/clock.ts';
import { eventually, Product } from './product.ts';
import { tempDir } from './temp-dir.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const HOURS = 32;

export const ADVERTISER = 'northwind';
export const OTHER_ADVERTISER = 'contoso';
/** Of the advertiser, and never clicked. */
export const QUIET_AD = 'quiet-1';
const COUNTRIES = ['DE', 'DE', 'DE', 'FR', 'FR', 'US', 'GB', 'AT', 'NL', 'ZZ'];
const DEVICES = ['desktop', 'mobile', 'mobile', 'tablet', 'desktop', 'mobile', 'other'];
const AGENT =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36';

export interface ConsoleWorld {
  readonly product: Product;
  readonly readToken: string;
  readonly adminToken: string;
  /** Puts recorded clicks through the ledger's own partition. */
  ingest(rows: readonly object[]): Promise<void>;
  remove(): void;
}

/** `targetUrl` is where every ad leads to. */
export async function consoleWorld(targetUrl: string): Promise<ConsoleWorld> {
  const files = tempDir('console-world');
  const product = await Product.create({ env: { CLICKLEDGER_ARCHIVE_ROTATE_MS: '500' } });
  const fileOf = (name: string, rows: readonly object[]): string => {
    const path = join(files.path, name);
    writeFileSync(path, rows.map((row) => JSON.stringify(row)).join('\n'));
    return path;
  };
  let ingested = 0;
  const ingest = async (rows: readonly object[]): Promise<void> => {
    ingested += 1;
    await product.do('ingest', fileOf(`clicks-${ingested}.ndjson`, rows));
  };
  await product.start();
  await product.do('ads', 'import', fileOf('ads.ndjson', ads(targetUrl)));
  const readToken = (await product.do('token', 'create', '--advertiser', ADVERTISER)).trim();
  const adminToken = (await product.do('token', 'create', '--admin')).trim();
  const startMs = hourOf(systemClock()) - HOURS * HOUR_MS;
  await ingest(clicksFrom(startMs));
  await reconciled(product);
  await ingest([lateClick(startMs + 3 * HOUR_MS)]);
  await reconciled(product);
  const remove = (): void => files.remove();
  return { product, readToken, adminToken, ingest, remove };
}

async function reconciled(product: Product): Promise<void> {
  await eventually('everything is counted and archived', async () => {
    const { partitions } = await product.admin.status();
    return partitions.every(
      ({ backlog, archivedOffset, logEndOffset }) =>
        backlog === 0 && archivedOffset >= logEndOffset,
    );
  });
  await product.do('reconcile');
}

const hourOf = (ms: number): number => ms - (ms % HOUR_MS);

function ads(targetUrl: string): object[] {
  const own = ['spring-sale', 'brand', 'newsletter'].flatMap((campaign, at) =>
    Array.from({ length: 4 - at }, (_, index) => ad(ADVERTISER, campaign, index + 1, targetUrl)),
  );
  const quiet = ad(ADVERTISER, 'quiet', 1, targetUrl);
  return [...own, quiet, ad(OTHER_ADVERTISER, 'launch', 1, targetUrl)];
}

function ad(advertiser: string, campaign: string, index: number, targetUrl: string): object {
  const ad_id = `${campaign}-${index}`;
  return { ad_id, advertiser_id: advertiser, campaign_id: campaign, target_url: targetUrl };
}

/** More by day than by night, more on the first ads than on the last; every 17th is a second click. */
function clicksFrom(startMs: number): object[] {
  const rows: object[] = [];
  const nowMs = systemClock() - MINUTE_MS;
  for (let at = 0; ; at++) {
    const hour = Math.floor(at / 40);
    const clickedMs = startMs + hour * HOUR_MS + Math.floor(((at % 40) * HOUR_MS) / 40);
    if (clickedMs >= nowMs) return rows;
    const local = new Date(clickedMs).getUTCHours();
    if ((at * 7) % 40 > 8 + 30 * Math.sin((Math.PI * Math.max(0, local - 4)) / 20)) continue;
    rows.push(click(`imp-${at % 17 === 0 ? at + 1 : at}`, clickedMs, at));
  }
}

const SHARES = [0, 0, 0, 4, 4, 1, 1, 7, 2, 5, 8, 3, 6];
const OWN_ADS = [1, 2, 3, 4]
  .map((index) => `spring-sale-${index}`)
  .concat(
    [1, 2, 3].map((index) => `brand-${index}`),
    [1, 2].map((index) => `newsletter-${index}`),
  );

function click(impression: string, clickedMs: number, at: number): object {
  return {
    impression_id: impression,
    ad_id: OWN_ADS[SHARES[at % SHARES.length]!]!,
    clicked_at: new Date(clickedMs).toISOString(),
    country: COUNTRIES[(at * 3) % COUNTRIES.length]!,
    device: DEVICES[(at * 5) % DEVICES.length]!,
    ip: `198.51.100.${at % 250}`,
    ua: AGENT,
  };
}

const lateClick = (clickedMs: number): object => click('imp-late', clickedMs + MINUTE_MS, 0);
