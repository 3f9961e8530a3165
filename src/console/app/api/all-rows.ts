/** The whole answer of a metrics query, however many pages the server cuts it into. */
import type { ApiClient, Params } from './client.ts';
import type { MetricsAnswer, MetricsRow } from './types.ts';

/** More pages than these are no chart; the answer then says that it is cut. */
const MAX_PAGES = 20;

export async function allRows(
  api: ApiClient,
  params: Params,
  signal: AbortSignal,
): Promise<MetricsAnswer> {
  const first = await api.get<MetricsAnswer>('/v1/ads/metrics', { params, signal });
  const rows: MetricsRow[] = [...first.rows];
  let cursor = first.next_cursor;
  for (let page = 1; cursor !== null && page < MAX_PAGES; page++) {
    const more: MetricsAnswer = await api.get('/v1/ads/metrics', {
      params: { ...params, cursor },
      signal,
    });
    rows.push(...more.rows);
    cursor = more.next_cursor;
  }
  return { ...first, rows, next_cursor: cursor };
}
