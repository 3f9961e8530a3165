/**
 * The archive's objects as files below one folder.
 *
 * Owns the files and their durability. Does not own what they mean: names and contents come from
 * the archiver.
 *
 *  1. A name appears only with its whole, fsynced content: written to `.tmp/`, then linked.
 *  2. A name is never overwritten: `link` refuses an existing one, whichever process made it.
 *  3. When `putIfAbsent` returns, file and every directory entry above it survive a power cut, also
 *     when an earlier attempt had linked the file and died before the directory was synced.
 *  4. A failed fsync is never tried again on the same file: a retry writes a new one.
 */
import { link, mkdir, open, readdir, readFile, stat, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { LedgerError } from '../../platform/errors.ts';
import { isNameSegment, requireObjectName } from '../object-name.ts';
import type { ListOptions, ObjectInfo, ObjectSource, ObjectStore } from '../port.ts';

const TEMP_FOLDER = '.tmp';

/** Numbers this process's temporary files, whichever store of it makes them: `.tmp/<pid>-<number>`. */
let nextTemp = 0;

export async function openFolderStore(options: { dir: string }): Promise<ObjectStore> {
  const dir = resolve(options.dir);
  return orRetry(dir, async () => {
    const created = await mkdir(join(dir, TEMP_FOLDER), { recursive: true });
    if (created !== undefined) await syncUpTo(dir, dirname(created));
    await removeLeftovers(join(dir, TEMP_FOLDER));
    return new FolderStore(dir);
  });
}

/** For reading alone: a folder that is not there is refused instead of made. */
export async function openFolderSource(options: { dir: string }): Promise<ObjectSource> {
  const dir = resolve(options.dir);
  await orRetry(dir, () => requireFolder(dir));
  return new FolderStore(dir);
}

async function requireFolder(dir: string): Promise<void> {
  const isFolder = await stat(dir).then(
    (found) => found.isDirectory(),
    (error) => {
      if (codeOf(error) === 'ENOENT') return false;
      throw error;
    },
  );
  if (isFolder) return;
  throw new LedgerError('archive_missing', `there is no archive folder at ${dir}`, {
    hint: 'Name the folder that holds the archive, by default <data_dir>/archive.',
  });
}

class FolderStore implements ObjectStore {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async putIfAbsent(name: string, bytes: Uint8Array): Promise<void> {
    const path = this.#path(name);
    await orRetry(name, async () => {
      const temp = join(this.#dir, TEMP_FOLDER, `${process.pid}-${nextTemp++}`);
      try {
        await writeDurably(temp, bytes);
        await mkdir(dirname(path), { recursive: true });
        if (!(await linkIfAbsent(temp, path))) await requireSame(name, path, bytes);
      } finally {
        await unlinkIfThere(temp);
      }
      await syncUpTo(dirname(path), this.#dir);
    });
  }

  async get(name: string): Promise<Uint8Array | null> {
    const path = this.#path(name);
    return orRetry(name, async () => {
      try {
        return await readFile(path);
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return null;
        throw error;
      }
    });
  }

  list(prefix: string, { after = '' }: ListOptions = {}): AsyncIterable<ObjectInfo> {
    return walk(this.#dir, '', { prefix, after });
  }

  async remove(name: string): Promise<void> {
    const path = this.#path(name);
    await orRetry(name, async () => {
      if (await unlinkIfThere(path)) await syncDirectory(dirname(path));
    });
  }

  #path(name: string): string {
    requireObjectName(name);
    return join(this.#dir, ...name.split('/'));
  }
}

interface Wanted {
  readonly prefix: string;
  readonly after: string;
}

/** Depth first in byte order of the full names: a directory sorts as its name with `/` behind it. */
async function* walk(dir: string, folder: string, wanted: Wanted): AsyncGenerator<ObjectInfo> {
  const entries = await orRetry(dir, () => readEntries(join(dir, folder)));
  const names = entries
    .filter((entry) => isNameSegment(entry.name) && (entry.isDirectory() || entry.isFile()))
    .map((entry) => folder + entry.name + (entry.isDirectory() ? '/' : ''))
    .filter((name) => isWanted(name, wanted))
    .sort((a, b) => (a < b ? -1 : 1));
  for (const name of names) {
    if (name.endsWith('/')) {
      yield* walk(dir, name, wanted);
      continue;
    }
    const sizeBytes = await orRetry(name, () => sizeIfThere(join(dir, name)));
    if (sizeBytes !== null) yield { name, sizeBytes };
  }
}

/** A directory is, by its name with `/` behind it, when it may hold something that is. */
function isWanted(name: string, { prefix, after }: Wanted): boolean {
  const isFolder = name.endsWith('/');
  if (!name.startsWith(prefix) && !(isFolder && prefix.startsWith(name))) return false;
  return name > after || (isFolder && after.startsWith(name));
}

async function readEntries(path: string) {
  try {
    return await readdir(path, { withFileTypes: true });
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

async function sizeIfThere(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

async function writeDurably(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, 'w');
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** False when the name is taken. */
async function linkIfAbsent(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
}

async function requireSame(name: string, path: string, bytes: Uint8Array): Promise<void> {
  const existing = await readFile(path);
  if (existing.equals(bytes)) return;
  throw new LedgerError(
    'object_differs',
    `archive object ${name} exists with other bytes (${existing.length}, not ${bytes.length} long)`,
    { hint: 'Objects never change. Is another archiver writing to the same folder?' },
  );
}

async function unlinkIfThere(path: string): Promise<boolean> {
  try {
    await unlink(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** Makes the entries of `from` and of every directory above it, up to `top`, durable. */
async function syncUpTo(from: string, top: string): Promise<void> {
  for (let dir = from; ; dir = dirname(dir)) {
    await syncDirectory(dir);
    if (dir === top || dir === dirname(dir)) return;
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r');
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/**
 * Removes what a dead process left in the middle of a write. Files of another living process stay:
 * a command may open the archive while the ledger writes to it.
 */
async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const [pid, number] = name.split('-').map(Number);
    const inUse = pid === process.pid ? Number(number) < nextTemp : isAlive(Number(pid));
    if (!inUse) await unlinkIfThere(join(folder, name));
  }
}

function isAlive(pid: number): boolean {
  if (!Number.isSafeInteger(pid)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/** Errors of the file system (full, read-only, I/O) may pass: the caller tries again later. */
async function orRetry<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof LedgerError || codeOf(error) === undefined) throw error;
    throw new LedgerError('archive_unavailable', `archive: ${what}: ${String(error)}`, {
      kind: 'retry',
      hint: 'Check free space, permissions and health of the disk that holds the archive.',
      cause: error,
    });
  }
}
