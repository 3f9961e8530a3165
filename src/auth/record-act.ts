/** Runs an act between its two lines of the audit log; for commands that change things directly. */
import { LedgerError } from '../platform/errors.ts';
import type { AuditAct, AuditEnd, AuditLog } from './audit-log.ts';

/** Says more about the act than was known before it: the id of what was made, how many. */
export type NoteAct = (more: Pick<AuditEnd, 'target' | 'detail'>) => void;

/**
 * What holds if the process dies after
 *  1. the line `started`: the act may have happened or not, and the log says that it began;
 *  2. the act: the same;
 *  3. the line with the outcome: all is told.
 */
export async function recordAct<T>(
  audit: AuditLog,
  act: AuditAct,
  run: (note: NoteAct) => Promise<T> | T,
): Promise<T> {
  const id = await audit.begin(act); // 1
  let more: Pick<AuditEnd, 'target' | 'detail'> = {};
  let result: T;
  try {
    result = await run((each) => {
      more = { ...more, ...each };
    }); // 2
  } catch (error) {
    await audit.end(id, { ...more, ...endOfError(error) });
    throw error;
  }
  await audit.end(id, { detail: countsOf(result), ...more, outcome: 'ok' }); // 3
  return result;
}

export function endOfError(error: unknown): Pick<AuditEnd, 'outcome' | 'code'> {
  if (!(error instanceof LedgerError)) return { outcome: 'failed', code: 'internal' };
  return { outcome: error.kind === 'retry' ? 'failed' : 'refused', code: error.code };
}

/** The counts of an act's result, e.g. `taken=5 hours=2`: never texts, which may be secrets. */
export function countsOf(result: unknown): string {
  if (typeof result !== 'object' || result === null) return '';
  return Object.entries(result)
    .flatMap(([name, value]) => {
      if (typeof value === 'number') return name.endsWith('Ms') ? [] : [`${name}=${value}`];
      return Array.isArray(value) ? [`${name}=${value.length}`] : [];
    })
    .join(' ');
}
