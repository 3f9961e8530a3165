/**
 * The sync of the ad catalog with another system's table: its loop, its metrics, its log.
 *
 * A database that is away changes nothing but the age of the ads: clicks go on with those that this
 * machine has.
 */
import { Counter, type Registry } from 'prom-client';
import { CatalogSync, type LoadProgress } from '../ads/catalog-sync.ts';
import type { AdCatalog } from '../ads/port.ts';
import { PostgresSource } from '../ads/postgres/source.ts';
import type { Config } from '../config/schema.ts';
import { type Clock, monotonicMs } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import { gaugesIn } from './gauge.ts';

export interface CatalogSyncRole {
  start(): void;
  close(): Promise<void>;
}

/** Parts of whichever process keeps this machine's catalog. */
export interface CatalogSyncParts {
  readonly config: Config;
  readonly catalog: AdCatalog;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A database that is in trouble is not asked more often than this. */
const RETRY_MS = 1_000;
const PROGRESS_MS = 10_000;
/** A failure that lasts is logged this often. */
const LOG_FAILURE_MS = 60_000;
/** A new index of a large catalog takes long: between two of them ten times as long passes. */
const INDEX_PAUSES = 10;

export function openCatalogSync(parts: CatalogSyncParts, registry: Registry): CatalogSyncRole {
  const runner = parts.config.catalog.kind === 'postgres' ? new SyncRunner(parts) : null;
  addSyncMetrics(registry, parts, runner);
  return {
    start: () => runner?.start(),
    close: async () => runner?.close(),
  };
}

/** Ads come from one place: an import would be undone by the next comparison with the table. */
export function refuseImportOfSynced({ catalog }: Config): void {
  if (catalog.kind === 'local') return;
  throw new LedgerError(
    'import_refused',
    'ads come from PostgreSQL here (catalog.kind), not from imports',
    {
      hint: 'Change the ads in the table; "clickledger ads status" shows how far it was read.',
    },
  );
}

class SyncRunner {
  readonly #parts: CatalogSyncParts;
  readonly #source: PostgresSource;
  readonly #sync: CatalogSync;
  readonly #startedAtMs: number;
  #failures = 0;
  #failureLoggedAtMs = Number.NEGATIVE_INFINITY;
  #isFailing = false;
  #progressAtMs = Number.NEGATIVE_INFINITY;
  #indexAtMs = Number.NEGATIVE_INFINITY;
  readonly #stop = new AbortController();
  #wakeUp: () => void = () => {};
  #running: Promise<void> = Promise.resolve();

  constructor(parts: CatalogSyncParts) {
    const { catalog, clock, logger } = parts;
    const { postgres } = parts.config.catalog;
    this.#parts = parts;
    this.#startedAtMs = clock();
    this.#source = new PostgresSource({
      ...postgres,
      onNotify: () => this.#wake(),
      onListenFailed: (error) => logger.warn({ err: error }, 'ads: LISTEN failed, polling only'),
    });
    this.#sync = new CatalogSync({
      ...postgres,
      catalog,
      clock,
      source: this.#source,
      monotonic: monotonicMs,
      onProgress: (progress) => this.#log(progress),
    });
  }

  get failures(): number {
    return this.#failures;
  }

  get heldRemovals(): number {
    return this.#sync.state.heldRemovals;
  }

  /** Age of what this machine knows of the table; before the first time, since the start. */
  get ageMs(): number {
    const { syncedAtMs, loadedAtMs } = this.#sync.state;
    const sinceMs = loadedAtMs === null || syncedAtMs === null ? this.#startedAtMs : syncedAtMs;
    return Math.max(0, this.#parts.clock() - sinceMs);
  }

  start(): void {
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const waitMs = await this.#turn();
      if (waitMs > 0 && !this.#stop.signal.aborted) await this.#pause(waitMs);
    }
  }

  /** A failed turn is counted and told; the next one does what was left. */
  async #turn(): Promise<number> {
    try {
      const waitMs = await this.#sync.turn();
      if (this.#isFailing) this.#parts.logger.info('ads: the table can be read again');
      this.#isFailing = false;
      if (waitMs > 0) await this.#refreshIndex();
      return waitMs;
    } catch (error) {
      this.#failed(error);
      return Math.max(this.#parts.config.catalog.postgres.pollMs, RETRY_MS);
    }
  }

  #failed(error: unknown): void {
    this.#failures++;
    const nowMs = monotonicMs();
    const isNew = !this.#isFailing || nowMs - this.#failureLoggedAtMs >= LOG_FAILURE_MS;
    this.#isFailing = true;
    if (!isNew || this.#stop.signal.aborted) return;
    this.#failureLoggedAtMs = nowMs;
    this.#parts.logger.error({ err: error }, 'ads: the table cannot be read');
  }

  async #refreshIndex(): Promise<void> {
    const beganMs = monotonicMs();
    if (beganMs < this.#indexAtMs) return;
    await this.#parts.catalog.refreshIndex(this.#stop.signal);
    const endedMs = monotonicMs();
    this.#indexAtMs = endedMs + (endedMs - beganMs) * INDEX_PAUSES;
  }

  async #pause(waitMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wakeUp = resolve;
    const timer = setTimeout(resolve, waitMs);
    await promise;
    clearTimeout(timer);
  }

  #wake(): void {
    this.#sync.wake();
    this.#wakeUp();
  }

  #log({ phase, rows, heldRemovals }: LoadProgress): void {
    const { logger, catalog } = this.#parts;
    if (phase === 'done' && heldRemovals > 0) {
      logger.error(
        { heldRemovals, ads: catalog.count() },
        'ads: so many have no row in the table that none was removed',
      );
    }
    const nowMs = monotonicMs();
    const isStep = phase === 'pages' || phase === 'sweep';
    if (isStep && nowMs - this.#progressAtMs < PROGRESS_MS) return;
    this.#progressAtMs = nowMs;
    logger.info({ rows, ads: catalog.count() }, `ads: comparison ${phase}`);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#wakeUp();
    // Ends a query that hangs; the turn fails, and nothing is lost by it.
    await this.#source.close();
    await this.#running;
    await this.#source.close();
  }
}

function addSyncMetrics(
  registry: Registry,
  { catalog, config }: CatalogSyncParts,
  runner: SyncRunner | null,
): void {
  const registers = [registry];
  const gauge = gaugesIn(registry);
  const isSynced = config.catalog.kind !== 'local';
  gauge('catalog_ads', 'Ads that this machine has.', () => catalog.count());
  gauge(
    'catalog_sync_age_seconds',
    'Time since the ads table was last read to its end; 0 when ads are imported.',
    () => (runner?.ageMs ?? 0) / 1_000,
  );
  gauge('catalog_refused_rows', 'Rows of the ads table that are no valid ads.', () =>
    isSynced ? catalog.refusedRows(0).count : 0,
  );
  gauge(
    'catalog_held_removals',
    'Ads without a row that were kept because they are too many.',
    () => runner?.heldRemovals ?? 0,
  );
  new Counter({
    name: 'clickledger_catalog_sync_failures_total',
    help: 'Attempts to read the ads table that failed.',
    registers,
    collect() {
      this.reset();
      this.inc(runner?.failures ?? 0);
    },
  });
}
