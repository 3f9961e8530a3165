/**
 * A statement and its parameters. Builders are pure: no value ever becomes part of the text, every
 * one is bound by the engine under the type that stands in the placeholder.
 */
import { assert } from '../../platform/errors.ts';

export interface Sql {
  readonly query: string;
  readonly query_params: Record<string, unknown>;
}

type ParamType = 'String' | 'UInt32' | 'UInt64' | 'Array(String)' | 'Array(UInt32)';

/** A server refuses a parameter of more than 128 KiB; what is escaped in it takes twice its bytes. */
const MAX_PARAM_BYTES = 60_000;

export class Params {
  readonly values: Record<string, unknown> = {};
  #count = 0;

  /** Binds a value; returns the SQL for it: its placeholder, or several for a long list. */
  add(type: ParamType, value: unknown): string {
    if (!Array.isArray(value)) return this.#bind(type, value);
    const parts = inParts(value).map((part) => this.#bind(type, part));
    return parts.length === 1 ? parts[0]! : `arrayConcat(${parts.join(', ')})`;
  }

  #bind(type: ParamType, value: unknown): string {
    const name = `p${this.#count++}`;
    this.values[name] = value;
    return `{${name}:${type}}`;
  }

  /** Binds an instant as a `DateTime('UTC')`. */
  time(ms: number): string {
    return `toDateTime(${this.add('UInt32', toSeconds(ms))}, 'UTC')`;
  }

  /** `column` lies in `[fromMs, toMs)`, in a form that the primary key and partitions prune by. */
  between(column: string, fromMs: number, toMs: number): string {
    return `${column} >= ${this.time(fromMs)} AND ${column} < ${this.time(toMs)}`;
  }

  sql(query: string): Sql {
    return { query, query_params: this.values };
  }
}

function inParts(values: readonly unknown[]): unknown[][] {
  const parts: unknown[][] = [[]];
  let bytes = 0;
  for (const value of values) {
    // With the quotes and the comma.
    const more = Buffer.byteLength(String(value)) + 3;
    if (bytes + more > MAX_PARAM_BYTES && bytes > 0) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)!.push(value);
    bytes += more;
  }
  return parts;
}

const MAX_SECONDS = 2 ** 32 - 1;

/** Whole seconds of a `DateTime`; outside its years it would wrap into another year's money. */
export function toSeconds(ms: number): number {
  const seconds = ms / 1000;
  assert(
    Number.isInteger(seconds) && seconds >= 0 && seconds <= MAX_SECONDS,
    'a time in the warehouse is whole seconds between 1970 and 2106',
  );
  return seconds;
}

/** A count out of the engine, which may quote 64-bit integers. */
export function toCount(value: unknown): number {
  const count = Number(value);
  assert(Number.isSafeInteger(count) && count >= 0, 'a count is a safe whole number');
  return count;
}
