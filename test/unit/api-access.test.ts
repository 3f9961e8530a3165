// Proves INV-12 of SPEC.md.
/** Tokens, keys, ads and the audit log over the API; limits on requests. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { createKey, retireKey } from '../../src/ads/keys.ts';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import type { AdCatalog } from '../../src/ads/port.ts';
import { accessFeature } from '../../src/api/access-routes.ts';
import type { AuditLog } from '../../src/auth/audit-log.ts';
import { requestLimits } from '../../src/auth/limits.ts';
import { openAuditLog } from '../../src/auth/sqlite/audit-log.ts';
import { openTokenStore } from '../../src/auth/sqlite/tokens.ts';
import type { TokenStore } from '../../src/auth/tokens.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { jsonOf, setUpApi } from '../support/api.ts';
import { tempDir } from '../support/temp-dir.ts';

let folder: ReturnType<typeof tempDir>;
let catalog: AdCatalog;
let tokens: TokenStore;
let audit: AuditLog;
let now: number;
const clock = (): number => now;
let world: Awaited<ReturnType<typeof setUp>>;

beforeEach(async () => {
  folder = tempDir('api-access');
  now = Date.UTC(2026, 2, 10, 12);
  catalog = openLmdbCatalog({ dir: join(folder.path, 'catalog'), readOnly: false });
  const path = join(folder.path, 'control.sqlite');
  tokens = openTokenStore({ path, clock });
  audit = openAuditLog({ path, clock });
  world = await setUp(0);
});
afterEach(async () => {
  await tokens.close();
  await audit.close();
  await catalog.close();
  folder.remove();
});

async function setUp(perMinute: number, over: Parameters<typeof setUpApi>[0] = {}) {
  const access = accessFeature({
    tokens,
    audit,
    ads: catalog,
    keys: {
      list: () => catalog.keys(),
      create: (kid) => createKey(catalog, clock, kid),
      retire: (which) => retireKey(catalog, clock, which),
    },
  });
  const api = setUpApi({
    tokens,
    audit,
    limits: requestLimits(perMinute, clock),
    features: [access],
    ...over,
  });
  const admin = await tokens.create({ scope: 'admin' });
  const reader = await tokens.create({ scope: 'read', advertiserId: 'adv-1' });
  const ask = (method: string, path: string, body?: object, token = admin.token) =>
    api.send(
      path,
      { method, ...(body === undefined ? {} : { body: JSON.stringify(body) }) },
      token,
    );
  return { ...api, adminToken: admin, readerToken: reader, ask };
}

/** The audit log with one half of it on a disk that is full. */
function failingAt(half: 'begin' | 'end'): AuditLog {
  const fail = async (): Promise<never> => {
    throw new LedgerError('audit_unavailable', 'no space', { kind: 'retry' });
  };
  return new Proxy(audit, {
    get: (log, name) => {
      const value = name === half ? fail : log[name as keyof AuditLog];
      return value.bind(log);
    },
  });
}

const codeOf = async (answer: Response | Promise<Response>) => {
  const { status } = await answer;
  return [status, (await jsonOf(answer)).code];
};

describe('who I am', () => {
  test('is told to every token', async () => {
    const expiresAtMs = now + 60_000;
    const read = await tokens.create({ scope: 'read', advertiserId: 'adv-2' }, { expiresAtMs });
    expect(await jsonOf(world.ask('GET', '/v1/me', undefined, read.token))).toEqual({
      token_id: read.id,
      scope: 'read',
      advertiser_id: 'adv-2',
      expires_at: '2026-03-10T12:01:00.000Z',
      version: expect.any(String),
    });
    expect(await jsonOf(world.ask('GET', '/v1/me'))).toMatchObject({
      token_id: world.adminToken.id,
      scope: 'admin',
      advertiser_id: null,
      expires_at: null,
    });
  });
});

