/**
 * The counter role: one of several that share the log's partitions. What it knows of a partition is in
 * a journal on its own disk, and can be derived again from the log.
 */
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Gauge, type Registry } from 'prom-client';
import type { Config } from '../config/schema.ts';
import { openJournalLog } from '../counter/disk/journal-log.ts';
import type { JournalLog } from '../counter/port.ts';
import { CounterWorker } from '../counter/worker.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import { addCountingMetrics } from './counting-metrics.ts';
import { gaugesIn } from './gauge.ts';
import { requireKnownLog } from './known-log.ts';
import { appendedAtMsOf } from './log-age.ts';
import { openLogGroup } from './log-group.ts';
import { openTopicReader } from './log-reader.ts';
import { Loop } from './loop.ts';
import { openWarehouse } from './open-warehouse.ts';
import { addControlMetric, addGroupMetrics, addStoppedPartitions } from './role-metrics.ts';
import { openShared, type RoleContext, type RoleWork, runRole } from './run-role.ts';
import { SharedFacts } from './shared-facts.ts';
import { WAREHOUSE_TTL } from './warehouse-ttl.ts';

const LOOK_MS = 1_000;

export function runCounter(config: Config, stop: AbortSignal, index: number): Promise<void> {
  return runRole(config, { role: 'counter', index }, stop, (context) =>
    openCounterRole(context, index),
  );
}

async function openCounterRole(context: RoleContext, index: number): Promise<RoleWork> {
  const { config, paths, clock, logger, registry, readiness, telemetry, instance } = context;
  const control = await openShared(context);
  const warehouse = await readiness.until('ClickHouse', () => openWarehouse(config, WAREHOUSE_TTL));
  const reader = await openTopicReader(config, 'clickledger-counter', logger);
  const facts = new SharedFacts(control.state);
  await readiness.until('Kafka and PostgreSQL', () => requireKnownLog(config, { reader, facts }));
  const journals = new Journals(join(paths.counterState, String(index)), clock, logger);
  const group = await openLogGroup(config, {
    ...{ role: 'counter', instance, logger },
    remembers: () => journals.partitions(),
  });
  const told = await readiness.until('PostgreSQL', () => ToldFacts.read(facts));
  const loop = new Loop('shared facts', LOOK_MS, () => told.look());
  const worker = new CounterWorker({
    group,
    reader,
    warehouse,
    deadLetters: control.deadLetters,
    openJournal: (partition) => journals.open(partition),
    dropJournal: (partition) => journals.drop(partition),
    clock,
    counting: config.counting,
    ...config.counter,
    holder: instance,
    rebuildId: () => told.rebuildId,
    acceptedGaps: () => told.acceptedGaps,
    onGap: (gap) => told.facts.noteLiveGap(gap),
    newTracer: () => telemetry?.countTracer() ?? null,
    onError: (error, what) => logger.error({ err: error }, `${what} failed`),
  });
  addCounterMetrics(registry, { worker, reader, clock });
  addGroupMetrics(registry, 'counter', () => group.status());
  addControlMetric(registry, () => told.problem === null);
  loop.start((error) => told.failed(error as Error, logger));
  worker.start();
  return {
    waitsFor: () => worker.waitsFor ?? waitsForWarehouse(worker),
    drain: () => worker.close(),
    async close() {
      await loop.stop();
      await reader.close();
      await warehouse.close();
      await control.close();
    },
  };
}

function waitsForWarehouse({ lastUpsertError }: CounterWorker): string | null {
  return lastUpsertError === null ? null : `ClickHouse: ${lastUpsertError.message}`;
}

/** The journals of this process, a folder each. */
class Journals {
  readonly #dir: string;
  readonly #clock: Clock;
  readonly #logger: Logger;

  constructor(dir: string, clock: Clock, logger: Logger) {
    this.#dir = dir;
    this.#clock = clock;
    this.#logger = logger;
  }

