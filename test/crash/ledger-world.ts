/**
 * One ledger's parts in this process, on real files, whose process "dies" where a test says.
 *
 * `Deaths` counts effects and throws at one of them, before or after it took place; from then on
 * every effect throws, so that what is left of the dead cannot touch the files any more.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Archiver } from '../../src/archive/archiver.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest } from '../../src/archive/manifest.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import { Counter, type CounterOptions } from '../../src/counter/counter.ts';
import { openJournalLog } from '../../src/counter/disk/journal-log.ts';
import { KIND_SEAL } from '../../src/counter/journal-codec.ts';
import type { DeadLetterStore, JournalLog } from '../../src/counter/port.ts';
import { openDeadLetters } from '../../src/counter/sqlite/dead-letters.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';
import { DiskLogReader } from '../../src/log/disk/reader.ts';
import { DiskLogWriter } from '../../src/log/disk/writer.ts';
import type { LiveBatch, LiveRow } from '../../src/warehouse/port.ts';
import { Crash } from '../support/archive-fixtures.ts';
import { auditRowName } from '../support/auditor.ts';
import { eventBytes } from '../support/memory-log.ts';
import { tempDir } from '../support/temp-dir.ts';

export const MINUTE_MS = 60_000;
export const COUNTING = {
  dedupWindowMs: 24 * 60 * MINUTE_MS,
  watermarkLagMs: 10_000,
  latenessMs: 5 * MINUTE_MS,
  maxSkewMs: 10 * MINUTE_MS,
  maxClaims: 1_000_000,
};

export class Deaths {
  /** Names of the effects that took place, or were begun. */
  readonly effects: string[] = [];
  readonly at: number;
  readonly when: 'before' | 'after';
  isDead = false;

  constructor(at = Number.POSITIVE_INFINITY, when: 'before' | 'after' = 'after') {
    this.at = at;
    this.when = when;
  }

  sync<T>(name: string, work: () => T): T {
    const isLast = this.#begin(name);
    const result = work();
    if (isLast) this.#die();
    return result;
  }

  async async<T>(name: string, work: () => Promise<T>): Promise<T> {
    const isLast = this.#begin(name);
    const result = await work();
    if (isLast) this.#die();
    return result;
  }

  /** True when the process dies right after this effect. */
  #begin(name: string): boolean {
    if (this.isDead) throw new Crash('dead');
    const isLast = this.effects.push(name) - 1 === this.at;
    if (isLast && this.when === 'before') this.#die();
    return isLast;
  }

  #die(): never {
    this.isDead = true;
    throw new Crash(this.effects.at(-1));
  }
}

/** The asynchronous methods of `target` named here become effects; all others pass through. */
export function withDeaths<T extends object>(
  target: T,
  deaths: Deaths,
  effects: Partial<Record<keyof T & string, string>>,
): T {
  return new Proxy(target, {
    get(_, property) {
      const value = Reflect.get(target, property, target) as unknown;
      if (typeof value !== 'function') return value;
      const call = (...args: unknown[]) => Reflect.apply(value, target, args) as unknown;
      const name = effects[property as keyof T & string];
      if (name === undefined) return call;
      return (...args: unknown[]) => deaths.async(name, async () => await call(...args));
    },
  });
}

/** Live rows as the warehouse keeps them: the highest version of a key wins (W2). */
export class LiveRows {
  readonly #rows = new Map<string, { shard: number; clicks: number; version: number }>();
  /** Rows that a reader has seen fall back. */
  readonly fallen: string[] = [];
  upserts = 0;
  failure: Error | null = null;

  async upsertLive(rows: readonly LiveRow[], version: number): Promise<void> {
    await this.upsertLiveBatches([{ rows, version }]);
  }

  async upsertLiveBatches(batches: readonly LiveBatch[]): Promise<void> {
    if (this.failure !== null) throw this.failure;
    this.upserts++;
    for (const { rows, version } of batches) {
      for (const row of rows) this.#upsert(row, version);
    }
  }

