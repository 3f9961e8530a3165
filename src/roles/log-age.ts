/** How old records of the log are that something has not read yet. */
import type { ClickLogReader, PartitionRange } from '../log/port.ts';
import { LedgerError } from '../platform/errors.ts';

const READ_BYTES = 65_536;

/**
 * When the log took the record at `offset`, or the oldest behind it that is still there; null when
 * there is none, or when it cannot be read. What cannot be read must not keep an operator from the
 * numbers that say so.
 */
export async function appendedAtMsOf(
  reader: ClickLogReader,
  { partition, firstOffset, endOffset }: PartitionRange,
  offset: number,
): Promise<number | null> {
  const from = Math.max(offset, firstOffset);
  if (from >= endOffset) return null;
  try {
    const [batch] = await reader.read(partition, from, READ_BYTES);
    return batch?.appendedAtMs ?? null;
  } catch (error) {
    if (error instanceof LedgerError) return null;
    throw error;
  }
}
