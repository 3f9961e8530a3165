/**
 * A cache that never holds more than `2 × limit` entries and never scans: when the young generation
 * is full it becomes the old one and the old one is dropped. An entry in use moves to the young one.
 *
 * Bounded because its keys come from strangers: a client that sends a new user agent with each
 * request must not grow the process.
 */
export class BoundedCache<Value> {
  readonly #limit: number;
  #young = new Map<string, Value>();
  #old = new Map<string, Value>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(key: string): Value | undefined {
    const young = this.#young.get(key);
    if (young !== undefined) return young;
    const old = this.#old.get(key);
    if (old !== undefined) this.set(key, old);
    return old;
  }

  set(key: string, value: Value): void {
    if (this.#young.size >= this.#limit) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(key, value);
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }
}
