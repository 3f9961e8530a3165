/**
 * Final hours that must be recounted because an earlier hour gained clicks, kept in a file until
 * they have been: a restart in between must not forget them.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs';
import { z } from 'zod';

const fileSchema = z.array(z.int());

export class PendingHours {
  readonly #path: string;
  readonly #hours: Set<number>;

  constructor(path: string) {
    this.#path = path;
    const text = existsSync(path) ? readFileSync(path, 'utf8') : '[]';
    this.#hours = new Set(fileSchema.parse(JSON.parse(text)));
  }

  /** Ascending. */
  hours(): number[] {
    return [...this.#hours].sort((a, b) => a - b);
  }

  add(hours: readonly number[]): void {
    if (hours.every((hourMs) => this.#hours.has(hourMs))) return;
    for (const hourMs of hours) this.#hours.add(hourMs);
    this.#save();
  }

  remove(hourMs: number): void {
    if (this.#hours.delete(hourMs)) this.#save();
  }

  #save(): void {
    const temporary = `${this.#path}.tmp`;
    const fd = openSync(temporary, 'w', 0o600);
    try {
      writeSync(fd, JSON.stringify(this.hours()));
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, this.#path);
  }
}
