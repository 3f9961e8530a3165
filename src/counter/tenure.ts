/**
 * The time between two sharings out of the partitions, in which this process may count and write.
 *
 * X1 Once it is over nothing is written: everything that others see is asked for here first.
 */

import { LedgerError } from '../platform/errors.ts';
import { sleep } from '../platform/sleep.ts';

export class Tenure {
  readonly #running = new AbortController();
  #isOver = false;

  /** Whether to go on counting. */
  get isRunning(): boolean {
    return !this.#running.signal.aborted;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Counting ends; what is counted may still be written. */
  pause(): void {
    this.#running.abort();
  }

  end(): void {
    this.#isOver = true;
    this.#running.abort();
  }

  /** X1. */
  assertNotOver(): void {
    if (this.#isOver)
      throw new LedgerError('partition_lost', 'partitions are being shared out anew');
  }

  /** Ends early when counting ends. */
  async sleep(ms: number): Promise<void> {
    await sleep(ms, this.#running.signal);
  }
}
