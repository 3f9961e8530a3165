/** A statement's files without a warehouse: their bytes are a function of id, version and numbers. */
import { afterAll, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { queryAsync } from 'chdb';
import { CSV_HEADER, csvFile, parquetFile } from '../../src/statements/files.ts';
import { belongsTo, recordOfName, statementId } from '../../src/statements/names.ts';
import type { Numbers, StatementRow } from '../../src/statements/numbers.ts';
import { toPeriod } from '../../src/statements/period.ts';
import { tempDir } from '../support/temp-dir.ts';

const dir = tempDir('statement-files');
afterAll(() => dir.remove());

const HEAD = { id: 'st_1', version: 3, advertiserId: '-adv' };
const MANY = 1 << 30;

function numbersOf(rows: readonly StatementRow[]): Numbers {
  const clicks = rows.reduce((sum, row) => sum + row.clicks, 0);
  return { rowCount: rows.length, clicks, digest: '', rows: () => rows };
}

const rowsOf = (count: number): StatementRow[] =>
  Array.from({ length: count }, (_, at) => ({
    day: `2026-03-${String(1 + (at % 31)).padStart(2, '0')}`,
    adId: `ad-${at}`,
    campaignId: at % 2 === 0 ? 'c1' : '~c2',
    clicks: at,
  }));

test('no cell of the CSV is a formula to a spreadsheet', async () => {
  const row = { day: '2026-03-01', adId: '-2+3', campaignId: '-c', clicks: 1 };
  const csv = Buffer.from(await csvFile(HEAD, numbersOf([row]), MANY)).toString();
  expect(csv).toBe(`${CSV_HEADER}\r\nst_1,3,'-adv,2026-03-01,'-2+3,'-c,1\r\n`);
});

test('many rows come whole and in order, in both files, and twice the same', async () => {
  const rows = rowsOf(12_345);
  const numbers = numbersOf(rows);
  const csv = await csvFile(HEAD, numbers, MANY);
  const lines = Buffer.from(csv).toString().split('\r\n');
  expect([lines.length, lines.at(-1)]).toEqual([1 + rows.length + 1, '']);
  expect(lines[12_345]).toBe("st_1,3,'-adv,2026-03-07,ad-12344,c1,12344");
  expect(await csvFile(HEAD, numbers, MANY)).toEqual(csv);
  const parquet = await parquetFile(HEAD, numbers);
  expect(await parquetFile(HEAD, numbers)).toEqual(parquet);
  expect(await parquetFile({ ...HEAD, version: 4 }, numbers)).not.toEqual(parquet);

  const path = join(dir.path, 'statement.parquet');
  writeFileSync(path, parquet);
  const file = `file('${path}', Parquet)`;
  const described = await queryAsync(`DESCRIBE ${file}`, { format: 'TSV' });
  const types = described.text().trim().split('\n');
  expect(types.map((line) => line.split('\t').slice(0, 2).join(' '))).toEqual([
    'statement_id String',
    'version Int32',
    'advertiser_id String',
    'day Date32',
    'ad_id String',
    'campaign_id String',
    'clicks Int64',
  ]);
  const sums = `SELECT count(), sum(clicks), any(advertiser_id), min(day), max(day) FROM ${file}`;
  const answer = await queryAsync(sums, { format: 'TSV' });
  expect(answer.text().trim()).toBe(
    [12_345, numbers.clicks, '-adv', '2026-03-01', '2026-03-31'].join('\t'),
  );
});

test('an id is a function of advertiser, period and zone, and tells advertisers apart', () => {
  const fromMs = Date.UTC(2026, 2, 9, 23);
  const paris = toPeriod({
    advertiserId: 'adv-1',
    fromMs,
    toMs: fromMs + 86_400_000,
    timezone: 'EUROPE/paris',
  });
  const id = statementId(paris);
  expect(id).toMatch(/^st_[0-9a-f]{12}_20260310_20260311_[0-9a-f]{12}$/);
  expect(statementId({ ...paris })).toBe(id);
  const others = [
    { ...paris, advertiserId: 'adv-2' },
    { ...paris, timezone: 'Europe/Berlin' },
    { ...paris, toMs: paris.toMs + 86_400_000 },
  ].map(statementId);
  expect(new Set([id, ...others]).size).toBe(4);
  expect([belongsTo(id, 'adv-1'), belongsTo(id, 'adv-2')]).toEqual([true, false]);
});

test('only the name of a record is taken for one', () => {
  const id = `st_${'0'.repeat(12)}_20260310_20260311_${'a'.repeat(12)}`;
  expect(recordOfName(`statements/${id}/v12.json`)).toEqual({ id, version: 12 });
  for (const name of [
    `statements/${id}/v12.csv`,
    `statements/${id}/v0.json`,
    `statements/${id}/v01.json`,
    `statements/${id}/v1.json.json`,
    'statements/other/v1.json',
    `final/${id}/v1.json`,
  ]) {
    expect([name, recordOfName(name)]).toEqual([name, null]);
  }
});

test('a local day that begins at one o’clock has that as its midnight', () => {
  // The clocks of Beirut went from 00:00 to 01:00 on 29 March 2026.
  const day = (iso: string): number => Temporal.ZonedDateTime.from(iso).epochMilliseconds;
  const fromMs = day('2026-03-29T01:00+03:00[Asia/Beirut]');
  const toMs = day('2026-03-30T00:00+03:00[Asia/Beirut]');
  const period = { advertiserId: 'a', fromMs, toMs, timezone: 'Asia/Beirut' };
  expect(statementId(toPeriod(period))).toContain('_20260329_20260330_');
  expect(() => toPeriod({ ...period, fromMs: fromMs + 3_600_000 })).toThrow('no midnight');
});
