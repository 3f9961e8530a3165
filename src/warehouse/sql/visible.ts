/** W3 as a predicate: a final row is seen when it carries the attempt in force for its unit. */
import type { Visibility } from '../published.ts';
import { type Params, toSeconds } from './sql.ts';

/** The start of the UTC hour that a `minute` column lies in, in seconds. */
export const HOUR_OF_MINUTE = 'toUInt32(toUnixTimestamp(minute) - toUnixTimestamp(minute) % 3600)';

/** `unitSeconds` is the SQL for the start of the row's unit; attempt 0 matches no row. */
export function visibleSql(params: Params, unitSeconds: string, visibility: Visibility): string {
  const base = params.add('UInt32', visibility.base);
  if (visibility.startsMs.length === 0) return `attempt = ${base}`;
  const starts = params.add('Array(UInt32)', visibility.startsMs.map(toSeconds));
  const attempts = params.add('Array(UInt32)', visibility.attempts);
  return `attempt = transform(${unitSeconds}, ${starts}, ${attempts}, ${base})`;
}
