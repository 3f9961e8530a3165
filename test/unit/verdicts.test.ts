/** Verdicts by themselves: what is taken, how it is archived, and what is in force. */
import { afterEach, describe, expect, test } from 'bun:test';
import { rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { ImpressionHash } from '../../src/counting/impression-hash.ts';
import { HashIndex } from '../../src/platform/hash-index.ts';
import { readRowsFile } from '../../src/platform/rows-file.ts';
import { VerdictArchive } from '../../src/verdicts/archive.ts';
import { checkVerdicts, MAX_VERDICTS, VERDICT_COLUMNS } from '../../src/verdicts/check.ts';
import type { NewVerdict, VerdictRow } from '../../src/verdicts/port.ts';
import { FaultyStore, namesOf } from '../support/archive-fixtures.ts';
import { fcParams } from '../support/seed.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const AT = { atMs: Date.UTC(2026, 2, 10, 12), appliesFromMs: 0 };
const dirs: { remove(): void }[] = [];
afterEach(() => {
  for (const dir of dirs.splice(0)) dir.remove();
});

function row(record: object, line = 1): VerdictRow {
  return { line, record: record as VerdictRow['record'] };
}

const check = (rows: readonly VerdictRow[]) => checkVerdicts(rows, () => {});
const says = (impressionId: string, valid: boolean, reason = 'bot'): NewVerdict => {
  return { impressionId, valid, reason };
};

async function newStore() {
  const dir = tempDir('verdict-store');
  dirs.push(dir);
  return { dir: dir.path, store: await openFolderStore({ dir: dir.path }) };
}

async function invalidIn(
  archive: VerdictArchive,
  hourMs: number,
  ids: readonly string[],
): Promise<string[]> {
  const hash = new ImpressionHash();
  const nameOf = new Map(
    ids.map((id) => {
      hash.ofText(id);
      return [[hash.hash0, hash.hash1, hash.hash2].join(), id];
    }),
  );
  const found: string[] = [];
  await archive.forEachInvalid(hourMs, (...words) => found.push(nameOf.get(words.join())!));
  return found.sort();
}

describe('lines of verdicts', () => {
  test('are taken with true and false as JSON or as text, as CSV has them', async () => {
    const rows = [
      row({ impression_id: 'a', valid: false, reason: 'bot' }),
      row({ impression_id: 'b', valid: 'true', reason: '' }),
    ];
    expect(await check(rows)).toEqual([says('a', false), says('b', true, '')]);
  });

  for (const [what, record] of Object.entries({
    'an id that is none': { impression_id: 'a b', valid: true, reason: '' },
    'an id of 129 characters': { impression_id: 'a'.repeat(129), valid: true, reason: '' },
    'no verdict': { impression_id: 'a', valid: 1, reason: '' },
    'a reason of 201 characters': { impression_id: 'a', valid: true, reason: 'x'.repeat(201) },
    'a reason with a line feed': { impression_id: 'a', valid: true, reason: 'x\ny' },
    'a reason that is no text': { impression_id: 'a', valid: true, reason: null },
    'a name that is unknown': { impression_id: 'a', valid: true, reason: '', why: 'x' },
    'a name that is missing': { impression_id: 'a', valid: true },
  })) {
    test(`with ${what} are refused by line, together with all others`, async () => {
      const good = row({ impression_id: 'a', valid: true, reason: '' });
      const given = check([good, row(record, 7), { line: 9, record: {}, problem: 'no JSON' }]);
      await expect(given).rejects.toMatchObject({ code: 'verdicts_invalid' });
      await expect(given).rejects.toThrow(/2 of 3 lines.*\nline 7: .*\nline 9: no JSON/);
    });
  }

  test('are bounded in number', async () => {
    function* rows(): Generator<VerdictRow> {
      // Wrong ones, so that none is kept.
      for (let line = 1; line <= MAX_VERDICTS + 1; line++) yield { line, record: {}, problem: 'x' };
    }
    await expect(checkVerdicts(rows(), () => {})).rejects.toMatchObject({
      code: 'verdicts_too_many',
    });
  });

  test('are read from CSV and NDJSON alike', async () => {
    const { dir } = await newStore();
    const files = {
      'v.csv': 'impression_id,valid,reason\na,false,"a, b"\n',
      'v.ndjson': '{"impression_id":"a","valid":false,"reason":"a, b"}\n',
    };
    for (const [name, content] of Object.entries(files)) {
      writeFileSync(join(dir, name), content);
      const rows: VerdictRow[] = [];
      for await (const each of readRowsFile(join(dir, name), VERDICT_COLUMNS)) rows.push(each);
      expect(await check(rows)).toEqual([says('a', false, 'a, b')]);
    }
    const missing = readRowsFile(join(dir, 'none.csv'), VERDICT_COLUMNS).next();
    await expect(missing).rejects.toMatchObject({ code: 'file_missing' });
  });
});

describe('archived verdicts', () => {
  test('are there again after a restart, with reason and time', async () => {
    const { store } = await newStore();
    const first = await VerdictArchive.open(store);
    await first.append([says('a', false), says('b', false, 'ü "quoted"')], AT);
    await first.append([says('a', true, 'checked')], { ...AT, atMs: AT.atMs + 1 });
    const again = await VerdictArchive.open(store);
    expect(again.sequence).toBe(2);
    expect(again.table.invalid).toBe(1);
    const found = await again.inForce(['a', 'b', 'c'], 0);
    expect(Object.fromEntries(found)).toEqual({
      a: { valid: true, reason: 'checked', atMs: AT.atMs + 1 },
      b: { valid: false, reason: 'ü "quoted"', atMs: AT.atMs },
    });
  });

  test('change only by lines that say something else; the last line on an impression counts', async () => {
    const { store } = await newStore();
    const archive = await VerdictArchive.open(store);
    await archive.append([says('a', false), says('b', true)], AT);
    expect(await archive.changes([says('a', false), says('b', true)])).toEqual([]);
    const rows = [says('a', true), says('a', false), says('b', true, 'other'), says('c', false)];
    expect(await archive.changes(rows)).toEqual([says('b', true, 'other'), says('c', false)]);
  });

  test('of many lines make several objects, numbered without a hole', async () => {
    const { store } = await newStore();
    const archive = await VerdictArchive.open(store);
    const many = Array.from({ length: 45_000 }, (_, i) => says(`imp-${i}`, false));
    await archive.append(many, AT);
    expect(await namesOf(store, 'verdicts/')).toEqual([
      'verdicts/v000000000001.ndjson',
      'verdicts/v000000000002.ndjson',
      'verdicts/v000000000003.ndjson',
    ]);
    const again = await VerdictArchive.open(store);
    expect(again.table.invalid).toBe(45_000);
    expect((await again.inForce(['imp-44999'], 0)).get('imp-44999')?.valid).toBe(false);
  });

  test('whose answer was lost are found before the next ones take their name', async () => {
    const { store } = await newStore();
    const faulty = new FaultyStore(store);
    const archive = await VerdictArchive.open(faulty);
    faulty.failAt = { effect: 0, when: 'after', error: new Error('the answer is lost') };
    await expect(archive.append([says('a', false)], AT)).rejects.toThrow('the answer is lost');
    await archive.catchUp();
    expect(await archive.changes([says('a', false)])).toEqual([]);
    await archive.append([says('b', false)], AT);
    expect((await VerdictArchive.open(store)).table.invalid).toBe(2);
  });

  test('apply from an hour on that never falls; an older hour keeps what was in force', async () => {
    const { store } = await newStore();
    const archive = await VerdictArchive.open(store);
    const from = (hour: number) => ({ ...AT, appliesFromMs: hour * HOUR_MS });
    await archive.append([says('a', false), says('b', false)], from(1));
    await archive.append([says('a', true), says('c', false)], from(3));
    // Further back than those before: taken as theirs.
    await archive.append([says('d', false)], from(2));
    for (const opened of [archive, await VerdictArchive.open(store)]) {
      const ids = ['a', 'b', 'c', 'd'];
      expect(await invalidIn(opened, 0, ids)).toEqual([]);
      expect(await invalidIn(opened, HOUR_MS, ids)).toEqual(['a', 'b']);
      expect(await invalidIn(opened, 2 * HOUR_MS, ids)).toEqual(['a', 'b']);
      expect(await invalidIn(opened, 3 * HOUR_MS, ids)).toEqual(['b', 'c', 'd']);
      expect((await opened.inForce(['a'], 2 * HOUR_MS)).get('a')?.valid).toBe(false);
      expect((await opened.inForce(['a'], 0)).size).toBe(0);
    }
  });

  const DAMAGES: Readonly<Record<string, (path: string) => void>> = {
    'cut short': (path) => truncateSync(path, 150),
    'of no bytes': (path) => truncateSync(path, 0),
    missing: (path) => rmSync(path),
  };
  for (const [what, damage] of Object.entries(DAMAGES)) {
    test(`with an object ${what} are not stepped over`, async () => {
      const { store, dir } = await newStore();
      const archive = await VerdictArchive.open(store);
      for (const id of ['a', 'b', 'c']) await archive.append([says(id, false)], AT);
      const name = 'verdicts/v000000000002.ndjson';
      damage(join(dir, name));
      const again = await VerdictArchive.open(store);
      expect(again.sequence).toBe(1);
      expect(again.problem?.message).toContain(name);
      expect(() => again.requireWhole()).toThrow(name);
      await expect(again.catchUp()).rejects.toThrow(name);
    });
  }

  test('that were there before and are gone from the end are missed', async () => {
    const { store } = await newStore();
    const archive = await VerdictArchive.open(store);
    await archive.append([says('a', false)], AT);
    archive.expect(1);
    archive.requireWhole();
    archive.expect(2);
    expect(() => archive.requireWhole()).toThrow('v000000000002');
  });
});

test('the table finds what changed since an object, once per impression that became another', async () => {
  const { store } = await newStore();
  const archive = await VerdictArchive.open(store);
  await archive.append([says('a', false), says('b', true)], AT);
  await archive.append([says('a', false, 'another reason'), says('b', false)], AT);
  await archive.append([says('b', true)], AT);
  const changed = async (sequence: number) =>
    (await archive.table.changedSince(sequence)).impressions.size;
  // `b` was called valid first, which takes nothing back.
  expect(await Promise.all([0, 1, 2, 3].map(changed))).toEqual([2, 1, 1, 0]);
});

test('a hash index gives keys dense numbers in the order of their coming, as a map would', () => {
  const word = fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constantFrom(0xffff_ffff, 1 << 30));
  fc.assert(
    fc.property(fc.array(fc.tuple(word, word, word), { maxLength: 400 }), (keys) => {
      const index = new HashIndex();
      const model = new Map<string, number>();
      for (const key of keys) {
        const name = key.join();
        expect(index.find(...key)).toBe(model.get(name) ?? -1);
        if (!model.has(name)) model.set(name, model.size);
        expect(index.add(...key)).toBe(model.get(name)!);
      }
      expect(index.size).toBe(model.size);
      expect([...index.words()]).toEqual(
        [...model.keys()].flatMap((key) => key.split(',').map(Number)),
      );
    }),
    fcParams(),
  );
});
