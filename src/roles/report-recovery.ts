import type { DiskLogWriter } from '../log/disk/writer.ts';
import type { Logger } from '../platform/logger.ts';

/** Says what opening a partition had to repair; silent after a clean stop. */
export function reportRecovery(writer: DiskLogWriter, logger: Logger): void {
  const { tornBytes, tornPath, lostRecords } = writer.recovery;
  const { partition } = writer;
  if (lostRecords > 0) {
    logger.error({ partition, lostRecords }, 'the disk lost acknowledged records');
  }
  if (tornBytes > 0) logger.warn({ partition, tornBytes, tornPath }, 'cut a torn tail of the log');
}
