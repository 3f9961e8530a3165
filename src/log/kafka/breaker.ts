/**
 * Keeps clicks from waiting for a broker that has just failed others: a circuit breaker a broker.
 *
 * It opens when failures in a row last for a while: a pause of a broker (garbage, an election) is over
 * before that, and what ran into it has been spooled by itself.
 *
 * closed: all go through. open: none, for `openMs`. half-open: one record is the probe; its fate
 * decides. A probe of which nothing is heard does not block the next one.
 */
export type BreakerState = 'closed' | 'open' | 'half-open';

export interface BreakerOptions {
  /** Failures in a row that open it. */
  readonly failures: number;
  /** … when the first of them was so long ago. */
  readonly lastingMs: number;
  readonly openMs: number;
}

export class Breaker {
  readonly #options: BreakerOptions;
  #state: BreakerState = 'closed';
  #failures = 0;
  #firstFailureMs = 0;
  /** When it opened, or sent its probe, on the caller's clock. */
  #sinceMs = 0;
  opened = 0;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get state(): BreakerState {
    return this.#state;
  }

  /** Whether one more record may go through; asking makes it the probe when one is due. */
  allows(nowMs: number): boolean {
    if (this.#state === 'closed') return true;
    if (nowMs - this.#sinceMs < this.#options.openMs) return false;
    this.#state = 'half-open';
    this.#sinceMs = nowMs;
    return true;
  }

  succeeded(): void {
    // What was sent before it opened and came through late says nothing about now.
    if (this.#state === 'open') return;
    this.#state = 'closed';
    this.#failures = 0;
  }

  failed(nowMs: number): void {
    if (this.#state === 'open') return;
    if (this.#failures++ === 0) this.#firstFailureMs = nowMs;
    const { failures, lastingMs } = this.#options;
    const lasts = this.#failures >= failures && nowMs - this.#firstFailureMs >= lastingMs;
    if (this.#state === 'closed' && !lasts) return;
    this.#state = 'open';
    this.#sinceMs = nowMs;
    this.#failures = 0;
    this.opened++;
  }
}
