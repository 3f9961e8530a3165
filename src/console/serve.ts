/**
 * Serves the console: one page and its few named files, to anybody. What it shows comes from the API
 * with the token that the user types in, so there is nothing to protect here.
 *
 * The bundle is made at the first request and kept. A failure is told to whoever asked and to the
 * log (the API does both), and the next request tries again; the rest of the API does not depend on it.
 */
import type { Context } from 'hono';
import type { ApiEnv } from '../api/app.ts';
import type { ApiFeature } from '../api/operation.ts';
import { bundleConsole, type ConsoleBundle } from './bundle.ts';
import { PAGE_HEADERS } from './page.ts';

const FOR_EVER = 'public, max-age=31536000, immutable';

export function consoleFeature(bundle = bundleConsole): ApiFeature {
  const load = keepSuccess(bundle);
  return {
    operations: OPERATIONS,
    add(app) {
      // Relative, so that a proxy may serve everything below a path of its own.
      app.get('/console', (c) => c.redirect('console/', 302));
      app.get('/console/', async (c) => c.html((await load()).page, 200, { ...PAGE_HEADERS }));
      app.get('/console/:file', async (c) => serveFile(c, await load()));
    },
  };
}

function serveFile(c: Context<ApiEnv>, bundle: ConsoleBundle): Response | Promise<Response> {
  const file = bundle.files.get(c.req.param('file') ?? '');
  if (file === undefined) return c.notFound();
  const headers = { ...PAGE_HEADERS, 'Content-Type': file.type, 'Cache-Control': FOR_EVER };
  const zipped = /\bgzip\b/.test(c.req.header('Accept-Encoding') ?? '');
  return c.body(zipped ? file.gzipped : file.bytes, 200, {
    ...headers,
    Vary: 'Accept-Encoding',
    ...(zipped ? { 'Content-Encoding': 'gzip' } : {}),
  });
}

function keepSuccess(bundle: () => Promise<ConsoleBundle>): () => Promise<ConsoleBundle> {
  let kept: Promise<ConsoleBundle> | undefined;
  return () => {
    kept ??= bundle().catch((error: unknown) => {
      kept = undefined;
      throw error;
    });
    return kept;
  };
}

const OPERATIONS: ApiFeature['operations'] = [
  {
    method: 'GET',
    path: '/console',
    tag: 'Console',
    summary: 'Sends to the console.',
    scope: 'none',
    answers: [{ status: 302, description: 'The console is at /console/.' }],
  },
  {
    method: 'GET',
    path: '/console/',
    tag: 'Console',
    summary: 'The web console.',
    scope: 'none',
    answers: [{ status: 200, description: 'The page.', content: [{ type: 'text/html' }] }],
  },
  {
    method: 'GET',
    path: '/console/{file}',
    tag: 'Console',
    summary: 'A script or style sheet of the console; its name changes with its content.',
    scope: 'none',
    answers: [
      {
        status: 200,
        description: 'The file.',
        content: [{ type: 'text/javascript' }, { type: 'text/css' }],
      },
      { status: 404, description: 'There is no such file.' },
    ],
  },
];
