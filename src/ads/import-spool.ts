/**
 * Checked ads of one import, on disk until the whole file is checked.
 *
 * Owns: finding ad ids that come twice, giving the ads back in order of id (the catalog takes
 * sorted ads faster and packs them tighter), removing itself. A temporary SQLite file, written in
 * sequence and sorted by SQLite's external sort, so that millions of ads need little memory; it
 * holds nothing that outlives the import.
 */
import { Database } from 'bun:sqlite';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Ad } from './port.ts';

interface SpooledAd {
  ad_id: string;
  advertiser_id: string;
  campaign_id: string;
  target_url: string;
  pass_query: number;
}

export interface DuplicateAd {
  readonly adId: string;
  readonly line: number;
  /** Where the id came first. */
  readonly firstLine: number;
}

/** Some ad id comes more than once: `duplicates` says which. */
export class DuplicateAds extends Error {}

const DUPLICATES = `
  SELECT ad_id AS adId, line, first_line AS firstLine
  FROM (SELECT ad_id, line, min(line) OVER (PARTITION BY ad_id) AS first_line FROM ads)
  WHERE line > first_line ORDER BY line`;

export class AdSpool {
  readonly #db: Database;
  readonly #insert;

  constructor() {
    const folder = mkdtempSync(join(tmpdir(), 'clickledger-import-'));
    this.#db = new Database(join(folder, 'ads.sqlite'), { strict: true });
    for (const pragma of ['journal_mode = OFF', 'synchronous = OFF', 'locking_mode = EXCLUSIVE']) {
      this.#db.run(`PRAGMA ${pragma}`);
    }
    this.#db.run(`CREATE TABLE ads (line INTEGER, ad_id TEXT, advertiser_id TEXT,
      campaign_id TEXT, target_url TEXT, pass_query INTEGER)`);
    this.#db.run('BEGIN EXCLUSIVE');
    // The open file lives on without its name, so that a killed import leaves nothing behind.
    rmSync(folder, { recursive: true });
    this.#insert = this.#db.query<null, [number, string, string, string, string, number]>(
      'INSERT INTO ads VALUES (?, ?, ?, ?, ?, ?)',
    );
  }

  add(ad: Ad, line: number): void {
    const { adId, advertiserId, campaignId, targetUrl, passQuery } = ad;
    this.#insert.run(line, adId, advertiserId, campaignId, targetUrl, passQuery ? 1 : 0);
  }

  /** Every row whose ad id an earlier row has, in order of line. */
  duplicates(): Iterable<DuplicateAd> {
    return this.#db.query<DuplicateAd, []>(DUPLICATES).iterate();
  }

  /**
   * The ads in order of id; throws `DuplicateAds` at the first id that comes again. To ask `duplicates`
   * beforehand would sort all rows once more, and nearly every file has none.
   */
  *ads(): Generator<Ad> {
    const query = this.#db.query<SpooledAd, []>('SELECT * FROM ads ORDER BY ad_id');
    let before: string | null = null;
    for (const row of query.iterate()) {
      if (row.ad_id === before) throw new DuplicateAds();
      before = row.ad_id;
      yield {
        adId: row.ad_id,
        advertiserId: row.advertiser_id,
        campaignId: row.campaign_id,
        targetUrl: row.target_url,
        passQuery: row.pass_query === 1,
      };
    }
  }

  remove(): void {
    this.#db.close();
  }
}
