/**
 * Does an insert of live rows again when it failed in a way that passes, with the very same rows and
 * version: should the first have arrived after all, the second changes nothing (W2).
 *
 * For a short while only. The caller holds what it could not write and comes again with newer counts;
 * longer patience here would keep those back.
 */
import { LedgerError } from '../../platform/errors.ts';
import { isTooManyParts } from './errors.ts';

const WAITS_MS = [250, 1_000];
/** Merges need longer than a connection to come back. */
const TOO_MANY_PARTS_FACTOR = 3;

export type Repeat = (insert: () => Promise<void>) => Promise<void>;

export function repeating(sleep: (ms: number) => Promise<unknown>): Repeat {
  return async (insert) => {
    for (const waitMs of WAITS_MS) {
      try {
        return await insert();
      } catch (error) {
        if (!(error instanceof LedgerError) || error.code !== 'warehouse_unavailable') throw error;
        await sleep(isTooManyParts(error) ? waitMs * TOO_MANY_PARTS_FACTOR : waitMs);
      }
    }
    await insert();
  };
}
