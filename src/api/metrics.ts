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

/** What an answer says beside its rows. */
export interface AnswerFrame {
  readonly query: MetricsRequest['query'];
  readonly finalUntilMs: number;
  readonly asOfMs: number;
}

export interface MetricsAnswer extends AnswerFrame {
  readonly rows: readonly AnswerRow[];
  readonly nextCursor: string | null;
}

export async function answerMetrics(
  parts: MetricsParts,
  request: MetricsRequest,
): Promise<MetricsAnswer> {
  // Before the rows are read: what the warehouse takes meanwhile may be in them, never the other way.
  const asOfMs = parts.asOfMs();
  const { after, finalUntilMs } = positionOf(request, parts.finalUntilMs());
  const { rows, next } = await readPage(parts, request, { after, finalUntilMs });
  return {
    query: request.query,
    rows,
    finalUntilMs,
    asOfMs,
    nextCursor: next === undefined ? null : encodeCursor(request, { after: next, finalUntilMs }),
  };
}

export interface AllRows extends AnswerFrame {
  readonly pages: AsyncGenerator<readonly AnswerRow[], void>;
}

/**
 * Every row of a query, a page at a time and all under one `final_until`; a page is read when the one
 * before has been taken. The first is read at once: what refuses the query is thrown here.
 */
export async function answerAllMetrics(
  parts: MetricsParts,
  request: MetricsRequest,
  pageRows: number,
): Promise<AllRows> {
  const asOfMs = parts.asOfMs();
  const finalUntilMs = parts.finalUntilMs();
  const paged = { ...request, query: { ...request.query, limit: pageRows } };
  const page = (after: readonly string[] | undefined) =>
    readPage(parts, paged, { after, finalUntilMs });
  const first = await page(undefined);
  async function* pages(): AsyncGenerator<readonly AnswerRow[], void> {
    let at = first;
    for (;;) {
      yield at.rows;
      if (at.next === undefined) return;
      at = await page(at.next);
    }
  }
  return { query: request.query, finalUntilMs, asOfMs, pages: pages() };
}

interface Page {
  readonly rows: readonly AnswerRow[];
  readonly next: readonly string[] | undefined;
}

async function readPage(
  { warehouse }: Pick<MetricsParts, 'warehouse'>,
  request: MetricsRequest,
  position: { readonly after: readonly string[] | undefined; readonly finalUntilMs: number },
): Promise<Page> {
  const { after, finalUntilMs } = position;
  const query = { ...request.query, after };
  const page = request.fillZero
    ? await filledPage(warehouse, query, finalUntilMs)
    : await warehouse.metrics(query, finalUntilMs);
  const isFinal = finality(query, finalUntilMs);
  return {
    rows: page.rows.map((row) => ({ ...row, final: isFinal(row.bucketStart) })),
    next: page.next,
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
