/**
 * Imports ads from a CSV or NDJSON file: all of its ads, or none.
 *
 * Every row is checked before the catalog is touched, because half a file in the catalog sends
 * users to a mix of old and new targets that nobody ordered. The writing is one transaction; only an id
 * that comes twice shows there, and takes all of it back.
 */
import { LedgerError } from '../platform/errors.ts';
import type { ByteSource, RowFormat } from '../platform/row-types.ts';
import { readRows } from '../platform/rows.ts';
import { AD_COLUMNS, adOfRecord } from './import-row.ts';
import { AdSpool, DuplicateAds } from './import-spool.ts';
import type { AdCatalog } from './port.ts';

const PROBLEMS_SHOWN = 20;
const PROGRESS_EVERY = 10_000;

export interface ImportOptions {
  readonly format?: RowFormat;
  readonly onProgress?: (progress: { phase: 'checking' | 'writing'; done: number }) => void;
}

export interface ImportProblem {
  readonly line: number;
  readonly reason: string;
}

export type ImportResult =
  | {
      readonly ok: true;
      readonly rows: number;
      readonly added: number;
      readonly changed: number;
      readonly unchanged: number;
    }
  | {
      readonly ok: false;
      readonly rows: number;
      /** The first of them; nothing was written. */
      readonly problems: readonly ImportProblem[];
      readonly problemCount: number;
    };

/** `source` is a path or the bytes themselves, e.g. a request's body. */
export async function importAds(
  source: string | ByteSource,
  catalog: AdCatalog,
  options: ImportOptions = {},
): Promise<ImportResult> {
  const spool = new AdSpool();
  let checked: Checked | null = null;
  try {
    checked = await checkAll(source, spool, options);
    if (checked.wrongRows.count > 0) return refusal(checked, spool);
    if (checked.rows === 0) {
      throw new LedgerError('import_empty', 'there are no ads to import', {
        hint: `Give CSV with a header row or NDJSON, with ${AD_COLUMNS.required.join(', ')}.`,
      });
    }
    const { onProgress } = options;
    const counts = await catalog.putAll(spool.ads(), (done) => {
      onProgress?.({ phase: 'writing', done });
    });
    return { ok: true, rows: checked.rows, ...counts };
  } catch (error) {
    // Found while writing: the catalog has taken back what was written.
    if (error instanceof DuplicateAds && checked !== null) return refusal(checked, spool);
    throw error;
  } finally {
    spool.remove();
  }
}

interface Checked {
  readonly rows: number;
  readonly wrongRows: Problems;
}

async function checkAll(
  source: string | ByteSource,
  spool: AdSpool,
  options: ImportOptions,
): Promise<Checked> {
  let rowCount = 0;
  const wrongRows = new Problems();
  const fileName = typeof source === 'string' ? source : undefined;
  const bytes = typeof source === 'string' ? await openFile(source) : source;
  const rows = readRows(bytes, { columns: AD_COLUMNS, format: options.format, fileName });
  for await (const row of rows) {
    rowCount += 1;
    const checked = row.ok ? adOfRecord(row.record) : row;
    if (checked.ok) spool.add(checked.ad, row.line);
    else wrongRows.add(row.line, checked.reason);
    if (rowCount % PROGRESS_EVERY === 0) {
      options.onProgress?.({ phase: 'checking', done: rowCount });
    }
  }
  return { rows: rowCount, wrongRows };
}

/** Everything that is wrong with the file, ids that come twice included. */
function refusal({ rows, wrongRows }: Checked, spool: AdSpool): ImportResult {
  const duplicates = new Problems();
  for (const { adId, line, firstLine } of spool.duplicates()) {
    duplicates.add(line, `ad_id ${adId} is on line ${firstLine} already`);
  }
  return {
    ok: false,
    rows,
    problems: [...wrongRows.first, ...duplicates.first]
      .sort((one, other) => one.line - other.line)
      .slice(0, PROBLEMS_SHOWN),
    problemCount: wrongRows.count + duplicates.count,
  };
}

/** Counts all problems and keeps the first of them: a wrong file may have millions. */
class Problems {
  readonly first: ImportProblem[] = [];
  count = 0;

  add(line: number, reason: string): void {
    this.count += 1;
    if (this.first.length < PROBLEMS_SHOWN) this.first.push({ line, reason });
  }
}

async function openFile(path: string): Promise<ByteSource> {
  const file = Bun.file(path);
  if (await file.exists()) return file.stream();
  throw new LedgerError('import_file_missing', `there is no file ${path}`, {
    hint: 'Check the path; it is taken from the folder that the command runs in.',
  });
}
