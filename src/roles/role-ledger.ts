/**
 * The ledger as one of several roles sees it: the reconciler, the API, or a command. Counting and
 * archiving are others' work; how far they are is read where they commit it.
 *
 * R1 Nothing is kept here that another process needs: a role that is gone is replaced by any other.
 * R2 What is known of others is some seconds old at most, and never ahead of what it stands for: rows are
 *    in the warehouse before their position is committed, objects before their manifest entry.
 * R3 What was read is believed for a while only: see `role-rebuild.ts`.
 */
import { openLmdbCatalog } from '../ads/lmdb/catalog.ts';
import { loadManifest } from '../archive/manifest.ts';
import { LedgerError } from '../platform/errors.ts';
import { Evidence } from '../reconcile/evidence.ts';
import type { HourResult, Reconciler } from '../reconcile/reconciler.ts';
import { VerdictArchive } from '../verdicts/archive.ts';
import type { LedgerParts } from './ledger-parts.ts';
import type { LedgerView } from './ledger-view.ts';
import { openLedgerWriter } from './ledger-writer.ts';
import { openCounterProgress } from './log-group.ts';
import { openTopicReader } from './log-reader.ts';
import { Loop } from './loop.ts';
import { newReconciler } from './new-reconciler.ts';
import type { Control } from './open-control.ts';
import { openStore } from './open-store.ts';
import { openWarehouse } from './open-warehouse.ts';
import type { Readiness } from './readiness.ts';
import { RemoteArchive } from './remote-archive.ts';
import { RemoteStream } from './remote-stream.ts';
import { RoleRebuild } from './role-rebuild.ts';
import type { RoleContext } from './run-role.ts';
import { type LiveGapFact, requireNoMove, SharedFacts, type StuckFact } from './shared-facts.ts';
import { WAREHOUSE_TTL } from './warehouse-ttl.ts';

const LOOK_MS = 1_000;
const POLL_MS = 250;
/** What these codes stand for is not in the way of most answers. */
const NOT_ANSWERED_FROM = ['log_unavailable', 'archive_unavailable'];
/** Archivers are asked to write out what they hold; one that does not is named. */
const SETTLE_ARCHIVE_MS = 60_000;
const SETTLE_STREAM_MS = 30_000;

export type LedgerContext = Pick<
  RoleContext,
  'config' | 'paths' | 'clock' | 'logger' | 'telemetry'
> & { readonly readiness: Pick<Readiness, 'until'> };

interface Opened {
  readonly parts: LedgerParts & { readonly archiver: RemoteArchive };
  readonly stream: RemoteStream;
  readonly control: Control;
}

