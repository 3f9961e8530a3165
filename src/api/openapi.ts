/**
 * The OpenAPI 3.1 document, made of the same schemas that check requests.
 *
 * Owns: the form of the document. Does not own: what operations there are (each part of the API
 * lists its own).
 */
import { z } from 'zod';
import type { Content, Operation } from './operation.ts';

export interface OpenApiOptions {
  readonly operations: readonly Operation[];
  readonly version: string;
}

type Json = Readonly<Record<string, unknown>>;

const problem = z.object({
  type: z.string().describe('`urn:clickledger:problem:` and the code.'),
  title: z.string(),
  status: z.int(),
  detail: z.string().describe('What is wrong, for people.'),
  code: z.string().describe('What is wrong, for programs; it does not change.'),
  hint: z.string().optional().describe('What to do about it.'),
  errors: z
    .array(z.object({ parameter: z.string(), message: z.string() }))
    .optional()
    .describe('Every parameter that is wrong.'),
});

const DESCRIPTION =
  'Clicks by ad, to the minute; final numbers are those that are billed. Times are ISO 8601, ranges are half-open: ' +
  '`from` is part of them, `to` is not. A token of scope `read` sees its own advertiser and leaves `advertiser_id` out.';

const PROBLEM_REF = { 'application/problem+json': { schema: ref('Problem') } };

export function openApiDocument({ operations, version }: OpenApiOptions): Json {
  const schemas: Record<string, unknown> = { Problem: jsonSchema(problem, 'output', {}) };
  const paths: Record<string, Record<string, unknown>> = {};
  for (const operation of operations) {
    const path = paths[operation.path] ?? {};
    paths[operation.path] = path;
    path[operation.method.toLowerCase()] = operationObject(operation, schemas);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'ClickLedger',
      version,
      description: DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '.' }],
    tags: [...new Set(operations.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas,
      responses: RESPONSES,
      headers: RATE_HEADERS,
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'A token of `clickledger token create` or `POST /v1/admin/tokens`.',
        },
      },
    },
  };
}

const RATE_HEADERS = {
  'RateLimit-Limit': header('Requests that the token has a minute, and at once.'),
  'RateLimit-Remaining': header('Requests that it may send now.'),
  'RateLimit-Reset': header('Seconds until it has all of them again.'),
};

const RESPONSES = {
  Problem: { description: 'Refused or failed; `code` says why.', content: PROBLEM_REF },
  Unauthorized: {
    description: '`token_missing`, or `token_invalid`: unknown, revoked or expired.',
    headers: { 'WWW-Authenticate': { schema: { type: 'string' } } },
    content: PROBLEM_REF,
  },
  Forbidden: {
    description: '`advertiser_forbidden` or `scope_insufficient`.',
    content: PROBLEM_REF,
  },
  TooManyRequests: {
    description: '`rate_limited`',
    headers: {
      'Retry-After': { description: 'Seconds.', schema: { type: 'integer' } },
      ...headerRefs(),
    },
    content: PROBLEM_REF,
  },
};

function operationObject(operation: Operation, schemas: Record<string, unknown>): Json {
  const { method, path, query, body = [], scope, description } = operation;
  const inBody = method === 'POST' && query !== undefined;
  const contents = inBody ? [...body, ...formsOf(query)] : body;
  const scopeText = scope === 'admin' ? 'Needs a token of scope `admin`.' : '';
  const text = [description ?? '', scopeText].filter((part) => part !== '').join('\n\n');
  return {
    operationId: operationId(method, path),
    tags: [operation.tag],
    summary: operation.summary,
    ...(text === '' ? {} : { description: text }),
    security: scope === 'none' ? [] : [{ token: [] }],
    parameters: [
      ...pathParameters(path),
      ...(query === undefined || inBody ? [] : queryParameters(query, schemas)),
    ],
    ...(contents.length === 0
      ? {}
      : { requestBody: { content: contentObject(contents, 'input', schemas) } }),
    responses: responses(operation, schemas),
  };
}

/** `GET /v1/ads/{ad_id}/clicks` is `get_v1_ads_ad_id_clicks`. */
function operationId(method: string, path: string): string {
  const words = path
    .replace(/\/$/, '/index')
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '');
  return [method.toLowerCase(), ...words].join('_');
}

/** A POST with the parameters of the GET beside it takes them as JSON or as a form. */
function formsOf(query: z.ZodObject): Content[] {
  return ['application/json', 'application/x-www-form-urlencoded'].map((type) => ({
    type,
    schema: query,
  }));
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }));
}

function queryParameters(query: z.ZodObject, schemas: Record<string, unknown>): Json[] {
  const { properties = {}, required = [] } = jsonSchema(query, 'input', schemas) as {
    properties?: Record<string, Record<string, unknown>>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    ...(description === undefined ? {} : { description }),
    ...(required.includes(name) ? { required: true } : {}),
    // A list is `a,b` in a URL.
    ...(schema.type === 'array' ? { style: 'form', explode: false } : {}),
    schema,
  }));
}

function responses(operation: Operation, schemas: Record<string, unknown>): Json {
  const found: Record<string, unknown> = {};
  for (const { status, description, content } of operation.answers) {
    found[status] = {
      description,
      ...(operation.scope === 'none' ? {} : { headers: headerRefs() }),
      ...(status >= 400 && content === undefined ? { content: PROBLEM_REF } : {}),
      ...(content === undefined ? {} : { content: contentObject(content, 'output', schemas) }),
    };
  }
  if (operation.scope !== 'none') {
    found[401] ??= { $ref: '#/components/responses/Unauthorized' };
    found[403] ??= { $ref: '#/components/responses/Forbidden' };
    found[429] ??= { $ref: '#/components/responses/TooManyRequests' };
  }
  found.default = { $ref: '#/components/responses/Problem' };
  return found;
}

function contentObject(
  contents: readonly Content[],
  io: 'input' | 'output',
  schemas: Record<string, unknown>,
): Json {
  return Object.fromEntries(
    contents.map(({ type, schema, example }) => [
      type,
      {
        ...(schema === undefined ? {} : { schema: jsonSchema(schema, io, schemas) }),
        ...(example === undefined ? {} : { example }),
      },
    ]),
  );
}

/** The schema; those with an id of their own go to the shared ones, once. */
function jsonSchema(
  schema: z.ZodType,
  io: 'input' | 'output',
  schemas: Record<string, unknown>,
): Json {
  const made = z.toJSONSchema(schema, { target: 'draft-2020-12', io, unrepresentable: 'any' });
  const text = JSON.stringify(made).replaceAll('"#/$defs/', '"#/components/schemas/');
  const { $schema: _, $defs = {}, ...rest } = JSON.parse(text) as Record<string, unknown>;
  Object.assign(schemas, $defs);
  return rest;
}

function ref(name: string): Json {
  return { $ref: `#/components/schemas/${name}` };
}

function header(description: string): Json {
  return { description, schema: { type: 'integer' } };
}

function headerRefs(): Json {
  const names = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset'];
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
