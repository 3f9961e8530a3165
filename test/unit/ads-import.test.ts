import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { importAds } from '../../src/ads/import.ts';
import { openLmdbCatalog } from '../../src/ads/lmdb/catalog.ts';
import type { AdCatalog } from '../../src/ads/port.ts';
import { tempDir } from '../support/temp-dir.ts';

let folder: ReturnType<typeof tempDir>;
let catalog: AdCatalog;
beforeEach(() => {
  folder = tempDir('ads');
  catalog = openLmdbCatalog({ dir: join(folder.path, 'catalog'), readOnly: false });
});
afterEach(async () => {
  await catalog.close();
  folder.remove();
});

const HEADER = 'ad_id,advertiser_id,campaign_id,target_url';
const run = (text: string) => importAds(new Blob([text]).stream(), catalog);

describe('an import', () => {
  test('takes CSV with quotes, line ends in fields, CRLF and a byte order mark', async () => {
    const text = `\ufeff${HEADER},pass_query\r\na1,v1,c1,"https://e.com/?a=""1"",2",true\r\n\r\na2,v1,c1,https://e.com/ü,\r\n`;
    expect(await run(text)).toEqual({ ok: true, rows: 2, added: 2, changed: 0, unchanged: 0 });
    expect(catalog.find('a1')).toEqual({
      adId: 'a1',
      advertiserId: 'v1',
      campaignId: 'c1',
      targetUrl: 'https://e.com/?a="1",2',
      passQuery: true,
    });
    expect(catalog.find('a2')?.targetUrl).toBe('https://e.com/ü');
  });

  test('takes NDJSON, with or without pass_query', async () => {
    const row = { ad_id: 'a1', advertiser_id: 'v', campaign_id: 'c', target_url: 'http://e.com' };
    const rows = [row, { ...row, ad_id: 'a2', pass_query: true }];
    await run(rows.map((each) => JSON.stringify(each)).join('\n'));
    expect([catalog.find('a1')?.passQuery, catalog.find('a2')?.passQuery]).toEqual([false, true]);
  });

  test('of a file knows its format by the extension', async () => {
    for (const [name, text] of [
      ['ads.csv', `${HEADER}\na1,v,c,http://e.com`],
      [
        'ads.jsonl',
        '{"ad_id":"a2","advertiser_id":"v","campaign_id":"c","target_url":"http://e.com"}',
      ],
    ] as const) {
      const path = join(folder.path, name);
      writeFileSync(path, text);
      expect(await importAds(path, catalog)).toMatchObject({ ok: true, added: 1 });
    }
  });

  test('writes nothing when one row is wrong, and names each wrong row by its line', async () => {
    const text = [
      HEADER,
      'a1,v,c,https://e.com/',
      'a 2,v,c,https://e.com/',
      'a3,v,c,javascript:alert(1)',
      'a4,"v\n",c,https://e.com/',
      'a1,v,c,https://e.com/other',
      'a5,v,c',
      'a6,v,c,https://e.com/"x"',
      'a7,,,ftp://e.com',
    ].join('\n');
    const result = await run(text);
    expect(catalog.count()).toBe(0);
    if (result.ok) throw new Error('it was taken');
    expect(result.problemCount).toBe(7);
    expect(result.problems.map((problem) => problem.line)).toEqual([3, 4, 5, 7, 8, 9, 10]);
    const reasons = result.problems.map((problem) => problem.reason);
    expect(reasons[0]).toContain('ad_id "a 2"');
    expect(reasons[1]).toContain('http:// or https://');
    expect(reasons[3]).toContain('on line 2 already');
    expect(reasons[4]).toContain('3 fields');
    expect(reasons[5]).toContain('quote');
    expect(reasons[6]).toMatch(/advertiser_id.*campaign_id.*target_url/);
  });

  test('shows the first 20 problems and how many there are', async () => {
    const rows = Array.from({ length: 100 }, (_, at) => `a${at},v,c,nowhere`);
    const result = await run([HEADER, ...rows].join('\n'));
    expect(result).toMatchObject({ ok: false, rows: 100, problemCount: 100 });
    if (!result.ok) expect(result.problems).toHaveLength(20);
  });

  test('refuses unknown, missing and doubled columns', async () => {
    const row = '\na1,v,c,https://e.com/,x';
    const reasons: string[] = [];
    for (const header of [
      `${HEADER},colour`,
      'ad_id,advertiser_id,campaign_id',
      `${HEADER},ad_id`,
    ]) {
      const result = await run(header + row);
      if (!result.ok)
        reasons.push(...result.problems.map((each) => `${each.line}: ${each.reason}`));
    }
    const json =
      '{"ad_id":"a","advertiser_id":"v","campaign_id":"c","target_url":"http://e.c","x":1}';
    const result = await run(json);
    if (!result.ok) reasons.push(result.problems[0]!.reason);
    expect(reasons).toEqual([
      '1: unknown column "colour" in the header row',
      '1: missing column "target_url" in the header row',
      '1: column "ad_id" appears twice in the header row',
      'unknown column "x"',
    ]);
  });

  test('refuses JSON values of another type, and lines that are no objects', async () => {
    const result = await run(
      '{"ad_id":1,"advertiser_id":null,"campaign_id":"c","target_url":["x"],"pass_query":"yes"}\n[1]\nnull\n{',
    );
    if (result.ok) throw new Error('it was taken');
    expect(result.problems.map((problem) => problem.line)).toEqual([1, 2, 3, 4]);
    expect(result.problems[0]!.reason).toMatch(/ad_id.*advertiser_id.*target_url.*pass_query/);
  });

  test('refuses an empty file, a missing file and text that is not UTF-8', async () => {
    await expect(run('')).rejects.toThrow('no ads');
    await expect(run(`${HEADER}\n`)).rejects.toThrow('no ads');
    await expect(importAds(join(folder.path, 'none.csv'), catalog)).rejects.toThrow('no file');
    const latin1 = new Blob([Buffer.from(`${HEADER}\na1,v,c,https://e.com/é`, 'latin1')]);
    await expect(importAds(latin1.stream(), catalog)).rejects.toThrow('not UTF-8');
  });

  test('leaves no temporary files behind, and reports its progress', async () => {
    const before = spools();
    const rows = Array.from({ length: 20_000 }, (_, at) => `a${at},v,c,https://e.com/${at}`);
    const seen: string[] = [];
    await importAds(new Blob([[HEADER, ...rows].join('\n')]).stream(), catalog, {
      onProgress: ({ phase, done }) => seen.push(`${phase} ${done}`),
    });
    expect(seen).toContain('checking 20000');
    expect(seen.at(-1)).toBe('writing 20000');
    expect(catalog.count()).toBe(20_000);
    await run('nonsense');
    expect(spools()).toEqual(before);
  });
});

function spools(): string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith('clickledger-import-'));
}