export class RoleLedger implements LedgerView {
  readonly parts: LedgerParts;
  readonly counter: RemoteStream;
  readonly reconciler: Reconciler;
  readonly evidence: Evidence;
  readonly facts: SharedFacts;
  readonly control: Control;
  readonly #archive: RemoteArchive;
  readonly #rebuild: RoleRebuild;
  readonly #loops = [
    // By itself: a broker that hangs must not hide that the warehouse is about to be emptied (R3).
    new Loop('facts', LOOK_MS, () => this.#lookAtFacts()),
    new Loop('look', LOOK_MS, () => this.#lookAtOthers()),
  ];
  #gaps: readonly LiveGapFact[] = [];
  #stuck: StuckFact | null = null;
  #upserts = 0;
  #publications = 0;
  /** Published hours as they were seen last, in one word. */
  #seen = '';
  /** Why the common database cannot be read. */
  controlProblem: Error | null = null;
  /** Why the others cannot be seen. */
  othersProblem: Error | null = null;

  private constructor({ parts, stream, control }: Opened, onHour: (result: HourResult) => void) {
    this.parts = parts;
    this.#archive = parts.archiver;
    this.counter = stream;
    this.control = control;
    const facts = new SharedFacts(control.state);
    this.facts = facts;
    this.reconciler = newReconciler(parts, {
      leases: control.leases,
      state: control.state,
      onHour,
      settle: () => this.settle(),
      coveredUntilMs: () => this.#archive.prove(),
      async refresh(why) {
        // At the beginning of every turn: an archive that is brought in waits for those before it.
        if (why === 'turn') await requireNoMove(facts);
        await parts.archiver.refresh(why);
      },
    });
    const { store, manifest, verdicts, warehouse } = parts;
    const { reconciler } = this;
    this.#rebuild = new RoleRebuild({ facts, reconciler, warehouse, counter: stream });
    const takenBack = (hourMs: number) => this.reconciler.takenBack(hourMs);
    this.evidence = new Evidence({ store, manifest, verdicts, takenBack });
  }

  /** Opens everything, waiting for what is away; nothing runs yet. Closes `control` at its end. */
  static async open(
    context: LedgerContext,
    control: Control,
    onHour: (result: HourResult) => void = () => {},
  ): Promise<RoleLedger> {
    const { config, paths, clock, logger, telemetry, readiness } = context;
    const facts = new SharedFacts(control.state);
    await readiness.until('PostgreSQL', async () => requireNoMove(facts));
    const warehouse = await readiness.until('ClickHouse', () =>
      openWarehouse(config, WAREHOUSE_TTL),
    );
    const store = await readiness.until('the archive', () => openStore(config, clock, logger));
    const manifest = await readiness.until('the archive', () => loadManifest(store));
    const reader = await openTopicReader(config, 'clickledger-ledger', logger);
    const archiver = new RemoteArchive({ reader, store, manifest, clock, facts });
    const verdicts = await readiness.until('the archive', () => VerdictArchive.open(store));
    const parts = {
      ...{ config, paths, clock, logger, telemetry, warehouse, reader, store, manifest },
      ...{ archiver, verdicts, deadLetters: control.deadLetters },
      catalog: openLmdbCatalog({ dir: paths.catalog, readOnly: false }),
      ...(await openLedgerWriter(config, { paths, clock, logger })),
    };
    const stream = new RemoteStream({ group: await openCounterProgress(config), reader, clock });
    const ledger = new RoleLedger({ parts, stream, control }, onHour);
    await readiness.until('ClickHouse, PostgreSQL and Kafka', () => ledger.look());
    return ledger;
  }

  /** Keeps what is known of others up to date. */
  start(): void {
    const { logger } = this.parts;
    const [facts, look] = this.#loops;
    facts?.start((error) => {
      if (this.controlProblem === null) logger.error({ err: error }, 'facts cannot be read');
      this.controlProblem = error as Error;
    });
    look?.start((error) => {
      if (this.othersProblem === null) logger.error({ err: error }, 'others cannot be seen');
      this.othersProblem = error as Error;
    });
  }

  /** What the process waits for; null while it sees everything. */
  get lookProblem(): Error | null {
    return this.controlProblem ?? this.othersProblem;
  }

  /** What keeps requests from being answered: without brokers or bucket most of them are. */
  get answerProblem(): Error | null {
    if (this.controlProblem !== null) return this.controlProblem;
    const problem = this.othersProblem;
    const isOther = problem instanceof LedgerError && NOT_ANSWERED_FROM.includes(problem.code);
    return isOther ? null : problem;
  }

  async look(): Promise<void> {
    await this.#lookAtFacts();
    await this.#lookAtOthers();
  }

  async #lookAtOthers(): Promise<void> {
    // What is read from here on was written after it was told.
    const told = this.#rebuild.fact;
    const ends = await Promise.allSettled([
      this.reconciler.look().then(() => this.#noteSeen()),
      this.counter.poll().then((changed) => {
        if (changed) this.#upserts++;
      }),
    ]);
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
    await this.#rebuild.endIfWhole(told);
    this.othersProblem = null;
  }

  async #lookAtFacts(): Promise<void> {
    [this.#gaps, this.#stuck] = await Promise.all([
      this.facts.liveGaps(),
      this.facts.stuck(),
      this.#rebuild.look(),
      this.#archive.look(),
    ]);
    this.controlProblem = null;
  }

  #noteSeen(): void {
    const { finalUntilMs, revisions } = this.reconciler;
    const seen = `${finalUntilMs}/${revisions}`;
    if (seen !== this.#seen) this.#publications++;
    this.#seen = seen;
  }

  get stuck(): StuckFact | null {
    return this.#stuck;
  }

  /** Brings what this process's reconciler has found to those that do not reconcile. */
  async tellStuck(): Promise<void> {
    const { stuck } = this.reconciler;
    // One that had nothing to do has found nothing out.
    if (JSON.stringify(stuck) === JSON.stringify(this.#stuck)) return;
    await this.facts.setStuck(stuck);
    this.#stuck = stuck;
  }

  /** Those of hours that are not final yet: the others are made good. */
  get liveGaps(): readonly LiveGapFact[] {
    return this.#gaps.filter(({ toMs }) => toMs > this.reconciler.finalUntilMs);
  }

  get counterProblem(): Error | null {
    return this.counter.problem;
  }

  /** R3. */
  get isRebuilding(): boolean {
    return this.#rebuild.isRunning;
  }

  get upserts(): number {
    return this.#upserts;
  }

  get publications(): number {
    return this.#publications;
  }

  get rebuilds(): number {
    return this.#rebuild.fact.id;
  }

  /** Whether hours may be worked on now; throws a retryable error that says why not. */
  requireNoMove(): Promise<void> {
    return requireNoMove(this.facts);
  }

  /** What it changes in final hours would come back without a restatement while they are built again. */
  async alone<T>(work: () => Promise<T>): Promise<T> {
    await this.requireNoMove();
    if ((await this.facts.rebuild()).untilMs !== null) {
      throw new LedgerError('rebuilding', 'the warehouse is being built again', {
        kind: 'retry',
        hint: 'Try again when "clickledger status" shows that what was final is final again.',
      });
    }
    return work();
  }

  /** Has archivers write out what they hold, and waits for them and for the stream. */
  async settle(): Promise<void> {
    const { clock } = this.parts;
    const nowMs = clock();
    await this.facts.askForFlush(nowMs);
    await this.#archive.awaitAll(SETTLE_ARCHIVE_MS);
    const deadlineMs = clock() + SETTLE_STREAM_MS;
    // A recount does not need the stream; only the drift that is recorded would be of a moment ago.
    while (this.counter.asOfMs < nowMs && this.counter.problem === null && clock() < deadlineMs) {
      await this.counter.poll();
      await Bun.sleep(POLL_MS);
    }
  }

  async rebuild(progress: (message: string) => void): Promise<{ records: number; hours: number }> {
    progress('archiving what the log holds');
    await this.settle();
    // What changed a final hour is restated now: once its old rows are gone nobody knows `before`.
    const hasFinal = this.reconciler.finalUntilMs > 0;
    if (hasFinal && !this.isRebuilding) await this.reconciler.reconcile();
    progress('dropping the warehouse');
    const { untilMs } = await this.#rebuild.begin();
    progress('recounting the archive');
    const results = await this.reconciler.reconcile(untilMs === null ? {} : { untilMs });
    progress('waiting for the counters, which read the log again');
    for (await this.look(); this.isRebuilding; await this.look()) await Bun.sleep(POLL_MS);
    const records = Object.values(this.counter.outcomes()).reduce((sum, n) => sum + n, 0);
    return { records, hours: results.length };
  }

  /** Takes up a rebuild whose process has died. */
  takeUpRebuild(): Promise<void> {
    return this.#rebuild.takeUp();
  }

  async close(): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    const { parts } = this;
    await this.counter.close();
    await parts.writer.close();
    await parts.reader.close();
    await parts.warehouse.close();
    await parts.catalog.close();
    await this.control.close();
  }
}
