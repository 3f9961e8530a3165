/**
 * The archiver: copies the click log into the archive, each record exactly once.
 *
 * Owns which ranges are written and when, and the plan of a range in progress. Does not own the
 * log, the counting (it never looks at the counter) nor the finality of hours.
 *
 *  1. A record is archived when a manifest entry covers it, and no two entries cover it.
 *  2. It never skips: a partition whose next record is out of the log's reach, whose log is shorter
 *     than the archive, or whose manifest has a hole stops and says so; the others go on.
 *  3. An object that no manifest entry and no plan names is never left behind.
 *  4. At most `rotateRecords` records are held at a time.
 *
 * One step writes one range of one partition. Its effects, and what holds if the process dies right
 * after each (E2 also between two objects):
 *
 *   E1 the plan (range and names)   nothing is archived; the next step takes the planned range,
 *                                   even if the log has grown, and so makes the same objects
 *   E2 the objects                  nothing is archived; the next step finds the same bytes there
 *   E3 the manifest entry           the range is archived; the plan is stale and removed
 *   E4 the plan's removal           the step is done
 *
 * When the planned range no longer gives the planned names or bytes (another version, another
 * `maxSkewMs`), the step is undone: its objects are removed, then the plan, and it is planned anew.
 */
import { setTimeout as sleepFor } from 'node:timers/promises';
import type { ClickLogReader } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { encodeEntry, type Manifest } from './manifest.ts';
import { manifestName, type OffsetRange, planName } from './names.ts';
import { encodePlan, findOpenPlan, type Plan } from './plan.ts';
import type { ManifestEntry, ObjectStore } from './port.ts';
import { type EncodedRange, encodeRange } from './range-encoder.ts';