describe('tokens', () => {
  test('are made, work, are listed without their text, and end when they are revoked', async () => {
    const made = await world.ask('POST', '/v1/admin/tokens', {
      scope: 'read',
      advertiser_id: 'adv-1',
      name: 'export',
      expires_at: '2026-04-01T00:00:00Z',
    });
    const body = await jsonOf(made);
    expect(made.status).toBe(201);
    expect(body).toMatchObject({
      name: 'export',
      scope: 'read',
      advertiser_id: 'adv-1',
      expires_at: '2026-04-01T00:00:00.000Z',
      revoked_at: null,
    });
    const token = String(body.token);
    expect((await world.ask('GET', '/v1/me', undefined, token)).status).toBe(200);
    const listed = await (await world.ask('GET', '/v1/admin/tokens')).text();
    expect(listed).toContain(String(body.id));
    expect(listed).not.toContain(token);
    for (const _ of [1, 2]) {
      expect((await world.ask('DELETE', `/v1/admin/tokens/${body.id}`)).status).toBe(204);
    }
    expect((await world.ask('GET', '/v1/me', undefined, token)).status).toBe(401);
  });

  test.each([
    [{}, 'scope'],
    [{ scope: 'all' }, 'scope'],
    [{ scope: 'read' }, 'advertiser_id'],
    [{ scope: 'read', advertiser_id: 'a b' }, 'advertiser_id'],
    [{ scope: 'admin', advertiser_id: 'adv-1' }, 'advertiser_id'],
    [{ scope: 'admin', expires_at: 'soon' }, 'expires_at'],
    [{ scope: 'admin', name: 'x'.repeat(201) }, 'name'],
    [{ scope: 'admin', admin: true }, 'admin'],
  ])('are not made of %p', async (body, parameter) => {
    const before = (await tokens.list()).length;
    const answer = await world.ask('POST', '/v1/admin/tokens', body);
    expect(answer.status).toBe(400);
    const { errors } = (await jsonOf(answer)) as { errors: { parameter: string }[] };
    expect(errors.map((each) => each.parameter)).toEqual([parameter]);
    expect(await tokens.list()).toHaveLength(before);
  });

  test('are not made with an end in the past or a name of two lines, nor of an endless body', async () => {
    const past = { scope: 'admin', expires_at: '2026-03-10T11:59:59Z' };
    expect(await codeOf(world.ask('POST', '/v1/admin/tokens', past))).toEqual([
      400,
      'token_expiry_invalid',
    ]);
    const lines = { scope: 'admin', name: 'two\nlines' };
    expect(await codeOf(world.ask('POST', '/v1/admin/tokens', lines))).toEqual([
      400,
      'token_name_invalid',
    ]);
    const endless = { scope: 'admin', name: 'x'.repeat(20_000) };
    expect(await codeOf(world.ask('POST', '/v1/admin/tokens', endless))).toEqual([
      413,
      'body_too_large',
    ]);
  });

  test('are revoked by id only: the text of one has no place in a path', async () => {
    const { token, id } = await tokens.create({ scope: 'admin' });
    for (const named of [token, 'f'.repeat(12), 'x', '%E0']) {
      expect(await codeOf(world.ask('DELETE', `/v1/admin/tokens/${named}`))).toEqual([
        404,
        'token_unknown',
      ]);
    }
    expect((await tokens.get(id))?.revokedAtMs).toBeNull();
    expect(JSON.stringify(await audit.list({ limit: 100 }))).not.toContain(token.slice(-43));
  });
});

describe('signing keys', () => {
  test('are made, listed without secrets, and retired; the last one only with force', async () => {
    const first = await jsonOf(world.ask('POST', '/v1/admin/keys', { kid: 'k1' }));
    expect(first).toEqual({
      kid: 'k1',
      created_at: '2026-03-10T12:00:00.000Z',
      retired_at: null,
      secret: catalog.keys()[0]!.secret,
    });
    expect(await codeOf(world.ask('POST', '/v1/admin/keys', { kid: 'k1' }))).toEqual([
      409,
      'kid_taken',
    ]);
    expect(await codeOf(world.ask('POST', '/v1/admin/keys', { kid: 'k 1' }))).toEqual([
      400,
      'kid_invalid',
    ]);
    const listed = await (await world.ask('GET', '/v1/admin/keys')).text();
    expect(JSON.parse(listed).keys).toEqual([{ ...first, secret: undefined }]);
    expect(listed).not.toContain(String(first.secret));
    expect(await codeOf(world.ask('POST', '/v1/admin/keys/k1/retire'))).toEqual([
      409,
      'last_active_key',
    ]);
    expect(await codeOf(world.ask('POST', '/v1/admin/keys/k9/retire'))).toEqual([
      404,
      'kid_unknown',
    ]);
    const retired = await world.ask('POST', '/v1/admin/keys/k1/retire', { force: true });
    expect(await jsonOf(retired)).toMatchObject({ retired_at: '2026-03-10T12:00:00.000Z' });
    expect(catalog.activeKeys()).toEqual([]);
  });
});

