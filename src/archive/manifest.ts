/**
 * The manifest: which ranges of the log the archive holds, in which objects.
 *
 * Owns the entries in memory and the proof that they follow each other. Does not own their bytes in
 * the store (`entry.ts`), the objects' contents, nor whether the listing agrees with it (`audit.ts`).
 *
 *  1. An entry in the store is the commit of its range: an object that no entry names does not count.
 *  2. `archivedUpTo` never steps over a hole, an overlap or an entry that cannot be read; what is
 *     wrong is in `problems` with partition and offsets.
 *  3. Every partition begins at offset 0.
 *  4. What is in memory of a partition is what the store had of it at some moment, from the first entry
 *     on: it may be old, it is never something else. `refresh` takes what has come since.
 */
import { assert, LedgerError } from '../platform/errors.ts';
import { type Checkpoints, NO_CHECKPOINTS, readCheckpoints } from './checkpoint.ts';
import { sha256Hex } from './checksum.ts';
import { type FoundEntries, inOrder, type ManifestProblem, readEntries } from './entry.ts';
import {
  afterEntries,
  hourOfName,
  MANIFEST_PREFIX,
  partitionOfEntries,
  rangeOfName,
} from './names.ts';
import { ObjectTable } from './object-table.ts';
import { inParallel } from './parallel.ts';
import type { ArchiveObject, ManifestEntry, ObjectSource } from './port.ts';

export interface ArchivedUpTo {
  /** The first offset that is not archived; every offset before it is. */
  readonly nextOffset: number;
  /** Append time of the record before `nextOffset`; 0 when nothing is archived. */
  readonly lastAppendedAtMs: number;
}

const NOTHING: ArchivedUpTo = { nextOffset: 0, lastAppendedAtMs: 0 };
const PARALLEL_PARTITIONS = 16;

export class Manifest {
  readonly #upTo = new Map<number, ArchivedUpTo>();
  /** Behind the last entry of all, also past a hole. */
  readonly #ends = new Map<number, number>();
  readonly #counts = new Map<number, number>();
  readonly #problems: ManifestProblem[] = [];
  readonly #byHour = new Map<number, ObjectTable>();
  /** Objects that hold dead letters, by partition. */
  readonly #dead = new Map<number, ObjectTable>();
  #refreshing: Promise<unknown> = Promise.resolve();
  /** What was read of the store's checkpoints when it was loaded. */
  checkpoints: Checkpoints = NO_CHECKPOINTS;

  /** Takes entries in any order; `unreadable` are those whose bytes could not be made sense of. */
  constructor(entries: readonly ManifestEntry[] = [], unreadable: readonly ManifestProblem[] = []) {
    this.takeFound({ entries: [...entries].sort(inOrder), unreadable });
  }

  /** Takes what the store has behind what is known. What is known already may be among it. */
  takeFound({ entries, unreadable }: FoundEntries): void {
    for (const entry of entries) {
      if (!this.#isKnown(entry)) this.#take(entry);
    }
    // Last, because they leave holes of their own: the range before an unreadable entry counts.
    this.#problems.push(...unreadable);
  }

  #isKnown(entry: ManifestEntry): boolean {
    return (
      entry.lastOffset < this.archivedUpTo(entry.partition).nextOffset &&
      entry.objects.every(({ name, sha256 }) => this.object(name)?.sha256 === sha256)
    );
  }

