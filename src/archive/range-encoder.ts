/**
 * Turns one range of a partition's log into Parquet objects: one per event hour, one for records
 * that cannot be counted. A pure function of the log and `maxSkewMs`; writes nothing.
 *
 * Every record of the range is in exactly one object (checked at the end), in log order.
 */
import { clickedAtProblem, type DeadLetterReason } from '../event/click-event.ts';
import { decodeEvent, EVENT_VERSION, EventView } from '../event/codec.ts';
import type { ClickLogReader, RecordBatch } from '../log/port.ts';
import { assert, LedgerError } from '../platform/errors.ts';
import { sha256Hex } from './checksum.ts';
import { hourOf, type OffsetRange, objectName } from './names.ts';
import { ParquetBuilder, yieldToEventLoop } from './parquet.ts';
import type { ArchivedClick, ArchiveObject } from './port.ts';
import { CLICK_COLUMNS, DEAD_COLUMNS, type DeadRecord } from './table.ts';

/** About a thousand records: a few milliseconds of decoding between two turns of the event loop. */
const READ_BYTES = 256 * 1024;

export interface EncodedObject {
  readonly object: ArchiveObject;
  readonly bytes: Uint8Array;
}

export interface EncodedRange {
  /** In ascending order of name. */
  readonly objects: readonly EncodedObject[];
  readonly lastAppendedAtMs: number;
}

export async function encodeRange(
  reader: ClickLogReader,
  range: OffsetRange,
  maxSkewMs: number,
): Promise<EncodedRange> {
  const groups = new Groups(maxSkewMs);
  let next = range.firstOffset;
  let lastAppendedAtMs = 0;
  while (next <= range.lastOffset) {
    const batches = await reader.read(range.partition, next, READ_BYTES);
    if (batches.length === 0) throw logEndsBefore(range, next);
    for (const batch of batches) {
      if (next > range.lastOffset) break;
      next = await groups.takeBatch(batch, next, range.lastOffset);
      lastAppendedAtMs = batch.appendedAtMs;
    }
    await yieldToEventLoop();
  }
  const objects = await groups.finish(range);
  const rows = objects.reduce((sum, { object }) => sum + object.rows, 0);
  assert(rows === range.lastOffset - range.firstOffset + 1, 'an archived record went missing');
  return { objects, lastAppendedAtMs };
}

function logEndsBefore(range: OffsetRange, end: number): LedgerError {
  const { partition, lastOffset } = range;
  return new LedgerError(
    'log_behind_archive',
    `partition ${partition} of the log ends at offset ${end}, before ${lastOffset}, which it had`,
    { hint: 'The log lost records or was replaced. Restore it; do not delete the archive.' },
  );
}

/** The objects of one range while they grow. */
class Groups {
  readonly #maxSkewMs: number;
  readonly #hours = new Map<number, ParquetBuilder<ArchivedClick>>();
  #dead: ParquetBuilder<DeadRecord> | null = null;
  readonly #view = new EventView();

  constructor(maxSkewMs: number) {
    this.#maxSkewMs = maxSkewMs;
  }

  /** Takes the batch's records from `next` to `lastOffset`; returns the offset after the last taken. */
  async takeBatch(batch: RecordBatch, next: number, lastOffset: number): Promise<number> {
    const end = batch.firstOffset + batch.count;
    assert(batch.firstOffset <= next && next < end, 'the log left out a record');
    const upTo = Math.min(end, lastOffset + 1);
    for (let offset = next; offset < upTo; offset++) {
      const full = this.#takeRecord(batch, offset);
      if (full === null) continue;
      full.flush();
      await yieldToEventLoop();
    }
    return upTo;
  }

  /** Returns the group when it has a full row group to encode. */
  #takeRecord(batch: RecordBatch, offset: number): { flush(): void } | null {
    const at = 2 * (offset - batch.firstOffset);
    const start = batch.bounds[at]!;
    const end = batch.bounds[at + 1]!;
    const { partition, appendedAtMs } = batch;
    const reason = this.#deadLetterReason(batch, start, end);
    if (reason !== null) {
      this.#dead ??= new ParquetBuilder(DEAD_COLUMNS);
      const bytes = new Uint8Array(batch.bytes.subarray(start, end));
      const full = this.#dead.add({ partition, offset, appendedAtMs, reason, bytes });
      return full ? this.#dead : null;
    }
    const event = decodeEvent(batch.bytes, start, end);
    assert(event !== null, 'an event that was just read does not decode');
    const hour = this.#hourGroup(hourOf(event.clickedAtMs));
    return hour.add({ ...event, partition, offset, appendedAtMs }) ? hour : null;
  }

  #deadLetterReason(batch: RecordBatch, start: number, end: number): DeadLetterReason | null {
    if (!this.#view.read(batch.bytes, start, end)) return 'undecodable';
    if (this.#view.version !== EVENT_VERSION) return 'unsupported_version';
    return clickedAtProblem(this.#view.clickedAtMs, batch.appendedAtMs, this.#maxSkewMs);
  }

  #hourGroup(hourMs: number): ParquetBuilder<ArchivedClick> {
    let group = this.#hours.get(hourMs);
    if (group === undefined) {
      group = new ParquetBuilder(CLICK_COLUMNS);
      this.#hours.set(hourMs, group);
    }
    return group;
  }

  async finish(range: OffsetRange): Promise<EncodedObject[]> {
    const groups: [number | null, ParquetBuilder<ArchivedClick> | ParquetBuilder<DeadRecord>][] = [
      ...this.#hours,
    ];
    if (this.#dead !== null) groups.push([null, this.#dead]);
    const objects: EncodedObject[] = [];
    for (const [hourMs, group] of groups) {
      const bytes = group.finish();
      const sha256 = await sha256Hex(bytes);
      const name = objectName(hourMs, range);
      const object = { name, hourMs, rows: group.rows, sizeBytes: bytes.length, sha256 };
      objects.push({ object, bytes });
      await yieldToEventLoop();
    }
    return objects.sort((a, b) => (a.object.name < b.object.name ? -1 : 1));
  }
}
