/**
 * Sharing one thread and one connection among many partitions: turns to count, and places to read.
 *
 * U1 One partition counts at a time, for a slice; then whatever else waits in the process goes first.
 *    Turns are given in the order in which they were asked for, so none waits for more than one turn of each other.
 */

/** Longest stretch of counting before other work of the process gets a turn. */
export const SLICE_MS = 8;

export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  /** `work` counts for a slice at most. */
  take<T>(work: () => T): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.then(nextRound, nextRound);
    return turn;
  }
}

function nextRound(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** At most `places` pieces of work at once; the others wait in order. */
export class Places {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(places: number) {
    this.#free = places;
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next();
    }
  }
}
