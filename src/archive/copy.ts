/**
 * Copies an archive from one store to another, as it is: for a ledger that moves.
 *
 * Owns the order and the proof of what it copies. Does not own either archive: nobody may archive into
 * them meanwhile, which is found out but cannot be prevented here.
 *
 *  1. Every object that a manifest entry names is copied with the checksum of that entry, or not at all.
 *  2. The target's manifest covers only what is there: entries follow when all objects are there. The
 *     first new entry of a partition comes last of all, so that the manifest of a copy that was cut off
 *     has a hole, and nobody archives or recounts behind it, instead of looking like a smaller archive.
 *  3. Nothing in the target is changed. What it has with the same bytes is left; with other bytes, or
 *     with entries of a partition of the source that the source does not have, the copy is refused
 *     before the first write.
 *  4. Copying again goes on where it was cut off.
 *
 * Not copied: plans, checkpoints (they are made again), and objects of clicks that no entry names.
 */
import { LedgerError } from '../platform/errors.ts';
import { checkArchive } from './audit.ts';
import { loadManifest, type Manifest, readObject } from './manifest.ts';
import {
  CHECKPOINT_PREFIX,
  CLICKS_PREFIX,
  DEAD_PREFIX,
  entryOfName,
  MANIFEST_PREFIX,
  PLAN_PREFIX,
} from './names.ts';
import { inParallel } from './parallel.ts';
import { openPlans } from './plan.ts';
import type { ObjectInfo, ObjectSource, ObjectStore } from './port.ts';

export interface CopyProgress {
  /** Objects that are there by now, manifest entries too. */
  readonly objects: number;
  readonly bytes: number;
  readonly ofObjects: number;
  readonly ofBytes: number;
}

export interface CopyOptions {
  readonly from: ObjectSource;
  readonly to: ObjectStore;
  readonly onProgress?: (progress: CopyProgress) => void;
}

export interface CopyResult {
  /** All of the source's. */
  readonly objects: number;
  readonly bytes: number;
  /** How many of them the target did not have before. */
  readonly copied: number;
}

/** Objects of clicks have tens of megabytes at most; this many are in memory. */
const PARALLEL_OBJECTS = 8;
const PARALLEL_ENTRIES = 32;

export async function copyArchive(options: CopyOptions): Promise<CopyResult> {
  const { from, to, onProgress = () => {} } = options;
  const manifest = await soundManifest(from);
  const total = await survey(from, to, manifest);
  const copy = new Copy({ from, to, manifest, total, onProgress });
  await inParallel(copy.objects(), PARALLEL_OBJECTS, (pair) => copy.one(pair));
  const lastOnes: Pair[] = [];
  await inParallel(copy.entries(lastOnes), PARALLEL_ENTRIES, (pair) => copy.one(pair));
  await requireUnchanged(from, manifest);
  for (const pair of lastOnes) await copy.one(pair);
  return copy.result();
}

/** The source's manifest, from its entries alone. Refuses a source that is damaged or in work. */
async function soundManifest(from: ObjectSource): Promise<Manifest> {
  const manifest = await loadManifest(from, { useCheckpoints: false });
  const problems = await checkArchive(from, manifest);
  const problem = problems.find(({ kind }) => kind !== 'orphan');
  if (problem !== undefined) {
    throw new LedgerError('archive_damaged', `the archive to copy: ${problem.message}`, {
      hint: 'Put it right from a backup first: "clickledger verify" there names every problem.',
    });
  }
  for (const plan of await openPlans(from, PLAN_PREFIX)) {
    if (plan.firstOffset < manifest.archivedUpTo(plan.partition).nextOffset) continue;
    throw unfinished(`${plan.name} is a step that was not finished`);
  }
  return manifest;
}

async function requireUnchanged(from: ObjectSource, manifest: Manifest): Promise<void> {
  const count = () => manifest.partitions().reduce((sum, p) => sum + manifest.entryCount(p), 0);
  const before = count();
  await manifest.refresh(from, manifest.partitions());
  if (count() !== before) throw unfinished('something was archived while it was copied');
}

function unfinished(why: string): LedgerError {
  return new LedgerError('archive_unfinished', `the archive to copy is in work: ${why}`, {
    hint: 'Let the old ledger archive what its log holds, stop it, and copy again.',
  });
}

/** An object of the source, and how large the target's of that name is; null when it has none. */
interface Pair extends ObjectInfo {
  readonly targetBytes: number | null;
}

/** Both listings side by side; of names that only the target has, `onTargetOnly` is told. */
async function* pairs(
  { from, to }: Pick<CopyOptions, 'from' | 'to'>,
  prefix: string,
  onTargetOnly: (name: string) => void = () => {},
): AsyncGenerator<Pair> {
  const theirs = to.list(prefix)[Symbol.asyncIterator]();
  try {
    let next = await theirs.next();
    for await (const info of from.list(prefix)) {
      while (!next.done && next.value.name < info.name) {
        onTargetOnly(next.value.name);
        next = await theirs.next();
      }
      const there = !next.done && next.value.name === info.name ? next.value : null;
      if (there !== null) next = await theirs.next();
      yield { ...info, targetBytes: there?.sizeBytes ?? null };
    }
    for (; !next.done; next = await theirs.next()) onTargetOnly(next.value.name);
  } finally {
    await theirs.return?.();
  }
}

