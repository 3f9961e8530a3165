/**
 * Takes a partition over: where its new owner goes on, so that no row falls back, none is written by
 * two, and nothing that the log has lost is passed over in silence.
 *
 * Owns the decision and the first commit of an owner. Does not own counting (`partition-counter.ts`).
 *
 * Why it is right, `n` being the committed offset and `u` the note's `upsertFromMs`:
 *
 * V1 One epoch, one owner. A new owner reads what was committed after nobody else can commit any more
 *    (G1), and commits a higher epoch before it writes a row. So of two owners of one epoch the broker
 *    has refused one. What an owner of the past still sends carries a lower epoch, and every row that is
 *    open is written again under the new one: the warehouse keeps the newer whatever the order.
 * V2 No row falls back. An owner commits an offset before it upserts rows that count up to it (T1), so
 *    nothing in the warehouse counts a record at or after `n`. The new owner is quiet until `n` (P2);
 *    from then on its counts are of a later or the same moment.
 * V3 Rows of minutes before `u` need no state: they are closed and in the warehouse (T2). All later ones
 *    are in the state, because the state is one of
 *    a. a journal of ours of the same log and the same building of the warehouse (`Origin`): a function of
 *       the log before its position (P1), no matter whether the position is behind `n` or ahead of it;
 *    b. a replay from the first record appended at `u − dedupWindowMs − maxSkewMs` or later. A click is
 *       never more than `maxSkewMs` newer than its append, so every click since `u − dedupWindowMs` is in
 *       the replay: those of minutes from `u` on, and every claim that can make one of them a duplicate.
 *       Lateness is the same too: a watermark that only the part before the replay has raised is
 *       below `u − dedupWindowMs`, and makes late nothing that is upserted.
 * V4 The one approximation is in b: a claim of before the replay is not known. An impression that was
 *    clicked at A, A + 20 h and A + 40 h (each within the window of the one before, the last not within
 *    that of the first) is a duplicate at A + 20 h with the claim of A, and counted there without it; then
 *    A + 40 h is a duplicate and not a click. Only live numbers can differ so; the recount decides.
 * V5 A loss is told before it is passed over. When the records from `n` on are gone, or no journal is
 *    there and the log no longer has all records of minutes from `u` on (unless the warehouse has
 *    acknowledged all rows of records before `n`, T3), the partition stops. It goes on when somebody has
 *    accepted that the log begins there, and upserts nothing of minutes that it sees only partly.
 *
 * Effects, in order, and what holds if the process dies right after each:
 *   1. gap told           – told again by the next owner; it is the same gap
 *   2. note committed     – an epoch is used up, or the problem is known; the next owner decides anew
 *   3. old journal dropped – the next owner replays the log as this one would have
 *   4. new journal begun  – it holds nothing until the first commit of the counter
 */
import { noOutcomes } from '../counting/types.ts';
import { MINUTE_MS } from '../counting/windows.ts';
import type { Committed } from '../log/group.ts';
import type { PartitionRange } from '../log/port.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Origin } from './counter-state.ts';
import { type CounterNote, type CounterProblem, decodeNote, problemOf } from './note.ts';
import type { Beginning, PartitionCounter } from './partition-counter.ts';
import { commitBeginning, commitProblem, type TakeoverParts, tellGap } from './takeover-notes.ts';

export interface TakenOver {
  readonly kind: 'counting';
  readonly epoch: number;
  readonly begin: Beginning;
  readonly committed: Committed;
  /** Where a state begins that is new; the state at hand goes on where it is. */
  readonly replayFrom: number | null;
}

export interface Stopped {
  readonly kind: 'stopped';
  readonly problem: CounterProblem;
}

/** What the log gives a state that is new: from where on, and the first minute that it has in full. */
interface Replay {
  readonly from: number;
  readonly wholeFromMs: number;
}

interface Known {
  readonly partition: number;
  readonly range: PartitionRange;
  readonly note: CounterNote;
  readonly offset: number;
  readonly hasState: boolean;
}

