/**
 * Who may ask, for admins: tokens, signing keys, ads, the audit log; and for everybody, who they are.
 *
 * A token's text and a key's secret are in the one answer that makes them, and in no other.
 */
import type { Context } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { z } from 'zod';
import type { Ad, AdCatalog, SigningKey } from '../ads/port.ts';
import type { AuditEntry, AuditLog } from '../auth/audit-log.ts';
import { scopeText, type TokenInfo, type TokenScope, type TokenStore } from '../auth/tokens.ts';
import { VERSION } from '../version.ts';
import {
  ACCESS_OPERATIONS,
  adsSchema,
  auditSchema,
  newKeySchema,
  newTokenSchema,
  retireSchema,
} from './access-operations.ts';
import { noteAct } from './acts.ts';
import type { ApiApp, ApiEnv } from './app.ts';
import type { ApiFeature } from './operation.ts';
import { jsonObject, parseParameters, rawParameters } from './parameters.ts';
import { Problem, parameterProblem } from './problem.ts';
import { parseTime } from './time.ts';

export interface AccessRouteParts {
  readonly tokens: Pick<TokenStore, 'create' | 'revoke' | 'list' | 'get'>;
  readonly keys: {
    list(): readonly SigningKey[];
    create(kid: string | undefined): Promise<SigningKey>;
    retire(which: { kid: string; force: boolean }): Promise<SigningKey>;
  };
  readonly ads: Pick<AdCatalog, 'list'>;
  readonly audit: Pick<AuditLog, 'list' | 'verify' | 'head'>;
}

const MAX_BODY_BYTES = 16 * 1024;
const TOKEN_ID = /^[0-9a-f]{12}$/;

const nothingSchema = z.strictObject({});

export function accessFeature(parts: AccessRouteParts): ApiFeature {
  return {
    operations: ACCESS_OPERATIONS,
    add(app) {
      app.get('/v1/me', async (c) => c.json(await me(parts, c)));
      addTokens(app, parts);
      addKeys(app, parts);
      addAds(app, parts);
      addAudit(app, parts);
    },
  };
}

const limited = bodyLimit({
  maxSize: MAX_BODY_BYTES,
  onError: () => {
    throw new Problem(413, 'body_too_large', `A body has at most ${MAX_BODY_BYTES} bytes here.`);
  },
});

async function me({ tokens }: AccessRouteParts, c: Context<ApiEnv>): Promise<object> {
  const principal = c.get('principal');
  const info = await tokens.get(principal.tokenId);
  return {
    token_id: principal.tokenId,
    scope: principal.scope,
    advertiser_id: principal.scope === 'read' ? principal.advertiserId : null,
    expires_at: instant(info?.expiresAtMs ?? null),
    version: VERSION,
  };
}

function addTokens(app: ApiApp, { tokens }: AccessRouteParts): void {
  app.get('/v1/admin/tokens', async (c) => {
    parseParameters(nothingSchema, await rawParameters(c));
    return c.json({ tokens: (await tokens.list()).map(tokenView), next_cursor: null });
  });
  app.post('/v1/admin/tokens', limited, async (c) => {
    const params = parseParameters(newTokenSchema, await jsonObject(c));
    const scope = scopeOf(params);
    const expiresAtMs = expiryOf(params.expires_at ?? undefined);
    const created = await tokens.create(scope, {
      ...(params.name === undefined ? {} : { name: params.name }),
      ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
    });
    noteAct(c, { target: created.id, detail: scopeText(scope) });
    const info = await tokens.get(created.id);
    return c.json({ ...(info === null ? {} : tokenView(info)), token: created.token }, 201);
  });
  app.delete('/v1/admin/tokens/:id', async (c) => {
    const tokenId = c.req.param('id');
    // The text of a token has no place in a path: paths end up in logs.
    if (!TOKEN_ID.test(tokenId) || (await tokens.get(tokenId)) === null) throw unknownToken();
    await tokens.revoke(tokenId);
    return c.body(null, 204);
  });
}

function unknownToken(): Problem {
  return new Problem(404, 'token_unknown', 'There is no token with this id.', {
    hint: 'GET /v1/admin/tokens lists them.',
  });
}

