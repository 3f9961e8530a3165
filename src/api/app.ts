/** What every app of this folder has in common: errors, unknown paths and methods, safe headers. */
import { Hono } from 'hono';
import { methodNotAllowed } from 'hono/method-not-allowed';
import type { Principal } from '../auth/tokens.ts';
import type { PendingAct } from './acts.ts';
import { type ErrorLog, Problem, problemResponse, toProblem } from './problem.ts';

export interface ApiEnv {
  Bindings: { readonly peerAddress?: string };
  Variables: { principal: Principal; act?: PendingAct };
}
export type ApiApp = Hono<ApiEnv>;

export function newApp(log: ErrorLog): ApiApp {
  const app = new Hono<ApiEnv>();
  app.use(async (c, next) => {
    await next();
    c.res.headers.set('X-Content-Type-Options', 'nosniff');
    // A file whose name changes with its content says itself how long it is good.
    if (!c.res.headers.has('Cache-Control')) c.res.headers.set('Cache-Control', 'no-store');
  });
  const onMethodNotAllowed = (_: unknown, methods: string[]): Response => {
    const allowed = methods.join(', ');
    return problemResponse(
      new Problem(405, 'method_not_allowed', `This path takes ${allowed}.`, {
        headers: { Allow: allowed },
      }),
    );
  };
  app.use(methodNotAllowed({ app, onMethodNotAllowed }));
  app.notFound((c) =>
    problemResponse(
      new Problem(404, 'path_unknown', `There is nothing at ${c.req.path}.`, {
        hint: 'GET / lists what there is.',
      }),
    ),
  );
  app.onError((error, c) =>
    problemResponse(toProblem(error, log, `${c.req.method} ${c.req.path}`)),
  );
  return app;
}
