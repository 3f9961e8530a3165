/**
 * Which clicks are traced and under which ids: functions of the record alone, so that the click worker
 * and the ledger agree without a word between them.
 *
 * T1 The decision depends on the impression only: a click and its duplicates are traced together.
 * T2 The trace depends on impression and `clicked_at`, a span's id on its trace and name. A record that
 *    is read again gives the same ids, so a backend shows it once.
 */
import { createHash } from 'node:crypto';
import { ImpressionHash } from '../counting/impression-hash.ts';

const TWO_32 = 2 ** 32;

export class Sampler {
  readonly #below: number;
  readonly #hash = new ImpressionHash();

  constructor(ratio: number) {
    this.#below = ratio * TWO_32;
  }

  /** For whoever has hashed the impression already. */
  takesHash(hash2: number): boolean {
    return hash2 < this.#below;
  }

  takes(impressionId: string): boolean {
    this.#hash.ofText(impressionId);
    return this.takesHash(this.#hash.hash2);
  }
}

export function traceIdOf(impressionId: string, clickedAtMs: number): string {
  return digest(`clickledger click\n${impressionId}\n${clickedAtMs}`).slice(0, 32);
}

export function spanIdOf(traceId: string, name: string): string {
  return digest(`${traceId}\n${name}`).slice(0, 16);
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
