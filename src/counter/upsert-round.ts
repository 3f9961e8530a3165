/**
 * One round of writing: journals, notes and rows of all partitions together.
 *
 * The effects of a round, in order, and what holds if the process dies right after each:
 *   1. dead letters stored  – stored again by whoever counts the records again; the key is the position
 *   2. journals committed   – a cache of the log: the next owner goes on from it, or from the log
 *   3. offsets committed    – the next owner is quiet until there; rows of minutes from `upsertFromMs` on
 *                             are upserted by it, whether or not they were by us
 *   4. rows upserted        – no row counts a record behind 3; the next owner writes the same or more
 *   5. settled rows evicted – in memory; an owner with this journal upserts them once more
 *   6. notes committed      – the next owner needs no row that is settled
 *
 * R1 One insert for the rows of all partitions: an insert is a part that the warehouse has to merge.
 * R2 Rows go out only after 3, with the very rows that were ready before it.
 */
import type { Committed, PartitionGroup } from '../log/group.ts';
import { monotonicMs } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Warehouse } from '../warehouse/port.ts';
import type { OwnedPartition } from './owned-partition.ts';
import type { PartitionCounter, Prepared } from './partition-counter.ts';
import type { Tenure } from './tenure.ts';

export interface UpsertRoundParts {
  readonly group: Pick<PartitionGroup, 'commit'>;
  readonly warehouse: Pick<Warehouse, 'upsertLiveBatches'>;
  readonly onUpsert: () => void;
  readonly onError: (error: Error, what: string) => void;
}

interface Current {
  readonly owned: OwnedPartition;
  readonly counter: PartitionCounter;
}

interface Ready extends Current {
  readonly prepared: Prepared;
}

const RETRY_MS = 1_000;

export class UpsertRounds {
  readonly #parts: UpsertRoundParts;
  #retryAtMs = Number.NEGATIVE_INFINITY;
  lastUpsertError: Error | null = null;
  /** Rows that an older round gives back must not follow newer ones that went out meanwhile. */
  #last: Promise<void> = Promise.resolve();

  constructor(parts: UpsertRoundParts) {
    this.#parts = parts;
  }

  /** Never throws: a round that fails is made again by the next one. One after the other. */
  round(tenure: Tenure, partitions: () => readonly OwnedPartition[]): Promise<void> {
    this.#last = this.#last.then(() => this.#round(tenure, partitions()));
    return this.#last;
  }

  /** Journals and notes alone, while the warehouse has a round that does not end. */
  async commitOnly(tenure: Tenure, partitions: readonly OwnedPartition[]): Promise<void> {
    const current: Current[] = [];
    await Promise.all(
      partitions.map(async (owned) => {
        const { counter } = owned;
        if (counter === null) return;
        await counter.commit().then(
          () => current.push({ owned, counter }),
          (error: Error) => owned.commitFailed(counter, error),
        );
      }),
    );
    await this.#commitNotes(tenure, current).catch((error: Error) => this.#lost(tenure, error));
  }

  async #round(tenure: Tenure, partitions: readonly OwnedPartition[]): Promise<void> {
    if (tenure.isOver) return;
    try {
      const isUpserting = monotonicMs() >= this.#retryAtMs;
      const ready = await this.#prepare(partitions); // 1, 2
      const isTaken = await this.#write(tenure, ready, isUpserting);
      if (!isTaken || tenure.isOver) return;
      for (const { counter, prepared } of ready) counter.settle(prepared); // 5
      await this.#commitNotes(tenure, ready); // 6
    } catch (error) {
      this.#lost(tenure, error as Error);
    }
  }

  async #prepare(partitions: readonly OwnedPartition[]): Promise<Ready[]> {
    const ready: Ready[] = [];
    await Promise.all(
      partitions.map(async (owned) => {
        const { counter } = owned;
        if (counter === null) return;
        try {
          const prepared = await counter.prepare();
          owned.committedState();
          ready.push({ owned, counter, prepared });
        } catch (error) {
          owned.commitFailed(counter, error as Error);
        }
      }),
    );
    return ready;
  }

  /** R2. Whether the warehouse has the rows now; otherwise they are given back. */
  async #write(tenure: Tenure, ready: readonly Ready[], isUpserting: boolean): Promise<boolean> {
    let isTaken = false;
    try {
      if (ready.some(isAhead)) await this.#commitNotes(tenure, ready); // 3
      if (isUpserting && !tenure.isOver) isTaken = await this.#upsert(ready); // 4
      return isTaken && !tenure.isOver;
    } finally {
      if (!isTaken || tenure.isOver) {
        for (const { counter, prepared } of ready) counter.giveBack(prepared);
      }
    }
  }

  async #upsert(ready: readonly Ready[]): Promise<boolean> {
    for (const { counter } of ready) counter.upserting();
    const withRows = ready.filter((each) => isCurrent(each) && each.prepared.rows.length > 0);
    if (withRows.length === 0) return true;
    const batches = withRows.map(({ owned, prepared }) => owned.batchOf(prepared));
    try {
      await this.#parts.warehouse.upsertLiveBatches(batches);
    } catch (error) {
      this.lastUpsertError = error as Error;
      this.#retryAtMs = monotonicMs() + RETRY_MS;
      this.#parts.onError(error as Error, 'upsert of live rows');
      return false;
    }
    this.lastUpsertError = null;
    this.#parts.onUpsert();
    return true;
  }

  async #commitNotes(tenure: Tenure, ready: readonly Current[]): Promise<void> {
    const commits = new Map<number, Committed>();
    for (const { owned, counter } of ready) {
      if (!isCurrent({ owned, counter })) continue;
      const commitment = owned.commitment(counter);
      const { offset, note } = owned.committed ?? {};
      if (commitment.offset === offset && commitment.note === note) continue;
      commits.set(owned.partition, commitment);
    }
    if (commits.size === 0) return;
    tenure.assertNotOver();
    await this.#parts.group.commit(commits);
    for (const { owned, counter } of ready) {
      const commitment = commits.get(owned.partition);
      if (commitment === undefined || !isCurrent({ owned, counter })) continue;
      owned.committed = commitment;
    }
  }

  /** What was refused is not ours any more; the group will say what is. */
  #lost(tenure: Tenure, error: Error): void {
    if (tenure.isOver) return;
    this.#parts.onError(error, 'committing what is counted');
    if (error instanceof LedgerError && error.code === 'partition_lost') tenure.end();
  }
}

/** A partition that has failed meanwhile has, or gets, another counter and another epoch. */
function isCurrent({ owned, counter }: Current): boolean {
  return owned.counter === counter;
}

/** Rows may count records that no offset covers yet. */
function isAhead({ owned, prepared }: Ready): boolean {
  return prepared.position > (owned.committed?.offset ?? 0);
}
