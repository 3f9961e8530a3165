/**
 * What a server's failures mean. Everything that is not an answer of ClickHouse itself is the way to
 * it: a closed connection, a time-out, a page of some proxy. It passes, and what was sent may have
 * arrived all the same.
 */
import { ClickHouseError } from '@clickhouse/client';
import { LedgerError } from '../../platform/errors.ts';
import { engineError, unavailable } from '../engine-error.ts';

/** Answers that somebody has to mend at the server or in the configuration. */
const REFUSALS: Readonly<Record<string, string>> = {
  '81': 'The database does not exist there; create it, see docs/operating/clickhouse.md.',
  '115': 'The server does not know a setting that is needed; it is too old.',
  '164': 'The user may only read; see docs/operating/clickhouse.md for the grants.',
  '192': 'The user is unknown there; see warehouse.clickhouse.username.',
  '194': 'The user needs a password; see CLICKHOUSE_PASSWORD.',
  '452': "A constraint of the user's profile forbids a setting that is needed.",
  '497': 'The user lacks a grant; see docs/operating/clickhouse.md.',
  '516':
    'User name or password is wrong; see warehouse.clickhouse.username and CLICKHOUSE_PASSWORD.',
  '701': 'The server knows no such cluster; see warehouse.clickhouse.cluster.',
};

/** Of every error that the client throws. */
export function serverError(error: unknown): unknown {
  if (!(error instanceof ClickHouseError)) return unavailable(error);
  const hint = REFUSALS[error.code];
  if (hint === undefined) return engineError(error);
  // "Later" in so far as nothing of the call is wrong: rows are held, and the API says 503.
  return new LedgerError('warehouse_refuses', 'The warehouse refuses to work for this user.', {
    kind: 'retry',
    hint,
    cause: error,
  });
}

export function isTooManyParts(error: unknown): boolean {
  const cause = error instanceof LedgerError ? error.cause : undefined;
  return cause instanceof ClickHouseError && cause.code === '252';
}
