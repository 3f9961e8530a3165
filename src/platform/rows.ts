/**
 * Rows of a text file, whatever its format: CSV or NDJSON, read as a stream, with line numbers.
 *
 * A row that cannot be read is a row too, with its reason: the reader of a file wants to hear about
 * all of its mistakes, not about the first. Only text that is no UTF-8 throws.
 */
import { readCsv } from './csv.ts';
import { LedgerError } from './errors.ts';
import { readNdjson } from './ndjson.ts';
import type { ByteSource, Columns, Row, RowFormat } from './row-types.ts';

const CONTROL_FREE_START = /^[\uFEFF\s]*/;

export interface RowOptions {
  readonly columns: Columns;
  readonly format?: RowFormat | undefined;
  /** Its extension tells the format when `format` does not. */
  readonly fileName?: string | undefined;
}

export async function* readRows(source: ByteSource, options: RowOptions): AsyncGenerator<Row> {
  const chunks = decodeText(source);
  let head = '';
  while (head.replace(CONTROL_FREE_START, '') === '') {
    const next = await chunks.next();
    if (next.done === true) break;
    head += next.value;
  }
  const format = options.format ?? formatOfName(options.fileName) ?? formatOfText(head);
  const read = format === 'csv' ? readCsv : readNdjson;
  yield* read(prepend(head, chunks), options.columns);
}

function formatOfName(fileName: string | undefined): RowFormat | undefined {
  if (fileName === undefined) return undefined;
  if (/\.csv$/i.test(fileName)) return 'csv';
  return /\.(?:ndjson|jsonl|json)$/i.test(fileName) ? 'ndjson' : undefined;
}

function formatOfText(head: string): RowFormat {
  return head.replace(CONTROL_FREE_START, '').startsWith('{') ? 'ndjson' : 'csv';
}

async function* prepend(head: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield head;
  yield* rest;
}

/** Decodes UTF-8 (a byte order mark is dropped); bytes that are not UTF-8 are never guessed at. */
async function* decodeText(source: ByteSource): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let at = 0;
  const decode = (chunk: Uint8Array | undefined): string => {
    try {
      return chunk === undefined ? decoder.decode() : decoder.decode(chunk, { stream: true });
    } catch (cause) {
      throw new LedgerError('text_not_utf8', `the text is not UTF-8 somewhere after byte ${at}`, {
        hint: 'Save it as UTF-8; a compressed file must be unpacked first.',
        cause,
      });
    }
  };
  for await (const chunk of source) {
    const text = decode(chunk);
    at += chunk.byteLength;
    if (text !== '') yield text;
  }
  decode(undefined);
}