describe('ads', () => {
  test('are listed page by page, all or one advertiser’s', async () => {
    const ad = (at: number) => ({
      adId: `ad-${String(at).padStart(3, '0')}`,
      advertiserId: `adv-${at % 2}`,
      campaignId: 'c',
      targetUrl: `https://shop.example/${at}`,
      passQuery: false,
    });
    await catalog.putAll(Array.from({ length: 25 }, (_, at) => ad(at)));
    const walk = async (query: string) => {
      const ids: string[] = [];
      const sizes: number[] = [];
      for (let after: string | null = ''; after !== null; ) {
        const from: string = after === '' ? '' : `&after=${after}`;
        const page = (await jsonOf(world.ask('GET', `/v1/admin/ads?${query}${from}`))) as {
          ads: { ad_id: string }[];
          next_cursor: string | null;
        };
        sizes.push(page.ads.length);
        ids.push(...page.ads.map(({ ad_id }) => ad_id));
        after = page.next_cursor;
      }
      return { ids, sizes };
    };
    const all = await walk('limit=10');
    expect(all.sizes).toEqual([10, 10, 5]);
    expect(all.ids).toEqual(Array.from({ length: 25 }, (_, at) => ad(at).adId));
    const own = await walk('limit=6&advertiser_id=adv-1');
    expect(own.sizes).toEqual([6, 6]);
    expect(await walk('advertiser_id=nobody')).toEqual({ ids: [], sizes: [0] });
  });
});

describe('the audit log', () => {
  const entries = () => audit.list({ limit: 100 });

  test('has every act with actor, target and outcome, and neither secrets nor bodies', async () => {
    const made = await jsonOf(
      world.ask('POST', '/v1/admin/tokens', {
        scope: 'read',
        advertiser_id: 'adv-7',
        name: 'hush',
      }),
    );
    await world.ask('DELETE', `/v1/admin/tokens/${made.id}`);
    const key = await jsonOf(world.ask('POST', '/v1/admin/keys'));
    await world.ask('POST', `/v1/admin/keys/${key.kid}/retire`);
    await (await world.ask('POST', '/v1/admin/reconcile', { hour: '2026-03-10T08:00Z' })).text();
    await (await world.ask('POST', '/v1/admin/rebuild')).text();
    await world.ask('POST', '/v1/admin/dead-letters/redrive', { id: 'a', all: true });
    await world.ask('PUT', '/v1/admin/nothing');
    const shown = (await entries()).map(({ actor, action, target, outcome, code, detail }) => {
      expect(actor).toBe(world.adminToken.id);
      return [action, target, outcome, code, detail];
    });
    expect(shown.toReversed()).toEqual([
      ['tokens.create', made.id, 'ok', null, 'read adv-7'],
      ['tokens.revoke', made.id, 'ok', null, ''],
      ['keys.create', key.kid, 'ok', null, ''],
      ['keys.retire', key.kid, 'refused', 'last_active_key', ''],
      ['reconcile', '2026-03-10T08:00Z', 'ok', null, 'hours=0'],
      ['rebuild', '', 'failed', 'archive_unavailable', ''],
      ['dead-letters.redrive', '', 'refused', 'parameters_invalid', ''],
      ['PUT /v1/admin/nothing', '', 'refused', 'status_404', ''],
    ] as never);
    const text = JSON.stringify(await entries());
    for (const secret of [made.token, key.secret, 'hush']) expect(text).not.toContain(secret);
    expect((await audit.verify()).broken).toBeNull();
  });

  test('says `started` until a long act has ended, though its answer has begun', async () => {
    let finish: (value: { redriven: number }) => void = () => undefined;
    world.admin.redrive = () =>
      new Promise((resolve) => {
        finish = resolve;
      });
    const answer = await world.ask('POST', '/v1/admin/dead-letters/redrive', { all: true });
    expect(answer.status).toBe(200);
    expect((await entries())[0]).toMatchObject({
      action: 'dead-letters.redrive',
      outcome: 'started',
    });
    finish({ redriven: 4 });
    await answer.text();
    expect((await entries())[0]).toMatchObject({
      target: 'all',
      outcome: 'ok',
      detail: 'redriven=4',
    });
  });

  test('that cannot be written stops the act before it begins', async () => {
    const failing = await setUp(0, { audit: failingAt('begin') });
    const before = (await tokens.list()).length;
    const answer = await failing.ask('POST', '/v1/admin/tokens', { scope: 'admin' });
    expect(await codeOf(answer)).toEqual([503, 'audit_unavailable']);
    expect(answer.headers.get('Retry-After')).toBe('5');
    expect(await tokens.list()).toHaveLength(before);
    expect((await failing.ask('GET', '/v1/admin/tokens')).status).toBe(200);
  });

  test('whose end is lost leaves the answer as it is, and the error in the log', async () => {
    const failing = await setUp(0, { audit: failingAt('end') });
    expect((await failing.ask('POST', '/v1/admin/tokens', { scope: 'admin' })).status).toBe(201);
    expect(failing.logged.map(({ message }) => message)).toEqual([
      'the end of act 1 is not in the audit log',
    ]);
    expect((await entries())[0]).toMatchObject({ outcome: 'started' });
  });

  test('has nothing of those who may not act, nor of those who only look', async () => {
    const { token } = world.readerToken;
    await world.ask('POST', '/v1/admin/tokens', { scope: 'admin' }, token);
    await world.ask('POST', '/v1/admin/tokens', { scope: 'admin' }, 'nobody');
    for (const path of ['tokens', 'keys', 'ads', 'status', 'audit', 'audit/check']) {
      expect((await world.ask('GET', `/v1/admin/${path}`)).status).toBe(200);
    }
    expect(await entries()).toEqual([]);
  });

  test('is read page by page, newest first, with its head and a check of all lines', async () => {
    for (let at = 0; at < 5; at++) await world.ask('POST', '/v1/admin/keys', { kid: `k${at}` });
    const seen: string[] = [];
    for (let before: string | null = ''; before !== null; ) {
      const query: string = before === '' ? '' : `&before=${before}`;
      const page = (await jsonOf(world.ask('GET', `/v1/admin/audit?limit=2${query}`))) as {
        entries: { target: string }[];
        next_cursor: string | null;
      };
      seen.push(...page.entries.map(({ target }) => target));
      before = page.next_cursor;
    }
    expect(seen).toEqual(['k4', 'k3', 'k2', 'k1', 'k0']);
    const check = await jsonOf(world.ask('GET', '/v1/admin/audit/check'));
    expect(check).toEqual({ head: { ...(await audit.head()) }, broken: null });
    expect(check.head).toMatchObject({ line: 10 });
  });
});

