/**
 * A click log in memory, for tests of whatever reads one.
 *
 * Everything appended is durable at once. Each `append` makes one batch, as a group commit does.
 */
import type { ClickEvent } from '../../src/event/click-event.ts';
import { encodeEvent, MAX_EVENT_BYTES } from '../../src/event/codec.ts';
import type { ClickLogReader, LogTimes, PartitionRange, RecordBatch } from '../../src/log/port.ts';
import { LedgerError } from '../../src/platform/errors.ts';

interface Partition {
  firstOffset: number;
  batches: RecordBatch[];
}

export function eventBytes(event: ClickEvent): Buffer {
  const out = Buffer.alloc(MAX_EVENT_BYTES);
  return out.subarray(0, encodeEvent(event, out, 0));
}

export class MemoryLog implements ClickLogReader, LogTimes {
  readonly #partitions = new Map<number, Partition>();

  /** Makes the partition exist, empty. */
  create(partition: number): void {
    if (!this.#partitions.has(partition)) {
      this.#partitions.set(partition, { firstOffset: 0, batches: [] });
    }
  }

  append(partition: number, events: readonly ClickEvent[], appendedAtMs: number): void {
    this.appendBytes(partition, events.map(eventBytes), appendedAtMs);
  }

  appendBytes(partition: number, records: readonly Buffer[], appendedAtMs: number): void {
    this.create(partition);
    if (records.length === 0) return;
    const bounds = new Uint32Array(2 * records.length);
    let at = 0;
    for (const [i, record] of records.entries()) {
      bounds[2 * i] = at;
      at += record.length;
      bounds[2 * i + 1] = at;
    }
    const bytes = Buffer.concat(records);
    const firstOffset = this.#endOf(partition);
    const count = records.length;
    this.#of(partition).batches.push({
      partition,
      firstOffset,
      count,
      appendedAtMs,
      bytes,
      bounds,
    });
  }

  /** Retention: removes the batches that end at or before `offset`. */
  removeBefore(partition: number, offset: number): void {
    const log = this.#of(partition);
    const end = this.#endOf(partition);
    log.batches = log.batches.filter((batch) => batch.firstOffset + batch.count > offset);
    log.firstOffset = log.batches[0]?.firstOffset ?? end;
  }

  async partitions(): Promise<number[]> {
    return [...this.#partitions.keys()].sort((a, b) => a - b);
  }

  async range(partition: number): Promise<PartitionRange> {
    const { firstOffset } = this.#of(partition);
    return { partition, firstOffset, endOffset: this.#endOf(partition) };
  }

  async read(partition: number, fromOffset: number, maxBytes: number): Promise<RecordBatch[]> {
    const { firstOffset, batches } = this.#of(partition);
    if (fromOffset < firstOffset) {
      throw new LedgerError('offset_out_of_retention', `offset ${fromOffset} is gone`);
    }
    const found: RecordBatch[] = [];
    let size = 0;
    for (const batch of batches) {
      if (batch.firstOffset + batch.count <= fromOffset) continue;
      found.push(batch);
      size += batch.bytes.length;
      if (size >= maxBytes) break;
    }
    return found;
  }

  async offsetAt(partition: number, timeMs: number): Promise<number> {
    const found = this.#of(partition).batches.find((batch) => batch.appendedAtMs >= timeMs);
    return found?.firstOffset ?? this.#endOf(partition);
  }

  async close(): Promise<void> {}

  #of(partition: number): Partition {
    const found = this.#partitions.get(partition);
    if (found === undefined) throw new Error(`partition ${partition} does not exist`);
    return found;
  }

  #endOf(partition: number): number {
    const { firstOffset, batches } = this.#of(partition);
    const last = batches.at(-1);
    return last === undefined ? firstOffset : last.firstOffset + last.count;
  }
}
