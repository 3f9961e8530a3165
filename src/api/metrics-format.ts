/**
 * A metrics answer as JSON, CSV or NDJSON: the same rows with the same numbers.
 *
 * Ids are texts in both. CSV follows RFC 4180; a cell that a spreadsheet would take for a formula
 * gets a `'` in front. Of all values only an id that begins with `-` can be such a cell; programs
 * that must have it exactly take JSON.
 */
import { csvCell } from '../platform/csv-cell.ts';
import { formatInZone } from '../warehouse/buckets.ts';
import type { AnswerFrame, AnswerRow, MetricsAnswer } from './metrics.ts';

export const INTERVAL = '[from,to)';

const CRLF = '\r\n';
const COLUMN = {
  ad: ['ad_id', (row: AnswerRow) => row.adId],
  campaign: ['campaign_id', (row: AnswerRow) => row.campaignId],
  country: ['country', (row: AnswerRow) => row.country],
  device: ['device', (row: AnswerRow) => row.device],
} as const;

/** An instant of the ledger itself, in UTC; null when there is none yet. */
export function instantOrNull(ms: number): string | null {
  return Number.isFinite(ms) && ms > 0 ? new Date(ms).toISOString() : null;
}

/** Which rows an answer is about, and how far their numbers are known. */
export function frameJson({ query, finalUntilMs, asOfMs }: AnswerFrame): object {
  return {
    final_until: instantOrNull(finalUntilMs),
    from: formatInZone(query.fromMs, query.timezone),
    to: formatInZone(query.toMs, query.timezone),
    interval: INTERVAL,
    timezone: query.timezone,
    granularity: query.granularity,
    as_of: instantOrNull(asOfMs),
  };
}

export function metricsJson(answer: MetricsAnswer): object {
  const { rows, nextCursor } = answer;
  return {
    rows: rows.map(rowJson),
    ...frameJson(answer),
    truncated: nextCursor !== null,
    next_cursor: nextCursor,
  };
}

/** Columns that were not asked for are undefined, and so are left out. */
export function rowJson(row: AnswerRow): object {
  return {
    bucket_start: row.bucketStart,
    ad_id: row.adId,
    campaign_id: row.campaignId,
    country: row.country,
    device: row.device,
    clicks: row.clicks,
    final: row.final,
  };
}

export function metricsCsv({ query, rows }: MetricsAnswer): string {
  const groups = query.groupBy.map((group) => COLUMN[group]);
  const withBucket = query.granularity !== 'total';
  const header = [...(withBucket ? ['bucket_start'] : []), ...groups.map(([name]) => name)];
  const lines = [[...header, 'clicks', 'final'].join(',')];
  for (const row of rows) {
    const cells = groups.map(([, value]) => csvCell(value(row) ?? ''));
    if (withBucket) cells.unshift(csvCell(row.bucketStart ?? ''));
    lines.push([...cells, String(row.clicks), String(row.final)].join(','));
  }
  return lines.join(CRLF) + CRLF;
}

/** What JSON says beside the rows; CSV has room for it in the headers only. */
export function frameHeaders(frame: AnswerFrame): Record<string, string> {
  const { query } = frame;
  const finalUntil = instantOrNull(frame.finalUntilMs);
  const asOf = instantOrNull(frame.asOfMs);
  return {
    'X-Interval': `${formatInZone(query.fromMs, query.timezone)}/${formatInZone(query.toMs, query.timezone)}`,
    'X-Timezone': query.timezone,
    'X-Granularity': query.granularity,
    ...(finalUntil === null ? {} : { 'X-Final-Until': finalUntil }),
    ...(asOf === null ? {} : { 'X-As-Of': asOf }),
  };
}

export function metricsHeaders(answer: MetricsAnswer): Record<string, string> {
  const { nextCursor } = answer;
  return {
    'X-Truncated': String(nextCursor !== null),
    ...frameHeaders(answer),
    ...(nextCursor === null ? {} : { 'X-Next-Cursor': nextCursor }),
  };
}
