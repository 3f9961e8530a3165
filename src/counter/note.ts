/**
 * What a counter writes beside the committed offset of a partition: all that another counter needs to
 * go on in its place, and all that a process needs which only wants to know how far counting is.
 *
 * Owns the note's fields and its bytes. Does not own when it is written (`worker.ts`) nor what follows
 * from it (`takeover.ts`).
 *
 * With the offset `n` that it stands beside:
 * T1 No row in the warehouse counts a record at or after `max(n, quietUntil)`.
 * T2 Rows of minutes before `upsertFromMs` are in the warehouse with their last count: at `n` they are
 *    closed, and the warehouse has acknowledged them. Or they are left to the recount, because the log
 *    had lost part of them when counting began.
 * T3 Rows of all records before `upserted` were acknowledged by the warehouse, but for those of T2 that
 *    are left to the recount.
 * T4 An epoch is written here before the first row is written under it, and by one owner only.
 */
import { z } from 'zod';
import { OUTCOMES } from '../counting/types.ts';

const MAX_MESSAGE = 600;

const problemSchema = z.strictObject({
  /** As in `LedgerError`. */
  code: z.string().min(1).max(64),
  message: z.string().max(MAX_MESSAGE),
  /** Where the log began when it was found to have lost what was needed; null for other problems. */
  firstOffset: z.int().min(0).nullable(),
  /** Live numbers miss clicks of `[fromMs, toMs)`; null when none are missing. */
  fromMs: z.number().nullable(),
  toMs: z.number().nullable(),
});
/** Why a partition is not counted until somebody acts. */
export type CounterProblem = z.infer<typeof problemSchema>;

const noteSchema = z.strictObject({
  version: z.literal(1),
  /** The high part of the versions of live rows. */
  epoch: z.int().min(0),
  upsertFromMs: z.number().min(0),
  /** Rows of records before this offset may be there from an earlier count; 0 when none are. */
  quietUntil: z.int().min(0),
  upserted: z.int().min(0),
  /** Every record that the partition took before this time is in the live rows. */
  asOfMs: z.number().min(0),
  watermarkMs: z.number().nullable(),
  /** The log that the offset belongs to. */
  logId: z.string().max(200),
  /** Which building of the warehouse the rows belong to. */
  rebuildId: z.int().min(0),
  /** Who wrote it; for people to read. */
  holder: z.string().max(300),
  /** Records before the offset, by outcome. */
  outcomes: z.record(z.enum(OUTCOMES), z.int().min(0)),
  problem: problemSchema.nullable(),
});
export type CounterNote = z.infer<typeof noteSchema>;

export function encodeNote(note: CounterNote): string {
  return JSON.stringify(noteSchema.parse(note));
}

/** Null when it cannot be read: written by another version, or by somebody else's tool. */
export function decodeNote(text: string): CounterNote | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const read = noteSchema.safeParse(value);
  return read.success ? read.data : null;
}

export function problemOf(
  code: string,
  message: string,
  gap: { firstOffset: number; fromMs: number; toMs: number } | null = null,
): CounterProblem {
  const { firstOffset = null, fromMs = null, toMs = null } = gap ?? {};
  return {
    code: code.slice(0, 64),
    message: message.slice(0, MAX_MESSAGE),
    firstOffset,
    fromMs,
    toMs,
  };
}

/** What a note that `decodeNote` cannot read means for its partition. */
export function unreadableNote(partition: number): CounterProblem {
  const message = `partition ${partition}: its note is not one of this version`;
  return problemOf('note_unreadable', message);
}

const EPOCH_UNIT = 2 ** 32;

/** The version of rows: newer owners win, and of one owner the later upsert. */
export function versionOf(epoch: number, sequence: number): number {
  return epoch * EPOCH_UNIT + sequence;
}

export function epochOf(version: number): number {
  return Math.floor(version / EPOCH_UNIT);
}
