/**
 * Tells how every request went, by its route.
 *
 * A route is the pattern that answered (`/v1/ads/:ad_id/clicks`), never the path that was asked for, and
 * a method is one of those in use: what a client makes up does not make up a time series.
 */
import type { Context, MiddlewareHandler } from 'hono';
import { matchedRoutes } from 'hono/route';
import { monotonicMs } from '../platform/clock.ts';

export interface ObservedRequest {
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly durationMs: number;
}
export type ObserveRequest = (request: ObservedRequest) => void;

const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS']);

/** Add it before every route, so that errors and unknown paths are told too. */
export function observed(observe: ObserveRequest): MiddlewareHandler {
  return async (c, next) => {
    const startedMs = monotonicMs();
    await next();
    const method = METHODS.has(c.req.method) ? c.req.method : 'other';
    const durationMs = monotonicMs() - startedMs;
    observe({ method, route: routeOf(c), status: c.res.status, durationMs });
  };
}

/** The last pattern that is not one for every path; `other` when only those matched. */
function routeOf(c: Context): string {
  const own = matchedRoutes(c).filter(({ path }) => !path.endsWith('*'));
  return own.at(-1)?.path ?? 'other';
}
