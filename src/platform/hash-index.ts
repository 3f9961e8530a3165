/**
 * Dense numbers for 96-bit keys: the first key that is added has number 0, the next 1, and so on.
 * 12 bytes a key and its share of the slots, in typed arrays: millions of keys are no burden to the
 * garbage collector. Keys never leave.
 */
const INITIAL_SLOTS = 64;
const MAX_LOAD = 0.5;
const WORDS = 3;

export class HashIndex {
  /** Number + 1 of the key in each slot; 0 is an empty one. */
  #slots = new Uint32Array(INITIAL_SLOTS);
  #words = new Uint32Array(INITIAL_SLOTS * WORDS);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** All keys in the order of their numbers, three words each. */
  words(): Uint32Array {
    return this.#words.subarray(0, this.#size * WORDS);
  }

  /** The number of a key, or -1. */
  find(hash0: number, hash1: number, hash2: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = slotOf(hash0, hash1) & mask; ; slot = (slot + 1) & mask) {
      const number = this.#slots[slot]! - 1;
      if (number < 0) return -1;
      const at = number * WORDS;
      const words = this.#words;
      if (words[at] === hash0 && words[at + 1] === hash1 && words[at + 2] === hash2) return number;
    }
  }

  /** The key's number, new or not. */
  add(hash0: number, hash1: number, hash2: number): number {
    const known = this.find(hash0, hash1, hash2);
    if (known >= 0) return known;
    if (this.#size >= this.#slots.length * MAX_LOAD) this.#grow();
    const number = this.#size++;
    const at = number * WORDS;
    this.#words[at] = hash0;
    this.#words[at + 1] = hash1;
    this.#words[at + 2] = hash2;
    this.#place(number);
    return number;
  }

  /** Adds keys that lie next to each other, three words each. */
  addAll(words: Uint32Array): void {
    for (let at = 0; at < words.length; at += WORDS) {
      this.add(words[at]!, words[at + 1]!, words[at + 2]!);
    }
  }

  #grow(): void {
    const words = new Uint32Array(this.#words.length * 2);
    words.set(this.#words);
    this.#words = words;
    this.#slots = new Uint32Array(this.#slots.length * 2);
    for (let number = 0; number < this.#size; number++) this.#place(number);
  }

  #place(number: number): void {
    const mask = this.#slots.length - 1;
    let slot = slotOf(this.#words[number * WORDS]!, this.#words[number * WORDS + 1]!) & mask;
    while (this.#slots[slot] !== 0) slot = (slot + 1) & mask;
    this.#slots[slot] = number + 1;
  }
}

/** Keys come in nearly ascending order of their first word: low bits of two words spread them. */
function slotOf(hash0: number, hash1: number): number {
  return (hash0 ^ hash1) >>> 0;
}
