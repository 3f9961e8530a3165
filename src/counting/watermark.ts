/**
 * Watermarks: how far event time has come, per partition.
 *
 * A partition's watermark is the largest `clicked_at` seen in it minus a lag. It decides lateness
 * for that partition's own records, so that the decision is a function of the partition's log alone
 * and no reading order between partitions can change a count.
 */
export class Watermarks {
  readonly #lagMs: number;
  readonly #largest = new Map<number, number>();
  #lastPartition = -1;
  #lastLargest = Number.NEGATIVE_INFINITY;

  constructor(lagMs: number) {
    this.#lagMs = lagMs;
  }

  observe(partition: number, clickedAtMs: number): void {
    if (clickedAtMs <= this.#largestOf(partition)) return;
    this.#largest.set(partition, clickedAtMs);
    this.#lastLargest = clickedAtMs;
  }

  /** −Infinity before the first record. */
  of(partition: number): number {
    return this.#largestOf(partition) - this.#lagMs;
  }

  /** Asked several times for every record, mostly for the same partition as before. */
  #largestOf(partition: number): number {
    if (partition !== this.#lastPartition) {
      this.#lastPartition = partition;
      this.#lastLargest = this.#largest.get(partition) ?? Number.NEGATIVE_INFINITY;
    }
    return this.#lastLargest;
  }

  /**
   * The whole counter's watermark: the minimum over partitions that are not idle. A partition is
   * idle when it has nothing new and is fully read. With none left, event time is not held back by
   * anything: null.
   */
  overall(isIdle: (partition: number) => boolean): number | null {
    let minimum: number | null = null;
    for (const partition of this.#largest.keys()) {
      if (isIdle(partition)) continue;
      const watermark = this.of(partition);
      if (minimum === null || watermark < minimum) minimum = watermark;
    }
    return minimum;
  }

  /** Largest `clicked_at` per partition, to be kept with the state. */
  entries(): ReadonlyMap<number, number> {
    return this.#largest;
  }
}
