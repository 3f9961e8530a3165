/** Shared state of one test: what processes would share, without a server between them. */
import type { z } from 'zod';
import type { SharedState } from '../../src/control/port.ts';

export class MemoryState implements SharedState {
  readonly #values = new Map<string, string>();
  /** Set to have every request fail with it. */
  failure: Error | null = null;

  async get<T>(key: string, schema: z.ZodType<T>): Promise<T | undefined> {
    if (this.failure !== null) throw this.failure;
    const text = this.#values.get(key);
    return text === undefined ? undefined : schema.parse(JSON.parse(text));
  }

  async set(key: string, value: unknown): Promise<void> {
    if (this.failure !== null) throw this.failure;
    this.#values.set(key, JSON.stringify(value));
  }

  async update<T>(
    key: string,
    schema: z.ZodType<T>,
    change: (old: T | undefined) => T,
  ): Promise<T> {
    if (this.failure !== null) throw this.failure;
    const text = this.#values.get(key);
    const changed = change(text === undefined ? undefined : schema.parse(JSON.parse(text)));
    this.#values.set(key, JSON.stringify(changed));
    return changed;
  }
}
