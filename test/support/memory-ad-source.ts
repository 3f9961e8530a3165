/** A table of ads in memory, with transactions that commit when the test says so. */
import type { Ad } from '../../src/ads/port.ts';
import type { AdSource, ChangePosition, SourceRow } from '../../src/ads/source.ts';

export interface MemoryRow {
  readonly ad: Partial<Ad> & { adId: string };
  readonly updatedAtUs: number;
  readonly isDeleted?: boolean;
}

export class MemoryAdSource implements AdSource {
  name = 'memory';
  nowUs = Number.MAX_SAFE_INTEGER;
  readonly table = new Map<string, MemoryRow>();
  readonly asked: string[] = [];
  /** Called before each question; throws what the database would. */
  onAsk: (question: string) => void = () => {};

  put(...rows: MemoryRow[]): void {
    for (const row of rows) this.table.set(row.ad.adId, row);
  }

  #ask(question: string): void {
    this.asked.push(question);
    this.onAsk(question);
  }

  async newest() {
    this.#ask('newest');
    const times = [...this.table.values()].map((row) => row.updatedAtUs);
    return { newestUs: times.length === 0 ? null : Math.max(...times), nowUs: this.nowUs };
  }

  async page(afterAdId: string | null, limit: number) {
    this.#ask(`page ${afterAdId}`);
    return [...this.table.values()]
      .filter((row) => afterAdId === null || row.ad.adId > afterAdId)
      .sort((one, other) => (one.ad.adId < other.ad.adId ? -1 : 1))
      .slice(0, limit)
      .map(sourceRow);
  }

  async changes(after: ChangePosition, limit: number) {
    this.#ask(`changes ${after.updatedAtUs}${after.adId === undefined ? '' : ` ${after.adId}`}`);
    const from = after.updatedAtUs ?? Number.NEGATIVE_INFINITY;
    const rows = [...this.table.values()]
      .filter(
        ({ updatedAtUs, ad }) =>
          updatedAtUs > from ||
          (updatedAtUs === from && after.adId !== undefined && ad.adId > after.adId),
      )
      .sort(
        (one, other) =>
          one.updatedAtUs - other.updatedAtUs || (one.ad.adId < other.ad.adId ? -1 : 1),
      );
    return { rows: rows.slice(0, limit).map(sourceRow), nowUs: this.nowUs };
  }

  async missing(adIds: readonly string[]) {
    this.#ask('missing');
    return adIds.filter((adId) => !this.table.has(adId));
  }

  async close(): Promise<void> {}
}

function sourceRow({ ad, updatedAtUs, isDeleted = false }: MemoryRow): SourceRow {
  return {
    adId: ad.adId,
    record: {
      ad_id: ad.adId,
      advertiser_id: ad.advertiserId ?? 'adv-1',
      campaign_id: ad.campaignId ?? 'camp-1',
      target_url: ad.targetUrl ?? `https://shop.example/${ad.adId}`,
      pass_query: ad.passQuery,
    },
    isDeleted,
    updatedAtUs,
  };
}
