/**
 * Brings what was spooled into the topic: in order, at a bounded rate, until the spool is empty.
 *
 * Owns the position file and the removal of segments that are shipped. One step for a stretch of
 * the spool; what holds if the process dies after each:
 *
 *   1 read from the position on       nothing has changed
 *   2 published, all acknowledged     the stretch is shipped again: duplicates, counted once
 *   3 position durable                the stretch is done
 *   4 segments below it removed       the same, less disk
 *
 * H1 The position never passes a record that was not acknowledged by all replicas in sync.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import { monotonicMs } from '../../platform/clock.ts';
import type { ClickLogReader, RecordBatch } from '../port.ts';
import { keyed } from './partitioner.ts';
import { readPosition, writePosition } from './position-file.ts';
import type { Publisher } from './publisher.ts';
import type { KeyedRecord } from './record-batch.ts';

export interface ShipperOptions {
  readonly publisher: Publisher;
  /** Reads the spool. The shipper closes it. */
  readonly spool: ClickLogReader;
  /** The spool's partition. */
  readonly partition: number;
  /** Folder of the position file. */
  readonly positionDir: string;
  readonly shipRecordsPerSecond: number;
  /** Removes what lies wholly below an offset. */
  readonly removeShipped: (safeOffset: number) => void;
  /** Called when a stretch could not be shipped, and when it then could (`error` null). */
  readonly onHealth?: (error: Error | null) => void;
}

const READ_BYTES = 256 * 1024;
const MAX_STRETCH = 500;
const POLL_MS = 100;
const MIN_RETRY_MS = 100;
const MAX_RETRY_MS = 5_000;

export class SpoolShipper {
  readonly #options: ShipperOptions;
  readonly #path: string;
  readonly #stop = new AbortController();
  readonly #stopped = new Promise<void>((resolve) =>
    this.#stop.signal.addEventListener('abort', () => resolve()),
  );
  #next = 0;
  #healthy = true;
  #running: Promise<void> | null = null;
  shipped = 0;
  /** Append time of the oldest record that is not shipped; null: the spool is empty. */
  oldestAppendedAtMs: number | null = null;

  constructor(options: ShipperOptions) {
    this.#options = options;
    this.#path = join(options.positionDir, `shipped-${options.partition}`);
  }

  /** Everything below it is in the topic. */
  get position(): number {
    return this.#next;
  }

  async backlogRecords(): Promise<number> {
    const { endOffset } = await this.#options.spool.range(this.#options.partition);
    return Math.max(0, endOffset - this.#next);
  }

  async start(): Promise<void> {
    fs.mkdirSync(this.#options.positionDir, { recursive: true, mode: 0o700 });
    const { firstOffset, endOffset } = await this.#options.spool.range(this.#options.partition);
    const known = readPosition(this.#path);
    // Beyond the end: another spool lies here than the one the position was written for.
    const usable = known !== null && known >= firstOffset && known <= endOffset;
    this.#next = usable ? known : firstOffset;
    // What the last run noted and did not come to remove.
    if (usable) this.#options.removeShipped(known);
    this.#running = this.#run();
  }

  /** Ends at once; a stretch without an answer is shipped again by the next start. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#options.spool.close();
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        if (!(await this.#step())) await this.#sleep(POLL_MS);
      } catch (error) {
        // The spool's disk: the next look may find it well again.
        this.#health(error as Error);
        await this.#sleep(MAX_RETRY_MS);
      }
    }
  }

  #health(error: Error | null): void {
    if ((error === null) === this.#healthy) return;
    this.#healthy = error === null;
    this.#options.onHealth?.(error);
  }

  /** Ships what is there now; false when there is nothing. */
  async #step(): Promise<boolean> {
    const batches = await this.#options.spool.read(this.#options.partition, this.#next, READ_BYTES);
    this.oldestAppendedAtMs = batches[0]?.appendedAtMs ?? null;
    if (batches.length === 0) return false;
    const records = recordsOf(batches, this.#next);
    for (let from = 0; from < records.length; from += MAX_STRETCH) {
      const stretch = records.slice(from, from + MAX_STRETCH);
      const startedMs = monotonicMs();
      if (!(await this.#publish(stretch))) return true;
      writePosition(this.#path, this.#next + stretch.length);
      this.#next += stretch.length;
      this.shipped += stretch.length;
      this.#options.removeShipped(this.#next);
      const dueMs = (stretch.length / this.#options.shipRecordsPerSecond) * 1_000;
      await this.#sleep(dueMs - (monotonicMs() - startedMs));
    }
    return true;
  }

  /** Until all of the stretch is acknowledged; only what failed is sent again. False: stopped. */
  async #publish(stretch: readonly KeyedRecord[]): Promise<boolean> {
    let left = stretch;
    let retryMs = MIN_RETRY_MS;
    while (!this.#stop.signal.aborted) {
      const { failed, error } = await Promise.race([
        publishOnce(this.#options.publisher, left),
        // Nobody waits for the answer at the end: without the position noted it is all sent again.
        this.#stopped.then(() => ({ failed: left, error: null })),
      ]);
      if (this.#stop.signal.aborted) return false;
      this.#health(error);
      if (failed.length === 0) return true;
      left = failed;
      await this.#sleep(retryMs);
      retryMs = Math.min(MAX_RETRY_MS, retryMs * 2);
    }
    return false;
  }

  #sleep(forMs: number): Promise<void> {
    if (forMs <= 0 || this.#stop.signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#stop.signal.removeEventListener('abort', end);
        resolve();
      };
      const timer = setTimeout(end, forMs);
      this.#stop.signal.addEventListener('abort', end);
    });
  }
}

function publishOnce(
  publisher: Publisher,
  records: readonly KeyedRecord[],
): Promise<{ failed: KeyedRecord[]; error: Error | null }> {
  return new Promise((resolve) => {
    const failed: KeyedRecord[] = [];
    let error: Error | null = null;
    let left = records.length;
    publisher.publish(records, (some, why) => {
      left -= some.length;
      if (why !== null) {
        failed.push(...some);
        error = why;
      }
      if (left === 0) resolve({ failed, error });
    });
  });
}

function recordsOf(batches: readonly RecordBatch[], from: number): KeyedRecord[] {
  const records: KeyedRecord[] = [];
  for (const { firstOffset, count, bytes, bounds } of batches) {
    for (let i = Math.max(0, from - firstOffset); i < count; i++) {
      records.push(keyed(bytes.subarray(bounds[2 * i]!, bounds[2 * i + 1]!)));
    }
  }
  return records;
}
