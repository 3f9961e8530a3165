/** Which of the engine's errors may pass by themselves. All others are bugs and go on as they are. */
import { ClickHouseError } from '@clickhouse/client';
import { LedgerError } from '../platform/errors.ts';

/** Names as the engine has them; those below the line come from servers with replicas only. */
const PASSING_CODES = new Set([
  '159', // TIMEOUT_EXCEEDED
  '160', // TOO_SLOW
  '202', // TOO_MANY_SIMULTANEOUS_QUERIES
  '209', // SOCKET_TIMEOUT
  '210', // NETWORK_ERROR
  '236', // ABORTED
  '241', // MEMORY_LIMIT_EXCEEDED
  '243', // NOT_ENOUGH_SPACE
  '252', // TOO_MANY_PARTS
  '394', // QUERY_WAS_CANCELLED
  // ————
  '198', // DNS_ERROR
  '203', // NO_FREE_CONNECTION
  '225', // NO_ZOOKEEPER
  '242', // TABLE_IS_READ_ONLY
  '279', // ALL_CONNECTION_TRIES_FAILED
  '285', // TOO_FEW_LIVE_REPLICAS
  '286', // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
  '289', // REPLICA_IS_NOT_IN_QUORUM
  '319', // UNKNOWN_STATUS_OF_INSERT
  '341', // UNFINISHED
  '369', // ALL_REPLICAS_ARE_STALE
  '439', // CANNOT_SCHEDULE_TASK
  '517', // CANNOT_ASSIGN_ALTER
  '999', // KEEPER_EXCEPTION
]);
const PASSING_IO = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND']);

export function engineError(error: unknown): unknown {
  return isPassing(error) ? unavailable(error) : error;
}

export function unavailable(cause: unknown): LedgerError {
  return new LedgerError('warehouse_unavailable', 'The warehouse cannot take this now.', {
    kind: 'retry',
    hint: 'See the cause: memory, disk space, load or connection of the warehouse.',
    cause,
  });
}

function isPassing(error: unknown): boolean {
  if (error instanceof ClickHouseError) return PASSING_CODES.has(error.code);
  return error instanceof Error && 'code' in error && PASSING_IO.has(String(error.code));
}

/** Of a query with limits of its own (see `sql/metrics.ts`): which limit it met. */
const QUERY_LIMITS: Readonly<Record<string, string>> = {
  '159': 'took longer than a query may',
  '241': 'needed more memory than a query may have',
};

/** A limit that the query itself met does not pass by waiting: the caller asks for less. */
export function queryError(error: unknown): unknown {
  const cause = error instanceof LedgerError ? error.cause : undefined;
  if (!(cause instanceof ClickHouseError)) return error;
  const limit = QUERY_LIMITS[cause.code];
  // The engine's own memory running out is not this query's fault.
  const isOwn = cause.code !== '241' || /^Query memory limit/.test(cause.message);
  if (limit === undefined || !isOwn) return error;
  return new LedgerError('query_too_large', `This query ${limit}.`, {
    hint: 'Ask for a shorter range, fewer groups, a coarser granularity, or fewer ads at once: [a, b) and [b, c) add up exactly.',
    cause,
  });
}
