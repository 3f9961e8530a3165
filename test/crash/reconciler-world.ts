/**
 * A reconciler on a real archive and a real warehouse, without loops: each test says when it counts,
 * archives, takes verdicts and reconciles, and after which effect the process dies.
 */
import { join } from 'node:path';
import type { Archiver } from '../../src/archive/archiver.ts';
import type { Manifest } from '../../src/archive/manifest.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import { openLocalLeases } from '../../src/control/local/leases.ts';
import { openLocalState } from '../../src/control/local/state.ts';
import type { Leases, SharedState } from '../../src/control/port.ts';
import type { Counter } from '../../src/counter/counter.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';
import { HourIndexes } from '../../src/reconcile/hour-index.ts';
import { HourSource } from '../../src/reconcile/hour-source.ts';
import { PendingHours } from '../../src/reconcile/pending-hours.ts';
import { Reconciler } from '../../src/reconcile/reconciler.ts';
import { TakeVerdicts } from '../../src/reconcile/take-verdicts.ts';
import { TakenBackFiles } from '../../src/reconcile/taken-back.ts';
import { SearchedVerdicts } from '../../src/reconcile/verdict-search.ts';
import { verifyWarehouse } from '../../src/reconcile/verify.ts';
import { VerdictArchive } from '../../src/verdicts/archive.ts';
import type { Verdicts, VerdictsTaken } from '../../src/verdicts/port.ts';
import type { Warehouse } from '../../src/warehouse/port.ts';
import { Crash } from '../support/archive-fixtures.ts';
import { type AuditRecord, audit, auditRowName } from '../support/auditor.ts';
import { COUNTING, Deaths, LedgerFiles, rowKeyOf, withDeaths } from './ledger-world.ts';

export const HOUR_MS = 3_600_000;
const LOOKBACK_MS = 7 * 24 * HOUR_MS;
/** Those that tests write to. */
const PARTITIONS = [0, 1, 2];

/** What a process has that is not the only one: what it shares with others, and what is its own. */
export interface OneOfMany {
  readonly name: string;
  readonly leases: Leases;
  readonly state: SharedState;
  readonly warehouse: Warehouse;
  readonly manifest: Manifest;
}

export class ReconcilerWorld {
  readonly files: LedgerFiles;
  readonly warehouse: Warehouse;
  readonly records: ClickEvent[] = [];
  store!: ObjectStore;
  manifest!: Manifest;
  archiver!: Archiver;
  counter!: Counter;
  verdictReachMs = 62 * 24 * HOUR_MS;
  /** Everything is kept, unless a test says otherwise. */
  keptFrom = { minuteMs: 0, hourMs: 0 };

  private constructor(warehouse: Warehouse, nowMs: number) {
    this.warehouse = warehouse;
    this.files = new LedgerFiles(nowMs);
  }

  static async open(warehouse: Warehouse, nowMs: number): Promise<ReconcilerWorld> {
    await warehouse.reset();
    const world = new ReconcilerWorld(warehouse, nowMs);
    await world.openArchive();
    world.counter = await world.files.openCounter(warehouse);
    return world;
  }

  async openArchive(): Promise<void> {
    const { store, manifest, archiver } = await this.files.openArchive();
    Object.assign(this, { store, manifest, archiver });
  }

  async append(nowMs: number, events: readonly ClickEvent[], partition = 0): Promise<void> {
    this.files.nowMs = nowMs;
    await this.files.append(partition, events);
    this.records.push(...events);
  }

  async settle(): Promise<void> {
    await this.archiver.flush();
    await this.counter.catchUp();
  }

  path(name: string): string {
    return join(this.files.dir.path, 'archive', name);
  }

  async reconciler(deaths = new Deaths()): Promise<Reconciler> {
    return (await this.parts(deaths)).reconciler;
  }

  /** A process of its own: everything that it knows it has read from the files. */
  async parts(deaths = new Deaths(), one: OneOfMany | null = null) {
    const dir = join(this.files.dir.path, one === null ? 'recount' : `recount-${one.name}`);
    const { warehouse, manifest } = one ?? this;
    const leases =
      one?.leases ?? openLocalLeases({ holder: 'this process', clock: this.files.clock });
    const state = one?.state ?? openLocalState({ dir, names: { 'pending-hours': 'pending.json' } });
    const verdictStore = withDeaths(this.store, deaths, { putIfAbsent: '1 verdicts archived' });
    const verdicts = await VerdictArchive.open(verdictStore);
    const indexes = withDeaths(new HourIndexes(dir), deaths, { write: '7 index stored' });
    const reconciler = new Reconciler({
      store: withDeaths(this.store, deaths, { putIfAbsent: '5 final record archived' }),
      manifest,
      warehouse: withDeaths(warehouse, deaths, {
        // One process alone need not be asked about what it has only read.
        ...(one === null ? {} : { refresh: '0 turn begun', liveTotals: '0 counted' }),
        nextAttempt: '1 attempt reserved',
        writeFinalHour: '2 minute and hour rows',
        writeFinalDay: '3 day rows',
        writeDayRows: '3 day rows',
        publish: '6 published',
      }),
      indexes,
      leases,
      state,
      pending: mortalPending(new PendingHours(state), deaths),
      takenBack: withDeaths(new TakenBackFiles(join(dir, 'taken-back')), deaths, {
        write: '2 what was taken back',
      }),
      verdicts,
      searched: mortalSearched(new SearchedVerdicts(state), deaths),
      verdictReachMs: this.verdictReachMs,
      clock: this.files.clock,
      delayMs: 0,
      lookbackMs: LOOKBACK_MS,
      driftAlert: 0.001,
      latenessMs: COUNTING.latenessMs,
      keptFrom: () => this.keptFrom,
      coveredUntilMs: () => this.archiver.coveredUntilMs(),
      settle: () => this.settle(),
      refresh: () => (one === null ? Promise.resolve() : manifest.refresh(this.store, PARTITIONS)),
      patience: { waitMs: 20_000, pollMs: 5 },
    });
    await reconciler.open();
    const takeVerdicts = new TakeVerdicts({
      verdicts,
      clock: this.files.clock,
      reachMs: this.verdictReachMs,
      whenWhole: (work) => work(reconciler),
    });
    return { reconciler, verdicts, takeVerdicts };
  }

