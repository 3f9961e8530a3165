/**
 * The file calls of the log, behind one small interface, so that a test can make the disk full or
 * an fsync fail at a chosen moment. Production uses `nodeFiles`.
 */
import fs from 'node:fs';

export type FileDone = (error: Error | null) => void;

export interface LogFiles {
  /** Creates the file for synchronous writes (each write returns only when its data is on disk). */
  createForSyncWrites(path: string): number;
  /** Writes all of `bytes[0, length)` at `position`, or fails. */
  write(fd: number, bytes: Buffer, length: number, position: number, done: FileDone): void;
  /** Cuts a file that is open for writing; by descriptor, as its name may belong to a newer file. */
  truncateOpen(fd: number, sizeBytes: number): void;
  close(fd: number): void;
  truncate(path: string, sizeBytes: number): void;
  syncDirectory(path: string): void;
}

export const nodeFiles: LogFiles = {
  createForSyncWrites(path) {
    const { O_WRONLY, O_CREAT, O_EXCL, O_DSYNC } = fs.constants;
    return fs.openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_DSYNC, 0o600);
  },
  write(fd, bytes, length, position, done) {
    writeAll(fd, bytes, 0, length, position, done);
  },
  truncateOpen(fd, sizeBytes) {
    // Not synced: it only gives space back, and the redirects of this process wait while it runs.
    fs.ftruncateSync(fd, sizeBytes);
  },
  close(fd) {
    fs.closeSync(fd);
  },
  truncate(path, sizeBytes) {
    const fd = fs.openSync(path, 'r+');
    try {
      fs.ftruncateSync(fd, sizeBytes);
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
  },
  syncDirectory(path) {
    const fd = fs.openSync(path, 'r');
    try {
      fs.fsyncSync(fd);
    } finally {
      fs.closeSync(fd);
    }
  },
};

/** A short write is legal and means "the rest did not fit yet": ask for the rest, which then fails or fits. */
function writeAll(
  fd: number,
  bytes: Buffer,
  from: number,
  length: number,
  position: number,
  done: FileDone,
): void {
  fs.write(fd, bytes, from, length - from, position, (error, written) => {
    if (error) return done(error);
    if (from + written >= length) return done(null);
    if (written === 0) return done(new Error('the disk took no bytes'));
    writeAll(fd, bytes, from + written, length, position + written, done);
  });
}
