/**
 * Opens the parts of the ledger and runs their loops: counter, archiver, reconciler, and retention.
 * The only place that knows which adapters a one-machine ledger is made of.
 */
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { openLmdbCatalog } from '../ads/lmdb/catalog.ts';
import type { AdCatalog } from '../ads/port.ts';
import { Archiver } from '../archive/archiver.ts';
import { writeCheckpoint } from '../archive/checkpoint-writer.ts';
import { loadManifest, type Manifest } from '../archive/manifest.ts';
import type { ObjectStore } from '../archive/port.ts';
import { type DataPaths, dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { Counter } from '../counter/counter.ts';
import { openJournalLog } from '../counter/disk/journal-log.ts';
import type { DeadLetterStore, JournalLog } from '../counter/port.ts';
import { openDeadLetters } from '../counter/sqlite/dead-letters.ts';
import { removeOldSegments } from '../log/disk/retention.ts';
import type { ClickLogReader, ClickLogWriter } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { type Lock, takeLock } from '../platform/lock.ts';
import type { Logger } from '../platform/logger.ts';
import { sleep } from '../platform/sleep.ts';
import { Evidence, type EvidenceOptions } from '../reconcile/evidence.ts';
import type { HourResult, Reconciler, StuckHour } from '../reconcile/reconciler.ts';
import { VerdictArchive } from '../verdicts/archive.ts';
import type { Warehouse } from '../warehouse/port.ts';
import type { ArchiveView, LedgerView } from './ledger-view.ts';
import { openLedgerWriter } from './ledger-writer.ts';
import { openLogReader } from './log-reader.ts';
import { Loop } from './loop.ts';
import { newReconciler } from './new-reconciler.ts';
import { openLocalWork } from './open-control.ts';
import { openStore } from './open-store.ts';
import { openWarehouse } from './open-warehouse.ts';
import { RebuildMarker } from './rebuild-marker.ts';
import { requireNoMove, SharedFacts } from './shared-facts.ts';
import type { Telemetry } from './telemetry.ts';
import { WAREHOUSE_TTL } from './warehouse-ttl.ts';

export interface LedgerParts {
  readonly config: Config;
  readonly paths: DataPaths;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly catalog: AdCatalog;
  readonly reader: ClickLogReader;
  /** Takes what is ingested and redriven. */
  readonly writer: ClickLogWriter;
  /** Acknowledged records that it lacked when it was opened. */
  readonly lostRecords: number;
  readonly warehouse: Warehouse;
  readonly deadLetters: DeadLetterStore;
  readonly store: ObjectStore;
  readonly manifest: Manifest;
  readonly archiver: ArchiveView;
  readonly verdicts: VerdictArchive;
  /** Null while nothing is traced. */
  readonly telemetry: Telemetry | null;
}

const COUNTER_RESTART_MS = 2_000;
const RETENTION_INTERVAL_MS = 60_000;
const CHECKPOINT_INTERVAL_MS = 600_000;
const HOUR_MS = 3_600_000;

export class Ledger implements LedgerView {
  readonly parts: LedgerParts;
  readonly evidence: Evidence;
  /** Opened anew by `rebuild`: do not keep them. */
  counter!: Counter;
  reconciler!: Reconciler;
  readonly #lock: Lock;
  readonly #archiver: Archiver;
  #facts!: SharedFacts;
  readonly #onHour: (result: HourResult) => void;
  readonly #rebuild: RebuildMarker;
  #upserts = 0;
  #publications = 0;
  #rebuilds = 0;
  #loops: Loop[] = [];
  #counterAbort = new AbortController();
  #counterFailure: Error | null = null;
  #counterRun: Promise<void> = Promise.resolve();

  private constructor(
    parts: LedgerParts & { readonly archiver: Archiver },
    lock: Lock,
    onHour: (result: HourResult) => void,
  ) {
    this.parts = parts;
    this.#archiver = parts.archiver;
    this.#lock = lock;
    this.#onHour = (result) => {
      this.#publications++;
      onHour(result);
    };
    const { store, manifest, verdicts } = parts;
    const takenBack: EvidenceOptions['takenBack'] = (hourMs) => this.reconciler.takenBack(hourMs);
    this.evidence = new Evidence({ store, manifest, verdicts, takenBack });
    this.#rebuild = new RebuildMarker(parts.paths.rebuildMarker);
  }

  /** Takes the data folder's ledger lock and opens everything; nothing runs yet. */
  static async open(options: {
    config: Config;
    clock: Clock;
    logger: Logger;
    telemetry?: Telemetry | null;
    onHour?: (result: HourResult) => void;
  }): Promise<Ledger> {
    const { config, clock, logger } = options;
    const paths = dataPaths(config.dataDir);
    mkdirSync(paths.root, { recursive: true, mode: 0o700 });
    const lock = takeLock(
      paths.run,
      'ledger',
      'Another ledger works on this data folder; commands reach it while "clickledger up" runs.',
    );
    const warehouse = await openWarehouse(config, WAREHOUSE_TTL);
    const reader = await openLogReader(config, paths, logger);
    const store = await openStore(config, clock, logger);
    const manifest = await loadManifest(store);
    const archiver = new Archiver({
      reader,
      store,
      manifest,
      clock,
      rotateMs: config.archive.rotateMs,
      rotateRecords: config.archive.rotateRecords,
      maxSkewMs: config.counting.maxSkewMs,
      onError: (error, partition) => logger.error({ err: error, partition }, 'archiving failed'),
    });
    const deadLetters = openDeadLetters(paths.deadLetters);
    const base = { config, paths, clock, logger, warehouse, reader, store, manifest, archiver };
    const parts = {
      ...base,
      telemetry: options.telemetry ?? null,
      deadLetters,
      verdicts: await VerdictArchive.open(store),
      catalog: openLmdbCatalog({ dir: paths.catalog, readOnly: false }),
      ...(await openLedgerWriter(config, { paths, clock, logger })),
    };
    const ledger = new Ledger(parts, lock, options.onHour ?? (() => {}));
    await ledger.#openDerived();
    return ledger;
  }

  /** Opens what `rebuild` throws away: the counter's state and the reconciler's memory. */
  async #openDerived(): Promise<void> {
    const { parts } = this;
    this.counter = await newCounter(parts, () => this.#upserts++);
    await this.counter.open();
    const work = openLocalWork(parts.paths, parts.clock, 'the ledger');
    this.#facts = new SharedFacts(work.state);
    this.reconciler = newReconciler(parts, {
      ...work,
      onHour: this.#onHour,
      settle: () => this.settle(),
      coveredUntilMs: () => this.#archiver.coveredUntilMs(),
      // What is archived here is in the manifest at once.
      refresh: async () => {},
    });
    await this.reconciler.open();
  }

  /** Starts the loops. */
  start(): void {
    const { parts } = this;
    this.#runCounter();
    const { reconcile, archive } = parts.config;
    this.#loops = [
      new Loop('archiver', Math.min(500, archive.rotateMs), async () => {
        await this.#archiver.pass();
      }),
      new Loop('reconciler', reconcile.intervalMs, async () => {
        await requireNoMove(this.#facts);
        await this.reconciler.reconcile();
      }),
      new Loop('retention', RETENTION_INTERVAL_MS, async () => this.#removeOldSegments()),
      // So that a start need not read every entry since the first click.
      new Loop('checkpoint', CHECKPOINT_INTERVAL_MS, async () => {
        await writeCheckpoint(parts.store, parts.manifest);
      }),
    ];
    for (const loop of this.#loops) {
      loop.start((error) =>
        parts.logger.error({ err: error, loop: loop.name }, `${loop.name} failed`),
      );
    }
  }

  #runCounter(): void {
    this.#counterAbort = new AbortController();
    this.#counterRun = this.#keepCounting(this.#counterAbort.signal);
  }

  /**
   * Counts until stopped. After a failure the counter is opened anew from its last commit and counts
   * the rest again: what was in memory may be ahead of the journal and must not be used.
   */
  async #keepCounting(signal: AbortSignal): Promise<void> {
    const { logger } = this.parts;
    for (;;) {
      try {
        await this.counter.run(signal);
      } catch (error) {
        this.#counterFailure = error as Error;
        logger.error({ err: error }, 'counting has stopped and starts again from its last commit');
      }
      if (signal.aborted) return;
      await sleep(COUNTER_RESTART_MS, signal);
      if (signal.aborted) return;
      await this.#reopenCounter();
    }
  }

  async #reopenCounter(): Promise<void> {
    try {
      const counter = await newCounter(this.parts, () => this.#upserts++);
      await counter.open();
      this.counter = counter;
    } catch (error) {
      this.#counterFailure = error as Error;
      this.parts.logger.error({ err: error }, 'the counter cannot be opened');
    }
  }

  /** Why clicks are not being counted; null once a counter has caught up again. */
  get counterProblem(): Error | null {
    const { failure, asOfMs } = this.counter;
    return failure ?? (asOfMs === 0 ? this.#counterFailure : null);
  }

  /**
   * Whether the warehouse holds less than it did before `rebuild`. A rebuild that died goes on by
   * itself: the counter reads the log again, and hours that were final once are due at once.
   */
  get isRebuilding(): boolean {
    const { untilMs } = this.#rebuild;
    if (untilMs === null) return false;
    if (!this.isRunning || this.counter.asOfMs === 0) return true;
    if (this.reconciler.finalUntilMs < untilMs) return true;
    this.#rebuild.end();
    return false;
  }

  get stuck(): StuckHour | null {
    return this.reconciler.stuck;
  }

  /** A log that has lost what was not counted stops the one counter that there is. */
  get liveGaps(): readonly [] {
    return [];
  }

  /** Rises whenever live rows change. */
  get upserts(): number {
    return this.#upserts;
  }

  /** Rises with every hour that is published. */
  get publications(): number {
    return this.#publications;
  }

  /** Rises when the warehouse begins to be built again. */
  get rebuilds(): number {
    return this.#rebuilds;
  }

  get isRunning(): boolean {
    return this.#loops.length > 0;
  }

  /** Archives what the log holds and has the stream's rows written. */
  async settle(): Promise<void> {
    await this.#archiver.flush();
    if (this.isRunning) await this.#awaitStream();
    else await this.counter.catchUp();
  }

  /** Waits until the running counter has brought everything logged before now into live rows. */
  async #awaitStream(): Promise<void> {
    const { counter } = this;
    const { clock } = this.parts;
    const nowMs = clock();
    const deadlineMs = nowMs + 30_000;
    // A recount does not need the stream; only the drift that is recorded would be of a moment ago.
    while (counter.asOfMs < nowMs && counter.failure === null && clock() < deadlineMs) {
      await Bun.sleep(20);
    }
  }

  #removeOldSegments(): void {
    const { parts } = this;
    const { manifest, config, paths, clock } = parts;
    const { counter, reconciler } = this;
    // Live rows of hours that are not final yet can be rebuilt from the log only.
    const olderThanMs = Math.min(
      clock() - config.log.retentionMs,
      reconciler.finalUntilMs - HOUR_MS - config.counting.dedupWindowMs,
    );
    for (const [partition, counted] of counter.committedPositions) {
      const safeOffset = Math.min(counted, manifest.archivedUpTo(partition).nextOffset);
      const removed = removeOldSegments(paths.log, partition, { safeOffset, olderThanMs });
      if (removed > 0) parts.logger.info({ partition, removed }, 'removed old log segments');
    }
  }

  /** Drops state and warehouse and builds them again from archive and log. */
  rebuild(progress: (message: string) => void): Promise<{ records: number; hours: number }> {
    return this.alone(() => this.#rebuildAll(progress));
  }

  #alone: Promise<unknown> = Promise.resolve();

  /**
   * Runs `work` before or after a `rebuild`, never during one: what it changes in final hours would
   * come back without a restatement, since their old rows are gone.
   */
  alone<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#alone.then(async () => {
      // Of an archive that is there in part no hour may turn final, and `rebuild` would forget the note.
      await requireNoMove(this.#facts);
      return work();
    });
    this.#alone = result.catch(() => {});
    return result;
  }

  async #rebuildAll(
    progress: (message: string) => void,
  ): Promise<{ records: number; hours: number }> {
    const wasRunning = this.isRunning;
    progress('archiving what the log holds');
    await this.#archiver.flush();
    // What changed a final hour is restated now: once its old rows are gone nobody knows `before`.
    // A counter that cannot go on is why somebody rebuilds; it must not stand in the way.
    if (this.counterProblem === null) await this.reconciler.reconcile();
    const untilMs = this.reconciler.finalUntilMs;
    await this.#stopLoops();
    if (!wasRunning) await this.counter.close();
    try {
      const hours = await this.#buildAgain(untilMs, progress);
      const records = Object.values(this.counter.outcomes()).reduce((sum, n) => sum + n, 0);
      return { records, hours };
    } finally {
      // Also after a failure: clicks are counted as far as they can be, and `status` says what is wrong.
      if (wasRunning) this.start();
    }
  }

  async #buildAgain(untilMs: number, progress: (message: string) => void): Promise<number> {
    const { paths, warehouse } = this.parts;
    progress('dropping state and warehouse');
    this.#rebuild.begin(untilMs);
    this.#rebuilds++;
    // The state goes first: left over from a process that died here, it would not write again the
    // rows that it has settled, and the warehouse would miss them. Without it the log is counted anew.
    rmSync(paths.counterState, { recursive: true, force: true });
    await warehouse.reset();
    rmSync(paths.recountIndex, { recursive: true, force: true });
    await this.#openDerived();
    progress('counting the log');
    await this.counter.catchUp();
    progress('recounting the archive');
    const results = await this.reconciler.reconcile({ untilMs });
    this.#rebuild.end();
    return results.length;
  }

  async #stopLoops(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    this.#counterAbort.abort();
    await this.#counterRun;
    this.#loops = [];
  }

  /** Stops the loops in reverse order of dependence and closes everything. */
  async close(): Promise<void> {
    const { parts } = this;
    const wasRunning = this.isRunning;
    await this.#stopLoops();
    if (!wasRunning) await this.counter.close();
    await parts.writer.close();
    await parts.reader.close();
    await parts.warehouse.close();
    await parts.catalog.close();
    await parts.deadLetters.close();
    this.#lock.release();
  }
}

