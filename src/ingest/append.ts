/**
 * Appends encoded events to the log and waits until all of them are durable.
 *
 * Owns the bound on what it has in flight, so that a large file shares the log's queue with others
 * instead of filling it. The first failure stops it; what was appended before stays in the log.
 */
import type { ClickLogWriter } from '../log/port.ts';
import { assert, LedgerError } from '../platform/errors.ts';

const MAX_PENDING = 5_000;
/** How long to wait for a queue that others have filled, when nothing of ours will tell. */
const RETRY_MS = 5;

export class DurableAppender {
  readonly #log: ClickLogWriter;
  #durable = 0;
  #pending = 0;
  #failure: LedgerError | null = null;
  #wake: (() => void) | null = null;

  constructor(log: ClickLogWriter) {
    this.#log = log;
  }

  /** Records that are durable by now. */
  get durable(): number {
    return this.#durable;
  }

  /** Resolves when the log has taken the bytes and there is room for more; throws on a failure. */
  async append(bytes: Buffer): Promise<void> {
    while (!this.#tryAppend(bytes)) {
      if (this.#pending > 0) await this.#settled();
      else await Bun.sleep(RETRY_MS);
    }
    while (this.#pending >= MAX_PENDING) await this.#settled();
    if (this.#failure !== null) throw this.#failure;
  }

  /** Resolves when nothing is in flight, durable or not. */
  async drain(): Promise<void> {
    while (this.#pending > 0) await this.#settled();
  }

  /** Throws when not all that was appended is durable. Drain first. */
  assertDurable(): void {
    assert(this.#pending === 0, 'asked for durability with records in flight');
    if (this.#failure !== null) throw this.#failure;
  }

  #tryAppend(bytes: Buffer): boolean {
    this.#pending += 1;
    try {
      this.#log.append(bytes, bytes.length, this.#done);
      return true;
    } catch (error) {
      this.#pending -= 1;
      if (error instanceof LedgerError && error.code === 'log_full_queue') return false;
      throw error;
    }
  }

  readonly #done = (error: Error | null): void => {
    this.#pending -= 1;
    if (error === null) this.#durable += 1;
    else this.#failure ??= failed(error);
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  };

  #settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

function failed(cause: Error): LedgerError {
  return new LedgerError('log_unavailable', `the click log failed: ${cause.message}`, {
    kind: 'retry',
    cause,
  });
}
