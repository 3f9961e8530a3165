/**
 * Removes segments that nothing needs any more.
 *
 * A segment goes only when every record in it is below `safeOffset` (counted and archived) and it
 * was last written before `olderThanMs`. The newest segment always stays: it tells where the log is.
 */
import fs from 'node:fs';
import { listSegments, partitionDir } from './segments.ts';

/** Returns how many segments were removed. Times are ms UTC of the file system's clock. */
export function removeOldSegments(
  logDir: string,
  partition: number,
  limits: { safeOffset: number; olderThanMs: number },
): number {
  const segments = listSegments(partitionDir(logDir, partition));
  let removed = 0;
  for (let i = 0; i + 1 < segments.length; i++) {
    const segment = segments[i]!;
    if (segments[i + 1]!.firstOffset > limits.safeOffset) break;
    if (fs.statSync(segment.path).mtimeMs >= limits.olderThanMs) break;
    fs.unlinkSync(segment.path);
    removed++;
  }
  return removed;
}
