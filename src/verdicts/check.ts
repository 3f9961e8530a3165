/** From lines of verdicts to verdicts, or everything that is wrong with the lines. */
import { isId } from '../event/click-event.ts';
import { LedgerError } from '../platform/errors.ts';
import { type Columns, columnProblem, quoted } from '../platform/row-types.ts';
import type { NewVerdict, VerdictProgress, VerdictRow } from './port.ts';

export const VERDICT_COLUMNS: Columns = {
  required: ['impression_id', 'valid', 'reason'],
  optional: [],
};
/** All of a request's verdicts are in memory until they are stored. */
export const MAX_VERDICTS = 1_000_000;
export const MAX_REASON_LENGTH = 200;
const PROBLEMS_SHOWN = 20;
const PROGRESS_EVERY = 10_000;

/** Throws LedgerError `verdicts_invalid` with the wrong lines, or `verdicts_too_many`. */
export async function checkVerdicts(
  rows: AsyncIterable<VerdictRow> | Iterable<VerdictRow>,
  progress: VerdictProgress,
): Promise<NewVerdict[]> {
  const verdicts: NewVerdict[] = [];
  const problems: string[] = [];
  let wrong = 0;
  let checked = 0;
  for await (const { line, record, problem } of rows) {
    if (++checked > MAX_VERDICTS) throw tooMany();
    const found = problem ?? problemOf(record);
    if (found === null) {
      // Once a row is wrong nothing will be stored: the rest is only checked.
      if (wrong === 0) verdicts.push(verdictOf(record));
    } else {
      wrong++;
      if (problems.length < PROBLEMS_SHOWN) problems.push(`line ${line}: ${found}`);
    }
    if (checked % PROGRESS_EVERY === 0) progress('checking', checked);
  }
  if (wrong > 0) throw invalid(problems, wrong, checked);
  return verdicts;
}

function problemOf(record: VerdictRow['record']): string | null {
  const columns = columnProblem(Object.keys(record), VERDICT_COLUMNS);
  if (columns !== null) return columns;
  const { impression_id: id, valid, reason } = record;
  const problems: string[] = [];
  if (typeof id !== 'string' || !isId(id)) {
    problems.push(`impression_id ${shown(id)} is not 1 to 128 of A–Z a–z 0–9 . _ ~ -`);
  }
  if (isValid(valid) === null) problems.push(`valid ${shown(valid)} is not true or false`);
  if (typeof reason !== 'string') problems.push(`reason ${shown(reason)} is not text`);
  else if (reason.length > MAX_REASON_LENGTH) {
    problems.push(`reason has ${reason.length} characters, at most ${MAX_REASON_LENGTH}`);
  } else if (/\p{Cc}|\p{Cs}/u.test(reason)) problems.push('reason has control characters');
  return problems.length > 0 ? problems.join('; ') : null;
}

function verdictOf(record: VerdictRow['record']): NewVerdict {
  const { impression_id, valid, reason } = record;
  return {
    impressionId: impression_id as string,
    valid: isValid(valid) === true,
    reason: reason as string,
  };
}

/** CSV has no other way to say true and false than as text. */
function isValid(value: unknown): boolean | null {
  if (typeof value === 'boolean') return value;
  return value === 'true' ? true : value === 'false' ? false : null;
}

function shown(value: unknown): string {
  return typeof value === 'string' ? quoted(value) : quoted(JSON.stringify(value) ?? 'nothing');
}

function tooMany(): LedgerError {
  const message = `more than ${MAX_VERDICTS} lines, nothing was taken`;
  return new LedgerError('verdicts_too_many', message, { hint: 'Give them in several requests.' });
}

function invalid(problems: readonly string[], wrong: number, checked: number): LedgerError {
  const more = wrong - problems.length;
  const lines = more > 0 ? [...problems, `and ${more} more`] : problems;
  const message = `${wrong} of ${checked} lines are wrong, nothing was taken:\n${lines.join('\n')}`;
  return new LedgerError('verdicts_invalid', message, {
    hint: 'Correct the lines, or take them out, and give all of them again.',
  });
}
