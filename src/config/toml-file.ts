/** Reads a configuration file: its values under dotted keys, each with its line for messages. */
import fs from 'node:fs';
import { parse, TomlDate, TomlError } from 'smol-toml';

export interface FileValue {
  readonly key: string;
  readonly value: unknown;
  readonly line: number | undefined;
}

/** Values and (empty) tables of the file; `problem` when it could not be read as TOML at all. */
export type FileContent =
  | { readonly values: readonly FileValue[] }
  | { readonly problem: string; readonly line: number | undefined };

export function readTomlFile(path: string): FileContent {
  let text: string;
  try {
    text = fs.readFileSync(path, 'utf8');
  } catch (error) {
    return { problem: `cannot be read (${(error as Error).message})`, line: undefined };
  }
  try {
    const lines = keyLines(text);
    const values = flatten(parse(text), '').map(([key, value]) => ({
      key,
      value,
      line: lineOf(key, lines),
    }));
    return { values };
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const reason = error.message.split('\n')[0]!.replace(/^Invalid TOML document: /, '');
    return { problem: `is not valid TOML: ${reason}`, line: error.line };
  }
}

function flatten(table: object, prefix: string): [string, unknown][] {
  return Object.entries(table).flatMap(([name, value]): [string, unknown][] => {
    const key = prefix + name;
    return isTable(value) ? [[key, {}], ...flatten(value, `${key}.`)] : [[key, value]];
  });
}

export function isTable(value: unknown): value is object {
  return (
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    !(value instanceof TomlDate)
  );
}

/**
 * The line of each `[table]` and `key =`. The parser does not tell; a scan of the text is right for
 * all but keys inside of inline tables and of multi-line strings, and only messages depend on it.
 */
function keyLines(text: string): Map<string, number> {
  const lines = new Map<string, number>();
  let table = '';
  for (const [index, line] of text.split('\n').entries()) {
    const header = /^\s*\[+\s*([\w."' -]+?)\s*\]/.exec(line)?.[1];
    const key = /^\s*([\w."'-]+(?:\s*\.\s*[\w."'-]+)*)\s*=/.exec(line)?.[1];
    const plain = (header ?? key ?? '').replace(/["'\s]/g, '');
    if (header !== undefined) {
      table = plain;
      if (!lines.has(plain)) lines.set(plain, index + 1);
    } else if (key !== undefined) {
      lines.set(table === '' ? plain : `${table}.${plain}`, index + 1);
    }
  }
  return lines;
}

/** A key inside an inline table is on the line of the table. */
function lineOf(key: string, lines: ReadonlyMap<string, number>): number | undefined {
  for (let at = key; at !== ''; at = at.slice(0, Math.max(0, at.lastIndexOf('.')))) {
    const line = lines.get(at);
    if (line !== undefined) return line;
  }
  return undefined;
}
