/**
 * The archiver: copies the click log into the archive, each record exactly once.
 *
 * Owns which ranges are written and when. Does not own how a range is written so that it is there once
 * (`range-writer.ts`), the log, the counting (it never looks at the counter) nor the finality of hours.
 *
 *  1. A record is archived when a manifest entry covers it, and no two entries cover it.
 *  2. It never skips: a partition whose next record is out of the log's reach, whose log is shorter
 *     than the archive, or whose manifest has a hole stops and says so; the others go on. Before it
 *     stops, it asks the store whether its manifest is merely old.
 *  3. An object that no manifest entry and no plan names is not left behind (the one exception is at
 *     the end of the head of `range-writer.ts`).
 *  4. At most `rotateRecords` records are held at a time, or as many as a range that was planned before.
 *  5. Of partitions that are not ours it begins nothing, and what it does first with one that has become
 *     ours is to look at the store: others may have archived it meanwhile.
 */
import { setTimeout as sleepFor } from 'node:timers/promises';
import type { ClickLogReader } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { coveredUntilMs, logBehind } from './coverage.ts';
import type { Manifest } from './manifest.ts';
import type { ManifestEntry, ObjectStore } from './port.ts';
import { RangeWriter } from './range-writer.ts';

export interface ArchiverOptions {
  readonly reader: ClickLogReader;
  readonly store: ObjectStore;
  /** Kept up to date by the archiver; everyone in the process shares it. */
  readonly manifest: Manifest;
  readonly clock: Clock;
  readonly rotateMs: number;
  readonly rotateRecords: number;
  readonly maxSkewMs: number;
  /** Those that are ours now; left out: all of the log. */
  readonly partitions?: () => readonly number[];
  /** When somebody asked last that what the log holds be archived at once. */
  readonly flushRequestedAtMs?: () => Promise<number | null> | number | null;
  /** How often `run` looks for new records. */
  readonly pollMs?: number;
  /** After a range was archived by this archiver, as far as it has seen the store's answer. */
  readonly onEntry?: (entry: ManifestEntry) => void;
  /** A failed attempt: `retry` is tried again, `refuse` has stopped the partition. */
  readonly onError?: (error: LedgerError, partition: number | null) => void;
}

export interface ArchiverStatus {
  readonly partitions: readonly {
    readonly partition: number;
    readonly archivedNextOffset: number;
    /** As last observed. */
    readonly logEndOffset: number;
    readonly lastAppendedAtMs: number;
    /** Since when records that are not archived have been seen; null when there are none. */
    readonly waitingSinceMs: number | null;
    /** Why the partition has stopped for good, or null. */
    readonly stopped: LedgerError | null;
  }[];
  /** What keeps the archiver from being up to date, or null. */
  readonly lastError: LedgerError | null;
}

const DEFAULT_POLL_MS = 500;
const BACKOFF_MAX_MS = 30_000;

