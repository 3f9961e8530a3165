/**
 * Writes checkpoints of the manifest, each of the entries that have come since the last one.
 *
 * They are made of the entries in the store, read once more, never of what a process remembers of them.
 * Any number of processes may write: the store takes one object of a number, and what the others
 * put into theirs is read from the entries until somebody's next checkpoint has it.
 *
 *   W1 unusable checkpoints removed, the last first   a start reads more entries by themselves
 *   W2 one checkpoint                                 a start reads it instead of its entries
 */
import { LedgerError } from '../platform/errors.ts';
import {
  type Checkpoint,
  type CheckpointPosition,
  type CheckpointPositions,
  checkpointNames,
  encodeCheckpoint,
  positionsAfter,
  readCheckpoint,
  readCheckpoints,
} from './checkpoint.ts';
import { readEntries } from './entry.ts';
import type { Manifest } from './manifest.ts';
import { checkpointName } from './names.ts';
import type { ManifestEntry, ObjectStore } from './port.ts';

export interface CheckpointOptions {
  /** Fewer new entries are left to be read by themselves. */
  readonly minEntries?: number;
  /** Most entries of one checkpoint. */
  readonly maxEntries?: number;
}

const MIN_ENTRIES = 5_000;
const MAX_ENTRIES = 20_000;

/**
 * Writes what is due; returns how many entries that was, 0 when nothing was due. For `manifest` to be
 * up to date is enough; it is asked how far to go, and which checkpoints it could not use.
 */
export async function writeCheckpoint(
  store: ObjectStore,
  manifest: Manifest,
  { minEntries = MIN_ENTRIES, maxEntries = MAX_ENTRIES }: CheckpointOptions = {},
): Promise<number> {
  const { count, upTo } = await usable(store, manifest);
  let known = 0;
  let covered = 0;
  for (const partition of manifest.partitions()) known += manifest.entryCount(partition);
  for (const { entries } of upTo.values()) covered += entries;
  if (known - covered < minEntries) return 0;
  const fold = new Fold(store, { number: count, upTo, maxEntries });
  for (const partition of manifest.partitions()) {
    const from = upTo.get(partition)?.nextOffset ?? 0;
    const { nextOffset } = manifest.archivedUpTo(partition);
    if (from >= nextOffset) continue;
    const { entries } = await readEntries(store, partition, from);
    const isGoing = await fold.take(entries.filter(({ lastOffset }) => lastOffset < nextOffset));
    if (!isGoing) return fold.written;
  }
  await fold.flush();
  return fold.written;
}

/** How many checkpoints there are to go on from, and to where. Removes what stands behind them. */
async function usable(
  store: ObjectStore,
  manifest: Manifest,
): Promise<{ count: number; upTo: CheckpointPositions }> {
  const names = await checkpointNames(store);
  let count = names.findIndex((name, i) => name !== checkpointName(i + 1));
  if (count < 0) count = names.length;
  // All of them are read again only after a start that could not use one; by now it may be another.
  if (manifest.checkpoints.unusable.length > 0) {
    count = Math.min(count, (await readCheckpoints(store, () => {})).count);
  }
  let last: Checkpoint | null = null;
  while (count > 0 && last === null) {
    last = await readCheckpoint(store, checkpointName(count));
    if (last === null) count--;
  }
  for (const name of names.slice(count).reverse()) await store.remove(name); // W1
  manifest.checkpoints = { count, unusable: [] };
  return { count, upTo: last?.upTo ?? new Map() };
}

/** Entries on their way into the next checkpoints. */
class Fold {
  readonly #store: ObjectStore;
  readonly #maxEntries: number;
  #number: number;
  #positions: Map<number, CheckpointPosition>;
  #held: ManifestEntry[] = [];
  written = 0;

  constructor(
    store: ObjectStore,
    from: {
      readonly number: number;
      readonly upTo: CheckpointPositions;
      readonly maxEntries: number;
    },
  ) {
    this.#store = store;
    this.#maxEntries = from.maxEntries;
    this.#number = from.number;
    this.#positions = new Map(from.upTo);
  }

  /** Takes a partition's entries as far as they follow each other. False when somebody else writes. */
  async take(entries: readonly ManifestEntry[]): Promise<boolean> {
    for (const entry of entries) {
      const after = positionsAfter(this.#at(entry.partition), [entry]);
      if (after === null) break;
      this.#held.push(entry);
      this.#positions.set(entry.partition, after.get(entry.partition)!);
      if (this.#held.length >= this.#maxEntries && !(await this.flush())) return false;
    }
    return true;
  }

  #at(partition: number): CheckpointPositions {
    const at = this.#positions.get(partition);
    return new Map(at === undefined ? [] : [[partition, at]]);
  }

  async flush(): Promise<boolean> {
    if (this.#held.length === 0) return true;
    const bytes = await encodeCheckpoint({ entries: this.#held, upTo: this.#positions });
    try {
      await this.#store.putIfAbsent(checkpointName(this.#number + 1), bytes); // W2
    } catch (error) {
      if (error instanceof LedgerError && error.code === 'object_differs') return false;
      throw error;
    }
    this.#number++;
    this.written += this.#held.length;
    this.#held = [];
    return true;
  }
}
