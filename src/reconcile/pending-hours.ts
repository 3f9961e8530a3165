/**
 * Final hours that must be recounted because an earlier hour gained clicks or a verdict came, kept in
 * a file until they have been: a restart in between must not forget them.
 */
import { existsSync, readFileSync } from 'node:fs';
import { z } from 'zod';
import { writeJsonFile } from './json-file.ts';

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

  has(hourMs: number): boolean {
    return this.#hours.has(hourMs);
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
    writeJsonFile(this.#path, this.hours());
  }
}
