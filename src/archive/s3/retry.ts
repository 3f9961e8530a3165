/** Attempts, how long each may take, and the waits between them. */
import { monotonicMs } from '../../platform/clock.ts';
import { Interrupted } from './failures.ts';

export interface RetryPolicy {
  readonly maxAttempts: number;
  /** No attempt begins later than this after the first one began. */
  readonly maxElapsedMs: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
  /** From 0 to below 1. */
  readonly random: () => number;
  readonly sleep: (ms: number) => Promise<unknown>;
}

/**
 * Exponential backoff with full jitter: the wait is anywhere between nothing and the bound, so that
 * many who failed together do not come back together.
 */
export async function retrying<T>(
  policy: RetryPolicy,
  isPassing: (error: unknown) => boolean,
  work: () => Promise<T>,
): Promise<T> {
  const startMs = monotonicMs();
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isPassing(error) || attempt >= policy.maxAttempts) throw error;
      const bound = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1));
      const delayMs = policy.random() * bound;
      if (monotonicMs() - startMs + delayMs > policy.maxElapsedMs) throw error;
      await policy.sleep(delayMs);
    }
  }
}

export interface Attempt {
  readonly signal: AbortSignal;
  /** Gives the attempt this long from now, for what turned out to be large. */
  readonly extend: (timeoutMs: number) => void;
}

/**
 * Runs one attempt and gives up on it after `timeoutMs`, whatever it hangs in. What the server does
 * with it afterwards is not known: the request must be one that can be repeated.
 */
export async function within<T>(
  timeoutMs: number,
  work: (attempt: Attempt) => Promise<T>,
): Promise<T> {
  const abort = new AbortController();
  let timer: Timer | undefined;
  try {
    return await new Promise<T>((resolve, reject) => {
      const extend = (ms: number) => {
        clearTimeout(timer);
        timer = setTimeout(() => {
          reject(new Interrupted(`no answer within ${ms} ms`));
          abort.abort();
        }, ms);
      };
      extend(timeoutMs);
      work({ signal: abort.signal, extend }).then(resolve, reject);
    });
  } finally {
    clearTimeout(timer);
  }
}
