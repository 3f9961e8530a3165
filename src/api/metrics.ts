/** Answers one metrics query: a page, which of its numbers are final, and where the next begins. */
import { bucketsOf, MINUTE_MS } from '../warehouse/buckets.ts';
import type { MetricsQuery, MetricsRow, Warehouse } from '../warehouse/port.ts';
import { encodeCursor, positionOf } from './cursor.ts';
import { filledPage } from './fill.ts';
import type { MetricsRequest } from './metrics-request.ts';

export interface MetricsParts {
  readonly warehouse: Pick<Warehouse, 'metrics'>;
  readonly finalUntilMs: () => number;
  readonly asOfMs: () => number;
}

export interface AnswerRow extends MetricsRow {
  readonly final: boolean;
}

export interface MetricsAnswer {
  readonly query: MetricsRequest['query'];
  readonly rows: readonly AnswerRow[];
  readonly finalUntilMs: number;
  readonly asOfMs: number;
  readonly nextCursor: string | null;
}

export async function answerMetrics(
  parts: MetricsParts,
  request: MetricsRequest,
): Promise<MetricsAnswer> {
  // Before the rows are read: what the warehouse takes meanwhile may be in them, never the other way.
  const asOfMs = parts.asOfMs();
  const { after, finalUntilMs } = positionOf(request, parts.finalUntilMs());
  const query = { ...request.query, after };
  const page = request.fillZero
    ? await filledPage(parts.warehouse, query, finalUntilMs)
    : await parts.warehouse.metrics(query, finalUntilMs);
  const isFinal = finality(query, finalUntilMs);
  return {
    query: request.query,
    rows: page.rows.map((row) => ({ ...row, final: isFinal(row.bucketStart) })),
    finalUntilMs,
    asOfMs,
    nextCursor:
      page.next === undefined ? null : encodeCursor(request, { after: page.next, finalUntilMs }),
  };
}

/** A row is final when its bucket, as far as the range holds it, ends by `finalUntilMs`. */
function finality(
  query: MetricsQuery,
  finalUntilMs: number,
): (bucketStart: string | undefined) => boolean {
  if (query.toMs <= finalUntilMs) return () => true;
  if (query.granularity === 'total' || finalUntilMs <= query.fromMs) return () => false;
  // The bucket that the end of the final hours lies in, and all after it, are not final.
  const next = finalUntilMs + MINUTE_MS;
  const edgeMs = bucketsOf(query.granularity, query.timezone, finalUntilMs, next).startMs(0);
  let known: string | undefined;
  let answer = false;
  return (bucketStart) => {
    if (bucketStart !== known) {
      known = bucketStart;
      answer = Date.parse(bucketStart!) < edgeMs;
    }
    return answer;
  };
}
