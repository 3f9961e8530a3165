/**
 * Checkpoints: many manifest entries in one object, so that a start need not read each by itself.
 *
 * Derived: the entries stay, and whatever is wrong with a checkpoint, they are read instead.
 *
 *  1. Checkpoints are numbered from 1 without a gap. Each goes on where the one before ended, in every
 *     partition, and never changes.
 *  2. One is believed as a whole or not at all: its checksum must be right, and its entries must
 *     follow those before them. From the first that is not, none is believed.
 *
 * The bytes, gzipped: a line with the header (JSON), then a line for each entry, a JSON array of
 * partition, first and last offset, append time of the last record, and its objects. An object is an
 * array of hour (null for dead letters), rows, bytes, SHA-256 and, where it has one, variant: its name
 * follows from these. `upTo` in the header says for each partition how far this and all checkpoints
 * before it go, and how many entries that is.
 */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { z } from 'zod';
import { sha256Hex } from './checksum.ts';
import {
  CHECKPOINT_PREFIX,
  checkpointName,
  checkpointOfName,
  objectName,
  variantOf,
} from './names.ts';
import { yieldToEventLoop } from './parquet.ts';
import type { ArchiveObject, ManifestEntry, ObjectSource } from './port.ts';

export interface CheckpointPosition {
  readonly nextOffset: number;
  /** How many entries of the partition are before it. */
  readonly entries: number;
}

export type CheckpointPositions = ReadonlyMap<number, CheckpointPosition>;

export interface Checkpoint {
  readonly entries: readonly ManifestEntry[];
  readonly upTo: CheckpointPositions;
}

/** What the store has of them. */
export interface Checkpoints {
  /** How many are believed: numbers 1 to this. */
  readonly count: number;
  /** Names of those that are not. */
  readonly unusable: readonly string[];
}

export const NO_CHECKPOINTS: Checkpoints = { count: 0, unusable: [] };

const PARALLEL_READS = 4;
const LINES_PER_TURN = 2_000;

const whole = z.int().min(0);
const headerSchema = z.strictObject({
  version: z.literal(1),
  /** Of everything behind the header's line. */
  sha256: z.string(),
  upTo: z.array(z.tuple([whole, whole, whole])),
});

type ObjectFields = readonly [number | null, number, number, string, string?];
type EntryFields = readonly [number, number, number, number, readonly ObjectFields[]];

export async function encodeCheckpoint({ entries, upTo }: Checkpoint): Promise<Uint8Array> {
  const body = Buffer.from(entries.map((entry) => `${JSON.stringify(fieldsOf(entry))}\n`).join(''));
  const positions = [...upTo].map(([partition, { nextOffset, entries: count }]) => {
    return [partition, nextOffset, count];
  });
  const header = { version: 1, sha256: await sha256Hex(body), upTo: positions };
  return promisify(gzip)(Buffer.concat([Buffer.from(`${JSON.stringify(header)}\n`), body]));
}

/** Throws when the bytes are not those that were written. */
export async function decodeCheckpoint(bytes: Uint8Array): Promise<Checkpoint> {
  const plain = await promisify(gunzip)(bytes);
  const end = plain.indexOf('\n') + 1;
  const { sha256, upTo } = headerSchema.parse(JSON.parse(plain.toString('utf8', 0, end)));
  const body = plain.subarray(end);
  if ((await sha256Hex(body)) !== sha256) throw new Error('its checksum is another one');
  const entries: ManifestEntry[] = [];
  for (const line of body.toString('utf8').split('\n')) {
    // The checksum vouches for the fields: they are those that were written.
    if (line !== '') entries.push(entryOf(JSON.parse(line) as EntryFields));
    if (entries.length % LINES_PER_TURN === 0) await yieldToEventLoop();
  }
  return { entries, upTo: positionsOf(upTo) };
}

function positionsOf(upTo: readonly (readonly [number, number, number])[]): CheckpointPositions {
  return new Map(
    upTo.map(([partition, nextOffset, entries]) => [partition, { nextOffset, entries }]),
  );
}

function fieldsOf(entry: ManifestEntry): EntryFields {
  const { partition, firstOffset, lastOffset, lastAppendedAtMs } = entry;
  const objects = entry.objects.map(({ name, hourMs, rows, sizeBytes, sha256 }): ObjectFields => {
    const variant = variantOf(name, hourMs, entry);
    return variant ? [hourMs, rows, sizeBytes, sha256, variant] : [hourMs, rows, sizeBytes, sha256];
  });
  return [partition, firstOffset, lastOffset, lastAppendedAtMs, objects];
}

function entryOf(fields: EntryFields): ManifestEntry {
  const [partition, firstOffset, lastOffset, lastAppendedAtMs, listed] = fields;
  const range = { partition, firstOffset, lastOffset };
  const objects = listed.map(([hourMs, rows, sizeBytes, sha256, variant]): ArchiveObject => {
    return { name: objectName(hourMs, range, variant), hourMs, rows, sizeBytes, sha256 };
  });
  return { ...range, objects, lastAppendedAtMs };
}

/** Where the entries lead to from `before`, or null when one of them does not follow. */
export function positionsAfter(
  before: CheckpointPositions,
  entries: readonly ManifestEntry[],
): Map<number, CheckpointPosition> | null {
  const after = new Map(before);
  for (const { partition, firstOffset, lastOffset } of entries) {
    const at = after.get(partition) ?? { nextOffset: 0, entries: 0 };
    if (firstOffset !== at.nextOffset) return null;
    after.set(partition, { nextOffset: lastOffset + 1, entries: at.entries + 1 });
  }
  return after;
}

/** Reads all that can be believed, in order; gives each one's entries to `take`. */
export async function readCheckpoints(
  store: ObjectSource,
  take: (entries: readonly ManifestEntry[]) => void,
): Promise<Checkpoints> {
  const names = await checkpointNames(store);
  let positions: CheckpointPositions = new Map();
  let count = 0;
  for (let at = 0; at < names.length; at += PARALLEL_READS) {
    const some = names.slice(at, at + PARALLEL_READS);
    const read = await Promise.all(some.map((name) => readCheckpoint(store, name)));
    for (const [i, checkpoint] of read.entries()) {
      const after = checkpoint && positionsAfter(positions, checkpoint.entries);
      const isNext = some[i] === checkpointName(count + 1);
      if (!checkpoint || !after || !isNext || !isSame(after, checkpoint.upTo)) {
        return { count, unusable: names.slice(at + i) };
      }
      take(checkpoint.entries);
      positions = after;
      count++;
    }
    await yieldToEventLoop();
  }
  return { count, unusable: [] };
}

/** Null when there is none that can be believed by itself. */
export async function readCheckpoint(
  store: ObjectSource,
  name: string,
): Promise<Checkpoint | null> {
  const bytes = await store.get(name);
  if (bytes === null) return null;
  try {
    return await decodeCheckpoint(bytes);
  } catch {
    // Damaged, or of another version. The entries say the same.
    return null;
  }
}

export async function checkpointNames(store: ObjectSource): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of store.list(CHECKPOINT_PREFIX)) {
    if (checkpointOfName(name) !== null) names.push(name);
  }
  return names;
}

function isSame(a: CheckpointPositions, b: CheckpointPositions): boolean {
  if (a.size !== b.size) return false;
  return [...a].every(([partition, { nextOffset, entries }]) => {
    const other = b.get(partition);
    return other?.nextOffset === nextOffset && other.entries === entries;
  });
}
