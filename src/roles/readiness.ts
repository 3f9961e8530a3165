/** What a role waits for, in words: before it has opened what it needs, and afterwards. */
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import { sleep } from '../platform/sleep.ts';

const MIN_RETRY_MS = 500;
const MAX_RETRY_MS = 5_000;
const STARTING = 'starting';

/** The role was told to stop before it had begun. */
export class StoppedWaiting extends Error {}

export class Readiness {
  readonly #stop: AbortSignal;
  readonly #logger: Logger;
  #opening = STARTING;
  /** Set once everything is open. */
  #working: (() => string | null) | null = null;

  constructor(stop: AbortSignal, logger: Logger) {
    this.#stop = stop;
    this.#logger = logger;
  }

  /** Null while the role does its work. */
  waitsFor(): string | null {
    return this.#working === null ? this.#opening : this.#working();
  }

  works(waitsFor: () => string | null): void {
    this.#working = waitsFor;
  }

  /**
   * Opens something that may be away: tries until it is there. What no other try will mend is thrown.
   */
  async until<T>(what: string, open: () => Promise<T>): Promise<T> {
    this.#opening = what;
    for (let retryMs = MIN_RETRY_MS; ; retryMs = Math.min(MAX_RETRY_MS, retryMs * 2)) {
      if (this.#stop.aborted) throw new StoppedWaiting();
      try {
        const opened = await unlessAborted(open(), this.#stop);
        this.#opening = STARTING;
        return opened;
      } catch (error) {
        if (!(error instanceof LedgerError) || error.kind !== 'retry') throw error;
        this.#opening = `${what}: ${error.message}`;
        this.#logger.warn({ err: error, retryMs }, `waits for ${what}`);
      }
      await sleep(retryMs, this.#stop);
    }
  }
}

/** What the work gives, but not once it is to stop: what hangs then is nobody's any more. */
async function unlessAborted<T>(work: Promise<T>, stop: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const end = (): void => reject(new StoppedWaiting());
  stop.addEventListener('abort', end);
  try {
    return await Promise.race([work, promise]);
  } finally {
    stop.removeEventListener('abort', end);
  }
}

export function untilAborted(stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (stop.aborted) resolve();
    else stop.addEventListener('abort', () => resolve(), { once: true });
  });
}
