/**
 * The verifier for the keys that are valid now.
 *
 * The catalog hands out the same array until a key was added or retired, so comparing identity is
 * enough; an adapter that made a new one each time would be slower, not wrong.
 */
import type { AdLookup, SigningKey } from '../ads/port.ts';
import { createVerifier, type Verifier } from '../signing/signature.ts';

export class KeyRing {
  readonly #ads: Pick<AdLookup, 'activeKeys'>;
  #keys: readonly SigningKey[] = [];
  #verifier: Verifier = createVerifier([]);

  constructor(ads: Pick<AdLookup, 'activeKeys'>) {
    this.#ads = ads;
  }

  verifier(): Verifier {
    const keys = this.#ads.activeKeys();
    if (keys !== this.#keys) {
      this.#verifier = createVerifier(keys);
      this.#keys = keys;
    }
    return this.#verifier;
  }
}
