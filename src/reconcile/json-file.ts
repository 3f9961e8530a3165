/** A small file of JSON that is replaced as a whole: after a crash it is the old one or the new one. */
import { closeSync, fsyncSync, openSync, renameSync, writeSync } from 'node:fs';

export function writeJsonFile(path: string, value: unknown): void {
  const temporary = `${path}.tmp`;
  const fd = openSync(temporary, 'w', 0o600);
  try {
    writeSync(fd, JSON.stringify(value));
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  renameSync(temporary, path);
}
