/**
 * The HTTP API: who asks, what for, and the answer's bytes.
 *
 * Owns: routes, tokens' scopes, parameters, formats, paging. Does not own numbers (the warehouse) nor
 * actions (the `LedgerAdmin`), and keeps no state of its own.
 *
 * A1 The advertiser of a query comes from the token. No catalog is asked: another's ad and a missing
 *    ad both have no rows.
 * A2 Nothing is cut silently: a full page says so and carries a cursor.
 * A3 No request makes it answer with a stack trace or stops it.
 */

import type { Context, MiddlewareHandler } from 'hono';
import { accepts } from 'hono/accepts';
import { bodyLimit } from 'hono/body-limit';
import type { TokenStore } from '../auth/tokens.ts';
import type { Config } from '../config/schema.ts';
import type { Warehouse } from '../warehouse/port.ts';
import type { LedgerAdmin } from './admin-port.ts';
import { addAdminRoutes, type ImportAds } from './admin-routes.ts';
import { type ApiEnv, newApp } from './app.ts';
import { requireAdmin, requireToken } from './auth.ts';
import { answerHours, answerRestatements } from './history.ts';
import { answerMetrics, type MetricsAnswer } from './metrics.ts';
import { metricsCsv, metricsHeaders, metricsJson } from './metrics-format.ts';
import { metricsRequestParser } from './metrics-request.ts';
import type { ApiFeature } from './operation.ts';
import { rawParameters } from './parameters.ts';
import { type ErrorLog, Problem } from './problem.ts';

export interface ApiDeps {
  readonly config: Pick<Config['api'], 'maxRows' | 'maxAdIds'>;
  readonly tokens: Pick<TokenStore, 'authenticate'>;
  readonly warehouse: Pick<Warehouse, 'metrics' | 'hours' | 'restatements'>;
  /** End of the last final hour; a whole hour, 0 when there is none. */
  readonly finalUntilMs: () => number;
  /** Up to when clicks are in the live rows. */
  readonly asOfMs: () => number;
  readonly admin: LedgerAdmin;
  readonly importAds?: ImportAds;
  readonly ops: {
    health(): Response;
    ready(): Promise<Response> | Response;
    metrics(): Promise<Response> | Response;
  };
  /** Whether the warehouse is being built again, and its numbers are too small meanwhile. */
  readonly isRebuilding?: () => boolean;
  /** Parts with routes of their own, beside those below. */
  readonly features?: readonly ApiFeature[];
  readonly log: ErrorLog;
}

export interface Api {
  fetch(req: Request): Promise<Response>;
}

const INDEX = {
  name: 'ClickLedger API',
  endpoints: [
    'GET|POST /v1/ads/metrics',
    'GET /v1/hours',
    'GET /v1/restatements',
    'GET /healthz',
    'GET /readyz',
    'GET /metrics',
  ],
};

export function createApi(deps: ApiDeps): Api {
  const app = newApp(deps.log);
  app.get('/', (c) => {
    const type = accepts(c, {
      header: 'Accept',
      supports: ['application/json', 'text/html'],
      default: 'application/json',
    });
    // Relative, so that a proxy may serve all this below a path of its own.
    return type === 'text/html' ? c.redirect('console/', 302) : c.json(INDEX);
  });
  app.get('/healthz', () => deps.ops.health());
  app.get('/readyz', () => deps.ops.ready());
  app.get('/metrics', () => deps.ops.metrics());

  // Whoever has no token sends no body that is read.
  app.use('/v1/*', requireToken(deps.tokens));
  app.use('/v1/admin/*', requireAdmin);
  app.use('/v1/*', refuseWhileRebuilding(deps));
  const parse = metricsRequestParser(deps.config);
  const maxBytes = bodyBytesMax(deps.config.maxAdIds);
  const limited = bodyLimit({ maxSize: maxBytes, onError: () => refuseBody(maxBytes) });
  app.on(['GET', 'POST'], '/v1/ads/metrics', limited, async (c) => {
    const request = parse(await rawParameters(c), c.get('principal'));
    return respond(c, await answerMetrics(deps, request));
  });
  app.get('/v1/hours', (c) => answerHours(deps, c));
  app.get('/v1/restatements', (c) => answerRestatements(deps, c));
  addAdminRoutes(app, deps);
  for (const feature of deps.features ?? []) feature.add(app);
  return { fetch: async (req) => app.fetch(req) };
}

/** An operator's requests go on: they show how far it is. */
function refuseWhileRebuilding({ isRebuilding }: ApiDeps): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    if (isRebuilding?.() === true && !c.req.path.startsWith('/v1/admin/')) {
      throw new Problem(503, 'rebuilding', 'The numbers are being built again from the archive.', {
        hint: 'Try again in a while: what was final comes back with the same numbers.',
        headers: { 'Retry-After': '30' },
      });
    }
    await next();
  };
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

function respond(c: Context<ApiEnv>, answer: MetricsAnswer): Response {
  const type = accepts(c, {
    header: 'Accept',
    supports: ['application/json', 'text/csv'],
    default: 'application/json',
  });
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
