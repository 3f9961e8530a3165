/** Trying again for a bounded time, as long as what failed may work later. */
import { monotonicMs } from '../../platform/clock.ts';
import { LedgerError } from '../../platform/errors.ts';
import { unreachable } from './connections.ts';

export const DEFAULT_PATIENCE_MS = 5_000;
const MIN_BACKOFF_MS = 20;
const MAX_BACKOFF_MS = 500;

export interface Patience {
  readonly patienceMs: number;
  /** What to learn anew before the next attempt; when it fails, the attempt is made all the same. */
  readonly beforeNext?: () => Promise<unknown>;
}

/** What says `refuse` is thrown at once. */
export async function patiently<T>(
  { patienceMs, beforeNext }: Patience,
  attempt: () => Promise<T>,
): Promise<T> {
  const untilMs = monotonicMs() + patienceMs;
  let backoffMs = MIN_BACKOFF_MS;
  for (;;) {
    let failure: unknown;
    try {
      return await attempt();
    } catch (error) {
      rethrowRefusal(error);
      failure = error;
    }
    if (monotonicMs() + backoffMs >= untilMs) {
      if (failure instanceof LedgerError) throw failure;
      throw unreachable('the brokers do not answer', failure);
    }
    await Bun.sleep(backoffMs);
    backoffMs = Math.min(MAX_BACKOFF_MS, backoffMs * 2);
    await beforeNext?.().catch(rethrowRefusal);
  }
}

function rethrowRefusal(error: unknown): void {
  if (error instanceof LedgerError && error.kind === 'refuse') throw error;
}
