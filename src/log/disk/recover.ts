/**
 * What a writer does before its first append: cut a torn tail, and tell where the log goes on.
 *
 * R1 Bytes behind the last good frame were never acknowledged, unless the disk lost what it had
 *    confirmed. They are kept in `<segment>.torn` as evidence and cut from the segment.
 * R2 If the durable end says that acknowledged records are gone, their offsets are filled with empty
 *    records. They end as dead letters: visible, and no offset ever names two different clicks.
 */
import fs from 'node:fs';
import type { LogFiles } from './files.ts';
import { listSegments, type SegmentFile, scanSegment } from './segments.ts';

export interface Recovery {
  readonly nextOffset: number;
  readonly lastAppendedAtMs: number;
  /** Bytes cut from the tail; 0 after a clean stop. */
  readonly tornBytes: number;
  readonly tornPath: string | null;
  /** Acknowledged records that the disk lost (R2). */
  readonly lostRecords: number;
}

/** Repairs the partition in `dir`. `durableEnd` is the shared page's value, 0 when unknown. */
export function recoverPartition(dir: string, durableEnd: number, files: LogFiles): Recovery {
  let tornBytes = 0;
  let tornPath: string | null = null;
  // A crash right after rolling leaves an empty newest segment; the truth is in the one before it.
  for (;;) {
    const segments = listSegments(dir);
    const last = segments.at(-1);
    if (last === undefined) {
      return { nextOffset: durableEnd, lastAppendedAtMs: 0, tornBytes, tornPath, lostRecords: 0 };
    }
    const scan = scanSegment(last);
    if (scan.tornBytes > 0) {
      tornBytes += scan.tornBytes;
      tornPath = keepTornTail(last, scan.goodBytes, scan.tornBytes);
    }
    if (scan.goodBytes === 0) {
      fs.unlinkSync(last.path);
      files.syncDirectory(dir);
      if (segments.length > 1) continue;
    } else {
      files.truncate(last.path, scan.goodBytes);
    }
    const lostRecords = Math.max(0, durableEnd - scan.nextOffset);
    const { nextOffset, lastAppendedAtMs } = scan;
    return { nextOffset, lastAppendedAtMs, tornBytes, tornPath, lostRecords };
  }
}

function keepTornTail(segment: SegmentFile, from: number, length: number): string {
  const path = `${segment.path}.${from}.torn`;
  const bytes = fs.readFileSync(segment.path).subarray(from, from + length);
  fs.writeFileSync(path, bytes, { mode: 0o600 });
  return path;
}