export class Archiver {
  readonly #options: ArchiverOptions;
  readonly #logEnd = new Map<number, number>();
  /** When the first record that is not archived was seen, per partition that has one. */
  readonly #seenAtMs = new Map<number, number>();
  readonly #writer: RangeWriter;
  /** Partitions of which the store holds nothing that we do not know. */
  readonly #settled = new Set<number>();
  /** The request to flush that each partition has followed last. */
  readonly #flushedForMs = new Map<number, number>();
  readonly #stopped = new Map<number, LedgerError>();
  #retrying: LedgerError | null = null;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: ArchiverOptions) {
    this.#options = options;
    this.#writer = new RangeWriter(options);
  }

  /** Archives until `signal` is aborted; a step in progress is finished first. */
  async run(signal: AbortSignal): Promise<void> {
    const pollMs = this.#options.pollMs ?? Math.min(DEFAULT_POLL_MS, this.#options.rotateMs);
    let waitMs = pollMs;
    while (!signal.aborted) {
      const clean = await this.pass(signal);
      waitMs = clean ? pollMs : Math.min(2 * waitMs, BACKOFF_MAX_MS);
      await sleep(waitMs, signal);
    }
  }

  /** Archives what is due now. False when something failed that is worth another try. */
  pass(signal?: AbortSignal): Promise<boolean> {
    return this.#exclusively(async () => {
      const failures: LedgerError[] = [];
      let flushAtMs: number | null = null;
      // Whom we cannot ask must not keep us from archiving.
      await this.#guarded(null, failures, async () => {
        flushAtMs = (await this.#options.flushRequestedAtMs?.()) ?? null;
      });
      await this.#guarded(null, failures, async () => {
        for (const partition of await this.#partitions()) {
          if (this.#stopped.has(partition)) continue;
          const due = { flushAtMs, signal };
          await this.#guarded(partition, failures, () => this.#archiveDue(partition, due));
        }
      });
      this.#retrying = failures[0] ?? null;
      return failures.length === 0;
    });
  }

  /**
   * Archives everything of our partitions that was durable in the log when called; throws what
   * prevents it. A partition that is taken away meanwhile is left to whoever has it then.
   */
  async flush(): Promise<void> {
    const { reader, manifest } = this.#options;
    const ends: [number, number][] = [];
    for (const partition of await this.#partitions()) {
      ends.push([partition, (await reader.range(partition)).endOffset]);
    }
    await this.#exclusively(async () => {
      for (const [partition, end] of ends) {
        const stopped = this.#stopped.get(partition);
        if (stopped !== undefined) throw stopped;
        if (!this.#isOurs(partition)) continue;
        await this.#observe(partition);
        const isMissing = () => manifest.archivedUpTo(partition).nextOffset < end;
        while (isMissing() && this.#isOurs(partition)) await this.#step(partition, end);
        await this.#settle(partition);
        this.#forgetSeen(partition);
      }
    });
  }

  /**
   * Resolves when the step in progress is done. Whatever is archived after it begins with a look at
   * the store, and partitions that had stopped are tried again. Take the partitions away before:
   * else passes go on meanwhile.
   */
  release(): Promise<void> {
    return this.#exclusively(async () => {
      for (const each of [this.#settled, this.#stopped, this.#logEnd, this.#flushedForMs])
        each.clear();
    });
  }

  status(): ArchiverStatus {
    const { manifest } = this.#options;
    const ours = this.#options.partitions?.() ?? manifest.partitions();
    const seen = [...this.#logEnd.keys()].filter((partition) => this.#isOurs(partition));
    const known = new Set([...ours, ...seen]);
    const partitions = [...known]
      .sort((a, b) => a - b)
      .map((partition) => {
        const { nextOffset, lastAppendedAtMs } = manifest.archivedUpTo(partition);
        return {
          partition,
          archivedNextOffset: nextOffset,
          logEndOffset: this.#logEnd.get(partition) ?? nextOffset,
          lastAppendedAtMs,
          waitingSinceMs: this.#seenAtMs.get(partition) ?? null,
          stopped: this.#stopped.get(partition) ?? null,
        };
      });
    const [stopped] = this.#stopped.values();
    return { partitions, lastError: stopped ?? this.#retrying };
  }

  /** See `coverage.ts`; of what this process knows. */
  coveredUntilMs(): Promise<number> {
    return coveredUntilMs(this.#options);
  }

  async #partitions(): Promise<readonly number[]> {
    const { partitions, reader } = this.#options;
    return partitions === undefined ? reader.partitions() : partitions();
  }

  #isOurs(partition: number): boolean {
    return this.#options.partitions?.().includes(partition) ?? true;
  }

  async #archiveDue(
    partition: number,
    { flushAtMs, signal }: { flushAtMs: number | null; signal: AbortSignal | undefined },
  ): Promise<void> {
    const { manifest, clock, rotateMs, rotateRecords } = this.#options;
    const next = () => manifest.archivedUpTo(partition).nextOffset;
    const mayGoOn = () => this.#isOurs(partition) && !signal?.aborted;
    if (!mayGoOn()) return;
    await this.#observe(partition);
    const end = this.#logEnd.get(partition) ?? 0;
    const nowMs = clock();
    // A clock that was set back must not put the rotation off.
    const seenAtMs = Math.min(this.#seenAtMs.get(partition) ?? nowMs, nowMs);
    if (next() < end) this.#seenAtMs.set(partition, seenAtMs);
    const isAsked = flushAtMs !== null && flushAtMs > (this.#flushedForMs.get(partition) ?? 0);
    const isTime = isAsked || nowMs - seenAtMs >= rotateMs;
    while (next() < end && (isTime || end - next() >= rotateRecords) && mayGoOn()) {
      await this.#step(partition, end);
      // What a full step leaves has only just been seen: an earlier pass would have taken it along.
      this.#seenAtMs.set(partition, nowMs);
    }
    if (mayGoOn()) await this.#settle(partition);
    if (isAsked && next() >= end) this.#flushedForMs.set(partition, flushAtMs);
    this.#forgetSeen(partition);
  }

  /**
   * Looks at the log, and at the store if it may hold what we do not know. Refuses what can only be
   * answered by skipping records, and ends the step that a crash or a failed attempt left unfinished.
   */
  async #observe(partition: number): Promise<void> {
    const { store, manifest } = this.#options;
    if (this.#settled.has(partition)) {
      if ((await this.#refusal(partition)) === null) return;
      await manifest.refresh(store, [partition]);
    }
    do {
      const planned = this.#settled.has(partition) ? null : await this.#writer.look(partition);
      const refusal = await this.#refusal(partition);
      if (refusal !== null) throw refusal;
      // After a planned range there may be more to look at: who had planned another one there.
      if (planned === null) this.#settled.add(partition);
      else await this.#writer.write(planned);
    } while (!this.#settled.has(partition) && this.#isOurs(partition));
  }

  /** Tidies up behind a step that had to give way to another. */
  async #settle(partition: number): Promise<void> {
    if (!this.#settled.has(partition) && this.#isOurs(partition)) await this.#observe(partition);
  }

  /** Reads the log's range; returns why nothing of it can be archived, or null. */
  async #refusal(partition: number): Promise<LedgerError | null> {
    const { reader, manifest } = this.#options;
    const problem = manifest.problemOf(partition);
    // Before the log's end: others may archive what is appended in between.
    const { nextOffset } = manifest.archivedUpTo(partition);
    const { firstOffset, endOffset } = await reader.range(partition);
    this.#logEnd.set(partition, endOffset);
    if (problem !== null) {
      return new LedgerError('manifest_broken', problem.message, {
        hint: 'Restore the manifest entry from a copy. Nothing of this partition is archived before.',
      });
    }
    if (nextOffset > endOffset) return logBehind(partition, endOffset, nextOffset);
    return nextOffset < firstOffset ? outOfRetention(partition, nextOffset, firstOffset) : null;
  }

  /** Archives one range, from the first record that is not archived, short of `end`. */
  async #step(partition: number, end: number): Promise<void> {
    const { manifest, rotateRecords } = this.#options;
    await this.#settle(partition);
    const firstOffset = manifest.archivedUpTo(partition).nextOffset;
    const lastOffset = Math.min(end, firstOffset + rotateRecords) - 1;
    if (lastOffset < firstOffset) return;
    this.#settled.delete(partition);
    if (await this.#writer.write({ partition, firstOffset, lastOffset })) {
      this.#settled.add(partition);
    }
  }

  #forgetSeen(partition: number): void {
    const { nextOffset } = this.#options.manifest.archivedUpTo(partition);
    if (nextOffset >= (this.#logEnd.get(partition) ?? 0)) this.#seenAtMs.delete(partition);
  }

  /** Notes an expected error, among `failures` when it may pass; anything else is a bug and goes up. */
  async #guarded(
    partition: number | null,
    failures: LedgerError[],
    work: () => Promise<void>,
  ): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error;
      if (error.kind === 'retry') failures.push(error);
      else if (partition !== null) this.#stopped.set(partition, error);
      else throw error;
      this.#options.onError?.(error, partition);
    }
  }

  /** Passes and flushes take turns: two steps of one partition must never overlap. */
  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work, work);
    this.#turn = mine;
    return mine;
  }
}

function outOfRetention(partition: number, from: number, firstOffset: number): LedgerError {
  const range = `${from} to ${firstOffset - 1}`;
  return new LedgerError(
    'offset_out_of_retention',
    `partition ${partition}: the log no longer has offsets ${range}, which are not archived`,
    {
      hint: 'Nothing is skipped; no hour becomes final. Restore the removed segments; what Kafka has dropped is gone: see docs/operating/many-machines.md.',
    },
  );
}

async function sleep(forMs: number, signal: AbortSignal): Promise<void> {
  try {
    await sleepFor(forMs, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