  partitions(): number[] {
    if (!existsSync(this.#dir)) return [];
    return readdirSync(this.#dir).flatMap((name) => {
      const match = /^p(\d+)$/.exec(name);
      return match === null ? [] : [Number(match[1])];
    });
  }

  /** One that is damaged is moved aside: the log has what it is made of. */
  async open(partition: number): Promise<JournalLog> {
    const dir = this.#dirOf(partition);
    try {
      return await openJournalLog(dir, this.#clock);
    } catch (error) {
      if (!(error instanceof LedgerError) || error.kind === 'retry') throw error;
      const aside = `${dir}.damaged-${this.#clock()}`;
      renameSync(dir, aside);
      this.#logger.error(
        { err: error, aside, partition },
        'a journal is damaged; the log is replayed',
      );
      return openJournalLog(dir, this.#clock);
    }
  }

  drop(partition: number): void {
    rmSync(this.#dirOf(partition), { recursive: true, force: true });
  }

  #dirOf(partition: number): string {
    return join(this.#dir, `p${partition}`);
  }
}

/** What operators have told all counters, as it was last read: counting does not wait for it. */
class ToldFacts {
  readonly facts: SharedFacts;
  rebuildId = 0;
  acceptedGaps: ReadonlyMap<number, number> = new Map();
  problem: Error | null = null;

  private constructor(facts: SharedFacts) {
    this.facts = facts;
  }

  static async read(facts: SharedFacts): Promise<ToldFacts> {
    const told = new ToldFacts(facts);
    await told.look();
    return told;
  }

  async look(): Promise<void> {
    const [{ id }, accepted] = await Promise.all([this.facts.rebuild(), this.facts.acceptedGaps()]);
    this.rebuildId = id;
    this.acceptedGaps = accepted;
    this.problem = null;
  }

  failed(error: Error, logger: Logger): void {
    if (this.problem === null) logger.warn({ err: error }, 'the shared facts cannot be read');
    this.problem = error;
  }
}

interface Measured {
  readonly worker: CounterWorker;
  readonly reader: Parameters<typeof appendedAtMsOf>[0];
  readonly clock: Clock;
}

function addCounterMetrics(registry: Registry, { worker, reader, clock }: Measured): void {
  const registers = [registry];
  new Gauge({
    name: 'clickledger_oldest_uncounted_seconds',
    help: 'Age of the oldest record of the log that is not counted yet; 0 when all are.',
    registers,
    async collect() {
      const nowMs = clock();
      const ages = worker.partitions().map(async ({ partition, nextOffset }) => {
        const range = await reader.range(partition);
        const atMs = await appendedAtMsOf(reader, range, nextOffset ?? range.firstOffset);
        return nowMs - (atMs ?? nowMs);
      });
      // A log that does not answer is told by what the role waits for.
      this.set(Math.max(0, ...(await Promise.all(ages).catch(() => [0]))) / 1_000);
    },
  });
  new Gauge({
    name: 'clickledger_log_backlog_records',
    help: 'Records of the log that are not counted yet.',
    labelNames: ['partition'],
    registers,
    async collect() {
      this.reset();
      for (const { partition, nextOffset } of worker.partitions()) {
        const range = await reader.range(partition).catch(() => null);
        if (range === null) return;
        const backlog = Math.max(0, range.endOffset - (nextOffset ?? range.firstOffset));
        this.set({ partition: String(partition) }, backlog);
      }
    },
  });
  addCountingMetrics(registry, () => worker);
  addStoppedPartitions(registry, () =>
    worker
      .partitions()
      .flatMap(({ state, problem }) => (state === 'stopped' ? [problem?.code ?? 'unknown'] : [])),
  );
  gaugesIn(registry)('live_age_seconds', 'How old the newest complete live numbers are.', () =>
    worker.asOfMs === 0 ? 0 : Math.max(0, clock() - worker.asOfMs) / 1_000,
  );
}
