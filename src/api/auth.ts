/** Who asks: bearer tokens, and what each scope may see. */
import type { MiddlewareHandler } from 'hono';
import type { Principal, TokenStore } from '../auth/tokens.ts';
import type { ApiEnv } from './app.ts';
import { Problem, parameterProblem } from './problem.ts';

const REALM = 'Bearer realm="clickledger"';

export function requireToken(tokens: Pick<TokenStore, 'authenticate'>): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    c.set('principal', principalOf(tokens, c.req.header('Authorization')));
    await next();
  };
}

function principalOf(
  tokens: Pick<TokenStore, 'authenticate'>,
  header: string | undefined,
): Principal {
  if (header === undefined) {
    throw new Problem(401, 'token_missing', 'The request carries no token.', {
      hint: 'Send "Authorization: Bearer <token>".',
      headers: { 'WWW-Authenticate': REALM },
    });
  }
  const token = /^Bearer +([^\s]+)\s*$/i.exec(header)?.[1];
  const principal = token === undefined ? null : tokens.authenticate(token);
  if (principal !== null) return principal;
  throw new Problem(401, 'token_invalid', 'The token is unknown, revoked or expired.', {
    headers: { 'WWW-Authenticate': `${REALM}, error="invalid_token"` },
  });
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
