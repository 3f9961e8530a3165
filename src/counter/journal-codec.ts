/**
 * The bytes of the counter's journal: a disk log whose records are parts of commits.
 *
 *     kind 1  claims: n × 28 bytes (hash0, hash1, hash2, time low, time high 16 | partition 16,
 *             offset low, row id; u32 little endian)
 *     kind 2  rows: n × (id u48, shard u16, key length u16, minuteMs u48, clicks u48, key)
 *     kind 3  seal: JSON of the rest; closes the commit
 *
 * Parts count only once their seal has been read: a commit is applied whole or not at all.
 */
import { z } from 'zod';
import {
  CLAIM_WORDS,
  type Claim,
  emptyClaim,
  readClaim,
  writeClaim,
} from '../counting/claim-words.ts';
import type { OpenRow } from '../counting/types.ts';
import { LedgerError } from '../platform/errors.ts';

export const KIND_CLAIMS = 1;
export const KIND_ROWS = 2;
export const KIND_SEAL = 3;

const CLAIM_BYTES = CLAIM_WORDS * 4;
const ROW_FIXED_BYTES = 22;
/** A part stays well below the log's frame limit. */
const MAX_PART_BYTES = 4 * 1024 * 1024;
const FIRST_PART_BYTES = 64 * 1024;

const counts = z.record(z.string(), z.int().min(0));

/** Everything of a commit that is small: complete in every seal, so the newest one tells all. */
export const sealSchema = z.strictObject({
  /** Rises by one with each commit; the version of the rows it upserts. */
  sequence: z.int().min(1),
  /** Next offset per partition. */
  positions: z.record(z.string(), z.int().min(0)),
  /** Largest clicked_at per partition. */
  largest: z.record(z.string(), z.int().min(0)),
  /** Outcomes per partition since the beginning of the log. */
  outcomes: z.record(z.string(), counts),
  /** Minutes of a shard that ended at or before this are settled and dropped. */
  evictedUntil: z.record(z.string(), z.number()),
  /** Minutes of a shard that begin before this were only partly in the log when counting began. */
  upsertFrom: z.record(z.string(), z.number()),
  nextRowId: z.int().min(1),
  forgotten: z.int().min(0),
  /** Journal offset below which nothing is needed any more. */
  journalFrom: z.int().min(0),
  /** Journal offset of the commit's first part: what lies before it and has no seal never counts. */
  partsFrom: z.int().min(0).default(0),
  /** What was counted; null where a folder has but one log. */
  origin: z
    .strictObject({ logId: z.string(), rebuildId: z.int().min(0) })
    .nullable()
    .default(null),
});
export type Seal = z.infer<typeof sealSchema>;

/** Collects claims as words; reused from commit to commit. */
export class ClaimBuffer {
  #words = new Uint32Array(1024 * CLAIM_WORDS);
  count = 0;

  push(claim: Readonly<Claim>): void {
    const at = this.count * CLAIM_WORDS;
    if (at === this.#words.length) {
      const larger = new Uint32Array(this.#words.length * 2);
      larger.set(this.#words);
      this.#words = larger;
    }
    writeClaim(this.#words, at, claim);
    this.count++;
  }

  /** The parts that hold what was pushed; empties the buffer. */
  takeParts(): Buffer[] {
    const parts: Buffer[] = [];
    const perPart = Math.floor(MAX_PART_BYTES / CLAIM_BYTES);
    for (let from = 0; from < this.count; from += perPart) {
      const to = Math.min(this.count, from + perPart);
      const words = this.#words.subarray(from * CLAIM_WORDS, to * CLAIM_WORDS);
      const part = Buffer.allocUnsafe(1 + words.byteLength);
      part[0] = KIND_CLAIMS;
      part.set(new Uint8Array(words.buffer, words.byteOffset, words.byteLength), 1);
      parts.push(part);
    }
    this.count = 0;
    return parts;
  }
}

export function readClaims(part: Buffer, visit: (claim: Readonly<Claim>) => void): void {
  // A copy, since the words need not be aligned inside the log's frame.
  const bytes = new Uint8Array(part.subarray(1));
  const words = new Uint32Array(bytes.buffer, 0, bytes.length / 4);
  const claim = emptyClaim();
  for (let at = 0; at < words.length; at += CLAIM_WORDS) {
    readClaim(words, at, claim);
    visit(claim);
  }
}

export function encodeRows(rows: Iterable<OpenRow>): Buffer[] {
  const parts: Buffer[] = [];
  let part: Buffer = Buffer.allocUnsafe(FIRST_PART_BYTES);
  let at = 1;
  const finish = (): void => {
    if (at === 1) return;
    part[0] = KIND_ROWS;
    parts.push(part.subarray(0, at));
  };
  for (const { id, shard, rowKey, minuteMs, clicks } of rows) {
    const end = at + ROW_FIXED_BYTES + rowKey.length;
    if (end > part.length) {
      // Most commits are small, and there is one a second for each partition: a part grows when it must.
      if (end <= MAX_PART_BYTES) {
        part = grown(part, at);
      } else {
        finish();
        part = Buffer.allocUnsafe(MAX_PART_BYTES);
        at = 1;
      }
    }
    writeU48(part, id, at);
    writeU16(part, shard, at + 6);
    writeU16(part, rowKey.length, at + 8);
    writeU48(part, minuteMs, at + 10);
    writeU48(part, clicks, at + 16);
    at += ROW_FIXED_BYTES;
    at += part.latin1Write(rowKey, at);
  }
  finish();
  return parts;
}

function grown(part: Buffer, used: number): Buffer {
  const larger = Buffer.allocUnsafe(Math.min(MAX_PART_BYTES, part.length * 4));
  part.copy(larger, 0, 0, used);
  return larger;
}

/** By hand: the buffer's own methods for 48 bits check and divide, and every changed row comes by here. */
function writeU48(out: Buffer, value: number, at: number): void {
  const low = value >>> 0;
  const high = Math.floor(value / 0x1_0000_0000);
  writeU16(out, low, at);
  writeU16(out, low >>> 16, at + 2);
  writeU16(out, high, at + 4);
}

function writeU16(out: Buffer, value: number, at: number): void {
  out[at] = value;
  out[at + 1] = value >>> 8;
}

/** A row as the journal keeps it. */
export type KeptRow = Omit<OpenRow, 'isChanged'>;

export function readRows(part: Buffer, visit: (row: KeptRow) => void): void {
  let at = 1;
  while (at < part.length) {
    const keyLength = part.readUInt16LE(at + 8);
    const keyAt = at + ROW_FIXED_BYTES;
    visit({
      id: part.readUIntLE(at, 6),
      shard: part.readUInt16LE(at + 6),
      minuteMs: part.readUIntLE(at + 10, 6),
      clicks: part.readUIntLE(at + 16, 6),
      rowKey: part.latin1Slice(keyAt, keyAt + keyLength),
    });
    at = keyAt + keyLength;
  }
}

export function encodeSeal(seal: Seal): Buffer {
  return Buffer.concat([Buffer.from([KIND_SEAL]), Buffer.from(JSON.stringify(seal))]);
}

export function readSeal(part: Buffer): Seal {
  try {
    return sealSchema.parse(JSON.parse(part.toString('utf8', 1)));
  } catch (cause) {
    throw new LedgerError('counter_state_unreadable', 'a commit of the state cannot be read', {
      cause,
    });
  }
}
