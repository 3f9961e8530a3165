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

import type { MiddlewareHandler } from 'hono';
import { accepts } from 'hono/accepts';
import type { AuditLog } from '../auth/audit-log.ts';
import type { RequestLimits } from '../auth/limits.ts';
import type { TokenStore } from '../auth/tokens.ts';
import type { Config } from '../config/schema.ts';
import type { Warehouse } from '../warehouse/port.ts';
import { addActs } from './acts.ts';
import { ADMIN_OPERATIONS } from './admin-operations.ts';
import type { LedgerAdmin } from './admin-port.ts';
import { addAdminRoutes, type ImportAds } from './admin-routes.ts';
import { type ApiApp, type ApiEnv, newApp } from './app.ts';
import { requireAdmin, requireToken } from './auth.ts';
import { CORE_OPERATIONS } from './core-operations.ts';
import { addDocs, DOCS_OPERATIONS } from './docs-routes.ts';
import { answerHours, answerRestatements, type Finality, HOURS_OPERATION } from './history.ts';
import { addMetricsRoutes } from './metrics-routes.ts';
import { type ObserveRequest, observed } from './observe.ts';
import type { ApiFeature, Operation } from './operation.ts';
import { type ErrorLog, Problem } from './problem.ts';

export interface ApiDeps {
  readonly config: Pick<Config['api'], 'maxRows' | 'maxAdIds'>;
  readonly tokens: Pick<TokenStore, 'authenticate'>;
  readonly limits: RequestLimits;
  /** Takes down what admins change. */
  readonly audit: AuditLog;
  readonly warehouse: Pick<Warehouse, 'metrics' | 'hours' | 'restatements' | 'drift'>;
  /** End of the last final hour; a whole hour, 0 when there is none. */
  readonly finalUntilMs: () => number;
  readonly finality: Finality;
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
  /** Hears of every request when it is answered. */
  readonly observe?: ObserveRequest;
}

export interface Api {
  fetch(req: Request, connection?: Connection): Promise<Response>;
}

export interface Connection {
  /** Wrong tokens are counted by it. */
  readonly peerAddress?: string;
}

const API_OPERATIONS: readonly Operation[] = [
  ...CORE_OPERATIONS,
  HOURS_OPERATION,
  ...ADMIN_OPERATIONS,
  ...DOCS_OPERATIONS,
];

const INDEX = {
  name: 'ClickLedger API',
  endpoints: [
    'GET|POST /v1/ads/metrics',
    'GET /v1/ads/top',
    'GET /v1/hours',
    'GET /v1/restatements',
    'GET /healthz',
    'GET /readyz',
    'GET /metrics',
    'GET /openapi.json',
    'GET /docs',
  ],
};

export function createApi(deps: ApiDeps): Api {
  const { app } = createApiApp(deps);
  return { fetch: async (req, connection = {}) => app.fetch(req, connection) };
}

/** The routes, and what they are: each route has exactly one operation. */
export function createApiApp(deps: ApiDeps): {
  readonly app: ApiApp;
  readonly operations: readonly Operation[];
} {
  const app = newApp(deps.log);
  const features = deps.features ?? [];
  const operations = [...API_OPERATIONS, ...features.flatMap((feature) => feature.operations)];
  if (deps.observe !== undefined) app.use(observed(deps.observe));
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
  app.use('/v1/*', requireToken(deps));
  app.use('/v1/admin/*', requireAdmin);
  addActs(app, deps, operations);
  app.use('/v1/*', refuseWhileRebuilding(deps));
  addMetricsRoutes(app, deps);
  app.get('/v1/hours', (c) => answerHours(deps, c));
  app.get('/v1/restatements', (c) => answerRestatements(deps, c));
  addAdminRoutes(app, deps);
  for (const feature of features) feature.add(app);
  addDocs(app, operations);
  return { app, operations };
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
