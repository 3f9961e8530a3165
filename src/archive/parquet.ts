/**
 * Parquet objects: a builder that takes rows one by one, and readers that hand out columns.
 *
 * Both work in row groups and let the event loop run between two of them, because they share their
 * process with the API. The bytes are a pure function of the rows: a retry writes the same object.
 */
import { type ParquetScan, parquetScan } from 'hyparquet';
import { ByteWriter, ParquetWriter } from 'hyparquet-writer';
import { LedgerError } from '../platform/errors.ts';
import type { ArchivedClick } from './port.ts';
import {
  CLICK_COLUMNS,
  type ClickColumns,
  type Column,
  type ColumnType,
  type ColumnValue,
  DEAD_COLUMNS,
  type DeadColumns,
  schemaOf,
} from './table.ts';

/** About 50 ms of encoding, 10 ms of reading: the longest that the event loop waits for us. */
export const ROW_GROUP_ROWS = 5_000;

/** Lets requests, timers and I/O have their turn. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Collects rows and encodes them; holds at most one row group of them besides the encoded bytes. */
export class ParquetBuilder<Row> {
  readonly #columns: readonly Column<Row>[];
  readonly #out = new ByteWriter();
  readonly #writer: ParquetWriter;
  #buffers: ColumnValue[][];
  #rows = 0;

  constructor(columns: readonly Column<Row>[]) {
    this.#columns = columns;
    this.#writer = new ParquetWriter({ writer: this.#out, schema: schemaOf(columns) });
    this.#buffers = columns.map(() => []);
  }

  get rows(): number {
    return this.#rows;
  }

  /** True when a row group is full: call `flush`, then yield, before adding more. */
  add(row: Row): boolean {
    for (let i = 0; i < this.#columns.length; i++) {
      this.#buffers[i]!.push(this.#columns[i]!.take(row));
    }
    this.#rows++;
    return this.#buffers[0]!.length >= ROW_GROUP_ROWS;
  }

  /** Encodes the rows held as one row group. */
  flush(): void {
    const buffers = this.#buffers;
    if (buffers[0]!.length === 0) return;
    this.#buffers = this.#columns.map(() => []);
    this.#writer.write({
      columnData: this.#columns.map(({ name }, i) => ({ name, data: buffers[i]! })),
      rowGroupSize: ROW_GROUP_ROWS,
    });
  }

  finish(): Uint8Array {
    this.flush();
    this.#writer.finish();
    return this.#out.getBytes();
  }
}

/** One object's bytes for clicks that are already in memory. */
export async function encodeClicks(clicks: Iterable<ArchivedClick>): Promise<Uint8Array> {
  const builder = new ParquetBuilder(CLICK_COLUMNS);
  for (const click of clicks) {
    if (!builder.add(click)) continue;
    builder.flush();
    await yieldToEventLoop();
  }
  return builder.finish();
}

/** One row group's worth of the columns asked for. */
export type ColumnBatch<Columns, Name extends keyof Columns> = Pick<Columns, Name> & {
  readonly rowCount: number;
};

/**
 * Reads `columns` of the click object `name` row group by row group, in the order written. Bytes
 * that are not such an object throw LedgerError `object_damaged`; damage inside a page that still
 * decodes is not seen here, which is why `readObject` compares checksums first.
 */
export function readColumns<Name extends keyof ClickColumns>(
  name: string,
  bytes: Uint8Array,
  columns: readonly Name[],
): AsyncGenerator<ColumnBatch<ClickColumns, Name>> {
  return readGroups<ClickColumns, Name>(name, bytes, pick(CLICK_COLUMNS, columns));
}

/** Reads an object of dead letters, all columns. */
export function readDeadLetters(
  name: string,
  bytes: Uint8Array,
): AsyncGenerator<ColumnBatch<DeadColumns, keyof DeadColumns>> {
  return readGroups<DeadColumns, keyof DeadColumns>(name, bytes, DEAD_COLUMNS);
}

type NamedType = { readonly name: string; readonly type: ColumnType };

function pick(columns: readonly NamedType[], names: readonly string[]): NamedType[] {
  return columns.filter(({ name }) => names.includes(name));
}

async function* readGroups<Columns, Name extends keyof Columns>(
  object: string,
  bytes: Uint8Array,
  columns: readonly NamedType[],
): AsyncGenerator<ColumnBatch<Columns, Name>> {
  const scan = await orDamaged(object, () => openScan(bytes, columns));
  for (const range of scan.ranges) {
    const rowCount = range.rowEnd - range.rowStart;
    const batch: Record<string, unknown> = { rowCount };
    for (const { name, type } of columns) {
      const data = await orDamaged(object, () => scan.readColumn({ column: name, ...range }));
      if (data.length !== rowCount) throw damaged(object, `column ${name} is short`);
      batch[name] = type === 'int64' ? Array.from(data, Number) : data;
    }
    yield batch as ColumnBatch<Columns, Name>;
    await yieldToEventLoop();
  }
}

/** Keeps a leading byte order mark, which a plain decoder takes away: text comes back as it went in. */
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

function openScan(bytes: Uint8Array, columns: readonly NamedType[]): Promise<ParquetScan> {
  const copyOf = (start: number, end = bytes.byteLength): ArrayBuffer =>
    new Uint8Array(bytes.subarray(start, end)).buffer;
  return parquetScan({
    file: { byteLength: bytes.byteLength, slice: copyOf },
    columns: columns.map(({ name }) => name),
    utf8: false,
    parsers: {
      timestampFromMilliseconds: (millis: bigint) => Number(millis),
      stringFromBytes: (text: Uint8Array) => utf8.decode(text),
    },
  });
}

async function orDamaged<T>(object: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    throw damaged(object, cause instanceof Error ? cause.message : String(cause), cause);
  }
}

function damaged(object: string, why: string, cause?: unknown): LedgerError {
  return new LedgerError('object_damaged', `archive object ${object} cannot be read: ${why}`, {
    hint: 'Restore the object from a copy; its hour cannot become final without it.',
    cause,
  });
}
