/** `GET|POST /v1/ads/metrics`: a page as JSON or CSV, or all rows as NDJSON. */
import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import { bodyLimit } from 'hono/body-limit';
import type { ApiApp, ApiEnv } from './app.ts';
import {
  answerAllMetrics,
  answerMetrics,
  type MetricsAnswer,
  type MetricsParts,
} from './metrics.ts';
import { frameHeaders, metricsCsv, metricsHeaders, metricsJson } from './metrics-format.ts';
import { type Limits, metricsRequestParser, type ParseMetricsRequest } from './metrics-request.ts';
import { NDJSON, STREAM_PAGE_ROWS, StreamPlaces, streamRows } from './metrics-stream.ts';
import { type RawParameters, rawParameters } from './parameters.ts';
import { type ErrorLog, Problem, parameterProblem } from './problem.ts';

export interface MetricsRouteParts extends MetricsParts {
  readonly config: Limits;
  readonly log: ErrorLog;
}

const PATH = '/v1/ads/metrics';

export function addMetricsRoutes(app: ApiApp, parts: MetricsRouteParts): void {
  const parse = metricsRequestParser(parts.config);
  const maxBytes = bodyBytesMax(parts.config.maxAdIds);
  const limited = bodyLimit({ maxSize: maxBytes, onError: () => refuseBody(maxBytes) });
  const places = new StreamPlaces();
  app.on(['GET', 'POST'], PATH, limited, async (c) => {
    const raw = await rawParameters(c);
    const type = accepts(c, {
      header: 'Accept',
      supports: ['application/json', 'text/csv', NDJSON],
      default: 'application/json',
    });
    if (type === NDJSON) return await respondAll(c, { parts, parse, places, raw });
    const answer = await answerMetrics(parts, parse(raw, c.get('principal')));
    return respondPage(c, answer, type);
  });
}

/** A query with as many of the longest ids as are allowed must fit. */
function bodyBytesMax(maxAdIds: number): number {
  return Math.max(1 << 20, maxAdIds * 140);
}

function refuseBody(maxBytes: number): never {
  throw new Problem(413, 'body_too_large', `A body has at most ${maxBytes} bytes here.`, {
    hint: 'Ask for fewer ids at once.',
  });
}

function respondPage(c: Context<ApiEnv>, answer: MetricsAnswer, type: string): Response {
  const headers = { ...metricsHeaders(answer), ...linkHeader(c, answer), Vary: 'Accept' };
  if (type !== 'text/csv') return c.json(metricsJson(answer), 200, headers);
  return c.body(metricsCsv(answer), 200, {
    ...headers,
    'Content-Type': 'text/csv; charset=utf-8; header=present',
    'Content-Disposition': 'attachment; filename="clicks.csv"',
  });
}

/** Only a GET's next page has an address. */
function linkHeader(c: Context<ApiEnv>, { nextCursor }: MetricsAnswer): Record<string, string> {
  if (nextCursor === null || c.req.method === 'POST') return {};
  const url = new URL(c.req.url);
  url.searchParams.set('cursor', nextCursor);
  return { Link: `<${url.pathname}${url.search}>; rel="next"` };
}

interface StreamRequest {
  readonly parts: MetricsRouteParts;
  readonly parse: ParseMetricsRequest;
  readonly places: StreamPlaces;
  readonly raw: RawParameters;
}

async function respondAll(
  c: Context<ApiEnv>,
  { parts, parse, places, raw }: StreamRequest,
): Promise<Response> {
  const paging = ['limit', 'cursor'].filter((name) => Object.hasOwn(raw, name));
  if (paging.length > 0) {
    const message = `${NDJSON} has all rows in one answer; leave this out, or take JSON or CSV.`;
    throw parameterProblem(paging.map((parameter) => ({ parameter, message })));
  }
  const principal = c.get('principal');
  const request = parse(raw, principal);
  const free = places.take(principal.tokenId);
  try {
    const all = await answerAllMetrics(parts, request, STREAM_PAGE_ROWS);
    const { signal } = c.req.raw;
    const doing = `${c.req.method} ${PATH}`;
    const body = streamRows(all, { free, signal, log: parts.log, doing });
    const headers = { ...frameHeaders(all), 'Content-Type': NDJSON, Vary: 'Accept' };
    // A HEAD has no body, so nobody ends or cancels it.
    if (c.req.method === 'HEAD') free();
    return c.body(body, 200, headers);
  } catch (error) {
    free();
    throw error;
  }
}
