/**
 * Keeps a catalog equal to a table that another system owns.
 *
 * Owns: what is read when, and how far (`sync-state.ts`, kept by the catalog in the same transaction as
 * the ads it covers). Does not own: how the table is asked (`source.ts`), when it is called.
 *
 * Y1 Rows are written in the order in which they were read, and nothing is read ahead: an older version
 *    of an ad never replaces a newer one.
 * Y2 A row that is no valid ad leaves the ad as it is, and is remembered as refused.
 * Y3 An ad is removed when its row says so, or when no row has its id at the moment of removing. Of ads
 *    without a row no more than `maxRemovedShare` are removed: a table that reads as empty takes no ads away.
 * Y4 Whatever is left of a round that failed is done by the next one.
 *
 * A load, after each effect:
 *
 *    1 Its start, with the newest time that the table has. Died here: it starts with the first page.
 *    2 A chunk of a page with its last id, again and again. Died here: it goes on after that id.
 *    3 "All pages are through". Died here: it looks for ads without a row.
 *    4 Ads without a row are removed, chunk by chunk. Died here: it looks for them again.
 *    5 Its end; refused rows that it did not see are forgotten.
 *
 * Changes, after each effect:
 *
 *    6 A chunk of rows. Died here: the same rows are read again, and are unchanged.
 *    7 The last chunk, with how far was read.
 */
import type { Clock } from '../platform/clock.ts';
import { ChunkWriter } from './chunk-writer.ts';
import { Overlap } from './overlap.ts';
import type { AdCatalog } from './port.ts';
import type { AdSource, ChangePosition, SourceRow } from './source.ts';
import { newSyncState, readSyncState, type SyncState, writeSyncState } from './sync-state.ts';

const PAGE_ROWS = 20_000;
/** Ids of one question for missing ones. */
const SWEEP_IDS = 5_000;
/** So many ads without a row are removed whatever share they are. */
const REMOVED_ANYWAY = 100;
/** How often the state is written when nothing else is. */
const STATE_MS = 60_000;
/** Reading again takes at most a fifth of the time; new changes are read in between. */
const REREAD_PAUSES = 4;
/** Shortest time between two readings that were asked for. */
const WOKEN_MS = 50;
const US_PER_MS = 1_000;

export interface CatalogSyncOptions {
  readonly catalog: AdCatalog;
  readonly source: AdSource;
  /** Dates what is kept. */
  readonly clock: Clock;
  /** Measures; it never jumps. */
  readonly monotonic: Clock;
  readonly pollMs: number;
  readonly overlapMs: number;
  readonly fullReloadMs: number;
  readonly maxRemovedShare: number;
  /** Rows of one query, and of one transaction of the catalog. */
  readonly pageRows?: number;
  readonly chunkRows?: number;
  readonly onProgress?: (progress: LoadProgress) => void;
}

export interface LoadProgress {
  readonly phase: 'started' | 'pages' | 'sweep' | 'done';
  readonly rows: number;
  readonly heldRemovals: number;
}

