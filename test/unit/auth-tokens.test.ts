import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openTokenStore, type TokenStore } from '../../src/auth/tokens.ts';
import { tempDir } from '../support/temp-dir.ts';

let folder: ReturnType<typeof tempDir>;
let path: string;
let store: TokenStore;
let now: number;
const clock = () => now;
beforeEach(() => {
  folder = tempDir('tokens');
  path = join(folder.path, 'control.sqlite');
  now = 1_000_000;
  store = openTokenStore({ path, clock });
});
afterEach(() => {
  store.close();
  folder.remove();
});

describe('an API token', () => {
  test('authenticates as what it was made for', () => {
    const read = store.create({ scope: 'read', advertiserId: 'adv-1' });
    const admin = store.create({ scope: 'admin' });
    expect(read.token).toMatch(/^clk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/);
    expect(store.authenticate(read.token)).toEqual({
      scope: 'read',
      advertiserId: 'adv-1',
      tokenId: read.id,
    });
    expect(store.authenticate(admin.token)).toEqual({ scope: 'admin', tokenId: admin.id });
  });

  test('is stored only as its hash', () => {
    const { token } = store.create({ scope: 'admin' });
    const secret = token.slice(-43);
    store.close();
    const bytes = readFileSync(path);
    expect(bytes.includes(secret)).toBe(false);
    expect(JSON.stringify(openAgain().list())).not.toContain(secret);
  });

  test('is refused when any part of it is wrong', () => {
    const { token, id } = store.create({ scope: 'admin' });
    const other = store.create({ scope: 'admin' }).token;
    const wrong = [
      '',
      id,
      `Bearer ${token}`,
      `${token} `,
      token.slice(0, -1),
      token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A'),
      `clk_${id}_${other.slice(-43)}`,
      `clk_${'0'.repeat(12)}_${token.slice(-43)}`,
      token.toUpperCase(),
    ];
    for (const text of wrong) expect(store.authenticate(text)).toBeNull();
  });

  test('ends when it expires', () => {
    const { token } = store.create({ scope: 'admin' }, { expiresAtMs: now + 10 });
    now += 9;
    expect(store.authenticate(token)).not.toBeNull();
    now += 1;
    expect(store.authenticate(token)).toBeNull();
  });

  test('revoked by id or by text, is refused at once in every handle', () => {
    const other = openTokenStore({ path, clock });
    for (const by of ['id', 'token'] as const) {
      const made = store.create({ scope: 'admin' });
      expect(other.authenticate(made.token)).not.toBeNull();
      expect(store.revoke(made[by])).toBe(true);
      expect(other.authenticate(made.token)).toBeNull();
      expect(store.revoke(made[by])).toBe(false);
    }
    expect(store.revoke('nobody')).toBe(false);
    other.close();
  });

  test('tells when it was last used, to the minute', () => {
    const { token, id } = store.create({ scope: 'admin' }, { name: 'ci' });
    const used = () => store.list().find((info) => info.id === id)!.lastUsedAtMs;
    expect(used()).toBeNull();
    store.authenticate(token);
    const first = now;
    now += 59_999;
    store.authenticate(token);
    expect(used()).toBe(first);
    now += 1;
    store.authenticate(token);
    expect(used()).toBe(now);
    expect(store.list()[0]).toMatchObject({ name: 'ci', scope: 'admin', advertiserId: null });
  });

  test('is not made for an invalid advertiser, a past expiry or an endless name', () => {
    const read = { scope: 'read', advertiserId: 'a b' } as const;
    expect(() => store.create(read)).toThrow('advertiser id');
    expect(() => store.create({ scope: 'admin' }, { expiresAtMs: now })).toThrow('future');
    expect(() => store.create({ scope: 'admin' }, { name: 'n'.repeat(201) })).toThrow('name');
    expect(store.list()).toEqual([]);
  });
});

describe('the token store', () => {
  test('is for its owner only, side files too', () => {
    store.create({ scope: 'admin' });
    for (const file of [path, `${path}-wal`, `${path}-shm`]) {
      expect(statSync(file).mode & 0o777).toBe(0o600);
    }
  });

  test('works for several processes at once', async () => {
    const code = `
      const { openTokenStore } = await import(${JSON.stringify(join(import.meta.dir, '../../src/auth/tokens.ts'))});
      const store = openTokenStore({ path: ${JSON.stringify(path)}, clock: () => 5 });
      for (let at = 0; at < 50; at++) store.authenticate(store.create({ scope: 'admin' }).token);
      store.close();`;
    const children = [1, 2, 3].map(() => Bun.spawn([process.execPath, '-e', code]).exited);
    expect(await Promise.all(children)).toEqual([0, 0, 0]);
    expect(store.list()).toHaveLength(150);
  });

  test('refuses a file that is no database, with a hint', () => {
    const bad = join(folder.path, 'bad.sqlite');
    writeFileSync(bad, 'this is not a database, and long enough to be read as one'.repeat(50));
    expect(() => openTokenStore({ path: bad, clock })).toThrow('API tokens');
  });
});

function openAgain(): TokenStore {
  store = openTokenStore({ path, clock });
  return store;
}
