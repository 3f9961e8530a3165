/** Reads a file of verdicts, CSV or NDJSON, as rows. */
import { LedgerError } from '../platform/errors.ts';
import type { ByteSource } from '../platform/row-types.ts';
import { readRows } from '../platform/rows.ts';
import { VERDICT_COLUMNS } from './check.ts';
import type { VerdictRow } from './port.ts';

/** The rows of the file at `path`, of the standard input for `-`; a row that cannot be read has a `problem`. */
export async function* readVerdictFile(path: string): AsyncGenerator<VerdictRow> {
  const source = await openSource(path);
  const fileName = path === '-' ? undefined : path;
  for await (const row of readRows(source, { columns: VERDICT_COLUMNS, fileName })) {
    if (row.ok) yield { line: row.line, record: row.record };
    else yield { line: row.line, record: {}, problem: row.reason };
  }
}

async function openSource(path: string): Promise<ByteSource> {
  if (path === '-') return Bun.stdin.stream();
  const file = Bun.file(path);
  if (await file.exists()) return file.stream();
  throw new LedgerError('verdict_file_missing', `there is no file ${path}`, {
    hint: 'Check the path; it is taken from the folder that the command runs in. `-` reads the standard input.',
  });
}
