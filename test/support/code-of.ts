/** How an expected failure is told apart: by its code. */
import { LedgerError } from '../../src/platform/errors.ts';

/** The code of the LedgerError that `work` ends with, or `ok`; anything else is thrown on. */
export async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error;
    return error.code;
  }
  return 'ok';
}
