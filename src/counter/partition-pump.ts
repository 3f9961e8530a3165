/**
 * Reads one partition and has it counted, side by side with the others of the process.
 *
 * Owns what is read ahead. Does not own the counter, nor what a failure leads to: whatever goes wrong is thrown.
 *
 * Z1 What is read ahead is counted only where the counter then stands; otherwise it is read again.
 * Z2 That the end was seen is as old as the question: the time is taken before it is asked.
 */
import type { ClickLogReader, RecordBatch } from '../log/port.ts';
import { type Clock, monotonicMs } from '../platform/clock.ts';
import type { PartitionCounter } from './partition-counter.ts';
import type { Tenure } from './tenure.ts';
import { type Places, SLICE_MS, type Turns } from './turns.ts';

export interface PumpParts {
  readonly reader: Pick<ClickLogReader, 'read'>;
  readonly clock: Clock;
  readonly commitRecords: number;
  /** The warehouse does not keep up: stop reading, the log keeps everything. */
  readonly mustWait: () => boolean;
  readonly turns: Turns;
  readonly reads: Places;
}

export interface Pumped {
  readonly counter: PartitionCounter;
  readonly tenure: Tenure;
  /** Asked before each read; throws when the partition cannot go on. */
  readonly goesOn: () => boolean;
  readonly onRead: (isEnd: boolean) => void;
  /** What could not be committed now, though it may be later. */
  readonly onCommitFailure: (error: Error) => void;
}

interface Look {
  readonly atMs: number;
  readonly batches: Promise<RecordBatch[]>;
}

const READ_BYTES = 1024 * 1024;
/** Records between two looks at the time. */
const CHUNK = 500;
const MIN_POLL_MS = 25;
const MAX_POLL_MS = 200;

/** Counts until the tenure ends, or `goesOn` says no. */
export async function pump(parts: PumpParts, pumped: Pumped): Promise<void> {
  const { counter, tenure } = pumped;
  let pollMs = MIN_POLL_MS;
  let ahead: Look | null = null;
  while (tenure.isRunning && pumped.goesOn()) {
    if (parts.mustWait() || !(await hasRoom(parts, pumped))) {
      await tenure.sleep(MAX_POLL_MS);
      continue;
    }
    const current: Look = ahead ?? look(parts, counter, counter.position);
    ahead = null;
    const batches = await current.batches;
    if (!tenure.isRunning) return;
    const last = batches.at(-1);
    pumped.onRead(last === undefined);
    if (last === undefined) {
      counter.sawEnd(current.atMs); // Z2
      await tenure.sleep(pollMs);
      pollMs = Math.min(MAX_POLL_MS, pollMs * 1.5);
      continue;
    }
    pollMs = MIN_POLL_MS;
    const endOffset = last.firstOffset + last.count;
    ahead = look(parts, counter, endOffset);
    await countAll(parts, pumped, batches);
    if (counter.position !== endOffset) ahead = null; // Z1
  }
}

function look({ reader, reads, clock }: PumpParts, counter: PartitionCounter, from: number): Look {
  const atMs = clock();
  const batches = reads.run(() => reader.read(counter.partition, from, READ_BYTES));
  // Its failure is seen when it is waited for, or is nobody's.
  batches.catch(() => {});
  return { atMs, batches };
}

async function countAll(
  parts: PumpParts,
  pumped: Pumped,
  batches: readonly RecordBatch[],
): Promise<void> {
  const { counter, tenure } = pumped;
  let next = 0;
  // Nothing else of the process runs during a slice: what could stop it is asked before it begins.
  const slice = (): void => {
    if (!tenure.isRunning || counter.isCommitting || parts.mustWait()) return;
    const untilMs = monotonicMs() + SLICE_MS;
    let lookAt = counter.sinceCommit + CHUNK;
    while (next < batches.length && counter.sinceCommit < parts.commitRecords) {
      if (counter.count(batches[next]!, CHUNK)) next++;
      if (counter.sinceCommit < lookAt) continue;
      if (monotonicMs() >= untilMs) return;
      lookAt = counter.sinceCommit + CHUNK;
    }
  };
  while (next < batches.length && tenure.isRunning && !parts.mustWait()) {
    await counter.idle();
    await parts.turns.take(slice);
    if (!(await hasRoom(parts, pumped))) return;
  }
}

/** Commits when there is much to commit; false when that has to wait. */
async function hasRoom({ commitRecords }: PumpParts, pumped: Pumped): Promise<boolean> {
  const { counter } = pumped;
  if (counter.sinceCommit < commitRecords) return true;
  try {
    await counter.commit();
    return true;
  } catch (error) {
    pumped.onCommitFailure(error as Error);
    return false;
  }
}
