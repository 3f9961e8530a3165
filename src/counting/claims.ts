/**
 * Claims: which record of each impression is the counted one.
 *
 * An open-addressing table of 28-byte entries in typed arrays, in 1,024 sections by the top bits of the
 * hash, so that growing never stops counting for long. A slot follows from the hash's next bits,
 * hence a walk over the table goes in (nearly) ascending order of `hash0`, and looking up hashes in
 * that order touches memory in sequence; the recount's look-back lives on that.
 *
 * C1 One entry per impression. Entries leave only by `sweep`: none inside the dedup window is ever
 *    dropped, unless `maxClaims` is reached, and then `forgotten` counts it.
 * C2 An entry is never moved while its slot number is in use: callers do not keep slots across
 *    an insert.
 */
import {
  type Claim,
  clickedAtOf,
  emptyClaim,
  isClaim,
  readClaim,
  CLAIM_WORDS as WORDS,
  writeClaim,
  writeClaimed,
} from './claim-words.ts';

const SECTION_BITS = 10;
export const SECTIONS = 1 << SECTION_BITS;
const INITIAL_SLOTS = 64;
const MAX_LOAD = 0.75;

class Section {
  slots = INITIAL_SLOTS;
  words = new Uint32Array(INITIAL_SLOTS * WORDS);
  used = 0;
}

/**
 * The time up to which a partition's claims may go; later ones stay. Asked once per run of entries of
 * a partition, since a rebuild passes millions of them.
 */
export type KeepAfter = (partition: number) => number;

const keepAll: KeepAfter = () => Number.NEGATIVE_INFINITY;
const TWO_32 = 0x1_0000_0000;
/** Row ids begin at 1. */
const NO_ROW = 0;

export class ClaimTable {
  readonly #sections = Array.from({ length: SECTIONS }, () => new Section());
  /** Set by `find`: where the entry is, or where it would go. */
  #section = 0;
  #slot = 0;
  size = 0;

  /** Bytes held by the table. */
  get memoryBytes(): number {
    let bytes = 0;
    for (const section of this.#sections) bytes += section.words.byteLength;
    return bytes;
  }

  /** Looks for an impression; then the `found…` getters read it and `put` replaces or adds it. */
  find(hash0: number, hash1: number, hash2: number): boolean {
    this.#section = hash0 >>> (32 - SECTION_BITS);
    const section = this.#sections[this.#section]!;
    const words = section.words;
    const mask = section.slots - 1;
    let slot = homeSlot(hash0, section.slots);
    for (;;) {
      const at = slot * WORDS;
      if (!isClaim(words, at)) break;
      if (words[at] === hash0 && words[at + 1] === hash1 && words[at + 2] === hash2) {
        this.#slot = slot;
        return true;
      }
      slot = (slot + 1) & mask;
    }
    this.#slot = slot;
    return false;
  }

  get foundClickedAtMs(): number {
    return clickedAtOf(this.#sections[this.#section]!.words, this.#slot * WORDS);
  }

  get foundPartition(): number {
    return this.#sections[this.#section]!.words[this.#slot * WORDS + 4]! >>> 16;
  }

  get foundOffsetLow(): number {
    return this.#sections[this.#section]!.words[this.#slot * WORDS + 5]!;
  }

  get foundRowId(): number {
    return this.#sections[this.#section]!.words[this.#slot * WORDS + 6]!;
  }

  /** Replaces what `find` found; the impression is the same. */
  replaceFound(claim: Readonly<Claim>): void {
    writeClaimed(this.#sections[this.#section]!.words, this.#slot * WORDS, claim);
  }

  /** What `find` found is counted by no row any more; it stays claimed. */
  unassignFound(): void {
    this.#sections[this.#section]!.words[this.#slot * WORDS + 6] = NO_ROW;
  }

  /** Adds the impression that `find` has just not found. Call `needsRoom` before. */
  addMissing(claim: Readonly<Claim>): void {
    const section = this.#sections[this.#section]!;
    writeClaim(section.words, this.#slot * WORDS, claim);
    section.used++;
    this.size++;
    if (section.used > section.slots * MAX_LOAD) this.#full.push(this.#section);
  }

  readonly #full: number[] = [];

  /** Whether an insert has filled a section; `makeRoom` must run before the next insert. */
  get needsRoom(): boolean {
    return this.#full.length > 0;
  }

  /** Drops old entries from full sections, and doubles those that stay full. */
  makeRoom(keepAfterMs: KeepAfter): void {
    for (const index of this.#full.splice(0)) {
      const section = this.#sections[index]!;
      const stay = countKept(section.words, keepAfterMs);
      // Doubled also when expiry has freed only little: the next rebuild would follow at once.
      const slots = stay > section.slots * (MAX_LOAD / 1.5) ? section.slots * 2 : section.slots;
      this.#rebuild(section, slots, keepAfterMs);
    }
  }

  /** Drops old entries everywhere, and gives memory back. */
  sweep(keepAfterMs: KeepAfter): void {
    this.#full.length = 0;
    for (const section of this.#sections) {
      this.#rebuild(section, section.slots, keepAfterMs);
      let slots = section.slots;
      while (slots > INITIAL_SLOTS && section.used < slots * (MAX_LOAD / 4)) slots /= 2;
      if (slots !== section.slots) this.#rebuild(section, slots, keepAll);
    }
  }

  #rebuild(section: Section, slots: number, keepAfterMs: KeepAfter): void {
    const old = section.words;
    const words = new Uint32Array(slots * WORDS);
    const mask = slots - 1;
    let used = 0;
    let partition = -1;
    let afterMs = 0;
    for (let from = 0; from < old.length; from += WORDS) {
      if (!isClaim(old, from)) continue;
      const own = old[from + 4]! >>> 16;
      if (own !== partition) {
        partition = own;
        afterMs = keepAfterMs(partition);
      }
      if (clickedAtOf(old, from) <= afterMs) continue;
      let slot = homeSlot(old[from]!, slots);
      while (isClaim(words, slot * WORDS)) slot = (slot + 1) & mask;
      for (let word = 0; word < WORDS; word++) words[slot * WORDS + word] = old[from + word]!;
      used++;
    }
    this.size += used - section.used;
    section.words = words;
    section.slots = slots;
    section.used = used;
  }

  /** Calls `visit` for every claim, in nearly ascending order of `hash0`. The object is reused. */
  forEach(visit: (claim: Readonly<Claim>) => void): void {
    for (let index = 0; index < SECTIONS; index++) this.forEachOf(index, visit);
  }

  /** The same for one of the `SECTIONS` sections. */
  forEachOf(index: number, visit: (claim: Readonly<Claim>) => void): void {
    const { words } = this.#sections[index]!;
    const claim = emptyClaim();
    for (let at = 0; at < words.length; at += WORDS) {
      if (!isClaim(words, at)) continue;
      readClaim(words, at, claim);
      visit(claim);
    }
  }
}

function countKept(words: Uint32Array, keepAfterMs: KeepAfter): number {
  let kept = 0;
  let partition = -1;
  let afterMs = 0;
  for (let at = 0; at < words.length; at += WORDS) {
    if (!isClaim(words, at)) continue;
    const own = words[at + 4]! >>> 16;
    if (own !== partition) {
      partition = own;
      afterMs = keepAfterMs(partition);
    }
    if (clickedAtOf(words, at) > afterMs) kept++;
  }
  return kept;
}

function homeSlot(hash0: number, slots: number): number {
  // The bits behind the section's, scaled to the section's size: order is kept.
  const rest = (hash0 << SECTION_BITS) >>> 0;
  return Math.floor((rest / TWO_32) * slots);
}
