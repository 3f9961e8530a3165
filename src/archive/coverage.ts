/** The proof that the archive is complete up to a moment, by whoever asks: an archiver or not. */
import type { ClickLogReader } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Manifest } from './manifest.ts';

export interface CoverageSources {
  readonly reader: Pick<ClickLogReader, 'partitions' | 'range'>;
  readonly manifest: Pick<Manifest, 'archivedUpTo'>;
  readonly clock: Clock;
  /**
   * Takes into `manifest` what other processes have archived of the partitions. Left out where the
   * process itself is the only one that archives.
   */
  readonly refresh?: (partitions: readonly number[]) => Promise<void>;
}

/**
 * The append time before which every record of every partition is archived.
 *
 * The order of the reads matters. The clock comes first: what is appended after it is no earlier than
 * it, also in partitions that are made after it. The manifest is refreshed next, so that it knows of
 * everything that was archived when the question was asked; before the clock it would prove no less than
 * it says, but often less than there is. The log's end comes last: when it is where the manifest ends,
 * nothing that the log had at that time is missing; read before the manifest, it could lie before what
 * others have archived since, as if the log had lost records.
 */
export async function coveredUntilMs(sources: CoverageSources): Promise<number> {
  const { reader, manifest, clock, refresh } = sources;
  const nowMs = clock();
  const partitions = await reader.partitions();
  await refresh?.(partitions);
  const covered = partitions.map(async (partition) => {
    const { nextOffset, lastAppendedAtMs } = manifest.archivedUpTo(partition);
    const { endOffset } = await reader.range(partition);
    if (nextOffset > endOffset) throw logBehind(partition, endOffset, nextOffset);
    return nextOffset < endOffset ? lastAppendedAtMs : nowMs;
  });
  return Math.min(nowMs, ...(await Promise.all(covered)));
}

export function logBehind(partition: number, endOffset: number, nextOffset: number): LedgerError {
  return new LedgerError(
    'log_behind_archive',
    `partition ${partition}: the log ends at offset ${endOffset}, the archive goes up to ${nextOffset}`,
    { hint: 'The log lost records or was replaced. Restore it; do not delete the archive.' },
  );
}
