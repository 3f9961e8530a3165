import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { MAX_ROW_LENGTH, type Row, type RowFormat } from '../../src/platform/row-types.ts';
import { readRows } from '../../src/platform/rows.ts';
import { fcParams } from '../support/seed.ts';

const columns = { required: ['a', 'b'], optional: ['c'] };

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function rowsOf(text: string | Buffer, size = 7, format?: RowFormat): Promise<Row[]> {
  const source = inPieces(Buffer.from(text as string), size);
  return Array.fromAsync(readRows(source, { columns, format }));
}

describe('rows of CSV', () => {
  const value = fc.oneof(
    fc.string({ unit: fc.constantFrom('a', '"', ',', '\n', '\r', ' ', 'é', '😀') }),
    fc.string(),
  );
  const quote = (text: string) =>
    /[",\n\r]/.test(text) || text === '' ? `"${text.replaceAll('"', '""')}"` : text;

  test('come back as they were written, however the bytes are cut', async () => {
    const lineEnd = fc.constantFrom('\n', '\r\n');
    const rows = fc.array(fc.tuple(value, value), { minLength: 1, maxLength: 6 });
    const property = fc.asyncProperty(
      rows,
      lineEnd,
      fc.boolean(),
      fc.integer({ min: 1, max: 20 }),
      async (written, end, ended, size) => {
        const lines = ['a,b', ...written.map((row) => row.map(quote).join(','))];
        const text = lines.join(end) + (ended ? end : '');
        const read = await rowsOf(text, size, 'csv');
        let line = 2;
        const expected = written.map(([a, b], at) => {
          const row: Row = { ok: true, line, record: { a, b } };
          line += lines[at + 1]!.split('\n').length;
          return row;
        });
        expect(read).toEqual(expected);
      },
    );
    await fc.assert(property, fcParams(300));
  });

  test('with a stray quote or a wrong number of fields are mistakes, the others are read', async () => {
    const text = 'a,b\n1,2"3\n"4"5,6\n7\n8,9,10\n"11\n",12\n';
    const read = await rowsOf(text);
    expect(read.map((row) => [row.line, row.ok])).toEqual([
      [2, false],
      [3, false],
      [4, false],
      [5, false],
      [6, true],
    ]);
  });

  test('end in a mistake when a quote stays open', async () => {
    const [row] = await rowsOf('a,b\n"1,2\n3,4\n');
    expect(row).toEqual({ ok: false, line: 2, reason: 'a quote is never closed' });
    const endless = await rowsOf(`a,b\n"${'x,y\n'.repeat(MAX_ROW_LENGTH / 3)}`, 65_536);
    expect(endless).toHaveLength(1);
    expect(endless[0]).toMatchObject({ ok: false, line: 2 });
  });

  test('cannot touch an object’s prototype', async () => {
    const [row] = await rowsOf('__proto__,b\n1,2');
    expect(row).toMatchObject({ ok: false, line: 1 });
  });
});

describe('rows of NDJSON', () => {
  test('skip blank lines, keep line numbers, and end with or without a line feed', async () => {
    for (const end of ['', '\n', '\r\n']) {
      const read = await rowsOf(`\n{"a":1,"b":"é😀"}\r\n \n{"a":2}\nnope\n{"a":3,"b":[]}${end}`, 3);
      expect(read).toEqual([
        { ok: true, line: 2, record: { a: 1, b: 'é😀' } },
        { ok: false, line: 4, reason: 'missing column "b"' },
        { ok: false, line: 5, reason: 'the line is not JSON' },
        { ok: true, line: 6, record: { a: 3, b: [] } },
      ]);
    }
  });

  test('that never end are refused, not collected', async () => {
    const read = await rowsOf(`{"a":"${'x'.repeat(MAX_ROW_LENGTH)}`, 65_536);
    expect(read).toMatchObject([{ ok: false, line: 1 }]);
  });
});
