/**
 * Signing keys that every machine has: kept in the shared state, copied into each machine's catalog,
 * which is where click workers look them up.
 *
 * K1 A key is in the shared state before any catalog has it, so that no machine signs or checks with
 *    one that the others never learn of.
 * K2 What is away changes nothing: each catalog keeps the keys that it has.
 * K3 A key's secret never changes, and a retired key stays retired, also where the shared state has come
 *    back from a backup that does not know of it.
 */
import { z } from 'zod';
import type { SharedState } from '../control/port.ts';
import { LedgerError } from '../platform/errors.ts';
import type { KeyStore, SigningKey } from './port.ts';

const STATE_KEY = 'signing-keys';
const keysSchema: z.ZodType<SigningKey[]> = z.array(
  z.strictObject({
    kid: z.string(),
    secret: z.string(),
    createdAtMs: z.int(),
    retiredAtMs: z.int().nullable(),
  }),
);

export class SharedKeys implements KeyStore {
  readonly #state: SharedState;
  readonly #catalog: KeyStore;

  constructor(state: SharedState, catalog: KeyStore) {
    this.#state = state;
    this.#catalog = catalog;
  }

  keys(): readonly SigningKey[] {
    return this.#catalog.keys();
  }

  activeKeys(): readonly SigningKey[] {
    return this.#catalog.activeKeys();
  }

  async putKey(key: SigningKey): Promise<void> {
    await this.#state.update(STATE_KEY, keysSchema, (old = []) => added(old, key)); // K1
    await this.#catalog.putKey(key);
  }

  /** Takes over keys that other machines have made or retired. Returns how many. */
  async pull(): Promise<number> {
    const shared = (await this.#state.get(STATE_KEY, keysSchema)) ?? [];
    const own = new Map(this.#catalog.keys().map((key) => [key.kid, key]));
    let taken = 0;
    for (const key of shared) {
      const known = own.get(key.kid);
      const isRetiredHere = known !== undefined && known.retiredAtMs !== null;
      if (isRetiredHere || (known !== undefined && key.retiredAtMs === null)) continue; // K3
      await this.#catalog.putKey(key);
      taken++;
    }
    return taken;
  }

  /** Brings keys that only this catalog has to the others: those of a machine that ran alone before. */
  async push(): Promise<void> {
    for (const key of this.#catalog.keys()) {
      await this.#state.update(STATE_KEY, keysSchema, (old = []) => added(old, key));
    }
  }
}

/** K3. */
function added(keys: readonly SigningKey[], key: SigningKey): SigningKey[] {
  const known = keys.find(({ kid }) => kid === key.kid);
  if (known === undefined) return [...keys, key];
  if (known.secret !== key.secret) {
    throw new LedgerError('kid_taken', `a key named ${key.kid} exists`, {
      hint: 'Choose another name: links signed with the older key would change their meaning.',
    });
  }
  const retiredAtMs = known.retiredAtMs ?? key.retiredAtMs;
  return keys.map((each) => (each === known ? { ...known, retiredAtMs } : each));
}