export interface ArchiverOptions {
  readonly reader: ClickLogReader;
  readonly store: ObjectStore;
  /** Kept up to date by the archiver; everyone in the process shares it. */
  readonly manifest: Manifest;
  readonly clock: Clock;
  readonly rotateMs: number;
  readonly rotateRecords: number;
  readonly maxSkewMs: number;
  /** How often `run` looks for new records. */
  readonly pollMs?: number;
  /** After a range was archived. */
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
  /** Partitions known to have no open plan. */
  readonly #settled = new Set<number>();
  readonly #stopped = new Map<number, LedgerError>();
  #retrying: LedgerError | null = null;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: ArchiverOptions) {
    this.#options = options;
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
      await this.#guarded(null, failures, async () => {
        for (const partition of await this.#options.reader.partitions()) {
          if (this.#stopped.has(partition) || signal?.aborted) continue;
          await this.#guarded(partition, failures, () => this.#archiveDue(partition, signal));
        }
      });
      this.#retrying = failures[0] ?? null;
      return failures.length === 0;
    });
  }

  /** Archives everything that was durable in the log when called; throws what prevents it. */
  async flush(): Promise<void> {
    const { reader, manifest } = this.#options;
    const ends: [number, number][] = [];
    for (const partition of await reader.partitions()) {
      ends.push([partition, (await reader.range(partition)).endOffset]);
    }
    await this.#exclusively(async () => {
      for (const [partition, end] of ends) {
        const stopped = this.#stopped.get(partition);
        if (stopped !== undefined) throw stopped;
        await this.#observe(partition);
        await this.#finishOpenPlan(partition);
        while (manifest.archivedUpTo(partition).nextOffset < end) await this.#step(partition, end);
        this.#forgetSeen(partition);
      }
    });
  }

  status(): ArchiverStatus {
    const { manifest } = this.#options;
    const known = new Set([...manifest.partitions(), ...this.#logEnd.keys()]);
    const partitions = [...known]
      .sort((a, b) => a - b)
      .map((partition) => {
        const { nextOffset, lastAppendedAtMs } = manifest.archivedUpTo(partition);
        return {
          partition,
          archivedNextOffset: nextOffset,
          logEndOffset: this.#logEnd.get(partition) ?? nextOffset,
          lastAppendedAtMs,
          stopped: this.#stopped.get(partition) ?? null,
        };
      });
    const [stopped] = this.#stopped.values();
    return { partitions, lastError: stopped ?? this.#retrying };
  }

  /**
   * The append time before which every record of every partition is archived: the coverage proof.
   *
   * The order of the reads matters. The clock comes first: what is appended after it is no earlier
   * than it. The archived offset comes before the log's end: when both are equal, nothing that the
   * log had at that time is missing.
   */
  async coveredUntilMs(): Promise<number> {
    const { reader, manifest, clock } = this.#options;
    const nowMs = clock();
    let coveredMs = nowMs;
    for (const partition of await reader.partitions()) {
      const { nextOffset, lastAppendedAtMs } = manifest.archivedUpTo(partition);
      const { endOffset } = await reader.range(partition);
      if (nextOffset > endOffset) throw logBehind(partition, endOffset, nextOffset);
      if (nextOffset < endOffset) coveredMs = Math.min(coveredMs, lastAppendedAtMs);
    }
    return coveredMs;
  }

  async #archiveDue(partition: number, signal: AbortSignal | undefined): Promise<void> {
    const { manifest, clock, rotateMs, rotateRecords } = this.#options;
    const next = () => manifest.archivedUpTo(partition).nextOffset;
    await this.#observe(partition);
    await this.#finishOpenPlan(partition);
    const end = this.#logEnd.get(partition) ?? 0;
    if (next() >= end) return this.#forgetSeen(partition);
    const nowMs = clock();
    // A clock that was set back must not put the rotation off.
    const seenAtMs = Math.min(this.#seenAtMs.get(partition) ?? nowMs, nowMs);
    this.#seenAtMs.set(partition, seenAtMs);
    const isTime = nowMs - seenAtMs >= rotateMs;
    while (next() < end && (isTime || end - next() >= rotateRecords) && !signal?.aborted) {
      await this.#step(partition, end);
      // What a full step leaves has only just been seen: an earlier pass would have taken it along.
      this.#seenAtMs.set(partition, nowMs);
    }
    this.#forgetSeen(partition);
  }

  /** Reads the log's range and refuses what can only be answered by skipping records. */
  async #observe(partition: number): Promise<void> {
    const { reader, manifest } = this.#options;
    const { firstOffset, endOffset } = await reader.range(partition);
    this.#logEnd.set(partition, endOffset);
    const problem = manifest.problemOf(partition);
    if (problem !== null) {
      throw new LedgerError('manifest_broken', problem.message, {
        hint: 'Restore the manifest entry from a copy. Nothing of this partition is archived before.',
      });
    }
    const { nextOffset } = manifest.archivedUpTo(partition);
    if (nextOffset > endOffset) throw logBehind(partition, endOffset, nextOffset);
    if (nextOffset < firstOffset) {
      const range = `${nextOffset} to ${firstOffset - 1}`;
      throw new LedgerError(
        'offset_out_of_retention',
        `partition ${partition}: the log no longer has offsets ${range}, which are not archived`,
        { hint: 'Restore the removed log segments. Nothing is skipped; no hour becomes final.' },
      );
    }
  }

  /** Ends the step that a crash or a failed attempt left unfinished, if any: its range is decided. */
  async #finishOpenPlan(partition: number): Promise<void> {
    if (this.#settled.has(partition)) return;
    const { store, manifest } = this.#options;
    const { nextOffset } = manifest.archivedUpTo(partition);
    const plan = await findOpenPlan(store, partition, nextOffset);
    if (plan !== null) await this.#write(plan, plan);
    this.#settled.add(partition);
  }

  /** Archives one range, from the first record that is not archived, short of `end`. */
  async #step(partition: number, end: number): Promise<void> {
    const { manifest, rotateRecords } = this.#options;
    await this.#finishOpenPlan(partition);
    const firstOffset = manifest.archivedUpTo(partition).nextOffset;
    const lastOffset = Math.min(end, firstOffset + rotateRecords) - 1;
    if (lastOffset < firstOffset) return;
    this.#settled.delete(partition);
    if (await this.#write({ partition, firstOffset, lastOffset }, null)) {
      this.#settled.add(partition);
    }
  }

  /** E1 to E4, see above. False when the step was undone instead and is to be planned anew. */
  async #write(range: OffsetRange, planned: Plan | null): Promise<boolean> {
    const { reader, store, manifest, maxSkewMs, onEntry } = this.#options;
    const encoded = await encodeRange(reader, range, maxSkewMs);
    const plan = { ...range, objects: encoded.objects.map(({ object }) => object.name) };
    if (planned === null) {
      await store.putIfAbsent(planName(plan), encodePlan(plan)); // E1
    } else if (planned.objects.join() !== plan.objects.join()) {
      await this.#undo(planned);
      return false;
    }
    if (!(await this.#putObjects(encoded))) {
      await this.#undo(plan);
      return false;
    }
    const entry = entryOf(range, encoded);
    await store.putIfAbsent(manifestName(range), encodeEntry(entry)); // E3
    // Before E4: the audit takes an object for an orphan that neither plan nor manifest names.
    manifest.add(entry);
    onEntry?.(entry);
    await store.remove(planName(range)); // E4
    return true;
  }

  /** E2. False when an object exists with other bytes. */
  async #putObjects(encoded: EncodedRange): Promise<boolean> {
    for (const { object, bytes } of encoded.objects) {
      try {
        await this.#options.store.putIfAbsent(object.name, bytes);
      } catch (error) {
        if (error instanceof LedgerError && error.code === 'object_differs') return false;
        throw error;
      }
    }
    return true;
  }

  /** Removes the objects of a step that never reached its commit, and its plan last. */
  async #undo(plan: Plan): Promise<void> {
    const { store } = this.#options;
    const commit = manifestName(plan);
    if ((await store.get(commit)) !== null) {
      throw new LedgerError('archive_conflict', `${commit} was written by another archiver`, {
        hint: 'Run one archiver per partition. Restart this one to take over what is archived.',
      });
    }
    for (const name of plan.objects) await store.remove(name);
    await store.remove(planName(plan));
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

function entryOf(range: OffsetRange, encoded: EncodedRange): ManifestEntry {
  const { partition, firstOffset, lastOffset } = range;
  const objects = encoded.objects.map(({ object }) => object);
  const { lastAppendedAtMs } = encoded;
  return { partition, firstOffset, lastOffset, objects, lastAppendedAtMs };
}

function logBehind(partition: number, endOffset: number, nextOffset: number): LedgerError {
  return new LedgerError(
    'log_behind_archive',
    `partition ${partition}: the log ends at offset ${endOffset}, the archive goes up to ${nextOffset}`,
    { hint: 'The log lost records or was replaced. Restore it; do not delete the archive.' },
  );
}

async function sleep(forMs: number, signal: AbortSignal): Promise<void> {
  try {
    await sleepFor(forMs, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
