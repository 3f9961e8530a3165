/** Who asks: bearer tokens, and what each scope may see. */
import type { MiddlewareHandler } from 'hono';
import type { RequestLimits } from '../auth/limits.ts';
import type { RateDecision } from '../auth/rate-limit.ts';
import type { Principal, TokenStore } from '../auth/tokens.ts';
import type { ApiEnv } from './app.ts';
import { Problem, parameterProblem } from './problem.ts';

const REALM = 'Bearer realm="clickledger"';

export interface AccessParts {
  readonly tokens: Pick<TokenStore, 'authenticate'>;
  readonly limits: RequestLimits;
}

/** Every answer to a token says how many more requests it may send. */
export function requireToken(parts: AccessParts): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const principal = await principalOf(parts, c.req.header('Authorization'), c.env?.peerAddress);
    c.set('principal', principal);
    const decision = parts.limits.tokens?.take(principal.tokenId);
    if (decision === undefined) return next();
    if (!decision.allowed) {
      throw tooMany(decision, `This token has ${decision.limit} requests a minute.`);
    }
    await next();
    for (const [name, value] of Object.entries(rateHeaders(decision))) {
      c.res.headers.set(name, value);
    }
  };
}

async function principalOf(
  { tokens, limits }: AccessParts,
  header: string | undefined,
  peerAddress = 'unknown',
): Promise<Principal> {
  if (header === undefined) {
    throw new Problem(401, 'token_missing', 'The request carries no token.', {
      hint: 'Send "Authorization: Bearer <token>".',
      headers: { 'WWW-Authenticate': REALM },
    });
  }
  const token = /^Bearer +([^\s]+)\s*$/i.exec(header)?.[1] ?? '';
  const refusal = limits.failed.refusal(peerAddress, token);
  if (refusal !== null) {
    throw tooMany(refusal, 'Too many wrong tokens came from this address.');
  }
  const principal = await tokens.authenticate(token);
  if (principal !== null) {
    limits.failed.succeeded(token);
    return principal;
  }
  limits.failed.failed(peerAddress, token);
  throw new Problem(401, 'token_invalid', 'The token is unknown, revoked or expired.', {
    headers: { 'WWW-Authenticate': `${REALM}, error="invalid_token"` },
  });
}

function tooMany(decision: RateDecision, detail: string): Problem {
  return new Problem(429, 'rate_limited', detail, {
    hint: 'Repeat the request after as many seconds as Retry-After says.',
    headers: { ...rateHeaders(decision), 'Retry-After': seconds(decision.retryAfterMs) },
  });
}

function rateHeaders({ limit, remaining, resetMs }: RateDecision): Record<string, string> {
  return {
    'RateLimit-Limit': String(limit),
    'RateLimit-Remaining': String(remaining),
    'RateLimit-Reset': seconds(resetMs),
  };
}

/** Rounded up: who waits that long is not refused again. */
function seconds(ms: number): string {
  return String(Math.ceil(ms / 1000));
}

export const requireAdmin: MiddlewareHandler<ApiEnv> = async (c, next) => {
  if (c.get('principal').scope !== 'admin') {
    throw new Problem(403, 'scope_insufficient', 'This needs a token of scope admin.', {
      headers: { 'WWW-Authenticate': `${REALM}, error="insufficient_scope", scope="admin"` },
    });
  }
  await next();
};

/**
 * The advertiser whose rows the answer holds; undefined means all of them, which only an admin token
 * can ask for. Nothing is looked up: the answer is the same whether the other one exists or not.
 */
export function advertiserOf(principal: Principal, asked: string | undefined): string | undefined {
  if (principal.scope === 'admin' || asked === undefined || asked === principal.advertiserId) {
    return principal.scope === 'admin' ? asked : principal.advertiserId;
  }
  throw new Problem(403, 'advertiser_forbidden', 'This token reads one advertiser, not that one.', {
    hint: 'Leave advertiser_id out.',
  });
}

export function oneAdvertiserOf(principal: Principal, asked: string | undefined): string {
  const advertiserId = advertiserOf(principal, asked);
  if (advertiserId !== undefined) return advertiserId;
  throw parameterProblem([
    { parameter: 'advertiser_id', message: 'An admin token must name the advertiser.' },
  ]);
}