  /** Takes verdicts in a process of their own: `invalid` takes a click back, `valid` gives it back. */
  async judge(given: Readonly<Record<string, 'valid' | 'invalid'>>, deaths = new Deaths()) {
    return takeVerdicts((await this.parts(deaths)).takeVerdicts, given);
  }

  reconcile() {
    return this.reconciler().then((reconciler) => reconciler.reconcile());
  }

  /** Reconciles; a process that dies is followed by one that lives. False when none has died. */
  async reconcileThroughDeath(deaths: Deaths): Promise<boolean> {
    try {
      await (await this.reconciler(deaths)).reconcile();
      return false;
    } catch (error) {
      if (!(error instanceof Crash)) throw error;
      await this.openArchive();
      await (await this.reconciler()).reconcile();
      return true;
    }
  }

  async verify() {
    const { store, manifest, warehouse } = this;
    const verdicts = await VerdictArchive.open(store);
    const lookbackMs = LOOKBACK_MS;
    const source = new HourSource({ store, manifest, indexes: null, lookbackMs, verdicts });
    return verifyWarehouse(source, warehouse, {
      hoursInArchive: manifest.hours(),
      keptFrom: () => this.keptFrom,
    });
  }

  async dispose(): Promise<void> {
    await this.counter.close();
    await this.files.dispose();
  }
}

export function takeVerdicts(
  verdicts: Verdicts,
  given: Readonly<Record<string, 'valid' | 'invalid'>>,
): Promise<VerdictsTaken> {
  const rows = Object.entries(given).map(([impressionId, word], index) => {
    const record = { impression_id: impressionId, valid: word === 'valid', reason: 'a bot' };
    return { line: index + 1, record };
  });
  return verdicts.take(rows, () => {});
}

function mortalSearched(searched: SearchedVerdicts, deaths: Deaths): SearchedVerdicts {
  const save = searched.save.bind(searched);
  searched.save = (sequence) => deaths.async('verdicts searched', () => save(sequence));
  return searched;
}

function mortalPending(pending: PendingHours, deaths: Deaths): PendingHours {
  const add = pending.add.bind(pending);
  const remove = pending.remove.bind(pending);
  pending.add = (hours) => deaths.async('4 hours noted', () => add(hours));
  pending.remove = (...which) => deaths.async('8 note removed', () => remove(...which));
  return pending;
}

/** What the auditor bills: no lateness and no dedup window, over everything that was logged. */
export function auditedRows(
  records: readonly ClickEvent[],
  invalid: ReadonlySet<string> = new Set(),
): Map<string, number> {
  const log: AuditRecord[] = records.map((event, offset) => {
    const { impressionId, clickedAtMs } = event;
    const { class: kind } = event;
    return {
      partition: 0,
      offset,
      impressionId,
      clickedAtMs,
      class: kind,
      rowKey: rowKeyOf(event),
    };
  });
  const forever = Number.POSITIVE_INFINITY;
  const rules = { dedupWindowMs: forever, latenessMs: forever, watermarkLagMs: 0 };
  return audit([log], { ...rules, shards: 'none', invalid }).rows;
}

export async function finalClicks(
  warehouse: Warehouse,
  hours: readonly number[],
): Promise<Map<string, number>> {
  const clicks = new Map<string, number>();
  for (const hourMs of hours) {
    for (const row of await warehouse.finalRows(hourMs)) {
      clicks.set(auditRowName(0, row.minuteMs, rowKeyOf(row)), row.clicks);
    }
  }
  return clicks;
}

export async function historyOf(warehouse: Warehouse) {
  const endMs = Date.UTC(2100, 0);
  const hours = await warehouse.hours(0, endMs);
  const restatements = await warehouse.restatements(0, endMs, undefined);
  return {
    hours: hours.map(({ hourMs, revision, cause, counted }) => [hourMs, revision, cause, counted]),
    restatements: restatements
      .map(({ hourMs, revision, adId, before, after, cause }) => {
        return [hourMs, revision, adId, before, after, cause];
      })
      .sort(),
  };
}
