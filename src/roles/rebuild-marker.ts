/**
 * Remembers, across a crash, that the warehouse is being built again and how far it has to come.
 *
 * Until then its numbers are too small without looking wrong: whoever answers from it must refuse.
 */
import { closeSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';

export class RebuildMarker {
  readonly #path: string;
  #untilMs: number | null;

  constructor(path: string) {
    this.#path = path;
    this.#untilMs = read(path);
  }

  /** End of the hours that were final before, ms UTC; null when nothing is being built. */
  get untilMs(): number | null {
    return this.#untilMs;
  }

  begin(untilMs: number): void {
    const fd = openSync(this.#path, 'w', 0o600);
    try {
      writeSync(fd, `${untilMs}\n`);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    this.#untilMs = untilMs;
  }

  end(): void {
    rmSync(this.#path, { force: true });
    this.#untilMs = null;
  }
}

function read(path: string): number | null {
  try {
    return Number(readFileSync(path, 'utf8')) || 0;
  } catch {
    return null;
  }
}
