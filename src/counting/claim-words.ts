/**
 * A claim as seven 32-bit words, the one layout of it: in the table, and in the counter's journal.
 *
 *     hash0, hash1, hash2, time low, time high 16 | partition 16, offset low, row
 */
export interface Claim {
  hash0: number;
  hash1: number;
  hash2: number;
  clickedAtMs: number;
  partition: number;
  /** Low 32 bits of the offset: enough to order records of one partition inside a window. */
  offsetLow: number;
  /** The row that counts it. */
  rowId: number;
}

export const CLAIM_WORDS = 7;
const TWO_32 = 0x1_0000_0000;

/** A claim to be filled and reused. */
export function emptyClaim(): Claim {
  return {
    hash0: 0,
    hash1: 0,
    hash2: 0,
    clickedAtMs: 0,
    partition: 0,
    offsetLow: 0,
    rowId: 0,
  };
}

export function writeClaim(words: Uint32Array, at: number, claim: Readonly<Claim>): void {
  words[at] = claim.hash0;
  words[at + 1] = claim.hash1;
  words[at + 2] = claim.hash2;
  writeClaimed(words, at, claim);
}

/** Everything of a claim but its impression. */
export function writeClaimed(words: Uint32Array, at: number, claim: Readonly<Claim>): void {
  words[at + 3] = claim.clickedAtMs;
  words[at + 4] = ((claim.partition << 16) | Math.floor(claim.clickedAtMs / TWO_32)) >>> 0;
  words[at + 5] = claim.offsetLow;
  words[at + 6] = claim.rowId;
}

export function readClaim(words: Uint32Array, at: number, claim: Claim): void {
  claim.hash0 = words[at]!;
  claim.hash1 = words[at + 1]!;
  claim.hash2 = words[at + 2]!;
  claim.clickedAtMs = clickedAtOf(words, at);
  claim.partition = words[at + 4]! >>> 16;
  claim.offsetLow = words[at + 5]!;
  claim.rowId = words[at + 6]!;
}

export function clickedAtOf(words: Uint32Array, at: number): number {
  return words[at + 3]! + (words[at + 4]! & 0xffff) * TWO_32;
}

/** A claim's time is never 0, so words that were never written hold none. */
export function isClaim(words: Uint32Array, at: number): boolean {
  return words[at + 3] !== 0 || words[at + 4] !== 0;
}
