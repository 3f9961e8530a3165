/**
 * The manifest: which ranges of the log the archive holds, in which objects.
 *
 * Owns the entries in memory, their bytes in the store and the proof that they follow each other.
 * Does not own the objects' contents, nor whether the listing agrees with it (`audit.ts`).
 *
 *  1. An entry in the store is the commit of its range: an object that no entry names does not count.
 *  2. `archivedUpTo` never steps over a hole, an overlap or an entry that cannot be read; what is
 *     wrong is in `problems` with partition and offsets.
 *  3. Every partition begins at offset 0.
 */
import { z } from 'zod';
import { assert, LedgerError } from '../platform/errors.ts';
import { sha256Hex } from './checksum.ts';
import { HOUR_MS, MANIFEST_PREFIX, manifestName, objectName, rangeOfName } from './names.ts';
import type { ArchiveObject, ManifestEntry, ObjectStore } from './port.ts';

export interface ManifestProblem {
  readonly kind: 'hole' | 'overlap' | 'unreadable';
  readonly partition: number;
  readonly firstOffset: number;
  /** Inclusive. */
  readonly lastOffset: number;
  readonly message: string;
}

export interface ArchivedUpTo {
  /** The first offset that is not archived; every offset before it is. */
  readonly nextOffset: number;
  /** Append time of the record before `nextOffset`; 0 when nothing is archived. */
  readonly lastAppendedAtMs: number;
}

const NOTHING: ArchivedUpTo = { nextOffset: 0, lastAppendedAtMs: 0 };

export class Manifest {
  readonly #upTo = new Map<number, ArchivedUpTo>();
  readonly #problems: ManifestProblem[] = [];
  readonly #objects = new Map<string, ArchiveObject>();
  readonly #byHour = new Map<number, ArchiveObject[]>();

  /** Takes entries in any order; `unreadable` are those whose bytes could not be made sense of. */
  constructor(entries: readonly ManifestEntry[] = [], unreadable: readonly ManifestProblem[] = []) {
    const sorted = [...entries].sort(
      (a, b) =>
        a.partition - b.partition || a.firstOffset - b.firstOffset || a.lastOffset - b.lastOffset,
    );
    let end = 0;
    let partition = -1;
    for (const entry of sorted) {
      if (entry.partition !== partition) end = 0;
      partition = entry.partition;
      this.#checkFollows(entry, end);
      end = Math.max(end, entry.lastOffset + 1);
      this.#take(entry);
    }
    // Last, because they leave holes of their own: the range before an unreadable entry counts.
    this.#problems.push(...unreadable);
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

  #take(entry: ManifestEntry): void {
    if (this.problemOf(entry.partition) === null) {
      const { lastOffset, lastAppendedAtMs } = entry;
      this.#upTo.set(entry.partition, { nextOffset: lastOffset + 1, lastAppendedAtMs });
    } else if (!this.#upTo.has(entry.partition)) {
      this.#upTo.set(entry.partition, NOTHING);
    }
    for (const object of entry.objects) {
      this.#objects.set(object.name, object);
      if (object.hourMs === null) continue;
      const hour = this.#byHour.get(object.hourMs);
      if (hour === undefined) this.#byHour.set(object.hourMs, [object]);
      else hour.push(object);
    }
  }

