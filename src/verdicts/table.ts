/**
 * Verdicts in memory: for every impression the verdicts on it, newest first.
 *
 * Impressions are known by the same 96-bit hash as in counting. An impression costs about 30 bytes, a
 * verdict 16; texts stay in the archive.
 *
 * T1 The verdict in force for an hour is the newest one that applies to it. A verdict applies from an
 *    hour on (`appliesFromMs`); that never falls, so what was in force for an older hour stays there.
 */
import { yieldToEventLoop } from '../archive/parquet.ts';
import { ImpressionHash } from '../counting/impression-hash.ts';
import { assert } from '../platform/errors.ts';
import { HashIndex } from '../platform/hash-index.ts';
import type { NewVerdict } from './port.ts';

const NONE = -1;
const VALID_BIT = 0x8000_0000;
const INITIAL_ENTRIES = 256;
/** Entries between two turns of the event loop, which counts clicks meanwhile. */
const ENTRIES_PER_TURN = 10_000;

/** Where a verdict stands in the archive, and what it says. */
export interface VerdictPlace {
  readonly sequence: number;
  /** Row of the object, from 0. */
  readonly row: number;
  readonly valid: boolean;
}

interface Batch {
  readonly sequence: number;
  readonly atMs: number;
  readonly appliesFromMs: number;
  /** Number of its first entry. */
  readonly first: number;
}

export class VerdictTable {
  readonly #impressions = new HashIndex();
  readonly #hash = new ImpressionHash();
  /** Newest entry of each impression. */
  #heads = new Int32Array(INITIAL_ENTRIES);
  #impressionOf = new Uint32Array(INITIAL_ENTRIES);
  /** The entry before on the same impression. */
  #before = new Int32Array(INITIAL_ENTRIES);
  /** Whether it is valid, and 31 bits of a hash of its reason. */
  #meaning = new Uint32Array(INITIAL_ENTRIES);
  #batchOf = new Uint32Array(INITIAL_ENTRIES);
  readonly #batches: Batch[] = [];
  #size = 0;
  #invalid = 0;

  /** Impressions whose newest verdict is invalid. */
  get invalid(): number {
    return this.#invalid;
  }

  get verdicts(): number {
    return this.#size;
  }

  /** Adds the rows of one object. */
  add(batch: Omit<Batch, 'first'>, rows: readonly NewVerdict[]): void {
    const last = this.#batches.at(-1);
    const follows = last === undefined || batch.appliesFromMs >= last.appliesFromMs;
    assert(follows, 'verdicts reach further back than those before them');
    this.#batches.push({ ...batch, first: this.#size });
    for (const row of rows) this.#addOne(row);
  }

  #addOne({ impressionId, valid, reason }: NewVerdict): void {
    const meaning = this.#meaningOf(valid, reason);
    this.#hash.ofText(impressionId);
    const { hash0, hash1, hash2 } = this.#hash;
    const known = this.#impressions.size;
    const impression = this.#impressions.add(hash0, hash1, hash2);
    this.#reserve();
    const isNew = impression === known;
    const before = isNew ? NONE : this.#heads[impression]!;
    const entry = this.#size++;
    this.#impressionOf[entry] = impression;
    this.#before[entry] = before;
    this.#meaning[entry] = meaning;
    this.#batchOf[entry] = this.#batches.length - 1;
    this.#heads[impression] = entry;
    this.#invalid += Number(!valid) - Number(before !== NONE && !this.#isValid(before));
  }

  #reserve(): void {
    if (this.#size < this.#before.length) return;
    const length = this.#before.length * 2;
    const grown = <T extends Int32Array | Uint32Array>(to: T, from: T): T => {
      to.set(from);
      return to;
    };
    this.#heads = grown(new Int32Array(length), this.#heads);
    this.#impressionOf = grown(new Uint32Array(length), this.#impressionOf);
    this.#before = grown(new Int32Array(length), this.#before);
    this.#meaning = grown(new Uint32Array(length), this.#meaning);
    this.#batchOf = grown(new Uint32Array(length), this.#batchOf);
  }

  /** Whether the newest verdict on the impression says the very same. */
  says({ impressionId, valid, reason }: NewVerdict): boolean {
    const entry = this.#newest(impressionId);
    return entry !== NONE && this.#meaning[entry] === this.#meaningOf(valid, reason);
  }

  /** The verdict in force for the impression's clicks of an hour, or null. */
  find(impressionId: string, hourMs: number): VerdictPlace | null {
    const entry = this.#inForce(this.#newest(impressionId), hourMs);
    if (entry === NONE) return null;
    const { sequence, first } = this.#batch(entry);
    return { sequence, row: entry - first, valid: this.#isValid(entry) };
  }

  /** Whether the verdict in force for the impression's clicks of an hour calls them invalid. */
  isInvalid(hash: readonly [number, number, number], hourMs: number): boolean {
    const impression = this.#impressions.find(...hash);
    if (impression < 0) return false;
    const entry = this.#inForce(this.#heads[impression]!, hourMs);
    return entry !== NONE && !this.#isValid(entry);
  }

  /** Nothing may be added meanwhile. */
  async forEachInvalid(
    hourMs: number,
    visit: (hash0: number, hash1: number, hash2: number) => void,
  ): Promise<void> {
    const words = this.#impressions.words();
    for (let impression = 0; impression < this.#impressions.size; impression++) {
      if (impression % ENTRIES_PER_TURN === ENTRIES_PER_TURN - 1) await yieldToEventLoop();
      const entry = this.#inForce(this.#heads[impression]!, hourMs);
      if (entry === NONE || this.#isValid(entry)) continue;
      const at = impression * 3;
      visit(words[at]!, words[at + 1]!, words[at + 2]!);
    }
  }

  /** Impressions that a verdict behind `sequence` made invalid or valid again, and from which hour on. */
  async changedSince(
    sequence: number,
  ): Promise<{ readonly impressions: HashIndex; readonly fromMs: number }> {
    const impressions = new HashIndex();
    const words = this.#impressions.words();
    const batch = this.#batches.find((each) => each.sequence > sequence);
    if (batch === undefined) return { impressions, fromMs: Number.POSITIVE_INFINITY };
    for (let entry = batch.first; entry < this.#size; entry++) {
      if (entry % ENTRIES_PER_TURN === ENTRIES_PER_TURN - 1) await yieldToEventLoop();
      const before = this.#before[entry]!;
      if (this.#isValid(entry) === (before === NONE || this.#isValid(before))) continue;
      const at = this.#impressionOf[entry]! * 3;
      impressions.add(words[at]!, words[at + 1]!, words[at + 2]!);
    }
    return { impressions, fromMs: batch.appliesFromMs };
  }

  #meaningOf(valid: boolean, reason: string): number {
    this.#hash.ofText(reason);
    return ((this.#hash.hash0 & ~VALID_BIT) | (valid ? VALID_BIT : 0)) >>> 0;
  }

  #newest(impressionId: string): number {
    this.#hash.ofText(impressionId);
    const { hash0, hash1, hash2 } = this.#hash;
    const impression = this.#impressions.find(hash0, hash1, hash2);
    return impression < 0 ? NONE : this.#heads[impression]!;
  }

  /** T1 */
  #inForce(newest: number, hourMs: number): number {
    let entry = newest;
    while (entry !== NONE && this.#batch(entry).appliesFromMs > hourMs)
      entry = this.#before[entry]!;
    return entry;
  }

  #batch(entry: number): Batch {
    return this.#batches[this.#batchOf[entry]!]!;
  }

  #isValid(entry: number): boolean {
    return (this.#meaning[entry]! & VALID_BIT) !== 0;
  }
}
