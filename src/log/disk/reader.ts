/**
 * Reads a disk log by offset, in batches, from any process.
 *
 * Owns nothing on disk. Sees only what the writer's durable end covers, so that nothing is counted
 * that a power cut could take back. Keeps, per partition, where its last read ended, so that tailing
 * never scans a segment twice.
 */
import fs from 'node:fs';
import { LedgerError } from '../../platform/errors.ts';
import type { ClickLogReader, PartitionRange, RecordBatch } from '../port.ts';
import { DurableEnd } from './durable-end.ts';
import { FRAME_HEADER_BYTES, frameChecks, readFrameHeader, recordBounds } from './format.ts';
import {
  damaged,
  listPartitions,
  listSegments,
  partitionDir,
  type SegmentFile,
  scanSegment,
  walkFrames,
} from './segments.ts';

interface Cursor {
  segment: SegmentFile;
  /** First offset of the following segment; frames at or beyond it are not this segment's. */
  nextSegmentOffset: number;
  offset: number;
  /** Byte of the frame that begins at `offset`. */
  byte: number;
}

interface PartitionState {
  readonly partition: number;
  readonly dir: string;
  durable: DurableEnd | null;
  segments: SegmentFile[];
  cursors: Map<number, Cursor>;
}

/** How many read positions are remembered per partition: the counter's and the archiver's. */
const MAX_CURSORS = 8;

export class DiskLogReader implements ClickLogReader {
  readonly #logDir: string;
  readonly #states = new Map<number, PartitionState>();

  constructor(logDir: string) {
    this.#logDir = logDir;
  }

  async partitions(): Promise<number[]> {
    return listPartitions(this.#logDir);
  }

  async range(partition: number): Promise<PartitionRange> {
    const state = this.#state(partition);
    state.segments = listSegments(state.dir);
    const endOffset = this.#durableEnd(state);
    return { partition, firstOffset: state.segments[0]?.firstOffset ?? endOffset, endOffset };
  }

  async read(partition: number, fromOffset: number, maxBytes: number): Promise<RecordBatch[]> {
    const state = this.#state(partition);
    const endOffset = this.#durableEnd(state);
    if (fromOffset >= endOffset) return [];
    const remembered = state.cursors.get(fromOffset);
    if (remembered !== undefined) {
      state.cursors.delete(fromOffset);
      try {
        return this.#readFrom(state, remembered, endOffset, maxBytes);
      } catch {
        // Retention or a writer that recovers may have changed the files under a remembered place.
        // A fresh look tells: it reads on, or says properly what is wrong.
      }
    }
    return this.#readFrom(state, this.#seek(state, fromOffset), endOffset, maxBytes);
  }

  #readFrom(
    state: PartitionState,
    from: Cursor,
    endOffset: number,
    maxBytes: number,
  ): RecordBatch[] {
    let cursor = from;
    if (cursor.nextSegmentOffset === Number.POSITIVE_INFINITY) this.#findNext(state, cursor);
    for (;;) {
      const batches = readFrames(state.partition, cursor, endOffset, maxBytes);
      if (batches.length > 0) {
        if (state.cursors.size >= MAX_CURSORS) state.cursors.clear();
        state.cursors.set(cursor.offset, cursor);
        return batches;
      }
      cursor = this.#nextSegment(state, cursor);
    }
  }

  async close(): Promise<void> {
    this.#states.clear();
  }

  #state(partition: number): PartitionState {
    let state = this.#states.get(partition);
    if (state === undefined) {
      const dir = partitionDir(this.#logDir, partition);
      state = { partition, dir, durable: null, segments: [], cursors: new Map() };
      this.#states.set(partition, state);
    }
    return state;
  }

