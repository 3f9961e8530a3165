/** Rows of a CSV or NDJSON file that a command was given, wrong ones included. */
import { LedgerError } from './errors.ts';
import type { ByteSource, Columns } from './row-types.ts';
import { readRows } from './rows.ts';

/** A row of a file that was read, or the reason why its line could not be. */
export interface FileRow {
  /** Line in the file, from 1. */
  readonly line: number;
  /** Empty when there is a problem. */
  readonly record: Readonly<Record<string, unknown>>;
  readonly problem?: string;
}

/**
 * The rows of the file at `path`, of the standard input for `-`. The extension tells the format,
 * else the first character. A row that cannot be read is a row with a `problem`, so that it is
 * reported together with what is wrong in the others. Throws LedgerError `file_missing`.
 */
export async function* readRowsFile(path: string, columns: Columns): AsyncGenerator<FileRow> {
  const source = await openSource(path);
  const fileName = path === '-' ? undefined : path;
  for await (const row of readRows(source, { columns, fileName })) {
    if (row.ok) yield { line: row.line, record: row.record };
    else yield { line: row.line, record: {}, problem: row.reason };
  }
}

async function openSource(path: string): Promise<ByteSource> {
  if (path === '-') return Bun.stdin.stream();
  const file = Bun.file(path);
  if (await file.exists()) return file.stream();
  throw new LedgerError('file_missing', `there is no file ${path}`, {
    hint: 'Check the path; it is taken from the folder that the command runs in. `-` reads the standard input.',
  });
}