export class CatalogSync {
  readonly #options: CatalogSyncOptions;
  readonly #writer: ChunkWriter;
  readonly #pageRows: number;
  #state: SyncState;
  #overlap: Overlap;
  #rows = 0;
  #sweep: { afterAdId: string; missing: string[] } | null = null;
  #pollAtMs = Number.NEGATIVE_INFINITY;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #rereadAtMs = Number.NEGATIVE_INFINITY;
  #stateAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: CatalogSyncOptions) {
    this.#options = options;
    this.#pageRows = options.pageRows ?? PAGE_ROWS;
    this.#writer = new ChunkWriter(options.catalog, options.chunkRows);
    const kept = readSyncState(options.catalog.syncState());
    const { name } = options.source;
    this.#state = kept?.source === name ? kept : newSyncState(name);
    this.#overlap = this.#overlapFrom(this.#state);
  }

  get state(): SyncState {
    return this.#state;
  }

  /** One turn: changes when they are due, and one step of a load. How long until there is more to do. */
  async turn(): Promise<number> {
    const { monotonic, pollMs } = this.#options;
    if (this.#isLoadDue()) await this.#startLoad();
    const nowMs = monotonic();
    if (nowMs >= this.#pollAtMs) {
      // Set before the reading: a change that is notified during it asks for another one.
      this.#readAtMs = nowMs;
      this.#pollAtMs = nowMs + pollMs;
      await this.#readChanges();
    }
    if (this.#state.load?.phase === 'pages') await this.#loadPage(this.#state.load.afterAdId);
    else if (this.#state.load?.phase === 'sweep') await this.#sweepStep();
    return this.#state.load === null ? Math.max(0, this.#pollAtMs - monotonic()) : 0;
  }

  /** Something changed: the next reading is due at once, but not for every one of a thousand calls. */
  wake(): void {
    this.#pollAtMs = Math.min(this.#pollAtMs, this.#readAtMs + WOKEN_MS);
  }

  #overlapFrom({ fromUs, newestUs }: Pick<SyncState, 'fromUs' | 'newestUs'>): Overlap {
    const { overlapMs, monotonic } = this.#options;
    return new Overlap(overlapMs, { fromUs, newestUs, nowMs: monotonic() });
  }

  #isLoadDue(): boolean {
    const { load, loadedAtMs } = this.#state;
    if (load !== null) return false;
    if (loadedAtMs === null) return true;
    const ageMs = this.#options.clock() - loadedAtMs;
    // A clock that was set back must not stop the loads.
    return ageMs >= this.#options.fullReloadMs || ageMs < 0;
  }

  async #startLoad(): Promise<void> {
    const { source, overlapMs } = this.#options;
    this.#rows = 0;
    const round = this.#state.round + 1;
    const started = { ...this.#state, round, load: { phase: 'pages', afterAdId: null } } as const;
    if (this.#state.loadedAtMs !== null) {
      await this.#keep(started);
    } else {
      const { newestUs, nowUs } = await source.newest();
      const newest = newestUs === null ? null : Math.min(newestUs, nowUs);
      const fromUs = newest === null ? null : newest - overlapMs * US_PER_MS;
      await this.#keep({ ...started, fromUs, newestUs: newest }); // 1
      this.#overlap = this.#overlapFrom(this.#state);
    }
    this.#report('started');
  }

  async #loadPage(afterAdId: string | null): Promise<void> {
    const rows = await this.#options.source.page(afterAdId, this.#pageRows);
    const stateAfter = (chunk: readonly SourceRow[]): SyncState => ({
      ...this.#state,
      load: { phase: 'pages', afterAdId: chunk.at(-1)!.adId },
    });
    await this.#write(rows, stateAfter); // 2
    this.#rows += rows.length;
    if (rows.length < this.#pageRows) {
      await this.#keep({ ...this.#state, load: { phase: 'sweep' } }); // 3
    }
    this.#report('pages');
  }

  /** Collects ads without a row, slice by slice, and removes them when it has gone through all. */
  async #sweepStep(): Promise<void> {
    const { catalog, source, maxRemovedShare } = this.#options;
    this.#sweep ??= { afterAdId: '', missing: [] };
    const sweep = this.#sweep;
    const ads = catalog.list({ afterAdId: sweep.afterAdId, limit: SWEEP_IDS });
    const missing = ads.length === 0 ? [] : await source.missing(ads.map(({ adId }) => adId));
    sweep.missing.push(...missing);
    const most = Math.max(REMOVED_ANYWAY, Math.floor(catalog.count() * maxRemovedShare));
    const areTooMany = sweep.missing.length > most;
    if (!areTooMany && ads.length === SWEEP_IDS) {
      sweep.afterAdId = ads.at(-1)!.adId;
      this.#report('sweep');
      return;
    }
    this.#sweep = null;
    if (!areTooMany) await this.#removeMissing(sweep.missing);
    const { clock } = this.#options;
    const heldRemovals = areTooMany ? sweep.missing.length : 0;
    const end = { ...this.#state, load: null, loadedAtMs: clock(), heldRemovals };
    await this.#keep(end, { forgetRefusedBefore: end.round }); // 5
    this.#report('done');
  }

  /** Asks once more right before: a row may have come while the others were looked at. */
  async #removeMissing(adIds: readonly string[]): Promise<void> {
    const { source } = this.#options;
    for (let at = 0; at < adIds.length; at += SWEEP_IDS) {
      const missing = await source.missing(adIds.slice(at, at + SWEEP_IDS));
      await this.#writer.remove(missing); // 4
    }
  }

  async #readChanges(): Promise<void> {
    const { monotonic, source } = this.#options;
    const beganMs = monotonic();
    const isReread = this.#isRereadDue(beganMs);
    let after: ChangePosition = {
      updatedAtUs: isReread ? this.#overlap.fromUs : this.#overlap.newestUs,
    };
    for (;;) {
      const { rows, nowUs } = await source.changes(after, this.#pageRows);
      const last = rows.at(-1);
      // Taken over when the rows are written, so that a failure lets them be read again.
      const overlap = this.#overlap.copy();
      // A row dated ahead of the database's time must not hide what is written until then.
      if (last !== undefined) overlap.saw(Math.min(last.updatedAtUs!, nowUs), monotonic());
      if (last === undefined || rows.length < this.#pageRows) {
        if (isReread) overlap.through(beganMs);
        await this.#endChanges(rows, overlap);
        break;
      }
      await this.#write(rows); // 6
      this.#overlap = overlap;
      after = last as ChangePosition;
    }
    const nowMs = monotonic();
    if (isReread) this.#rereadAtMs = nowMs + (nowMs - beganMs) * REREAD_PAUSES;
  }

  /** While the first load is under way its pages read all there is; new changes are read beside it. */
  #isRereadDue(nowMs: number): boolean {
    const { loadedAtMs, load } = this.#state;
    return nowMs >= this.#rereadAtMs && (loadedAtMs !== null || load?.phase !== 'pages');
  }

  async #endChanges(rows: readonly SourceRow[], overlap: Overlap): Promise<void> {
    const { monotonic, clock } = this.#options;
    const { fromUs, newestUs } = overlap;
    const state = { ...this.#state, fromUs, newestUs, syncedAtMs: clock() };
    if (rows.length > 0) {
      await this.#write(rows, (_, isLast) => (isLast ? state : null)); // 7
    } else if (monotonic() - this.#stateAtMs >= STATE_MS) {
      await this.#keep(state);
    }
    this.#state = state;
    this.#overlap = overlap;
  }

  /** Writes rows chunk by chunk, each with the state that holds after it. */
  async #write(
    rows: readonly SourceRow[],
    stateAfter: (chunk: readonly SourceRow[], isLast: boolean) => SyncState | null = () => null,
  ): Promise<void> {
    await this.#writer.write(rows, this.#state.round, (chunk, isLast) => {
      const state = stateAfter(chunk, isLast);
      if (state === null) return undefined;
      return { text: writeSyncState(state), written: () => this.#wrote(state) };
    });
  }

  async #keep(state: SyncState, more: { forgetRefusedBefore?: number } = {}): Promise<void> {
    await this.#options.catalog.apply({ put: [], syncState: writeSyncState(state), ...more });
    this.#wrote(state);
  }

  #wrote(state: SyncState): void {
    this.#state = state;
    this.#stateAtMs = this.#options.monotonic();
  }

  #report(phase: LoadProgress['phase']): void {
    const { heldRemovals } = this.#state;
    this.#options.onProgress?.({ phase, rows: this.#rows, heldRemovals });
  }
}
