/**
 * Reads CSV as RFC 4180 has it: a header row, quoted fields with doubled quotes and line ends in
 * them, LF or CRLF. Stricter than most: a stray quote or a wrong number of fields is a mistake.
 */
import { type Columns, columnProblem, MAX_ROW_LENGTH, quoted, type Row } from './row-types.ts';

type Parsed =
  | { readonly fields: readonly string[]; readonly next: number }
  | { readonly reason: string; readonly next: number };

export async function* readCsv(
  chunks: AsyncIterable<string>,
  columns: Columns,
): AsyncGenerator<Row> {
  let header: readonly string[] | null = null;
  for await (const { line, parsed } of readRecords(chunks)) {
    if ('reason' in parsed) {
      yield { ok: false, line, reason: parsed.reason };
      if (header === null) return;
    } else if (header === null) {
      header = parsed.fields.map((name) => name.trim());
      const reason = headerProblem(header, columns);
      if (reason === null) continue;
      yield { ok: false, line, reason };
      return;
    } else {
      yield toRow(header, parsed.fields, line);
    }
  }
}

function headerProblem(header: readonly string[], columns: Columns): string | null {
  const twice = header.find((name, at) => header.indexOf(name) !== at);
  if (twice !== undefined) return `column ${quoted(twice)} appears twice in the header row`;
  const problem = columnProblem(header, columns);
  return problem === null ? null : `${problem} in the header row`;
}

function toRow(header: readonly string[], fields: readonly string[], line: number): Row {
  if (fields.length !== header.length) {
    const reason = `${fields.length} fields where the header row has ${header.length}`;
    return { ok: false, line, reason };
  }
  const record = Object.fromEntries(header.map((name, at) => [name, fields[at]!]));
  return { ok: true, line, record };
}

/** Every record that is not a blank line, with the line that it starts on. */
async function* readRecords(
  chunks: AsyncIterable<string>,
): AsyncGenerator<{ line: number; parsed: Parsed }> {
  let rest = '';
  let line = 1;
  for await (const chunk of chunks) {
    rest += chunk;
    let at = 0;
    for (let parsed = parse(rest, at, false); parsed !== null; parsed = parse(rest, at, false)) {
      if (!isBlank(parsed)) yield { line, parsed };
      line += lineEnds(rest, at, parsed.next);
      at = parsed.next;
    }
    rest = rest.slice(at);
    if (rest.length > MAX_ROW_LENGTH) {
      const reason = `the row is longer than ${MAX_ROW_LENGTH} characters: is a quote left open?`;
      yield { line, parsed: { reason, next: 0 } };
      return;
    }
  }
  // What is left may be more than one record: a quote left open can hold them back until the end.
  for (let at = 0; at < rest.length; ) {
    const parsed = parse(rest, at, true)!;
    if (!isBlank(parsed)) yield { line, parsed };
    line += lineEnds(rest, at, parsed.next);
    at = parsed.next;
  }
}

function isBlank(parsed: Parsed): boolean {
  return 'fields' in parsed && parsed.fields.length === 1 && parsed.fields[0] === '';
}

function lineEnds(text: string, from: number, to: number): number {
  let count = 0;
  for (let at = text.indexOf('\n', from); at >= 0 && at < to; at = text.indexOf('\n', at + 1)) {
    count += 1;
  }
  return count;
}

/** The record at `from`; null when `text` ends in it and more text may come. */
function parse(text: string, from: number, isLast: boolean): Parsed | null {
  const end = text.indexOf('\n', from);
  const line = end < 0 ? text.slice(from) : text.slice(from, end);
  if (!line.includes('"')) {
    if (end < 0 && !isLast) return null;
    const bare = line.endsWith('\r') ? line.slice(0, -1) : line;
    return { fields: bare.split(','), next: end < 0 ? text.length : end + 1 };
  }
  return parseQuoted(text, from, isLast);
}

function parseQuoted(text: string, from: number, isLast: boolean): Parsed | null {
  const fields: string[] = [];
  for (let at = from; ; at += 1) {
    const field = text[at] === '"' ? quotedField(text, at) : bareField(text, at);
    if (field === null || (field.end >= text.length && !isLast)) {
      return isLast ? { reason: 'a quote is never closed', next: text.length } : null;
    }
    fields.push(field.value);
    at = field.end;
    const next = recordEnd(text, at);
    if (next >= 0) return { fields, next };
    // A CR at the very end may be half of a CRLF.
    if (text[at] === '\r' && at + 1 >= text.length && !isLast) return null;
    if (text[at] !== ',') return skipLine(text, at, isLast);
  }
}

/** Where the next record starts when one ends at `at`, else -1. */
function recordEnd(text: string, at: number): number {
  if (at >= text.length) return text.length;
  if (text[at] === '\n') return at + 1;
  return text[at] === '\r' && text[at + 1] === '\n' ? at + 2 : -1;
}

function skipLine(text: string, at: number, isLast: boolean): Parsed | null {
  const end = text.indexOf('\n', at);
  if (end < 0 && !isLast) return null;
  const reason = 'a quote stands inside a field that is not quoted, or text after a closing quote';
  return { reason, next: end < 0 ? text.length : end + 1 };
}

function quotedField(text: string, at: number): { value: string; end: number } | null {
  let close = text.indexOf('"', at + 1);
  while (close >= 0 && text[close + 1] === '"') close = text.indexOf('"', close + 2);
  if (close < 0) return null;
  return { value: text.slice(at + 1, close).replaceAll('""', '"'), end: close + 1 };
}

const BARE_END = /[,\n"]|\r\n/g;

function bareField(text: string, at: number): { value: string; end: number } {
  BARE_END.lastIndex = at;
  const end = BARE_END.exec(text)?.index ?? text.length;
  return { value: text.slice(at, end), end };
}
