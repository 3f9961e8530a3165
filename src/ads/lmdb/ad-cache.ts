/**
 * A bounded memory of decoded ads, so that busy ads cost a map look-up instead of a tree walk.
 *
 * Two generations stand in for a least-recently-used list: a full young one becomes the old one,
 * and an ad found there moves back. Whoever owns the cache drops it when the store changes.
 */
import type { Ad } from '../port.ts';

export class AdCache {
  #young = new Map<string, Ad>();
  #old = new Map<string, Ad>();
  readonly #generationMax: number;

  constructor(generationMax: number) {
    this.#generationMax = generationMax;
  }

  get(adId: string): Ad | undefined {
    const young = this.#young.get(adId);
    if (young !== undefined) return young;
    const old = this.#old.get(adId);
    if (old !== undefined) this.set(old);
    return old;
  }

  set(ad: Ad): void {
    if (this.#young.size >= this.#generationMax) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(ad.adId, ad);
  }

  clear(): void {
    if (this.#young.size > 0) this.#young = new Map();
    if (this.#old.size > 0) this.#old = new Map();
  }
}