  #durableEnd(state: PartitionState): number {
    state.durable ??= DurableEnd.forReader(state.dir);
    if (state.durable !== null) return state.durable.get();
    // A copied folder without its page: nobody writes it, what checks is what there is.
    const last = listSegments(state.dir).at(-1);
    return last === undefined ? 0 : scanSegment(last).nextOffset;
  }

  /** Finds the frame that holds `offset`. */
  #seek(state: PartitionState, offset: number): Cursor {
    state.segments = listSegments(state.dir);
    const index = state.segments.findLastIndex((segment) => segment.firstOffset <= offset);
    const segment = state.segments[index];
    if (segment === undefined) {
      const first = state.segments[0]?.firstOffset;
      throw new LedgerError(
        'offset_out_of_retention',
        `${state.dir}: offset ${offset} is gone, the log begins at ${first ?? 'nothing'}`,
        { hint: 'Run "clickledger rebuild": the archive holds what the log has dropped.' },
      );
    }
    const nextSegmentOffset = state.segments[index + 1]?.firstOffset ?? Number.POSITIVE_INFINITY;
    const cursor: Cursor = { segment, nextSegmentOffset, offset: segment.firstOffset, byte: 0 };
    walkFrames(fs.readFileSync(segment.path), (header, at) => {
      if (header.firstOffset + header.count > offset) return false;
      cursor.offset = header.firstOffset + header.count;
      cursor.byte = at + header.sizeBytes;
      return true;
    });
    return cursor;
  }

  /**
   * Learns whether the newest segment has a successor by now. Read after the durable end: a segment
   * that was given up may hold a frame at an offset that its successor has given to other records.
   */
  #findNext(state: PartitionState, cursor: Cursor): void {
    state.segments = listSegments(state.dir);
    const next = state.segments.find((each) => each.firstOffset > cursor.segment.firstOffset);
    if (next !== undefined) cursor.nextSegmentOffset = next.firstOffset;
  }

  /** Goes on behind the end of a segment; the durable end has promised that there is more. */
  #nextSegment(state: PartitionState, cursor: Cursor): Cursor {
    const known = state.segments.some((segment) => segment.firstOffset === cursor.offset);
    if (!known || cursor.nextSegmentOffset !== cursor.offset) {
      state.segments = listSegments(state.dir);
    }
    const index = state.segments.findIndex((segment) => segment.firstOffset === cursor.offset);
    const segment = state.segments[index];
    if (segment === undefined || segment.path === cursor.segment.path) {
      throw damaged(cursor.segment.path, cursor.byte, null);
    }
    return {
      segment,
      nextSegmentOffset: state.segments[index + 1]?.firstOffset ?? Number.POSITIVE_INFINITY,
      offset: cursor.offset,
      byte: 0,
    };
  }
}

/** Reads whole, checked frames at the cursor and moves it behind them. */
function readFrames(
  partition: number,
  cursor: Cursor,
  endOffset: number,
  maxBytes: number,
): RecordBatch[] {
  let bytes = readChunk(cursor, maxBytes);
  const first = readFrameHeader(bytes, 0);
  if (first === 'partial' && bytes.length >= FRAME_HEADER_BYTES) {
    bytes = readChunk(cursor, bytes.readUInt32LE(0) + 8);
  }
  const batches: RecordBatch[] = [];
  const limit = Math.min(endOffset, cursor.nextSegmentOffset);
  let at = 0;
  while (cursor.offset < limit) {
    const header = readFrameHeader(bytes, at);
    if (header === null || header === 'partial') break;
    if (header.firstOffset !== cursor.offset || !frameChecks(bytes, at, header)) {
      throw damaged(cursor.segment.path, cursor.byte, null);
    }
    const bounds = recordBounds(bytes, at, header);
    if (bounds === null) throw damaged(cursor.segment.path, cursor.byte, null);
    const { firstOffset, count, appendedAtMs } = header;
    batches.push({ partition, firstOffset, count, appendedAtMs, bytes, bounds });
    at += header.sizeBytes;
    cursor.byte += header.sizeBytes;
    cursor.offset += header.count;
  }
  return batches;
}

function readChunk(cursor: Cursor, maxBytes: number): Buffer {
  const fd = fs.openSync(cursor.segment.path, 'r');
  try {
    // A damaged length may claim gigabytes: never ask for more memory than the file can fill.
    const left = Math.max(0, fs.fstatSync(fd).size - cursor.byte);
    const wanted = Math.min(left, Math.max(maxBytes, FRAME_HEADER_BYTES));
    const bytes = Buffer.allocUnsafeSlow(wanted);
    const length = fs.readSync(fd, bytes, 0, wanted, cursor.byte);
    return bytes.subarray(0, length);
  } finally {
    fs.closeSync(fd);
  }
}