  /** Takes an entry that the store holds since now. */
  add(entry: ManifestEntry): void {
    const { partition, firstOffset } = entry;
    assert(this.problemOf(partition) === null, 'an entry was added behind a hole in the manifest');
    assert(
      firstOffset === this.archivedUpTo(partition).nextOffset,
      `entry of partition ${partition} at ${firstOffset} does not follow the one before`,
    );
    this.#take(entry);
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

  /** Objects with clicks of the hour, by ascending name. */
  objectsOfHour(hourMs: number): ArchiveObject[] {
    return [...(this.#byHour.get(hourMs) ?? [])].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Objects are only ever added: as many as before are the same. */
  objectCount(hourMs: number): number {
    return this.#byHour.get(hourMs)?.length ?? 0;
  }

  /** Hours that have clicks, ascending. */
  hours(): number[] {
    return [...this.#byHour.keys()].sort((a, b) => a - b);
  }

  partitions(): number[] {
    return [...this.#upTo.keys()].sort((a, b) => a - b);
  }

  /** Every object, dead letters too, in no order. */
  objects(): IterableIterator<ArchiveObject> {
    return this.#objects.values();
  }

  object(name: string): ArchiveObject | undefined {
    return this.#objects.get(name);
  }
}

const count = z.int().min(0);
const entrySchema = z.strictObject({
  version: z.literal(1),
  partition: count,
  firstOffset: count,
  lastOffset: count,
  lastAppendedAtMs: count,
  objects: z
    .array(
      z.strictObject({
        name: z.string(),
        hourMs: z.int().multipleOf(HOUR_MS).nullable(),
        rows: z.int().min(1),
        sizeBytes: z.int().min(1),
        sha256: z.string().regex(/^[0-9a-f]{64}$/),
      }),
    )
    .min(1),
});

/** The same entry always gives the same bytes: a retry of the commit finds itself. */
export function encodeEntry(entry: ManifestEntry): Uint8Array {
  const { partition, firstOffset, lastOffset, lastAppendedAtMs, objects } = entry;
  const ordered = objects.map(({ name, hourMs, rows, sizeBytes, sha256 }) => {
    return { name, hourMs, rows, sizeBytes, sha256 };
  });
  const body = { partition, firstOffset, lastOffset, lastAppendedAtMs, objects: ordered };
  return Buffer.from(`${JSON.stringify({ version: 1, ...body }, null, 1)}\n`);
}

/** Throws when the bytes are not a complete entry of the range that their name says. */
export function decodeEntry(name: string, bytes: Uint8Array): ManifestEntry {
  const entry = entrySchema.parse(JSON.parse(Buffer.from(bytes).toString('utf8')));
  if (manifestName(entry) !== name) throw new Error('its range is not the one of its name');
  const rows = entry.objects.reduce((sum, object) => sum + object.rows, 0);
  if (rows !== entry.lastOffset - entry.firstOffset + 1) {
    throw new Error(`its objects have ${rows} rows, its range has another number`);
  }
  for (const object of entry.objects) {
    if (object.name !== objectName(object.hourMs, entry)) {
      throw new Error(`${object.name} is not named after the hour and range`);
    }
  }
  if (new Set(entry.objects.map(({ name }) => name)).size !== entry.objects.length) {
    throw new Error('it names an object twice');
  }
  return entry;
}

const PARALLEL_READS = 32;

/** Reads all entries of the store. What is wrong with them is in the manifest's `problems`. */
export async function loadManifest(store: ObjectStore): Promise<Manifest> {
  const names: string[] = [];
  for await (const { name } of store.list(MANIFEST_PREFIX)) {
    // A file of another name is no entry; had it been one, the hole that it leaves is reported.
    if (rangeOfName(name) !== null) names.push(name);
  }
  const entries: ManifestEntry[] = [];
  const unreadable: ManifestProblem[] = [];
  for (let at = 0; at < names.length; at += PARALLEL_READS) {
    const some = names.slice(at, at + PARALLEL_READS);
    const read = await Promise.all(some.map((name) => readEntry(store, name)));
    for (const result of read) {
      if ('kind' in result) unreadable.push(result);
      else entries.push(result);
    }
  }
  return new Manifest(entries, unreadable);
}

async function readEntry(
  store: ObjectStore,
  name: string,
): Promise<ManifestEntry | ManifestProblem> {
  const range = rangeOfName(name);
  assert(range !== null, 'a manifest entry was read that is not named like one');
  const bytes = await store.get(name);
  try {
    if (bytes === null) throw new Error('it is gone');
    return decodeEntry(name, bytes);
  } catch (error) {
    return { kind: 'unreadable', ...range, message: `manifest entry ${name}: ${reasonOf(error)}` };
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof z.ZodError) return z.prettifyError(error).replaceAll('\n', ' ');
  return error instanceof Error ? error.message : String(error);
}

/** The object's bytes, proved to be those that were archived. */
export async function readObject(store: ObjectStore, object: ArchiveObject): Promise<Uint8Array> {
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
