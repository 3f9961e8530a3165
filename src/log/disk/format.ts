/**
 * The bytes of a log segment.
 *
 * A segment `<first offset, 20 digits>.log` is a row of frames; what follows the last frame is
 * zeros (space prepared ahead) or the end of the file. One frame is one group commit, written with
 * one synchronous write:
 *
 *     0..3    u32  length of everything after byte 8
 *     4..7    u32  CRC-32C of bytes [8, 8 + length)
 *     8..13   u48  firstOffset
 *     14..15  u16  magic 0xC11C
 *     16..21  u48  appendedAtMs
 *     22..23  u16  reserved, 0
 *     24..27  u32  count of records
 *     28..         count × (u32 length, payload)
 *
 * All integers little endian. The checksum covers a whole commit, not a record: no record of a
 * commit is acknowledged before all of it is durable, so a commit is the unit that can be torn, and
 * a good frame behind a bad one proves damage instead of a torn tail.
 */
import { crc32c } from '@node-rs/crc32';

export const FRAME_HEADER_BYTES = 28;
export const RECORD_HEADER_BYTES = 4;
const PREFIX_BYTES = 8;
const MAGIC = 0xc11c;
const SEGMENT_NAME = /^(\d{20})\.log$/;

export interface FrameHeader {
  readonly firstOffset: number;
  readonly count: number;
  readonly appendedAtMs: number;
  /** Bytes of the whole frame. */
  readonly sizeBytes: number;
}

export function segmentName(firstOffset: number): string {
  return `${String(firstOffset).padStart(20, '0')}.log`;
}

/** First offset of a segment by its file name; null when it is another kind of file. */
export function parseSegmentName(name: string): number | null {
  const match = SEGMENT_NAME.exec(name);
  return match ? Number(match[1]) : null;
}

/** Completes a frame in place: `frame[0, size)` already holds the records behind the header. */
export function sealFrame(
  frame: Buffer,
  size: number,
  header: { firstOffset: number; appendedAtMs: number; count: number },
): void {
  frame.writeUInt32LE(size - PREFIX_BYTES, 0);
  frame.writeUIntLE(header.firstOffset, 8, 6);
  frame.writeUInt16LE(MAGIC, 14);
  frame.writeUIntLE(header.appendedAtMs, 16, 6);
  frame.writeUInt16LE(0, 22);
  frame.writeUInt32LE(header.count, 24);
  frame.writeUInt32LE(crc32c(frame.subarray(PREFIX_BYTES, size)), 4);
}

/**
 * Reads a frame's header at `at`: null when the bytes there cannot begin a frame, `partial` when
 * they could but `bytes` ends before the frame does.
 */
export function readFrameHeader(bytes: Buffer, at: number): FrameHeader | 'partial' | null {
  if (at + FRAME_HEADER_BYTES > bytes.length) return 'partial';
  const length = bytes.readUInt32LE(at);
  if (length < FRAME_HEADER_BYTES - PREFIX_BYTES) return null;
  if (bytes.readUInt16LE(at + 14) !== MAGIC) return null;
  const header = {
    firstOffset: bytes.readUIntLE(at + 8, 6),
    count: bytes.readUInt32LE(at + 24),
    appendedAtMs: bytes.readUIntLE(at + 16, 6),
    sizeBytes: length + PREFIX_BYTES,
  };
  return at + header.sizeBytes > bytes.length ? 'partial' : header;
}

/** Whether the frame's bytes are what was written. */
export function frameChecks(bytes: Buffer, at: number, header: FrameHeader): boolean {
  const end = at + header.sizeBytes;
  return crc32c(bytes.subarray(at + PREFIX_BYTES, end)) === bytes.readUInt32LE(at + 4);
}

/** Start and end of every record of a checked frame, as pairs; null when they do not add up. */
export function recordBounds(bytes: Buffer, at: number, header: FrameHeader): Uint32Array | null {
  const end = at + header.sizeBytes;
  // A count that cannot fit would ask for memory that no honest frame needs.
  if (header.count * RECORD_HEADER_BYTES > header.sizeBytes) return null;
  const bounds = new Uint32Array(header.count * 2);
  let next = at + FRAME_HEADER_BYTES;
  for (let i = 0; i < header.count; i++) {
    if (next + RECORD_HEADER_BYTES > end) return null;
    const start = next + RECORD_HEADER_BYTES;
    next = start + bytes.readUInt32LE(next);
    if (next > end) return null;
    bounds[2 * i] = start;
    bounds[2 * i + 1] = next;
  }
  return next === end ? bounds : null;
}