/**
 * The counter's journal; one that is damaged is moved aside and counting begins anew from the log,
 * which is what the state is made of.
 */
async function openJournal(paths: DataPaths, clock: Clock, logger: Logger): Promise<JournalLog> {
  try {
    return await openJournalLog(paths.counterState, clock);
  } catch (error) {
    if (!(error instanceof LedgerError) || error.kind === 'retry') throw error;
    const aside = `${paths.counterState}.damaged-${clock()}`;
    renameSync(paths.counterState, aside);
    logger.error({ err: error, aside }, 'the counter state is damaged and is built again');
    return openJournalLog(paths.counterState, clock);
  }
}

async function newCounter(parts: LedgerParts, onUpsert: () => void): Promise<Counter> {
  const { config, reader, warehouse, deadLetters, paths, clock, logger } = parts;
  return new Counter({
    reader,
    warehouse,
    deadLetters,
    clock,
    journal: await openJournal(paths, clock, logger),
    counting: config.counting,
    ...config.counter,
    onUpsert,
    tracer: parts.telemetry?.countTracer() ?? null,
    onError: (error, what) => logger.error({ err: error }, `${what} failed`),
  });
}

/** Refuses a data folder that was never set up: a command must not make one by a typing error. */
export function requireDataDir(config: Config): void {
  if (existsSync(config.dataDir)) return;
  throw new LedgerError('no_data', `there is no data folder at ${config.dataDir}`, {
    hint: 'Name it with --data DIR, or start the product once with "clickledger up".',
  });
}