  #take(entry: ManifestEntry): void {
    const { partition, lastOffset, lastAppendedAtMs } = entry;
    const end = this.#ends.get(partition) ?? 0;
    this.#checkFollows(entry, end);
    this.#ends.set(partition, Math.max(end, lastOffset + 1));
    this.#counts.set(partition, this.entryCount(partition) + 1);
    if (this.problemOf(partition) === null) {
      this.#upTo.set(partition, { nextOffset: lastOffset + 1, lastAppendedAtMs });
    } else if (!this.#upTo.has(partition)) {
      this.#upTo.set(partition, NOTHING);
    }
    for (const object of entry.objects) {
      this.#tableOf(object.hourMs, partition).add(object, entry);
    }
  }

  #tableOf(hourMs: number | null, partition: number): ObjectTable {
    const tables: Map<number, ObjectTable> = hourMs === null ? this.#dead : this.#byHour;
    const key = hourMs ?? partition;
    let table = tables.get(key);
    if (table === undefined) {
      table = new ObjectTable(hourMs);
      tables.set(key, table);
    }
    return table;
  }

  #checkFollows(entry: ManifestEntry, end: number): void {
    const { partition, firstOffset, lastOffset } = entry;
    if (firstOffset === end) return;
    const kind = firstOffset > end ? 'hole' : 'overlap';
    const [from, to] =
      kind === 'hole' ? [end, firstOffset - 1] : [firstOffset, Math.min(end - 1, lastOffset)];
    const message = `manifest of partition ${partition}: ${kind} at offsets ${from} to ${to}`;
    this.#problems.push({ kind, partition, firstOffset: from, lastOffset: to, message });
  }

  /** Takes an entry that the store holds since now. */
  add(entry: ManifestEntry): void {
    // A refresh may have come before.
    if (this.#isKnown(entry)) return;
    const { partition, firstOffset } = entry;
    assert(this.problemOf(partition) === null, 'an entry was added behind a hole in the manifest');
    assert(
      firstOffset === this.archivedUpTo(partition).nextOffset,
      `entry of partition ${partition} at ${firstOffset} does not follow the one before`,
    );
    this.#take(entry);
  }

  /**
   * Takes what others have archived of these partitions since the last time. When it returns,
   * everything that was committed before the call is known; one listing a partition when that is
   * nothing. A partition with a problem is left alone: only a restart looks at it anew.
   */
  refresh(store: ObjectSource, partitions: Iterable<number>): Promise<void> {
    const mine = this.#refreshing.then(() => this.#refresh(store, partitions));
    // One after the other: two of them would find the same entries.
    this.#refreshing = mine.catch(() => {});
    return mine;
  }

  #refresh(store: ObjectSource, partitions: Iterable<number>): Promise<void> {
    return inParallel(partitions, PARALLEL_PARTITIONS, async (partition) => {
      if (this.problemOf(partition) !== null) return;
      const { nextOffset } = this.archivedUpTo(partition);
      this.takeFound(await readEntries(store, partition, nextOffset));
    });
  }

  get problems(): readonly ManifestProblem[] {
    return this.#problems;
  }

  problemOf(partition: number): ManifestProblem | null {
    return this.#problems.find((problem) => problem.partition === partition) ?? null;
  }

  archivedUpTo(partition: number): ArchivedUpTo {
    return this.#upTo.get(partition) ?? NOTHING;
  }

  /** How many entries of the partition are known. */
  entryCount(partition: number): number {
    return this.#counts.get(partition) ?? 0;
  }

  /** Objects with clicks of the hour, by ascending name. */
  objectsOfHour(hourMs: number): ArchiveObject[] {
    const objects = [...(this.#byHour.get(hourMs)?.all() ?? [])];
    return objects.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Objects are only ever added: as many as before are the same. */
  objectCount(hourMs: number): number {
    return this.#byHour.get(hourMs)?.size ?? 0;
  }

  /** Hours that have clicks, ascending. */
  hours(): number[] {
    return [...this.#byHour.keys()].sort((a, b) => a - b);
  }

  partitions(): number[] {
    return [...this.#upTo.keys()].sort((a, b) => a - b);
  }

  /** Every object, dead letters too, in no order. */
  *objects(): IterableIterator<ArchiveObject> {
    for (const table of this.#byHour.values()) yield* table.all();
    for (const table of this.#dead.values()) yield* table.all();
  }

  object(name: string): ArchiveObject | undefined {
    const hourMs = hourOfName(name);
    if (hourMs !== null) return this.#byHour.get(hourMs)?.find(name);
    const range = rangeOfName(name);
    return range === null ? undefined : this.#dead.get(range.partition)?.find(name);
  }
}

export interface LoadOptions {
  /** False reads every entry by itself, however many there are, and believes nothing else. */
  readonly useCheckpoints?: boolean;
}

/** Reads all entries of the store. What is wrong with them is in the manifest's `problems`. */
export async function loadManifest(
  store: ObjectSource,
  { useCheckpoints = true }: LoadOptions = {},
): Promise<Manifest> {
  const manifest = new Manifest();
  if (useCheckpoints) {
    manifest.checkpoints = await readCheckpoints(store, (entries) =>
      manifest.takeFound({ entries, unreadable: [] }),
    );
  }
  await manifest.refresh(store, await partitionsIn(store));
  return manifest;
}

/** Partitions that have entries, with a short listing for each instead of one of all entries. */
export async function partitionsIn(store: ObjectSource): Promise<number[]> {
  const partitions: number[] = [];
  let after = '';
  for (;;) {
    const name = await firstName(store, after);
    if (name === null) return partitions;
    const partition = partitionOfEntries(name);
    if (partition !== null) partitions.push(partition);
    after = partition === null ? name : afterEntries(partition);
  }
}

async function firstName(store: ObjectSource, after: string): Promise<string | null> {
  for await (const { name } of store.list(MANIFEST_PREFIX, { after })) return name;
  return null;
}

/** The object's bytes, proved to be those that were archived. */
export async function readObject(store: ObjectSource, object: ArchiveObject): Promise<Uint8Array> {
  const bytes = await store.get(object.name);
  const hint = 'Restore the object from a copy; its hour cannot become final without it.';
  if (bytes === null) {
    throw new LedgerError('object_missing', `archive object ${object.name} is missing`, { hint });
  }
  if (bytes.length !== object.sizeBytes) {
    const sizes = `has ${bytes.length} bytes, not ${object.sizeBytes}`;
    throw new LedgerError('object_damaged', `archive object ${object.name} ${sizes}`, { hint });
  }
  if ((await sha256Hex(bytes)) !== object.sha256) {
    const message = `archive object ${object.name} does not have the checksum of the manifest`;
    throw new LedgerError('object_damaged', message, { hint });
  }
  return bytes;
}
