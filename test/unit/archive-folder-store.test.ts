import { afterEach, beforeEach, expect, test } from 'bun:test';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { namesOf } from '../support/archive-fixtures.ts';
import { tempDir } from '../support/temp-dir.ts';

let dir: ReturnType<typeof tempDir>;
beforeEach(() => {
  dir = tempDir('folder-store');
});
afterEach(() => dir.remove());

const bytes = new Uint8Array([1, 2, 3]);

test('what a dead process left half written is removed at open, and never listed', async () => {
  const temp = join(dir.path, '.tmp');
  mkdirSync(temp);
  writeFileSync(join(temp, '999999999-0'), 'half');
  writeFileSync(join(temp, `${process.pid}-4000000000`), 'an earlier process of this number');
  writeFileSync(join(temp, `${process.ppid}-0`), 'a living process is writing this');
  const store = await openFolderStore({ dir: dir.path });
  expect(readdirSync(temp)).toEqual([`${process.ppid}-0`]);
  expect(await namesOf(store)).toEqual([]);
});

test('a finished or refused put leaves no temporary file', async () => {
  const store = await openFolderStore({ dir: dir.path });
  await store.putIfAbsent('a/x', bytes);
  await store.putIfAbsent('a/x', bytes);
  await expect(store.putIfAbsent('a/x', new Uint8Array([9]))).rejects.toThrow(LedgerError);
  expect(readdirSync(join(dir.path, '.tmp'))).toEqual([]);
});

test('an error of the file system is one to retry, and the retry succeeds when it has passed', async () => {
  const store = await openFolderStore({ dir: dir.path });
  writeFileSync(join(dir.path, 'in-the-way'), '');
  const put = () => store.putIfAbsent('in-the-way/x', bytes);
  const error = await put().then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(LedgerError);
  expect(error).toMatchObject({ code: 'archive_unavailable', kind: 'retry' });
  rmSync(join(dir.path, 'in-the-way'));
  await put();
  expect(await namesOf(store)).toEqual(['in-the-way/x']);
});

test('a folder below folders that do not exist yet is made', async () => {
  const store = await openFolderStore({ dir: join(dir.path, 'not', 'yet') });
  await store.putIfAbsent('x', bytes);
  expect(await namesOf(store)).toEqual(['x']);
});

test('files that are no objects are not listed', async () => {
  const store = await openFolderStore({ dir: dir.path });
  writeFileSync(join(dir.path, '.DS_Store'), '');
  writeFileSync(join(dir.path, 'not an object'), '');
  expect(await namesOf(store)).toEqual([]);
});
