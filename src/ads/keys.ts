/**
 * Signing keys: made, retired, listed by the catalog.
 *
 * Rotation: create a key, let the ad servers sign with it, retire the old one when its last links
 * have expired. Both verify in between.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { KeyStore, SigningKey } from './port.ts';

const KID_PATTERN = /^[A-Za-z0-9._~-]{1,32}$/;
const SECRET_BYTES = 32;
const KID_RANDOM_BYTES = 4;

export function isKid(value: string): boolean {
  return KID_PATTERN.test(value);
}

/** Makes a key that verifies at once. The secret is 43 base64url characters, used as they stand. */
export async function createKey(
  catalog: KeyStore,
  clock: Clock,
  kid: string = `k${randomBytes(KID_RANDOM_BYTES).toString('hex')}`,
): Promise<SigningKey> {
  if (!isKid(kid)) {
    throw new LedgerError('kid_invalid', `${JSON.stringify(kid)} cannot name a key`, {
      hint: 'Use 1 to 32 of the characters A–Z a–z 0–9 . _ ~ -',
    });
  }
  if (catalog.keys().some((key) => key.kid === kid)) {
    throw new LedgerError('kid_taken', `a key named ${kid} exists`, {
      hint: 'Choose another name: links signed with the older key would change their meaning.',
    });
  }
  const secret = randomBytes(SECRET_BYTES).toString('base64url');
  const key: SigningKey = { kid, secret, createdAtMs: clock(), retiredAtMs: null };
  await catalog.putKey(key);
  return key;
}

/**
 * Ends a key: its links get 403 within a second. Retiring twice keeps the first time. The last key
 * that verifies is only retired with `force`, for a secret that has leaked.
 */
export async function retireKey(
  catalog: KeyStore,
  clock: Clock,
  { kid, force = false }: { readonly kid: string; readonly force?: boolean },
): Promise<SigningKey> {
  const key = catalog.keys().find((candidate) => candidate.kid === kid);
  if (key === undefined) {
    throw new LedgerError('kid_unknown', `there is no key named ${kid}`, {
      hint: 'List the keys to see their names.',
    });
  }
  if (key.retiredAtMs !== null) return key;
  if (!force && catalog.activeKeys().length === 1) {
    throw new LedgerError('last_active_key', `${kid} is the only key that verifies links`, {
      hint: 'Create another key first, or every click gets 403; force retires it nevertheless.',
    });
  }
  const retired: SigningKey = { ...key, retiredAtMs: clock() };
  await catalog.putKey(retired);
  return retired;
}

/** Gives a fresh data folder its first key, so that it can sign links right after the start. */
export async function ensureFirstKey(catalog: KeyStore, clock: Clock): Promise<SigningKey | null> {
  return catalog.keys().length > 0 ? null : createKey(catalog, clock);
}
