/**
 * Latencies counted into buckets, in plain fields: for paths on which a metrics library's bookkeeping
 * would be measurable. Whoever exports metrics reads them.
 */
export class LatencyCounts {
  /** Upper bounds, rising; a value on a bound belongs to it. */
  readonly boundsMs: readonly number[];
  /** One more than bounds: what is beyond the last. */
  readonly counts: number[];
  sumMs = 0;

  constructor(boundsMs: readonly number[]) {
    this.boundsMs = boundsMs;
    this.counts = new Array<number>(boundsMs.length + 1).fill(0);
  }

  observe(valueMs: number): void {
    const bounds = this.boundsMs;
    let at = 0;
    while (at < bounds.length && valueMs > bounds[at]!) at++;
    this.counts[at]! += 1;
    this.sumMs += valueMs;
  }
}
