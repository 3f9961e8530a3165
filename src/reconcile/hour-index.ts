/**
 * The impressions of each hour, as hashes in a file: what a later hour's recount looks back into.
 *
 * Derived from the archive. A file's name carries the digest of the objects that it was made from,
 * so one that no longer fits is simply not found and made again.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, unlinkSync } from 'node:fs';
import { open, rename } from 'node:fs/promises';
import { join } from 'node:path';

/** Digests in names are cut to this many hex digits: 128 bits. */
const DIGEST_DIGITS = 32;

export class HourIndexes {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }

  /** The hour's hashes (three words each), or null when there is no file for this digest. */
  read(hourMs: number, digest: string): Uint32Array | null {
    const path = this.#path(hourMs, digest);
    if (!existsSync(path)) return null;
    const bytes = readFileSync(path);
    if (bytes.length % 12 !== 0) return null;
    return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  }

  /** Stores the hashes; an older file of the hour stays until `prune`. */
  async write(hourMs: number, digest: string, words: Uint32Array): Promise<void> {
    const path = this.#path(hourMs, digest);
    const file = await open(`${path}.tmp`, 'w', 0o600);
    try {
      await file.writeFile(new Uint8Array(words.buffer, words.byteOffset, words.byteLength));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(`${path}.tmp`, path);
  }

  /** Removes files of hours before `beforeMs`, and files of `hourMs` with another digest. */
  prune(beforeMs: number, hourMs: number, digest: string): void {
    const keep = this.#name(hourMs, digest);
    for (const name of readdirSync(this.#dir)) {
      const hour = Number(name.split('-')[0]);
      if (hour < beforeMs || (hour === hourMs && name !== keep)) unlinkSync(join(this.#dir, name));
    }
  }

  #name(hourMs: number, digest: string): string {
    return `${hourMs}-${digest.slice(0, DIGEST_DIGITS)}.idx`;
  }

  #path(hourMs: number, digest: string): string {
    return join(this.#dir, this.#name(hourMs, digest));
  }
}
