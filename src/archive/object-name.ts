/** What may be the name of an object, the same in every adapter of the store. */
import { LedgerError } from '../platform/errors.ts';

/** A leading dot is refused: it keeps `.`, `..` and what an adapter keeps for itself out of reach. */
const SEGMENT = /^[A-Za-z0-9_=-][A-Za-z0-9._=-]*$/;
const MAX_NAME_LENGTH = 512;

/** Whether one part of a name, between slashes, can be part of an object's name. */
export const isNameSegment = (segment: string): boolean => SEGMENT.test(segment);

export function isObjectName(name: string): boolean {
  return name.length <= MAX_NAME_LENGTH && name.split('/').every(isNameSegment);
}

export function requireObjectName(name: string): void {
  if (isObjectName(name)) return;
  throw new LedgerError('object_name', `${JSON.stringify(name)} is no name for an object`);
}
