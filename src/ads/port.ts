/**
 * The ad catalog as the click path sees it, and as imports see it. Adapter: `lmdb/`, one
 * memory-mapped store that all processes of a machine share.
 */
export interface Ad {
  readonly adId: string;
  readonly advertiserId: string;
  readonly campaignId: string;
  /** `http:` or `https:` with a host; checked at import and again at click time. */
  readonly targetUrl: string;
  /** Whether other query parameters of the click are passed on to the target. */
  readonly passQuery: boolean;
}

export interface SigningKey {
  /** Named by `kid` in a link; 1–32 of the id characters. */
  readonly kid: string;
  readonly secret: string;
  readonly createdAtMs: number;
  /** Retired keys verify nothing. */
  readonly retiredAtMs: number | null;
}

/** What a click worker needs: look-ups that see other processes' changes within a second. */
export interface AdLookup {
  /** The ad, or null. Synchronous: it reads mapped memory. */
  find(adId: string): Ad | null;
  /** Keys that verify now, newest first. */
  activeKeys(): readonly SigningKey[];
  close(): Promise<void>;
}

export interface AdCatalog extends AdLookup {
  /** Puts all ads in one transaction: all of them or none. Returns how many were new or changed. */
  putAll(
    ads: Iterable<Ad>,
    onProgress?: (done: number) => void,
  ): Promise<{ added: number; changed: number; unchanged: number }>;
  /** Ads in ascending order of id, after `afterAdId`. */
  list(options: { afterAdId?: string; limit: number; advertiserId?: string }): Ad[];
  count(): number;
  putKey(key: SigningKey): Promise<void>;
  keys(): readonly SigningKey[];
}
