/**
 * Opens the LMDB environment and its databases.
 *
 * Owns: file modes, creating the environment, the check that the file can be mapped at all.
 * Does not own: what the databases mean (`catalog.ts`).
 *
 * E1 The file's head is checked before LMDB sees it: mapping a foreign or cut file does not fail, it
 *    kills the process on the first page that is not there.
 * E2 Folder 0700, files 0600: signing secrets lie in it.
 * E3 A commit is on disk before it returns (`overlappingSync` off): a new key is in use at once.
 */
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
} from 'node:fs';
import { join } from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { LedgerError } from '../../platform/errors.ts';

export interface CatalogDatabases {
  readonly root: RootDatabase<Buffer, string>;
  /** ad id → ad */
  readonly ads: Database<Buffer, string>;
  /** advertiser id, NUL, ad id → nothing */
  readonly byAdvertiser: Database<Buffer, string>;
  /** kid → signing key, JSON */
  readonly keys: Database<Buffer, string>;
  /** version of the ads (12 hexadecimal digits), ad id → nothing: `changed-ads.ts` */
  readonly changed: Database<Buffer, string>;
  /** what names a refused row → round, reason: `refused-rows.ts` */
  readonly refused: Database<Buffer, string>;
  /** `version` → number of the last change, and what else there is one of: `meta.ts` */
  readonly meta: Database<Buffer, string>;
}

/** Address space, not memory or disk: enough for 10M ads with the longest targets, never remapped. */
const MAP_BYTES = 2 ** 36;
const READERS_MAX = 512;
const DATA_FILE = 'data.mdb';

/** Ids are ASCII: a byte a character keeps LMDB's order equal to the order of the strings. */
const asciiKeys = {
  writeKey: (key: string, target: Buffer, at: number): number => at + target.latin1Write(key, at),
  readKey: (source: Buffer, start: number, end: number): string => source.latin1Slice(start, end),
};

export function openEnvironment(dir: string, readOnly: boolean): CatalogDatabases {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  checkAccess(dir);
  checkHead(dir);
  if (readOnly) {
    // A click worker starts before the first import, or on a folder of an older release: LMDB cannot
    // open what does not exist yet.
    const databases = existsSync(join(dir, DATA_FILE)) ? openDatabases(dir, true) : null;
    if (databases !== null) return databases;
    const created = openDatabases(dir, false);
    void created?.root.close();
  }
  const databases = openDatabases(dir, readOnly);
  if (databases === null) throw damaged(dir, 'a database in it is missing');
  return databases;
}

function openDatabases(dir: string, readOnly: boolean): CatalogDatabases | null {
  let root: RootDatabase<Buffer, string> | undefined;
  try {
    root = open<Buffer, string>({
      path: dir,
      noSubdir: false,
      encoding: 'binary',
      mapSize: MAP_BYTES,
      maxReaders: READERS_MAX,
      maxDbs: 8,
      overlappingSync: false,
      noSync: false,
      readOnly,
    });
    for (const file of [DATA_FILE, 'lock.mdb']) chmodSync(join(dir, file), 0o600);
    const named = (name: string): Database<Buffer, string> | undefined =>
      root?.openDB<Buffer, string>({ name, encoding: 'binary', keyEncoder: asciiKeys } as never);
    const ads = named('ads');
    const byAdvertiser = named('by_advertiser');
    const keys = named('keys');
    const changed = named('changed');
    const refused = named('refused');
    const meta = named('meta');
    // lmdb answers undefined for a database that a read-only environment does not have.
    if (!(ads && byAdvertiser && keys && changed && refused && meta)) {
      void root.close();
      return null;
    }
    return { root, ads, byAdvertiser, keys, changed, refused, meta };
  } catch (cause) {
    void root?.close();
    throw damaged(dir, (cause as Error).message, cause);
  }
}

function damaged(dir: string, why: string, cause?: unknown): LedgerError {
  return new LedgerError('catalog_damaged', `the ad catalog in ${dir} cannot be opened: ${why}`, {
    hint: 'Restore the folder from a backup; or move it away, import the ads again and put the signing keys back.',
    cause,
  });
}

function checkAccess(dir: string): void {
  try {
    for (const path of [dir, join(dir, DATA_FILE), join(dir, 'lock.mdb')]) {
      if (existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK);
    }
  } catch (cause) {
    throw new LedgerError('catalog_no_access', `the ad catalog in ${dir} cannot be accessed`, {
      hint: 'Give the folder to the user that runs this process: readers write their slot in its lock file.',
      cause,
    });
  }
}

const META_BYTES = 168;
const PAGE_FLAGS_AT = 18;
const META_PAGE_FLAG = 0x08;
const MAGIC_AT = 24;
const MAGIC = 0xbeefc0de;
const PAGE_SIZE_AT = 48;
const LAST_PAGE_AT = 144;
const TXN_AT = 152;
/** LMDB may leave free pages at the end of the file unwritten; a longer gap is a cut file. */
const UNWRITTEN_PAGES_MAX = 16;

/** Reads LMDB's two meta pages and refuses a file that is foreign or cut (E1). */
function checkHead(dir: string): void {
  const path = join(dir, DATA_FILE);
  if (!existsSync(path)) return;
  const file = openSync(path, 'r');
  try {
    const size = fstatSync(file).size;
    if (size === 0) return;
    const first = readMeta(file, 0);
    const second = first === null ? null : readMeta(file, first.pageBytes);
    if (first === null || second === null) throw damaged(dir, `${DATA_FILE} is not an LMDB file`);
    const newest = second.txn > first.txn ? second : first;
    const pages = Math.floor(size / first.pageBytes);
    if (pages + UNWRITTEN_PAGES_MAX < newest.lastPage + 1) {
      throw damaged(
        dir,
        `${DATA_FILE} was cut: ${pages} of ${newest.lastPage + 1} pages are there`,
      );
    }
  } finally {
    closeSync(file);
  }
}

function readMeta(
  file: number,
  at: number,
): { pageBytes: number; lastPage: number; txn: number } | null {
  const head = Buffer.alloc(META_BYTES);
  if (readSync(file, head, 0, META_BYTES, at) !== META_BYTES) return null;
  if (head.readUInt32LE(MAGIC_AT) !== MAGIC) return null;
  if ((head.readUInt16LE(PAGE_FLAGS_AT) & META_PAGE_FLAG) === 0) return null;
  const pageBytes = head.readUInt32LE(PAGE_SIZE_AT);
  if (pageBytes < 512 || pageBytes > 65_536 || (pageBytes & (pageBytes - 1)) !== 0) return null;
  return {
    pageBytes,
    lastPage: Number(head.readBigUInt64LE(LAST_PAGE_AT)),
    txn: Number(head.readBigUInt64LE(TXN_AT)),
  };
}
