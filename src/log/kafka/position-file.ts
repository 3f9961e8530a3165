/**
 * How far a spool has been shipped, in a small file. A write returns when it is durable.
 *
 * A file that does not read as a position is none: the spool is then shipped from its beginning.
 * Clicks twice in the topic are counted once, clicks that were left out never.
 */
import fs from 'node:fs';
import { dirname } from 'node:path';

export function readPosition(path: string): number | null {
  let text: string;
  try {
    text = fs.readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  return /^\d{1,15}\n$/.test(text) ? Number(text) : null;
}

/** Old or new, whole in either case: 1. new file durable, 2. renamed, 3. the name durable. */
export function writePosition(path: string, offset: number): void {
  const next = `${path}.next`;
  withFile(next, 'w', (fd) => {
    fs.writeSync(fd, `${offset}\n`);
    fs.fsyncSync(fd);
  });
  fs.renameSync(next, path);
  withFile(dirname(path), 'r', (fd) => fs.fsyncSync(fd));
}

function withFile(path: string, flags: string, use: (fd: number) => void): void {
  const fd = fs.openSync(path, flags, 0o600);
  try {
    use(fd);
  } finally {
    fs.closeSync(fd);
  }
}
