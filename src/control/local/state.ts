/**
 * Shared state of one process: a small file of JSON for each key, in one folder.
 *
 * A value is replaced as a whole: after a crash it is the old one or the new one. Whoever deletes the
 * folder deletes the values, also under a running process: nothing is kept in memory.
 */
import {
  closeSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { z } from 'zod';
import { assert } from '../../platform/errors.ts';
import type { SharedState } from '../port.ts';
import { checkedValue } from '../shared-value.ts';

export interface LocalStateOptions {
  readonly dir: string;
  /** Files of keys that are not named after their key. */
  readonly names?: Readonly<Record<string, string>>;
}

export function openLocalState(options: LocalStateOptions): SharedState {
  return new LocalState(options);
}

class LocalState implements SharedState {
  readonly #options: LocalStateOptions;

  constructor(options: LocalStateOptions) {
    this.#options = options;
  }

  async get<T>(key: string, schema: z.ZodType<T>): Promise<T | undefined> {
    return this.#read(key, schema);
  }

  async set(key: string, value: unknown): Promise<void> {
    this.#write(key, value);
  }

  /** Without a pause between reading and writing, so that no other change of this process fits in. */
  async update<T>(
    key: string,
    schema: z.ZodType<T>,
    change: (old: T | undefined) => T,
  ): Promise<T> {
    const changed = change(this.#read(key, schema));
    this.#write(key, changed);
    return changed;
  }

  #read<T>(key: string, schema: z.ZodType<T>): T | undefined {
    let text: string;
    try {
      text = readFileSync(this.#path(key), 'utf8');
    } catch (error) {
      if ((error as { code?: unknown }).code === 'ENOENT') return undefined;
      throw error;
    }
    return checkedValue(key, schema, JSON.parse(text));
  }

  #write(key: string, value: unknown): void {
    const path = this.#path(key);
    mkdirSync(this.#options.dir, { recursive: true, mode: 0o700 });
    writeDurably(`${path}.tmp`, JSON.stringify(value));
    renameSync(`${path}.tmp`, path);
    syncFolder(this.#options.dir);
  }

  #path(key: string): string {
    assert(/^[a-z0-9-]+$/.test(key), 'a key of the shared state is a plain name');
    return join(this.#options.dir, this.#options.names?.[key] ?? `${key}.json`);
  }
}

function writeDurably(path: string, text: string): void {
  const fd = openSync(path, 'w', 0o600);
  try {
    writeSync(fd, text);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Makes the rename itself durable. */
function syncFolder(dir: string): void {
  const fd = openSync(dir, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
