/**
 * What an owner of a partition writes before it counts: its epoch, or why it does not count.
 *
 * Owns the first two effects of a takeover (`takeover.ts` numbers them).
 */
import type { Committed, PartitionGroup } from '../log/group.ts';
import type { ClickLogReader, LogTimes } from '../log/port.ts';
import type { Clock } from '../platform/clock.ts';
import type { Warehouse } from '../warehouse/port.ts';
import { type CounterNote, type CounterProblem, encodeNote, epochOf } from './note.ts';
import type { Beginning } from './partition-counter.ts';

/** Clicks of `[fromMs, toMs)` that live numbers miss until their hours are recounted. */
export interface LiveGap {
  readonly partition: number;
  readonly fromMs: number;
  readonly toMs: number;
  readonly atMs: number;
}

export interface TakeoverParts {
  readonly group: PartitionGroup;
  readonly reader: Pick<ClickLogReader, 'range' | 'read'> & LogTimes;
  readonly warehouse: Pick<Warehouse, 'maxLiveVersion'>;
  readonly clock: Clock;
  readonly counting: { readonly dedupWindowMs: number; readonly maxSkewMs: number };
  readonly holder: string;
  /** Rises when the warehouse is to be built again from the beginning of the log. */
  readonly rebuildId: () => number;
  /** By partition, the beginning of the log that somebody has accepted in place of what is missing. */
  readonly acceptedGaps: () => ReadonlyMap<number, number>;
  /** Told again when it is not known whether it was; resolves when it is durable. */
  readonly onGap: (gap: LiveGap) => Promise<void>;
  /** Throws when this owner may not write any more. */
  readonly assertOwned: () => void;
}

/** V1: above whatever was committed, and whatever has ever been written. */
async function nextEpoch(
  { warehouse }: TakeoverParts,
  partition: number,
  note: CounterNote | null,
): Promise<number> {
  const written = epochOf(await warehouse.maxLiveVersion(partition));
  return Math.max(note?.epoch ?? 0, written) + 1;
}

/** Begins an epoch. */
export async function commitBeginning(
  parts: TakeoverParts,
  partition: number,
  { note: before, begin }: { note: CounterNote | null; begin: Beginning },
): Promise<{ epoch: number; committed: Committed }> {
  const epoch = await nextEpoch(parts, partition, before);
  const { origin, offset, ...rest } = begin;
  const note: CounterNote = {
    ...rest,
    ...origin,
    version: 1,
    epoch,
    holder: parts.holder,
    problem: null,
  };
  const committed = { offset, note: encodeNote(note) };
  parts.assertOwned();
  await parts.group.commit(new Map([[partition, committed]])); // 2
  return { epoch, committed };
}

/** Nothing when it is written there already. */
export async function commitProblem(
  parts: TakeoverParts,
  { partition, note, offset }: { partition: number; note: CounterNote; offset: number },
  problem: CounterProblem,
): Promise<void> {
  if (JSON.stringify(note.problem) === JSON.stringify(problem)) return;
  const { fromMs, toMs } = problem;
  if (fromMs !== null && toMs !== null) await tellGap(parts, { partition, fromMs, toMs }); // 1
  const epoch = await nextEpoch(parts, partition, note);
  const told: CounterNote = { ...note, epoch, holder: parts.holder, problem };
  parts.assertOwned();
  await parts.group.commit(new Map([[partition, { offset, note: encodeNote(told) }]])); // 2
}

export async function tellGap(parts: TakeoverParts, gap: Omit<LiveGap, 'atMs'>): Promise<void> {
  parts.assertOwned();
  await parts.onGap({ ...gap, atMs: parts.clock() });
}