const isOfClicks = (name: string): boolean =>
  name.startsWith(CLICKS_PREFIX) || name.startsWith(DEAD_PREFIX);

function isCopied(name: string, manifest: Manifest): boolean {
  if (name.startsWith(PLAN_PREFIX) || name.startsWith(CHECKPOINT_PREFIX)) return false;
  return !isOfClicks(name) || manifest.object(name) !== undefined;
}

interface Total {
  readonly objects: number;
  readonly bytes: number;
}

/** What there is to copy. Refuses what can be refused without having written anything. */
async function survey(from: ObjectSource, to: ObjectStore, manifest: Manifest): Promise<Total> {
  const ours = new Set(manifest.partitions());
  let objects = 0;
  let bytes = 0;
  const onTargetOnly = (name: string) => {
    const entry = entryOfName(name);
    if (entry !== null && ours.has(entry.partition)) throw notEmpty(name, 'is not in the source');
  };
  for await (const pair of pairs({ from, to }, '', onTargetOnly)) {
    const { name, sizeBytes, targetBytes } = pair;
    if (!isCopied(name, manifest)) continue;
    objects++;
    bytes += sizeBytes;
    if (targetBytes === null) continue;
    // Objects of clicks are compared when their turn comes: there are many, and they are large.
    const isSame =
      targetBytes === sizeBytes &&
      (isOfClicks(name) || isEqual(await from.get(name), await to.get(name)));
    if (!isSame) throw notEmpty(name, 'has other bytes there');
  }
  if (objects > 0) return { objects, bytes };
  throw new LedgerError('archive_empty', 'there is nothing to copy: the source holds no archive', {
    hint: 'Look at bucket and prefix, or at the path: it is the folder that holds "manifest".',
  });
}

function notEmpty(name: string, why: string): LedgerError {
  return new LedgerError('archive_not_empty', `the target holds another archive: ${name} ${why}`, {
    hint: 'Copy to a bucket and prefix, or a folder, in which these partitions are not archived yet.',
  });
}

function isEqual(a: Uint8Array | null, b: Uint8Array | null): boolean {
  return a !== null && b !== null && Buffer.compare(a, b) === 0;
}

interface CopyParts {
  readonly from: ObjectSource;
  readonly to: ObjectStore;
  readonly manifest: Manifest;
  readonly total: Total;
  readonly onProgress: (progress: CopyProgress) => void;
}

class Copy {
  readonly #parts: CopyParts;
  #objects = 0;
  #bytes = 0;
  #copied = 0;

  constructor(parts: CopyParts) {
    this.#parts = parts;
  }

  /** Everything but the manifest. */
  async *objects(): AsyncGenerator<Pair> {
    for await (const pair of pairs(this.#parts, '')) {
      if (pair.name.startsWith(MANIFEST_PREFIX)) continue;
      if (isCopied(pair.name, this.#parts.manifest)) yield pair;
    }
  }

  /** The manifest's entries but the first new one of each partition: these go to `lastOnes`. */
  async *entries(lastOnes: Pair[]): AsyncGenerator<Pair> {
    const begun = new Set<number>();
    for await (const pair of pairs(this.#parts, MANIFEST_PREFIX)) {
      const entry = entryOfName(pair.name);
      if (entry === null || pair.targetBytes !== null || begun.has(entry.partition)) {
        yield pair;
        continue;
      }
      begun.add(entry.partition);
      lastOnes.push(pair);
    }
  }

  async one({ name, targetBytes }: Pair): Promise<void> {
    const { to, onProgress, total } = this.#parts;
    const bytes = await this.#read(name);
    if (targetBytes === null) {
      await this.#put(name, bytes);
      this.#copied++;
    } else if (!isEqual(bytes, await to.get(name))) {
      throw notEmpty(name, 'has other bytes there');
    }
    this.#objects++;
    this.#bytes += bytes.length;
    const { objects: ofObjects, bytes: ofBytes } = total;
    onProgress({ objects: this.#objects, bytes: this.#bytes, ofObjects, ofBytes });
  }

  async #read(name: string): Promise<Uint8Array> {
    const { from, manifest } = this.#parts;
    const object = manifest.object(name);
    if (object !== undefined) return readObject(from, object);
    const bytes = await from.get(name);
    if (bytes === null) throw unfinished(`${name} is gone`);
    return bytes;
  }

  async #put(name: string, bytes: Uint8Array): Promise<void> {
    try {
      await this.#parts.to.putIfAbsent(name, bytes);
    } catch (error) {
      if (!(error instanceof LedgerError) || error.code !== 'object_differs') throw error;
      throw notEmpty(name, 'has other bytes there');
    }
  }

  result(): CopyResult {
    return { objects: this.#objects, bytes: this.#bytes, copied: this.#copied };
  }
}
