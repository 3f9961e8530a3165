/**
 * Manifest entries as the store has them: their bytes, and reading those of a partition in order.
 *
 * An entry is made of its own range and objects alone, never of what lies before it: whether entries
 * follow each other is asked by whoever takes them (`manifest.ts`, `checkpoint.ts`).
 */
import { z } from 'zod';
import {
  beforeEntry,
  entriesPrefix,
  entryName,
  entryOfName,
  HOUR_MS,
  oldEntryName,
  variantOf,
} from './names.ts';
import { inParallel } from './parallel.ts';
import type { ManifestEntry, ObjectSource } from './port.ts';

export interface ManifestProblem {
  readonly kind: 'hole' | 'overlap' | 'unreadable';
  readonly partition: number;
  readonly firstOffset: number;
  /** Inclusive; the first offset itself for an unreadable entry that is named by it alone. */
  readonly lastOffset: number;
  readonly message: string;
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
  if (entryName(entry) !== name && oldEntryName(entry) !== name) {
    throw new Error('its range is not the one of its name');
  }
  const rows = entry.objects.reduce((sum, object) => sum + object.rows, 0);
  if (rows !== entry.lastOffset - entry.firstOffset + 1) {
    throw new Error(`its objects have ${rows} rows, its range has another number`);
  }
  for (const object of entry.objects) {
    if (variantOf(object.name, object.hourMs, entry) === null) {
      throw new Error(`${object.name} is not named after the hour and range`);
    }
  }
  if (new Set(entry.objects.map(({ name }) => name)).size !== entry.objects.length) {
    throw new Error('it names an object twice');
  }
  return entry;
}

export interface FoundEntries {
  /** In ascending order of their offsets. */
  readonly entries: readonly ManifestEntry[];
  /** Those whose bytes could not be made sense of. */
  readonly unreadable: readonly ManifestProblem[];
}

const PARALLEL_READS = 32;

/**
 * The partition's entries from `fromOffset` on, as the store has them now. What looks like a hole is
 * looked at a second time: a folder that is listed while entries are added may show a later one and
 * leave out one before it; by the second look all of them are older than the listing.
 */
export async function readEntries(
  store: ObjectSource,
  partition: number,
  fromOffset: number,
): Promise<FoundEntries> {
  const found = await readListed(store, partition, fromOffset);
  return haveHole(found, fromOffset) ? readListed(store, partition, fromOffset) : found;
}

function haveHole({ entries }: FoundEntries, fromOffset: number): boolean {
  let next = fromOffset;
  for (const { firstOffset, lastOffset } of entries) {
    if (firstOffset > next) return true;
    next = Math.max(next, lastOffset + 1);
  }
  return false;
}

async function readListed(
  store: ObjectSource,
  partition: number,
  fromOffset: number,
): Promise<FoundEntries> {
  const entries: ManifestEntry[] = [];
  const unreadable: ManifestProblem[] = [];
  await inParallel(entryNames(store, partition, fromOffset), PARALLEL_READS, async (name) => {
    const read = await readEntry(store, name);
    if ('kind' in read) unreadable.push(read);
    else entries.push(read);
  });
  return { entries: entries.sort(inOrder), unreadable: unreadable.sort(inOrder) };
}

type Range = Pick<ManifestEntry, 'partition' | 'firstOffset' | 'lastOffset'>;

export function inOrder(a: Range, b: Range): number {
  return a.partition - b.partition || a.firstOffset - b.firstOffset || a.lastOffset - b.lastOffset;
}

/** Names of the partition's entries from `fromOffset` on, ascending. */
export async function* entryNames(
  store: ObjectSource,
  partition: number,
  fromOffset: number,
): AsyncGenerator<string> {
  const after = beforeEntry(partition, fromOffset);
  for await (const { name } of store.list(entriesPrefix(partition), { after })) {
    // A file of another name is no entry; had it been one, the hole that it leaves is reported.
    if (entryOfName(name) !== null) yield name;
  }
}

async function readEntry(
  store: ObjectSource,
  name: string,
): Promise<ManifestEntry | ManifestProblem> {
  const bytes = await store.get(name);
  try {
    if (bytes === null) throw new Error('it is gone');
    return decodeEntry(name, bytes);
  } catch (error) {
    const { partition, firstOffset, lastOffset } = entryOfName(name)!;
    const range = { partition, firstOffset, lastOffset: lastOffset ?? firstOffset };
    return { kind: 'unreadable', ...range, message: `manifest entry ${name}: ${reasonOf(error)}` };
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof z.ZodError) return z.prettifyError(error).replaceAll('\n', ' ');
  return error instanceof Error ? error.message : String(error);
}
