/**
 * The signature of a click link: base64url without padding of HMAC-SHA256 over `v1` LF imp LF ad.
 *
 * The key is the secret's own text as UTF-8, not what it might decode to. Ids hold no line feed, so
 * two different pairs never give the same message. `docs/signing.md` has vectors for other languages.
 */
import { isId } from '../event/click-event.ts';
import { LedgerError } from '../platform/errors.ts';

/** Base64url length of 32 bytes without padding. */
export const SIGNATURE_LENGTH = 43;
export const CLICK_PATH = '/v1/c';
/** Default of `click.maxUrlBytes`. */
const DEFAULT_MAX_URL_BYTES = 8_192;

/** The part of a key that verifying needs; a `SigningKey` of the catalog is one. */
export interface VerifyingKey {
  readonly kid: string;
  readonly secret: string;
  readonly retiredAtMs: number | null;
}

export interface Verifier {
  /** With `kid` only that key counts; without, every active key. */
  verify(imp: string, ad: string, sig: string, kid: string | undefined): boolean;
}

function messageOf(imp: string, ad: string): string {
  return `v1\n${imp}\n${ad}`;
}

export function sign(secret: string, imp: string, ad: string): string {
  return new Bun.CryptoHasher('sha256', secret).update(messageOf(imp, ad)).digest('base64url');
}

/** Prepares the active keys among `keys` once: a click then hashes one short message per key. */
export function createVerifier(keys: readonly VerifyingKey[]): Verifier {
  const active = keys
    .filter((key) => key.retiredAtMs === null)
    .map(({ kid, secret }) => ({ kid, hasher: new Bun.CryptoHasher('sha256', secret) }));
  return {
    verify(imp, ad, sig, kid) {
      if (sig.length !== SIGNATURE_LENGTH) return false;
      const message = messageOf(imp, ad);
      let matched = false;
      // No early exit: how long it takes must not tell which key came close.
      for (const key of active) {
        if (kid !== undefined && key.kid !== kid) continue;
        const expected = key.hasher.copy().update(message).digest('base64url');
        if (equalInConstantTime(expected, sig)) matched = true;
      }
      return matched;
    },
  };
}

function equalInConstantTime(expected: string, given: string): boolean {
  let difference = expected.length ^ given.length;
  for (let at = 0; at < SIGNATURE_LENGTH; at++) {
    difference |= expected.charCodeAt(at) ^ given.charCodeAt(at);
  }
  return difference === 0;
}

export interface LinkParts {
  /** Where the click service answers, e.g. `https://click.example.com`; a path prefix is kept. */
  readonly base: string;
  readonly imp: string;
  readonly ad: string;
  readonly secret: string;
  /** Left out: every active key is tried. */
  readonly kid?: string;
  /** Longest path and query that the click service takes. */
  readonly maxUrlBytes?: number;
}

/** Builds a signed click link; refuses what the click service would not take. */
export function signedLink(parts: LinkParts): string {
  const { imp, ad, secret, kid } = parts;
  requireId('impression id', imp);
  requireId('ad id', ad);
  if (kid !== undefined) requireId('kid', kid);
  if (secret === '') throw new LedgerError('secret_empty', 'a link cannot be signed with nothing');
  const base = URL.parse(parts.base);
  if (base === null || !/^https?:$/.test(base.protocol) || base.search !== '' || base.hash !== '') {
    throw new LedgerError('base_invalid', `${parts.base} is not the address of a click service`, {
      hint: 'Give scheme and host, e.g. https://click.example.com, without query or fragment.',
    });
  }
  const path = base.pathname.replace(/\/+$/, '') + CLICK_PATH;
  const query = `imp=${imp}&ad=${ad}&sig=${sign(secret, imp, ad)}`;
  const target = `${path}?${query}${kid === undefined ? '' : `&kid=${kid}`}`;
  const maxUrlBytes = parts.maxUrlBytes ?? DEFAULT_MAX_URL_BYTES;
  if (target.length > maxUrlBytes) {
    throw new LedgerError(
      'link_too_long',
      `the link's path and query take ${target.length} bytes`,
      {
        hint: `The click service takes ${maxUrlBytes} (click.maxUrlBytes).`,
      },
    );
  }
  return base.origin + target;
}

function requireId(what: string, value: string): void {
  if (isId(value)) return;
  throw new LedgerError('id_invalid', `${JSON.stringify(value)} is not a valid ${what}`, {
    hint: 'Use 1 to 128 of the characters A–Z a–z 0–9 . _ ~ -',
  });
}
