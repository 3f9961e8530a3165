/** Reads a file of recorded clicks, CSV or NDJSON, as rows for `ingest`. */
import type { IngestRow } from '../api/admin-port.ts';
import { LedgerError } from '../platform/errors.ts';
import type { ByteSource } from '../platform/row-types.ts';
import { readRows } from '../platform/rows.ts';
import { INGEST_COLUMNS } from './recorded-click.ts';

/**
 * The rows of the file at `path`, of the standard input for `-`. The extension tells the format,
 * else the first character. A row that cannot be read is a row with a `problem`, so that it is
 * reported together with what is wrong in the others.
 */
export async function* readIngestFile(path: string): AsyncGenerator<IngestRow> {
  const source = await openSource(path);
  const fileName = path === '-' ? undefined : path;
  for await (const row of readRows(source, { columns: INGEST_COLUMNS, fileName })) {
    if (row.ok) yield { line: row.line, record: row.record };
    else yield { line: row.line, record: {}, problem: row.reason };
  }
}

async function openSource(path: string): Promise<ByteSource> {
  if (path === '-') return Bun.stdin.stream();
  const file = Bun.file(path);
  if (await file.exists()) return file.stream();
  throw new LedgerError('ingest_file_missing', `there is no file ${path}`, {
    hint: 'Check the path; it is taken from the folder that the command runs in. `-` reads the standard input.',
  });
}