function scopeOf(params: z.infer<typeof newTokenSchema>): TokenScope {
  const { scope, advertiser_id: advertiserId } = params;
  if (scope === 'read' && advertiserId !== undefined) return { scope, advertiserId };
  if (scope === 'admin' && advertiserId === undefined) return { scope };
  const message =
    scope === 'read' ? 'A token of scope read needs one.' : 'A token of scope admin has none.';
  throw parameterProblem([{ parameter: 'advertiser_id', message }]);
}

function expiryOf(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const parsed = parseTime(value, 'UTC');
  if ('ms' in parsed) return parsed.ms;
  throw parameterProblem([{ parameter: 'expires_at', message: parsed.problem }]);
}

function tokenView(info: TokenInfo): object {
  return {
    id: info.id,
    name: info.name,
    scope: info.scope,
    advertiser_id: info.advertiserId,
    created_at: instant(info.createdAtMs),
    expires_at: instant(info.expiresAtMs),
    revoked_at: instant(info.revokedAtMs),
    last_used_at: instant(info.lastUsedAtMs),
  };
}

function addKeys(app: ApiApp, { keys }: AccessRouteParts): void {
  app.get('/v1/admin/keys', async (c) => {
    parseParameters(nothingSchema, await rawParameters(c));
    return c.json({ keys: keys.list().map(keyView), next_cursor: null });
  });
  app.post('/v1/admin/keys', limited, async (c) => {
    const { kid } = parseParameters(newKeySchema, await jsonObject(c));
    const key = await keys.create(kid);
    noteAct(c, { target: key.kid });
    return c.json({ ...keyView(key), secret: key.secret }, 201);
  });
  app.post('/v1/admin/keys/:kid/retire', limited, async (c) => {
    const { force } = parseParameters(retireSchema, await jsonObject(c));
    if (force) noteAct(c, { detail: 'force' });
    return c.json(keyView(await keys.retire({ kid: c.req.param('kid'), force })));
  });
}

function keyView({ kid, createdAtMs, retiredAtMs }: SigningKey): object {
  return { kid, created_at: instant(createdAtMs), retired_at: instant(retiredAtMs) };
}

function addAds(app: ApiApp, { ads }: AccessRouteParts): void {
  app.get('/v1/admin/ads', async (c) => {
    const params = parseParameters(adsSchema, await rawParameters(c));
    const { advertiser_id: advertiserId, after, limit } = params;
    const page = ads.list({
      limit: limit + 1,
      ...(after === undefined ? {} : { afterAdId: after }),
      ...(advertiserId === undefined ? {} : { advertiserId }),
    });
    const shown = page.slice(0, limit);
    const next = page.length > limit ? (shown.at(-1)?.adId ?? null) : null;
    return c.json({ ads: shown.map(adView), next_cursor: next });
  });
}

function adView(ad: Ad): object {
  return {
    ad_id: ad.adId,
    advertiser_id: ad.advertiserId,
    campaign_id: ad.campaignId,
    target_url: ad.targetUrl,
    pass_query: ad.passQuery,
  };
}

function addAudit(app: ApiApp, { audit }: AccessRouteParts): void {
  app.get('/v1/admin/audit', async (c) => {
    const { before, limit } = parseParameters(auditSchema, await rawParameters(c));
    const page = await audit.list({
      limit: limit + 1,
      ...(before === undefined ? {} : { beforeId: before }),
    });
    const shown = page.slice(0, limit);
    const next = page.length > limit ? (shown.at(-1)?.id ?? null) : null;
    return c.json({
      entries: shown.map(entryView),
      head: await audit.head(),
      next_cursor: next === null ? null : String(next),
    });
  });
  app.get('/v1/admin/audit/check', async (c) => {
    parseParameters(nothingSchema, await rawParameters(c));
    return c.json(await audit.verify());
  });
}

function entryView(entry: AuditEntry): object {
  return {
    id: String(entry.id),
    at: instant(entry.atMs),
    actor: entry.actor,
    action: entry.action,
    target: entry.target,
    detail: entry.detail,
    outcome: entry.outcome,
    code: entry.code,
    ended_at: instant(entry.endedAtMs),
  };
}

function instant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
