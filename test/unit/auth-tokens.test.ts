/** What is the SQLite adapter's own; the contract is in test/conformance/token-store-suite.ts. */
import { Database } from 'bun:sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openTokenStore } from '../../src/auth/sqlite/tokens.ts';
import { tempDir } from '../support/temp-dir.ts';

let folder: ReturnType<typeof tempDir>;
let path: string;
const clock = () => 1_000_000;
beforeEach(() => {
  folder = tempDir('tokens');
  path = join(folder.path, 'control.sqlite');
});
afterEach(() => folder.remove());

describe('the file of the API tokens', () => {
  test('is for its owner only, side files too', async () => {
    const store = openTokenStore({ path, clock });
    await store.create({ scope: 'admin' });
    for (const file of [path, `${path}-wal`, `${path}-shm`]) {
      expect(statSync(file).mode & 0o777).toBe(0o600);
    }
    await store.close();
  });

  test('that is no database is refused, with a hint', () => {
    const bad = join(folder.path, 'bad.sqlite');
    writeFileSync(bad, 'this is not a database, and long enough to be read as one'.repeat(50));
    expect(() => openTokenStore({ path: bad, clock })).toThrow('API tokens');
  });

  test('answers while another process writes to it for long, without noting the use', async () => {
    const store = openTokenStore({ path, clock });
    const { token, id } = await store.create({ scope: 'admin' });
    const other = new Database(path);
    other.run('BEGIN IMMEDIATE');
    expect(await store.authenticate(token)).not.toBeNull();
    other.run('ROLLBACK');
    expect((await store.get(id))?.lastUsedAtMs).toBeNull();
    other.close();
    await store.close();
  }, 20_000);
});