describe('limits', () => {
  test('each token has its own, told on every answer; beyond it 429 until Retry-After', async () => {
    const limited = await setUp(3);
    const other = (await tokens.create({ scope: 'admin' })).token;
    const heads = async (path: string, token?: string) => {
      const { status, headers } = await limited.ask('GET', path, undefined, token);
      const names = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset', 'Retry-After'];
      return [status, ...names.map((name) => headers.get(name))];
    };
    expect(await heads('/v1/me')).toEqual([200, '3', '2', '20', null]);
    expect(await heads('/v1/ads/metrics')).toEqual([400, '3', '1', '40', null]);
    expect(await heads('/v1/nothing')).toEqual([404, '3', '0', '60', null]);
    expect(await heads('/v1/me')).toEqual([429, '3', '0', '60', '20']);
    expect(await codeOf(limited.ask('GET', '/v1/me'))).toEqual([429, 'rate_limited']);
    expect(await heads('/v1/me', other)).toEqual([200, '3', '2', '20', null]);
    now += 19_999;
    expect((await heads('/v1/me'))[0]).toBe(429);
    now += 1;
    expect((await heads('/v1/me'))[0]).toBe(200);
  });

  test('0 means none, and says nothing', async () => {
    const { headers } = await world.ask('GET', '/v1/me');
    expect(headers.get('RateLimit-Limit')).toBeNull();
  });

  test('wrong tokens of one address get 429 after 60 in a minute, before any is looked at', async () => {
    let looked = 0;
    const authenticate = (token: string) => {
      looked += 1;
      return tokens.authenticate(token);
    };
    const { api } = await setUp(0, { tokens: { authenticate } });
    const right = (await tokens.create({ scope: 'admin' })).token;
    const from = async (peerAddress: string, token: string) => {
      const headers = { Authorization: `Bearer ${token}` };
      const request = new Request('http://t.example/v1/me', { headers });
      return (await api.fetch(request, { peerAddress })).status;
    };
    const known = (await tokens.create({ scope: 'admin' })).token;
    expect(await from('203.0.113.7', known)).toBe(200);
    for (let at = 0; at < 60; at++) {
      expect(await from('203.0.113.7', `clk_000000000000_${at}`)).toBe(401);
    }
    expect(looked).toBe(61);
    expect(await from('203.0.113.7', right)).toBe(429);
    expect(looked).toBe(61);
    expect(await from('203.0.113.7', known)).toBe(200);
    expect(await from('203.0.113.8', right)).toBe(200);
    now += 60_000;
    expect(await from('203.0.113.7', 'nobody')).toBe(401);
  });

  test('a request without a token is no guess', async () => {
    for (let at = 0; at < 70; at++) {
      expect((await world.api.fetch(new Request('http://t.example/v1/me'))).status).toBe(401);
    }
    expect((await world.ask('GET', '/v1/me')).status).toBe(200);
  });
});