/** `state` is what this process has of the partition, in memory or as its journal. */
export async function takeOver(
  parts: TakeoverParts,
  partition: number,
  state: PartitionCounter | null,
): Promise<TakenOver | Stopped> {
  const logId = parts.group.status().logId;
  if (logId === null) throw retry('log_unavailable', 'the identity of the log is not known yet');
  const committed = (await parts.group.committed()).get(partition);
  const note = committed === undefined ? null : decodeNote(committed.note);
  if (committed !== undefined && note === null) return stop(unreadable(partition, committed));
  const range = await parts.reader.range(partition);
  if (committed === undefined || note === null || note.rebuildId < parts.rebuildId()) {
    return fromTheBeginning(parts, { range, note, logId, state });
  }
  const known = {
    partition,
    range,
    note,
    offset: committed.offset,
    hasState: isUsable(state, { logId, rebuildId: note.rebuildId }, range),
  };
  const problem = problemIn(known, logId) ?? (await lossOf(parts, known));
  if (problem === null) return goOn(parts, known);
  const accepted = parts.acceptedGaps().get(partition);
  if (problem.firstOffset === null || accepted === undefined || accepted < problem.firstOffset) {
    await commitProblem(parts, known, problem);
    return stop(problem);
  }
  return passOver(parts, known);
}

function stop(problem: CounterProblem): Stopped {
  return { kind: 'stopped', problem };
}

function retry(code: string, message: string): LedgerError {
  return new LedgerError(code, message, { kind: 'retry' });
}

function unreadable(partition: number, { offset }: Committed): CounterProblem {
  return problemOf(
    'note_unreadable',
    `partition ${partition}: the note beside the committed offset ${offset} is not one of this version`,
  );
}

/** V3a. */
function isUsable(state: PartitionCounter | null, of: Origin, range: PartitionRange): boolean {
  const position = state?.knownPosition ?? null;
  const origin = state?.origin ?? null;
  if (position === null || origin === null) return false;
  const isSame = origin.logId === of.logId && origin.rebuildId === of.rebuildId;
  return isSame && position >= range.firstOffset && position <= range.endOffset;
}

function problemIn(
  { partition, note, offset, range }: Known,
  logId: string,
): CounterProblem | null {
  if (note.logId !== logId) {
    return problemOf(
      'log_replaced',
      `partition ${partition}: offset ${offset} belongs to the log ${note.logId}, this one is ${logId}`,
    );
  }
  if (offset > range.endOffset) {
    return problemOf(
      'position_ahead_of_log',
      `partition ${partition}: counted up to ${offset}, but the log ends at ${range.endOffset}`,
    );
  }
  return null;
}

/** V5: what live numbers would miss, or null. */
async function lossOf(parts: TakeoverParts, known: Known): Promise<CounterProblem | null> {
  const { partition, note, offset, range, hasState } = known;
  if (hasState) return null;
  const { firstOffset } = range;
  const wholeFromMs = await wholeFrom(parts, range);
  const isCounted = offset >= firstOffset;
  if (isCounted && (wholeFromMs <= note.upsertFromMs || note.upserted >= offset)) return null;
  const fromMs = note.upsertFromMs > 0 ? note.upsertFromMs : (note.watermarkMs ?? 0);
  // Told once: the log may have lost more by now, the operator has been shown this one.
  if (note.problem !== null && note.problem.firstOffset !== null) return note.problem;
  const what = isCounted
    ? `the log begins at ${firstOffset} and no longer has all clicks of minutes that are not in the warehouse`
    : `counted up to ${offset}, but the log begins at ${firstOffset}`;
  const gap = { firstOffset, fromMs, toMs: Math.max(fromMs, wholeFromMs) };
  return problemOf('offset_out_of_retention', `partition ${partition}: ${what}`, gap);
}

