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

/** Where signing keys are made and retired. */
export interface KeyStore {
  /** Of all keys, newest first. */
  keys(): readonly SigningKey[];
  activeKeys(): readonly SigningKey[];
  /** Adds it, or takes its retirement. */
  putKey(key: SigningKey): Promise<void>;
}

/** A row of the source that is no valid ad. */
export interface RefusedRow {
  readonly adId: string;
  readonly reason: string;
}

/** What one transaction does to a catalog that follows another system's table. */
export interface CatalogChange {
  readonly put: readonly Ad[];
  /** Ids to remove; one that is not there is no error. */
  readonly remove?: readonly string[];
  /**
   * Rows that are no valid ads. An earlier version of the ad stays; the row is remembered until its ad
   * is put or removed, or a later round was through without it.
   */
  readonly refused?: { readonly rows: readonly RefusedRow[]; readonly round: number };
  /** Forgets refused rows that were last seen before this round. */
  readonly forgetRefusedBefore?: number;
  /** How far the source was read, in the words of whoever reads it; absent: as before. */
  readonly syncState?: string;
}

export interface ChangeCounts {
  readonly added: number;
  readonly changed: number;
  readonly unchanged: number;
  readonly removed: number;
}

export interface AdCatalog extends AdLookup, KeyStore {
  /** Puts all ads in one transaction: all of them or none. Returns how many were new or changed. */
  putAll(
    ads: Iterable<Ad>,
    onProgress?: (done: number) => void,
  ): Promise<{ added: number; changed: number; unchanged: number }>;
  /** Carries out one change in one transaction: all of it or none. Holds the thread: keep it small. */
  apply(change: CatalogChange): Promise<ChangeCounts>;
  /** What `apply` kept last; null before the first. */
  syncState(): string | null;
  refusedRows(limit: number): { readonly count: number; readonly rows: readonly RefusedRow[] };
  /**
   * Makes look-ups of readers fast again where changes have made that worth it. Gives way to other
   * work of the thread, and gives up when it is aborted. Returns whether it made something new.
   */
  refreshIndex(signal?: AbortSignal): Promise<boolean>;
  /** Ads in ascending order of id, after `afterAdId`. */
  list(options: { afterAdId?: string; limit: number; advertiserId?: string }): Ad[];
  count(): number;
}
