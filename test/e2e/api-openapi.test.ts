/** The description of the whole API against the API itself. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import Ajv2020 from 'ajv/dist/2020';
import addFormats from 'ajv-formats';
import { openWholeApi } from '../support/whole-api.ts';

type Json = Record<string, unknown>;
type Document = Json & {
  paths: Record<string, Record<string, OperationObject>>;
  components: Json;
};
type OperationObject = Json & {
  operationId: string;
  security: unknown[];
  parameters: { name: string; in: string }[];
  responses: Record<string, { content?: Record<string, { schema?: Json }> }>;
};

let api: Awaited<ReturnType<typeof openWholeApi>>;
let document: Document;
let admin: string;
let reader: string;

beforeAll(async () => {
  api = await openWholeApi();
  admin = (await api.tokens.create({ scope: 'admin' })).token;
  reader = (await api.tokens.create({ scope: 'read', advertiserId: 'adv-1' })).token;
  await api.ledger.parts.catalog.putAll([
    {
      adId: 'ad-1',
      advertiserId: 'adv-1',
      campaignId: 'c-1',
      targetUrl: 'https://shop.example/',
      passQuery: false,
    },
  ]);
  document = (await (await api.send('/openapi.json', null)).json()) as Document;
}, 60_000);
afterAll(() => api.close());

const operations = (): { path: string; method: string; operation: OperationObject }[] =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );

describe('the document', () => {
  test('is OpenAPI 3.1, and every reference in it leads somewhere', async () => {
    const validator = new Validator();
    const result = await validator.validate(structuredClone(document));
    expect(result.errors ?? []).toEqual([]);
    expect([result.valid, validator.version]).toEqual([true, '3.1']);
    for (const [, name] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
      const found = name!.split('/').reduce<unknown>((at, key) => (at as Json)?.[key], document);
      expect([name, typeof found]).toEqual([name, 'object']);
    }
  });

  test('has every route of the API exactly once, and nothing else', () => {
    const routes = new Set(
      api.app.routes
        .filter(({ method }) => method !== 'ALL')
        .map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, '{$1}')}`)
        // The files of pages: they are named in the pages, and are nobody's to call.
        .filter((route) => !/^GET \/docs\//.test(route)),
    );
    const described = api.operations.map(({ method, path }) => `${method} ${path}`);
    expect(described.toSorted()).toEqual([...new Set(described)].toSorted());
    expect(described.toSorted()).toEqual([...routes].toSorted());
    const ids = operations().map(({ operation }) => operation.operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('says of every schema’s fields what they are, in JSON Schema that compiles', () => {
    const ajv = ajvOf();
    for (const { path, method, operation } of operations()) {
      for (const [status, { content = {} }] of Object.entries(operation.responses)) {
        for (const [type, { schema }] of Object.entries(content)) {
          if (schema === undefined) continue;
          expect(
            () => ajv.compile(rooted(schema)),
            `${method} ${path} ${status} ${type}`,
          ).not.toThrow();
        }
      }
    }
  });
});

describe('who may call what', () => {
  test('operations that need a token refuse without one, and admin ones refuse a read token', async () => {
    for (const { path, method, operation } of operations()) {
      const concrete = path.replace(/\{\w+\}/g, 'x');
      const init = { method: method.toUpperCase() };
      const without = await api.send(concrete, null, init);
      const needsToken = operation.security.length > 0;
      expect([method, path, without.status === 401]).toEqual([method, path, needsToken]);
      const scope = api.operations.find(
        (each) => each.path === path && each.method === init.method,
      )!.scope;
      if (scope !== 'admin') continue;
      const refused = await api.send(concrete, reader, init);
      const { code } = (await refused.json()) as { code: string };
      expect([method, path, refused.status, code]).toEqual([
        method,
        path,
        403,
        'scope_insufficient',
      ]);
    }
  });

  test('whoever is refused leaves nothing in the audit log', async () => {
    expect(await api.audit.list({ limit: 10 })).toEqual([]);
  });
});

describe('answers are what the document says', () => {
  const RANGE = 'from=2026-03-10&to=2026-03-11';
  const REQUESTS: readonly (readonly [string, string, string, object?])[] = [
    ['get', '/v1/me', '/v1/me'],
    [
      'get',
      '/v1/ads/metrics',
      `/v1/ads/metrics?${RANGE}&advertiser_id=adv-1&fill=zero&ad_ids=ad-1`,
    ],
    ['get', '/v1/ads/top', `/v1/ads/top?${RANGE}&advertiser_id=adv-1&by=ad`],
    ['get', '/v1/ads/{ad_id}/clicks', `/v1/ads/ad-1/clicks?${RANGE}&advertiser_id=adv-1`],
    ['get', '/v1/hours', `/v1/hours?${RANGE}`],
    ['get', '/v1/restatements', `/v1/restatements?${RANGE}`],
    ['get', '/v1/disputes', '/v1/disputes'],
    ['get', '/v1/statements', '/v1/statements?advertiser_id=adv-1'],
    ['get', '/v1/admin/status', '/v1/admin/status'],
    ['get', '/v1/admin/dead-letters', '/v1/admin/dead-letters'],
    ['get', '/v1/admin/tokens', '/v1/admin/tokens'],
    ['get', '/v1/admin/keys', '/v1/admin/keys'],
    ['get', '/v1/admin/ads', '/v1/admin/ads'],
    ['get', '/v1/admin/webhooks', '/v1/admin/webhooks'],
    ['get', '/v1/admin/audit', '/v1/admin/audit'],
    ['get', '/v1/admin/audit/check', '/v1/admin/audit/check'],
    ['post', '/v1/admin/tokens', '/v1/admin/tokens', { scope: 'read', advertiser_id: 'adv-1' }],
    ['post', '/v1/admin/keys', '/v1/admin/keys', {}],
    ['post', '/v1/admin/verify', '/v1/admin/verify', {}],
    ['post', '/v1/admin/reconcile', '/v1/admin/reconcile', {}],
    ['get', '/v1/admin/audit', '/v1/admin/audit?limit=1'],
    ['get', '/v1/ads/metrics', '/v1/ads/metrics'],
    ['get', '/v1/admin/tokens', '/v1/admin/tokens?limit=1'],
    ['get', '/', '/'],
  ];
  const cases = REQUESTS.map((request) => ({ request, title: `${request[0]} ${request[2]}` }));
  test.each(cases)('$title', async ({ request: [method, path, url, body] }) => {
    const init =
      body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
    const answer = await api.send(url, admin, { method: method.toUpperCase(), ...init });
    const type = answer.headers.get('Content-Type')!.split(';')[0]!;
    const schema = schemaOf(document.paths[path]![method]!, answer.status, type);
    const validate = ajvOf().compile(rooted(schema));
    const text = await answer.text();
    const values =
      type === 'application/x-ndjson' ? text.split('\n').filter((line) => line !== '') : [text];
    expect(values.length).toBeGreaterThan(0);
    for (const value of values) {
      validate(JSON.parse(value));
      expect(validate.errors ?? []).toEqual([]);
    }
  });
});

function ajvOf(): Ajv2020 {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats(ajv);
  return ajv;
}

/** The schema with the document's components at the place that its references name. */
function rooted(schema: Json): Json {
  return { ...schema, components: document.components };
}

function schemaOf({ responses }: OperationObject, status: number, type: string): Json {
  const found = resolved(responses[String(status)] ?? responses.default!);
  const schema = found.content?.[type]?.schema;
  if (schema === undefined) throw new Error(`${status} ${type} is not described`);
  return schema;
}

function resolved<T extends object>(value: T): T {
  const name = (value as { $ref?: string }).$ref?.split('/').at(-1);
  if (name === undefined) return value;
  return (document.components.responses as Record<string, T>)[name]!;
}