/** The first minute of which the log has every click. */
async function wholeFrom(parts: TakeoverParts, range: PartitionRange): Promise<number> {
  const { partition, firstOffset } = range;
  if (firstOffset === 0) return 0;
  const first = (await parts.reader.read(partition, firstOffset, 1))[0];
  const beganMs = first?.appendedAtMs ?? parts.clock();
  // A click may be newer than its append by the skew, and others of that millisecond may be gone.
  return Math.ceil((beganMs + parts.counting.maxSkewMs + 1) / MINUTE_MS) * MINUTE_MS;
}

interface Fresh {
  readonly range: PartitionRange;
  readonly note: CounterNote | null;
  readonly logId: string;
  readonly state: PartitionCounter | null;
}

/** Nothing was counted yet, or all of it is to be counted again. */
async function fromTheBeginning(
  parts: TakeoverParts,
  { range, note, logId, state }: Fresh,
): Promise<TakenOver> {
  const { firstOffset, endOffset, partition } = range;
  const origin = { logId, rebuildId: parts.rebuildId() };
  const begin: Beginning = {
    origin,
    offset: firstOffset,
    outcomes: noOutcomes(),
    watermarkMs: null,
    asOfMs: 0,
    upserted: firstOffset,
    upsertFromMs: await wholeFrom(parts, range),
    // Another way of counting may have written rows of what is in the log.
    quietUntil: endOffset,
  };
  const begun = await commitBeginning(parts, partition, { note, begin });
  const replayFrom = isUsable(state, origin, range) ? null : firstOffset;
  return { kind: 'counting', ...begun, begin, replayFrom };
}

async function goOn(parts: TakeoverParts, known: Known): Promise<TakenOver> {
  const { partition, note, offset, range, hasState } = known;
  const replay = hasState ? null : await replayOf(parts, known);
  const begin: Beginning = {
    ...fromNote(note),
    offset,
    upserted: note.upserted,
    upsertFromMs: Math.max(note.upsertFromMs, replay?.wholeFromMs ?? 0),
    quietUntil: Math.min(range.endOffset, Math.max(offset, note.quietUntil)),
  };
  const begun = await commitBeginning(parts, partition, { note, begin });
  return { kind: 'counting', ...begun, begin, replayFrom: replay?.from ?? null };
}

/** V3b. */
async function replayOf(parts: TakeoverParts, known: Known): Promise<Replay> {
  const { partition, note, offset, range } = known;
  const { dedupWindowMs, maxSkewMs } = parts.counting;
  const wholeFromMs = await wholeFrom(parts, range);
  const fromMs = Math.max(0, note.upsertFromMs - dedupWindowMs - maxSkewMs);
  const found = await parts.reader.offsetAt(partition, fromMs);
  return { from: Math.max(range.firstOffset, Math.min(offset, found)), wholeFromMs };
}

/** V5, accepted: the rest of the log, from its first whole minute on. */
async function passOver(parts: TakeoverParts, known: Known): Promise<TakenOver> {
  const { partition, note, range } = known;
  const { firstOffset } = range;
  const upsertFromMs = Math.max(note.upsertFromMs, await wholeFrom(parts, range));
  const fromMs = note.problem?.fromMs ?? note.upsertFromMs;
  // The log may have lost more since the problem was told.
  await tellGap(parts, { partition, fromMs, toMs: upsertFromMs });
  const offset = Math.max(known.offset, firstOffset);
  const begin: Beginning = {
    ...fromNote(note),
    offset,
    upserted: known.offset < firstOffset ? offset : note.upserted,
    upsertFromMs,
    quietUntil: Math.min(range.endOffset, Math.max(offset, note.quietUntil)),
  };
  const begun = await commitBeginning(parts, partition, { note, begin });
  return { kind: 'counting', ...begun, begin, replayFrom: firstOffset };
}

function fromNote(
  note: CounterNote,
): Pick<Beginning, 'origin' | 'outcomes' | 'watermarkMs' | 'asOfMs'> {
  const { logId, rebuildId, watermarkMs, asOfMs } = note;
  const outcomes = { ...noOutcomes(), ...note.outcomes };
  return { origin: { logId, rebuildId }, outcomes, watermarkMs, asOfMs };
}
