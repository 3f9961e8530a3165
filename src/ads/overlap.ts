/**
 * From where changes are read, so that none is missed although transactions commit out of order.
 *
 * A row carries the time that its writer set, and shows later, when its transaction commits. So rows
 * are read again for a while. Reading from `newest seen - overlap` would read a large change again for
 * as long as nothing newer comes; this reads from what was the newest an overlap ago.
 *
 * O1 What is missed by no reading: a row whose writer set its time at most `overlapMs` before its commit,
 *    the difference between the writers' clocks included.
 * O2 `fromUs` moves only by a reading from `fromUs` that is through, and only as far as the newest that
 *    was known `overlapMs` before that reading began. An hour without readings changes nothing in O1.
 */
export class Overlap {
  readonly #overlapMs: number;
  #fromUs: number | null;
  #newestUs: number | null;
  /** When which newest time was known; ascending. */
  #known: { readonly atMs: number; readonly newestUs: number }[] = [];

  constructor(
    overlapMs: number,
    start: { fromUs: number | null; newestUs: number | null; nowMs: number },
  ) {
    this.#overlapMs = overlapMs;
    this.#fromUs = start.fromUs;
    this.#newestUs = null;
    this.saw(start.newestUs, start.nowMs);
  }

  /** To try what a reading would change, before what it read is written. */
  copy(): Overlap {
    const start = { fromUs: this.#fromUs, newestUs: null, nowMs: 0 };
    const copy = new Overlap(this.#overlapMs, start);
    copy.#newestUs = this.#newestUs;
    copy.#known = [...this.#known];
    return copy;
  }

  /** Rows newer than this are read, again and again. Null: all. */
  get fromUs(): number | null {
    return this.#fromUs;
  }

  get newestUs(): number | null {
    return this.#newestUs;
  }

  /** A row of this time was seen. */
  saw(newestUs: number | null, nowMs: number): void {
    if (newestUs === null || newestUs <= (this.#newestUs ?? Number.NEGATIVE_INFINITY)) return;
    this.#newestUs = newestUs;
    this.#known.push({ atMs: nowMs, newestUs });
  }

  /** A reading from `fromUs` that began at `beganMs` is through. */
  through(beganMs: number): void {
    const upToMs = beganMs - this.#overlapMs;
    const next = this.#known.findIndex(({ atMs }) => atMs > upToMs);
    const known = next < 0 ? this.#known.length : next;
    if (known === 0) return;
    this.#fromUs = Math.max(
      this.#fromUs ?? Number.NEGATIVE_INFINITY,
      this.#known[known - 1]!.newestUs,
    );
    // The last one stays: it is what was known at any later time until the next.
    this.#known.splice(0, known - 1);
  }
}
