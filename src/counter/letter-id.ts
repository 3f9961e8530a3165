/** The id of a dead letter: its position in the log. */
import { LedgerError } from '../platform/errors.ts';

export interface LetterPosition {
  readonly partition: number;
  readonly offset: number;
}

export function letterId({ partition, offset }: LetterPosition): string {
  return `${partition}-${offset}`;
}

/** Throws LedgerError `dead_letter_id`. */
export function letterPosition(id: string): LetterPosition {
  const match = /^(\d{1,5})-(\d{1,15})$/.exec(id);
  if (match === null) {
    throw new LedgerError('dead_letter_id', `"${id}" is not a dead letter's id`, {
      hint: 'Ids look like 0-1234; "clickledger dlq list" shows them.',
    });
  }
  return { partition: Number(match[1]), offset: Number(match[2]) };
}
