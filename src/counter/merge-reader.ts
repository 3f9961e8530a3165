/**
 * Reads all partitions side by side and hands out batches in the order of their append time.
 *
 * Catching up partition by partition would run one watermark hours ahead of another; merged, the
 * partitions advance together and a click and its duplicate meet within moments.
 */
import type { ClickLogReader, RecordBatch } from '../log/port.ts';

export interface PartitionProgress {
  readonly partition: number;
  /** Next offset to be handed out. */
  nextOffset: number;
  /** The log's end when it was last looked at. */
  endOffset: number;
  /** Append time of the batch handed out last. */
  lastAppendedAtMs: number;
  queue: RecordBatch[];
}

const READ_BYTES = 1024 * 1024;

export class MergeReader {
  readonly #reader: ClickLogReader;
  readonly progress = new Map<number, PartitionProgress>();

  constructor(reader: ClickLogReader) {
    this.#reader = reader;
  }

  /** Adds a partition that begins at `nextOffset`. */
  add(partition: number, nextOffset: number): void {
    const endOffset = nextOffset;
    this.progress.set(partition, {
      partition,
      nextOffset,
      endOffset,
      lastAppendedAtMs: 0,
      queue: [],
    });
  }

  /** Looks for new records in every partition whose queue is empty. */
  async refill(): Promise<void> {
    for (const each of this.progress.values()) {
      if (each.queue.length > 0) continue;
      each.queue = await this.#reader.read(each.partition, each.nextOffset, READ_BYTES);
      const last = each.queue.at(-1);
      each.endOffset = last === undefined ? each.nextOffset : last.firstOffset + last.count;
    }
  }

  /**
   * The queued batch that the log took first, or null. Before handing out the next one call `refill`
   * when a queue has run empty, so that no partition overtakes.
   */
  next(): RecordBatch | null {
    let first: PartitionProgress | null = null;
    for (const each of this.progress.values()) {
      const head = each.queue[0];
      if (head === undefined) continue;
      if (first === null || head.appendedAtMs < first.queue[0]!.appendedAtMs) first = each;
    }
    return first === null ? null : first.queue.shift()!;
  }

  /** Notes that everything before `batch`'s end has been counted. */
  done(batch: RecordBatch): void {
    const each = this.progress.get(batch.partition)!;
    each.nextOffset = batch.firstOffset + batch.count;
    each.lastAppendedAtMs = batch.appendedAtMs;
  }

  /** Whether the partition had nothing new and is fully read. */
  isIdle(partition: number): boolean {
    const each = this.progress.get(partition);
    return each === undefined || (each.queue.length === 0 && each.nextOffset >= each.endOffset);
  }
}
