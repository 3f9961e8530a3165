/** The counter's journal in a disk log of its own: the same frames, recovery and fsync as the click log. */
import { DiskLogReader } from '../../log/disk/reader.ts';
import { removeOldSegments } from '../../log/disk/retention.ts';
import { DiskLogWriter } from '../../log/disk/writer.ts';
import type { Clock } from '../../platform/clock.ts';
import { LedgerError } from '../../platform/errors.ts';
import type { JournalLog } from '../port.ts';

const PARTITION = 0;
const SEGMENT_BYTES = 64 * 1024 * 1024;

/** Repairs and opens the journal in `dir`. Throws LedgerError `counter_state_lost`. */
export async function openJournalLog(dir: string, clock: Clock): Promise<JournalLog> {
  const writer = new DiskLogWriter({
    logDir: dir,
    partition: PARTITION,
    segmentBytes: SEGMENT_BYTES,
    clock,
  });
  if (writer.recovery.lostRecords > 0) {
    await writer.close();
    throw new LedgerError('counter_state_lost', `${dir}: the disk lost committed state`, {
      hint: 'Run "clickledger rebuild": the log and the archive hold everything.',
    });
  }
  return {
    partition: PARTITION,
    writer,
    reader: new DiskLogReader(dir),
    nextOffset: writer.recovery.nextOffset,
    trim(offset) {
      const limits = { safeOffset: offset, olderThanMs: Number.POSITIVE_INFINITY };
      removeOldSegments(dir, PARTITION, limits);
    },
  };
}
