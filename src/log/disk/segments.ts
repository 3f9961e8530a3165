/**
 * Finding and scanning segments: what the writer needs to recover, and the reader to read.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import { LedgerError } from '../../platform/errors.ts';
import {
  FRAME_HEADER_BYTES,
  type FrameHeader,
  frameChecks,
  parseSegmentName,
  readFrameHeader,
} from './format.ts';

export interface SegmentFile {
  readonly firstOffset: number;
  readonly path: string;
}

const PARTITION_NAME = /^p(\d{1,5})$/;
/** Claims keep a partition in 16 bits. */
const MAX_PARTITION = 65_535;

export function partitionDir(logDir: string, partition: number): string {
  return join(logDir, `p${partition}`);
}

export function listPartitions(logDir: string): number[] {
  if (!fs.existsSync(logDir)) return [];
  return fs
    .readdirSync(logDir)
    .flatMap((name) => PARTITION_NAME.exec(name)?.[1] ?? [])
    .map(Number)
    .filter((partition) => partition <= MAX_PARTITION)
    .sort((a, b) => a - b);
}

/** The partition's segments in order of offset. */
export function listSegments(dir: string): SegmentFile[] {
  if (!fs.existsSync(dir)) return [];
  return fs
    .readdirSync(dir)
    .flatMap((name) => {
      const firstOffset = parseSegmentName(name);
      return firstOffset === null ? [] : [{ firstOffset, path: join(dir, name) }];
    })
    .sort((a, b) => a.firstOffset - b.firstOffset);
}

export interface ScanResult {
  /** Bytes of good frames from the start. */
  readonly goodBytes: number;
  readonly nextOffset: number;
  readonly lastAppendedAtMs: number;
  /** Bytes behind the good frames up to the last one that is not zero. */
  readonly tornBytes: number;
}

/**
 * Checks a whole segment. A bad frame at the end is a torn tail; a good frame behind a bad one is
 * damage, which is refused: cutting there would drop acknowledged clicks.
 */
export function scanSegment(segment: SegmentFile): ScanResult {
  const bytes = fs.readFileSync(segment.path);
  let at = 0;
  let nextOffset = segment.firstOffset;
  let lastAppendedAtMs = 0;
  for (;;) {
    const header = readFrameHeader(bytes, at);
    if (header === null || header === 'partial') break;
    if (header.firstOffset !== nextOffset || !frameChecks(bytes, at, header)) break;
    at += header.sizeBytes;
    nextOffset += header.count;
    lastAppendedAtMs = header.appendedAtMs;
  }
  const later = findFrame(bytes, at + 1, nextOffset);
  if (later !== null) throw damaged(segment.path, at, later);
  return { goodBytes: at, nextOffset, lastAppendedAtMs, tornBytes: lastNonZero(bytes, at) - at };
}

/** Looks for a frame that checks and continues the log, anywhere from `from` on. */
function findFrame(bytes: Buffer, from: number, minOffset: number): number | null {
  const end = lastNonZero(bytes, from);
  for (let at = from; at + FRAME_HEADER_BYTES <= end; at++) {
    const header = readFrameHeader(bytes, at);
    if (header === null || header === 'partial') continue;
    if (header.firstOffset >= minOffset && frameChecks(bytes, at, header)) return at;
  }
  return null;
}

function lastNonZero(bytes: Buffer, from: number): number {
  let end = bytes.length;
  while (end > from && bytes[end - 1] === 0) end--;
  return end;
}

export function damaged(path: string, at: number, goodAgainAt: number | null): LedgerError {
  const behind = goodAgainAt === null ? '' : `, good again at byte ${goodAgainAt}`;
  return new LedgerError('log_damaged', `${path} is damaged at byte ${at}${behind}`, {
    hint: 'Restore the file from a copy, or move the partition folder away: its records stay in the archive as far as they were archived.',
  });
}

/** Calls `visit` for each frame header from the start of a segment, without checking payloads. */
export function walkFrames(
  bytes: Buffer,
  visit: (header: FrameHeader, at: number) => boolean,
): void {
  let at = 0;
  for (;;) {
    const header = readFrameHeader(bytes, at);
    if (header === null || header === 'partial') return;
    if (!visit(header, at)) return;
    at += header.sizeBytes;
  }
}
