/**
 * What each published recount has taken back, in a small file per hour: impressions that an earlier
 * hour has, and impressions that a verdict calls invalid. Evidence says by it why a click does not
 * count, and so agrees with the number that is final, whatever has come in since.
 *
 * Derived: a file that is missing or cut short is made again by a recount. Its name carries attempt
 * and input of the recount, so that one is never taken for another.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, unlinkSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HashIndex } from '../platform/hash-index.ts';
import type { HourState } from '../warehouse/port.ts';
import type { TakenBack } from './recount.ts';

const DIGEST_DIGITS = 16;
/** How many impressions of either kind. */
const HEADER_WORDS = 2;
const HASH_WORDS = 3;

export type RecountOfHour = Pick<HourState, 'hourMs' | 'attempt' | 'inputDigest'>;

export class TakenBackFiles {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }

  read(recount: RecountOfHour): TakenBack | null {
    const path = join(this.#dir, nameOf(recount));
    if (!existsSync(path)) return null;
    const bytes = readFileSync(path);
    if (bytes.length % 4 !== 0 || bytes.length < HEADER_WORDS * 4) return null;
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
    const seenEnd = HEADER_WORDS + words[0]! * HASH_WORDS;
    if (words.length !== seenEnd + words[1]! * HASH_WORDS) return null;
    const back = { seen: new HashIndex(), invalid: new HashIndex() };
    back.seen.addAll(words.subarray(HEADER_WORDS, seenEnd));
    back.invalid.addAll(words.subarray(seenEnd));
    return back;
  }

  async write(recount: RecountOfHour, { seen, invalid }: TakenBack): Promise<void> {
    const words = new Uint32Array(HEADER_WORDS + (seen.size + invalid.size) * HASH_WORDS);
    words.set([seen.size, invalid.size]);
    words.set(seen.words(), HEADER_WORDS);
    words.set(invalid.words(), HEADER_WORDS + seen.size * HASH_WORDS);
    const path = join(this.#dir, nameOf(recount));
    await writeFile(`${path}.tmp`, new Uint8Array(words.buffer), { mode: 0o600 });
    await rename(`${path}.tmp`, path);
  }

  /** Removes files of hours before `beforeMs`, and of other recounts of this hour. */
  prune(beforeMs: number, recount: RecountOfHour): void {
    const keep = nameOf(recount);
    for (const name of readdirSync(this.#dir)) {
      const hourMs = Number(name.split('-')[0]);
      const isOther = hourMs === recount.hourMs && name !== keep;
      if (hourMs < beforeMs || isOther) unlinkSync(join(this.#dir, name));
    }
  }
}

function nameOf({ hourMs, attempt, inputDigest }: RecountOfHour): string {
  return `${hourMs}-${attempt}-${inputDigest.slice(0, DIGEST_DIGITS)}.back`;
}
