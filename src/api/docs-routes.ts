/**
 * The API's description: `/openapi.json` for programs, `/docs` for people. No token is needed: both
 * are the same for everybody, and hold no numbers.
 *
 * D1 The page runs only what it was served with: no inline code, no other host, no frame around it.
 * D2 Files are served by name out of a fixed list; a path is never put together from a request.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Context } from 'hono';
import { z } from 'zod';
import { VERSION } from '../version.ts';
import { json } from './answers.ts';
import type { ApiApp, ApiEnv } from './app.ts';
import { openApiDocument } from './openapi.ts';
import type { Operation } from './operation.ts';

const FILES: Readonly<Record<string, string>> = {
  'index.html': 'text/html; charset=utf-8',
  'docs.css': 'text/css; charset=utf-8',
  'docs.js': 'text/javascript; charset=utf-8',
  'schema.js': 'text/javascript; charset=utf-8',
};

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const TAG = 'Description';

export const DOCS_OPERATIONS: readonly Operation[] = [
  {
    method: 'GET',
    path: '/',
    tag: TAG,
    summary: 'What there is; sends browsers to the console',
    scope: 'none',
    answers: [
      json(200, 'The name of the product and its main paths.', {
        name: z.string(),
        endpoints: z.array(z.string()),
      }),
      { status: 302, description: 'To `console/`, for who accepts HTML.' },
    ],
  },
  {
    method: 'GET',
    path: '/openapi.json',
    tag: TAG,
    summary: 'This description, as OpenAPI 3.1',
    scope: 'none',
    answers: [
      {
        status: 200,
        description: 'The document.',
        content: [
          { type: 'application/json', schema: z.looseObject({ openapi: z.literal('3.1.0') }) },
        ],
      },
    ],
  },
  {
    method: 'GET',
    path: '/docs',
    tag: TAG,
    summary: 'This description, to be read',
    scope: 'none',
    answers: [{ status: 200, description: 'A page.', content: [{ type: 'text/html' }] }],
  },
];

/** Adds the routes; `operations` are all of the API, these included. */
export function addDocs(app: ApiApp, operations: readonly Operation[]): void {
  const document = JSON.stringify(openApiDocument({ operations, version: VERSION }));
  const description = fileOf(document, 'application/json');
  app.get('/openapi.json', (c) => serve(c, description));
  const folder = join(import.meta.dir, 'docs-page');
  for (const [name, type] of Object.entries(FILES)) {
    const file = fileOf(readFileSync(join(folder, name), 'utf8'), type);
    app.get(name === 'index.html' ? '/docs' : `/docs/${name}`, (c) => serve(c, file));
  }
}

interface File {
  readonly text: string;
  readonly type: string;
  readonly etag: string;
}

function fileOf(text: string, type: string): File {
  const etag = `"${createHash('sha256').update(text).digest('base64url')}"`;
  return { text, type, etag };
}

function serve(c: Context<ApiEnv>, { text, type, etag }: File): Response {
  const headers = {
    ETag: etag,
    // Kept, and asked about each time: a new version shows at once.
    'Cache-Control': 'no-cache',
    'Content-Security-Policy': POLICY,
    'Referrer-Policy': 'no-referrer',
    'Cross-Origin-Resource-Policy': 'same-origin',
  };
  const known = (c.req.header('If-None-Match') ?? '').split(',').map((each) => each.trim());
  if (known.includes(etag) || known.includes(`W/${etag}`)) return c.body(null, 304, headers);
  return c.body(text, 200, { ...headers, 'Content-Type': type });
}
