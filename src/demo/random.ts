/** A small seeded generator (mulberry32): the same seed gives the same traffic, on every machine. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** An integer from 0 to 2³² − 1. */
  uint32(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  /** From 0 up to, not including, 1. */
  fraction(): number {
    return this.uint32() / 2 ** 32;
  }

  /** An integer from 0 up to, not including, `end`. */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  chance(share: number): boolean {
    return this.fraction() < share;
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)]!;
  }

  /** A UUIDv7 of the given moment. */
  uuid(atMs: number): string {
    const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, '0');
    const time = hex(atMs, 12);
    const middle = `7${hex(this.below(0x1000), 3)}-${hex(0x8000 | this.below(0x4000), 4)}`;
    const end = hex(this.uint32(), 8) + hex(this.below(0x10000), 4);
    return `${time.slice(0, 8)}-${time.slice(8)}-${middle}-${end}`;
  }
}
