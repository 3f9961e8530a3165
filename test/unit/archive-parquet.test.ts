import { afterAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { queryAsync } from 'chdb';
import fc from 'fast-check';
import {
  encodeClicks,
  ParquetBuilder,
  ROW_GROUP_ROWS,
  readColumns,
  readDeadLetters,
} from '../../src/archive/parquet.ts';
import type { ArchivedClick } from '../../src/archive/port.ts';
import { CLICK_COLUMNS, type ClickColumns, DEAD_COLUMNS } from '../../src/archive/table.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { click, T0 } from '../support/archive-fixtures.ts';
import { fcParams } from '../support/seed.ts';
import { tempDir } from '../support/temp-dir.ts';

const dir = tempDir('parquet');
afterAll(() => dir.remove());

const archived = (i: number, over: Partial<ArchivedClick> = {}): ArchivedClick => ({
  ...click(`imp-${i}`),
  partition: 3,
  offset: i,
  appendedAtMs: T0 + i,
  ...over,
});

const ALL = CLICK_COLUMNS.map(({ name }) => name as keyof ClickColumns);

async function readAll(bytes: Uint8Array): Promise<unknown[][]> {
  const rows: unknown[][] = [];
  for await (const batch of readColumns('test', bytes, ALL)) {
    for (let i = 0; i < batch.rowCount; i++) rows.push(ALL.map((name) => batch[name][i]));
  }
  return rows;
}

const expected = (row: ArchivedClick) =>
  CLICK_COLUMNS.map(({ take }) => {
    const value = take(row);
    return typeof value === 'bigint' ? Number(value) : value;
  });

const text = fc.string({ unit: 'binary', maxLength: 60 });
const anyRow = fc.record({
  impressionId: fc.string({ minLength: 1, maxLength: 128 }),
  adId: fc.constantFrom('a1', 'a2', 'ad-with-a-longer-name'),
  clickedAtMs: fc.integer({ min: Date.UTC(2000, 0, 1), max: Date.UTC(2100, 0, 1) - 1 }),
  country: fc.constantFrom('DE', 'ZZ', 'US'),
  geoVersion: fc.integer({ min: 0, max: 0xffffffff }),
  ip: fc.ipV6(),
  userAgent: fc.oneof(text, fc.constant('\ufeffwith a byte order mark'), fc.constant('日本語 🙂')),
  referer: text,
  partition: fc.integer({ min: 0, max: 100_000 }),
  offset: fc.maxSafeNat(),
  appendedAtMs: fc.integer({ min: Date.UTC(2000, 0, 1), max: Date.UTC(2100, 0, 1) }),
});

test('every row comes back as it went in, and the same rows give the same bytes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyRow, { minLength: 1, maxLength: 40 }), async (overs) => {
      const rows = overs.map((over, i) => archived(i, over));
      const bytes = await encodeClicks(rows);
      expect(await encodeClicks(rows)).toEqual(bytes);
      expect(await readAll(bytes)).toEqual(rows.map(expected));
    }),
    fcParams(60),
  );
});

test('objects of many rows are read one row group at a time, and only the columns asked for', async () => {
  const count = 2 * ROW_GROUP_ROWS + 17;
  const bytes = await encodeClicks(Array.from({ length: count }, (_, i) => archived(i)));
  const sizes: number[] = [];
  let next = 0;
  for await (const batch of readColumns('test', bytes, ['offset', 'ad_id'])) {
    expect(Object.keys(batch).sort()).toEqual(['ad_id', 'offset', 'rowCount']);
    for (let i = 0; i < batch.rowCount; i++) expect(batch.offset[i]).toBe(next++);
    sizes.push(batch.rowCount);
  }
  expect(sizes).toEqual([ROW_GROUP_ROWS, ROW_GROUP_ROWS, 17]);
});

async function problemOf(bytes: Uint8Array): Promise<string> {
  try {
    await readAll(bytes);
  } catch (error) {
    if (error instanceof LedgerError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return 'none';
}

test('a truncated, empty or garbage object is refused by name, never read as fewer clicks', async () => {
  const bytes = await encodeClicks(Array.from({ length: 50 }, (_, i) => archived(i)));
  const step = Math.max(1, Math.floor(bytes.length / 200));
  const cuts = Array.from({ length: Math.ceil(bytes.length / step) }, (_, i) => i * step);
  const damaged = [
    ...cuts.map((length) => bytes.subarray(0, length)),
    bytes.subarray(0, bytes.length - 1),
    new Uint8Array(1_000),
    new Uint8Array(Buffer.from('PAR1 this is no Parquet object PAR1')),
    bytes.subarray(1),
  ];
  for (const some of damaged) {
    expect(await problemOf(some)).toStartWith('object_damaged: archive object test ');
  }
});

test('flipped bytes give an error of the archive or rows, never another kind of failure', async () => {
  const bytes = await encodeClicks(Array.from({ length: 200 }, (_, i) => archived(i)));
  await fc.assert(
    fc.asyncProperty(
      fc.nat({ max: bytes.length - 1 }),
      fc.integer({ min: 1, max: 255 }),
      async (at, flip) => {
        const some = new Uint8Array(bytes);
        some[at]! ^= flip;
        expect(await problemOf(some)).toMatch(/^(none|object_damaged: )/);
      },
    ),
    fcParams(300),
  );
});

test('dead letters keep their bytes, position and reason', async () => {
  const builder = new ParquetBuilder(DEAD_COLUMNS);
  const bytes = new Uint8Array([0, 255, 128, 10]);
  const base = { partition: 2, appendedAtMs: T0 };
  builder.add({ ...base, offset: 7, reason: 'undecodable', bytes });
  builder.add({ ...base, offset: 9, reason: 'clicked_at_out_of_range', bytes: new Uint8Array() });
  const [batch, ...more] = await Array.fromAsync(readDeadLetters('test', builder.finish()));
  expect(more).toEqual([]);
  expect(Array.from(batch!.offset)).toEqual([7, 9]);
  expect(Array.from(batch!.reason)).toEqual(['undecodable', 'clicked_at_out_of_range']);
  expect(Array.from(batch!.bytes, (b) => Buffer.from(b).toString('hex'))).toEqual(['00ff800a', '']);
});

test('ClickHouse reads the objects with the types that the columns promise', async () => {
  const path = join(dir.path, 'clicks.parquet');
  const agent = 'Mozilla 日本語';
  const count = ROW_GROUP_ROWS + 3;
  const rows = Array.from({ length: count }, (_, i) => archived(i, { userAgent: agent }));
  writeFileSync(path, await encodeClicks(rows));
  const file = `file('${path}', Parquet)`;
  const described = await queryAsync(`DESCRIBE ${file}`, { format: 'TSV' });
  const types = described
    .text()
    .trim()
    .split('\n')
    .map((line) => line.split('\t').slice(0, 2).join(' ').replaceAll('\\', ''));
  expect(types).toEqual(
    CLICK_COLUMNS.map(({ name, type }) => {
      const types = {
        string: 'String',
        bytes: 'String',
        int32: 'Int32',
        int64: 'Int64',
        date: 'Date32',
      };
      return `${name} ${type === 'timestamp' ? "DateTime64(3, 'UTC')" : types[type]}`;
    }),
  );
  const sums = `SELECT count(), uniqExact(impression_id), max(offset), min(clicked_at), any(user_agent)
    FROM ${file} WHERE clicked_at < '2026-02-01 00:00:00'`;
  const answer = await queryAsync(sums, { format: 'TSV' });
  expect(answer.text().trim()).toBe(
    [count, count, count - 1, '2026-01-31 07:00:01.000', agent].join('\t'),
  );
});
