import { DiskLogReader } from '../../src/log/disk/reader.ts';
import { DiskLogWriter } from '../../src/log/disk/writer.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { tempDir } from '../support/temp-dir.ts';
import { clickLogSuite } from './log-suite.ts';

const diskLog = (segmentBytes: number) => async () => {
  const dir = tempDir('log');
  return {
    openWriter: async (partition: number) =>
      new DiskLogWriter({ logDir: dir.path, partition, segmentBytes, clock: systemClock }),
    openReader: async () => new DiskLogReader(dir.path),
    cleanUp: async () => dir.remove(),
  };
};

clickLogSuite('disk', diskLog(64 * 1024 * 1024));
clickLogSuite('disk with tiny segments', diskLog(300));
