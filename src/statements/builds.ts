/**
 * One build at a time, in the order of asking: a build holds a period's rows and both files in memory,
 * and two of one statement would fight for one version. How many wait is bounded, in all and per
 * advertiser, so that nobody's builds keep the others' away.
 */
import { LedgerError } from '../platform/errors.ts';

const MOST_IN_ALL = 16;
const MOST_PER_ADVERTISER = 4;

export class Builds {
  readonly #asked = new Map<string, number>();
  #inAll = 0;
  #last: Promise<unknown> = Promise.resolve();

  async run<T>(advertiserId: string, build: () => Promise<T>): Promise<T> {
    const own = this.#asked.get(advertiserId) ?? 0;
    if (this.#inAll >= MOST_IN_ALL || own >= MOST_PER_ADVERTISER) {
      throw new LedgerError('statements_busy', 'other statements are being made', {
        kind: 'retry',
        hint: 'Ask again when they are done.',
      });
    }
    this.#inAll++;
    this.#asked.set(advertiserId, own + 1);
    const result = this.#last.then(build);
    // The next one does not depend on this one's success; its caller sees the error.
    this.#last = result.catch(() => undefined);
    try {
      return await result;
    } finally {
      this.#inAll--;
      const left = this.#asked.get(advertiserId)! - 1;
      if (left === 0) this.#asked.delete(advertiserId);
      else this.#asked.set(advertiserId, left);
    }
  }
}