  #upsert(row: LiveRow, version: number): void {
    const name = liveRowName(row);
    const known = this.#rows.get(name);
    if (known !== undefined && known.version >= version) return;
    const { shard, clicks } = row;
    // For tests in which a row never gives a click back.
    if (clicks < (known?.clicks ?? 0))
      this.fallen.push(`${name}: ${known!.clicks}, then ${clicks}`);
    this.#rows.set(name, { shard, clicks, version });
  }

  async maxLiveVersion(shard?: number): Promise<number> {
    const rows = [...this.#rows.values()].filter((row) => row.shard === (shard ?? row.shard));
    return Math.max(0, ...rows.map(({ version }) => version));
  }

  /** As `reset` of a warehouse. */
  clear(): void {
    this.#rows.clear();
  }

  /** Clicks by the auditor's names; rows that fell to nothing are left out, as readers do. */
  clicks(): Map<string, number> {
    const entries = [...this.#rows].filter(([, { clicks }]) => clicks > 0);
    return new Map(entries.map(([name, { clicks }]) => [name, clicks]));
  }
}

export function rowKeyOf(event: Omit<LiveRow, 'shard' | 'clicks' | 'minuteMs'>): string {
  const { advertiserId, campaignId, adId, country, device } = event;
  return JSON.stringify([advertiserId, campaignId, adId, country, device]);
}

function liveRowName(row: LiveRow): string {
  return auditRowName(row.shard, row.minuteMs, rowKeyOf(row));
}

/** Log, archive and dead letters on disk, with a clock in the hand of the test. */
export class LedgerFiles {
  readonly dir = tempDir('ledger');
  readonly reader: DiskLogReader;
  readonly letters: DeadLetterStore;
  nowMs: number;
  readonly #writers = new Map<number, DiskLogWriter>();

  constructor(nowMs: number) {
    this.nowMs = nowMs;
    this.reader = new DiskLogReader(this.logDir);
    this.letters = openDeadLetters(join(this.dir.path, 'dead-letters.sqlite'));
  }

  get logDir(): string {
    return join(this.dir.path, 'log');
  }

  get stateDir(): string {
    return join(this.dir.path, 'counter');
  }

  readonly clock = (): number => this.nowMs;

  async append(partition: number, events: readonly ClickEvent[]): Promise<void> {
    await this.appendBytes(partition, events.map(eventBytes));
  }

  /** Resolves when all are durable. */
  async appendBytes(partition: number, records: readonly Buffer[]): Promise<void> {
    let writer = this.#writers.get(partition);
    if (writer === undefined) {
      const { logDir, clock } = this;
      writer = new DiskLogWriter({ logDir, partition, segmentBytes: 65_536, clock });
      this.#writers.set(partition, writer);
    }
    const to = writer;
    await Promise.all(
      records.map(
        (bytes) =>
          new Promise<void>((resolve, reject) => {
            to.append(bytes, bytes.length, (error) => (error ? reject(error) : resolve()));
          }),
      ),
    );
  }

  /** The log as if it had never been. */
  async loseLog(): Promise<void> {
    for (const writer of this.#writers.values()) await writer.close();
    this.#writers.clear();
    rmSync(this.logDir, { recursive: true, force: true });
  }

  loseState(): void {
    rmSync(this.stateDir, { recursive: true, force: true });
  }

  async openCounter(
    warehouse: CounterOptions['warehouse'],
    options: { deaths?: Deaths; over?: Partial<CounterOptions> } = {},
  ): Promise<Counter> {
    const deaths = options.deaths ?? new Deaths();
    const counter = new Counter({
      reader: new DiskLogReader(this.logDir),
      warehouse: {
        maxLiveVersion: () => warehouse.maxLiveVersion(),
        upsertLive: (rows, version) =>
          deaths.async('3 rows upserted', () => warehouse.upsertLive(rows, version)),
      },
      deadLetters: {
        put: (letters) => deaths.async('1 dead letters', () => this.letters.put(letters)),
      },
      journal: mortalJournal(await openJournalLog(this.stateDir, this.clock), deaths),
      clock: this.clock,
      counting: COUNTING,
      upsertIntervalMs: 3_600_000,
      commitRecords: 7,
      maxHeldRows: 100_000,
      ...options.over,
    });
    await counter.open();
    return counter;
  }

  async openArchive(store?: ObjectStore) {
    const opened = store ?? (await openFolderStore({ dir: join(this.dir.path, 'archive') }));
    const manifest = await loadManifest(opened);
    const { clock } = this;
    const rotate = { rotateMs: 1_000, rotateRecords: 100_000, maxSkewMs: COUNTING.maxSkewMs };
    const reader = new DiskLogReader(this.logDir);
    const archiver = new Archiver({ reader, store: opened, manifest, clock, ...rotate });
    return { store: opened, manifest, archiver };
  }

  async dispose(): Promise<void> {
    for (const writer of this.#writers.values()) await writer.close();
    await this.reader.close();
    await this.letters.close();
    this.dir.remove();
  }
}

/** The seal makes a commit count: it is the effect, its parts before it are not. */
function mortalJournal(journal: JournalLog, deaths: Deaths): JournalLog {
  const { writer } = journal;
  const append: typeof writer.append = (bytes, length, done) => {
    if (bytes[0] !== KIND_SEAL) return writer.append(bytes, length, done);
    deaths
      .async('2 journal commit', () => {
        return new Promise<void>((resolve, reject) => {
          writer.append(bytes, length, (error) => (error ? reject(error) : resolve()));
        });
      })
      .then(
        () => done(null),
        (error: Error) => done(error),
      );
  };
  return {
    ...journal,
    writer: {
      append,
      get healthy() {
        return writer.healthy;
      },
      close: () => writer.close(),
    },
  };
}
