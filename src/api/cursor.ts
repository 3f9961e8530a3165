/**
 * The cursor of a metrics query: where the page ended, which query it belongs to, and from where on
 * its first page took live numbers.
 *
 * C1 All pages of a query use the first page's `final_until`. An hour that turned final between two
 *    pages would otherwise mix two counts of the same clicks.
 * C2 A cursor is refused with any other query; `limit` may change.
 */
import { createHash } from 'node:crypto';
import { LedgerError } from '../platform/errors.ts';
import { DAY_MS, HOUR_MS } from '../warehouse/buckets.ts';
import type { MetricsRequest } from './metrics-request.ts';

export interface Position {
  readonly after: readonly string[];
  readonly finalUntilMs: number;
}

/** Live rows that a page rests on must not have expired when the last page is read. */
const MAX_AGE_MS = 7 * DAY_MS;

export function encodeCursor(request: MetricsRequest, { after, finalUntilMs }: Position): string {
  const content = { q: fingerprint(request), f: finalUntilMs, a: after };
  return Buffer.from(JSON.stringify(content)).toString('base64url');
}

/** The position that a cursor names, or the beginning when there is none. */
export function positionOf(
  request: MetricsRequest,
  finalUntilMs: number,
): Omit<Position, 'after'> & { readonly after: readonly string[] | undefined } {
  if (request.cursor === undefined) return { after: undefined, finalUntilMs };
  const content = decode(request.cursor);
  if (content?.q !== fingerprint(request)) {
    throw refusal('The cursor does not belong to this query.', 'Repeat all of its parameters.');
  }
  const { f, a } = content;
  if (typeof f !== 'number' || !Array.isArray(a) || !a.every((each) => typeof each === 'string')) {
    throw refusal('The cursor is damaged.', 'Send it as it was given.');
  }
  if (f % HOUR_MS !== 0 || f > finalUntilMs || f < finalUntilMs - MAX_AGE_MS) {
    throw refusal('The cursor is too old.', 'Start again without a cursor.');
  }
  return { after: a, finalUntilMs: f };
}

function decode(cursor: string): { q?: unknown; f?: unknown; a?: unknown } | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    return typeof value === 'object' ? value : null;
  } catch {
    return null;
  }
}

function refusal(message: string, hint: string): LedgerError {
  return new LedgerError('cursor_invalid', message, { hint });
}

function fingerprint({ query, fillZero }: MetricsRequest): string {
  const sorted = (values: readonly string[] | undefined): string[] | null =>
    values === undefined ? null : [...values].sort();
  const parts = [
    query.advertiserId,
    sorted(query.adIds),
    sorted(query.campaignIds),
    sorted(query.countries),
    sorted(query.devices),
    sorted(query.adIdsNot),
    sorted(query.campaignIdsNot),
    sorted(query.countriesNot),
    sorted(query.devicesNot),
    query.fromMs,
    query.toMs,
    query.granularity,
    query.timezone,
    query.groupBy,
    query.orderBy,
    fillZero,
  ];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 16);
}
