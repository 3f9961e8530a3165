/** Reads NDJSON: one JSON object a line; blank lines are skipped. */
import { type Columns, columnProblem, MAX_ROW_LENGTH, type Row } from './row-types.ts';

export async function* readNdjson(
  chunks: AsyncIterable<string>,
  columns: Columns,
): AsyncGenerator<Row> {
  let rest = '';
  let line = 1;
  for await (const chunk of chunks) {
    rest += chunk;
    let at = 0;
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n', at)) {
      const row = parseLine(rest.slice(at, end), line, columns);
      if (row !== null) yield row;
      at = end + 1;
      line += 1;
    }
    rest = rest.slice(at);
    if (rest.length > MAX_ROW_LENGTH) {
      yield { ok: false, line, reason: `the line is longer than ${MAX_ROW_LENGTH} characters` };
      return;
    }
  }
  const row = parseLine(rest, line, columns);
  if (row !== null) yield row;
}

function parseLine(text: string, line: number, columns: Columns): Row | null {
  if (text.trim() === '') return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { ok: false, line, reason: 'the line is not JSON' };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { ok: false, line, reason: 'the line is not a JSON object' };
  }
  const record = value as Record<string, unknown>;
  const problem = columnProblem(Object.keys(record), columns);
  return problem === null ? { ok: true, line, record } : { ok: false, line, reason: problem };
}
