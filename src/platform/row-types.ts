/** What the readers of row files share. */

/** The bytes of a file or of a request's body. */
export type ByteSource = AsyncIterable<Uint8Array>;

export type RowFormat = 'csv' | 'ndjson';

/** Names that a row may have. Any other name is a mistake, not a thing to drop silently. */
export interface Columns {
  readonly required: readonly string[];
  readonly optional: readonly string[];
}

/** `line` is where the row starts, from 1. CSV values are strings, NDJSON values are what JSON says. */
export type Row =
  | { readonly ok: true; readonly line: number; readonly record: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly line: number; readonly reason: string };

/** A longer row is a broken file (a quote left open, a binary), and must not fill the memory. */
export const MAX_ROW_LENGTH = 1 << 20;

/** Says which names are unknown or missing, or null when all is well. */
export function columnProblem(names: readonly string[], columns: Columns): string | null {
  const known = (name: string) =>
    columns.required.includes(name) || columns.optional.includes(name);
  const unknown = names.filter((name) => !known(name));
  if (unknown.length > 0) return `unknown column ${unknown.map(quoted).join(', ')}`;
  const missing = columns.required.filter((name) => !names.includes(name));
  return missing.length > 0 ? `missing column ${missing.map(quoted).join(', ')}` : null;
}

/** Text of a file in a message: quoted, one line, cut. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
