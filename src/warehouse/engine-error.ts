/** Which of the engine's errors may pass by themselves. All others are bugs and go on as they are. */
import { ClickHouseError } from '@clickhouse/client';
import { LedgerError } from '../platform/errors.ts';

/** Time-out, too many queries, memory, disk space, too many parts, too slow, shutting down. */
const PASSING_CODES = new Set([
  '159',
  '160',
  '202',
  '209',
  '210',
  '236',
  '241',
  '243',
  '252',
  '394',
]);
const PASSING_IO = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND']);

export function engineError(error: unknown): unknown {
  if (!isPassing(error)) return error;
  return new LedgerError('warehouse_unavailable', 'The warehouse cannot take this now.', {
    kind: 'retry',
    hint: 'See the cause: memory, disk space, load or connection of the warehouse.',
    cause: error,
  });
}

function isPassing(error: unknown): boolean {
  if (error instanceof ClickHouseError) return PASSING_CODES.has(error.code);
  return error instanceof Error && 'code' in error && PASSING_IO.has(String(error.code));
}
