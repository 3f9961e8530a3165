/** The contract of `src/auth/tokens.ts` (T1–T4) for every adapter. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { openTokenRows, openTokenStore } from '../../src/auth/sqlite/tokens.ts';
import { copyTokens, type TokenRows, type TokenStore } from '../../src/auth/tokens.ts';
import { tempDir } from '../support/temp-dir.ts';

export interface TokenWorld {
  /** Another handle on the same tokens. */
  open(clock: () => number): Promise<TokenStore>;
  openRows(): Promise<TokenRows>;
  /** Everything that is stored, as text that would contain what is stored as text. */
  contents(): Promise<string>;
  /** Statements that open the store as `store`, and let go of it, in a process of their own. */
  readonly child: { readonly open: string; readonly close: string };
  remove(): Promise<void> | void;
}

export function tokenStoreSuite(name: string, make: () => Promise<TokenWorld> | TokenWorld): void {
  let world: TokenWorld;
  let store: TokenStore;
  let nowMs: number;
  const clock = (): number => nowMs;
  const open = (): Promise<TokenStore> => world.open(clock);

  describe(`API tokens in ${name}`, () => {
    beforeEach(async () => {
      world = await make();
      nowMs = 1_800_000_000_000;
      store = await open();
    });
    afterEach(async () => {
      await store.close();
      await world.remove();
    });

    test('authenticate as what they were made for', async () => {
      const read = await store.create({ scope: 'read', advertiserId: 'adv-1' });
      const admin = await store.create({ scope: 'admin' });
      expect(read.token).toMatch(/^clk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$/);
      expect(await store.authenticate(read.token)).toEqual({
        scope: 'read',
        advertiserId: 'adv-1',
        tokenId: read.id,
      });
      expect(await store.authenticate(admin.token)).toEqual({ scope: 'admin', tokenId: admin.id });
    });

    test('are stored only as their hash', async () => {
      const { token } = await store.create({ scope: 'admin' }, { name: 'shown' });
      const contents = await world.contents();
      expect(contents).toContain('shown');
      expect(contents).not.toContain(token.slice(-43));
      expect(JSON.stringify(await store.list())).not.toContain(token.slice(-43));
      expect(await store.list()).toEqual([
        expect.not.objectContaining({ hash: expect.anything() }),
      ]);
    });

    test('are refused when any part of them is wrong', async () => {
      const { token, id } = await store.create({ scope: 'admin' });
      const other = (await store.create({ scope: 'admin' })).token;
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
      for (const text of wrong) expect(await store.authenticate(text)).toBeNull();
    });

    test('end when they expire', async () => {
      const { token } = await store.create({ scope: 'admin' }, { expiresAtMs: nowMs + 10 });
      nowMs += 9;
      expect(await store.authenticate(token)).not.toBeNull();
      nowMs += 1;
      expect(await store.authenticate(token)).toBeNull();
    });

    test('revoked by id or by text, are refused at once in every handle', async () => {
      const other = await open();
      for (const by of ['id', 'token'] as const) {
        const made = await store.create({ scope: 'admin' });
        expect(await other.authenticate(made.token)).not.toBeNull();
        expect(await store.revoke(made[by])).toBe(true);
        expect(await other.authenticate(made.token)).toBeNull();
        expect(await store.revoke(made[by])).toBe(false);
        expect((await other.get(made.id))?.revokedAtMs).toBe(nowMs);
      }
      expect(await store.revoke('nobody')).toBe(false);
      expect(await store.get('nobody')).toBeNull();
      await other.close();
    });

    test('tell when they were last used, to the minute', async () => {
      const { token, id } = await store.create({ scope: 'admin' }, { name: 'ci' });
      const used = async () => (await store.get(id))!.lastUsedAtMs;
      expect(await used()).toBeNull();
      await store.authenticate(token);
      const first = nowMs;
      nowMs += 59_999;
      await store.authenticate(token);
      expect(await used()).toBe(first);
      nowMs += 1;
      await store.authenticate(token);
      expect(await used()).toBe(nowMs);
      expect(await store.list()).toEqual([
        {
          id,
          name: 'ci',
          scope: 'admin',
          advertiserId: null,
          createdAtMs: first,
          expiresAtMs: null,
          revokedAtMs: null,
          lastUsedAtMs: nowMs,
        },
      ]);
    });

    test('are listed newest first', async () => {
      const made: string[] = [];
      for (let at = 0; at < 3; at++) {
        made.unshift((await store.create({ scope: 'admin' })).id);
        nowMs += 1;
      }
      expect((await store.list()).map(({ id }) => id)).toEqual(made);
    });

    test('are not made for an invalid advertiser, a past expiry or a name that is no line', async () => {
      const admin = { scope: 'admin' } as const;
      const refused = async (made: Promise<unknown>, code: string): Promise<void> =>
        expect(made).rejects.toMatchObject({ code, kind: 'refuse' });
      await refused(store.create({ scope: 'read', advertiserId: 'a b' }), 'id_invalid');
      await refused(store.create(admin, { expiresAtMs: nowMs }), 'token_expiry_invalid');
      await refused(store.create(admin, { name: 'n'.repeat(201) }), 'token_name_too_long');
      for (const name of ['a\u0000b', 'a\nb', 'a\ud800']) {
        await refused(store.create(admin, { name }), 'token_name_invalid');
      }
      expect(await store.list()).toEqual([]);
    });

    test('of several processes at once are all there', async () => {
      const { open: opening, close } = world.child;
      const code = `${opening}
        for (let at = 0; at < 30; at++) {
          const { token } = await store.create({ scope: 'admin' });
          if ((await store.authenticate(token)) === null) process.exit(2);
        }
        ${close}`;
      const children = [1, 2, 3].map(
        () => Bun.spawn([process.execPath, '-e', code], { stderr: 'inherit' }).exited,
      );
      expect(await Promise.all(children)).toEqual([0, 0, 0]);
      expect(await store.list()).toHaveLength(90);
    });

    test('are copied as they are, once', async () => {
      const folder = tempDir('tokens-copied');
      const path = `${folder.path}/control.sqlite`;
      const old = openTokenStore({ path, clock });
      const used = await old.create({ scope: 'read', advertiserId: 'adv-1' }, { name: 'old' });
      await old.authenticate(used.token);
      const revoked = await old.create({ scope: 'admin' });
      await old.revoke(revoked.id);
      const [from, to] = [openTokenRows(path), await world.openRows()];
      expect(await copyTokens(from, to)).toBe(2);
      expect(await store.list()).toEqual(await old.list());
      expect(await store.authenticate(used.token)).toMatchObject({ advertiserId: 'adv-1' });
      expect(await store.authenticate(revoked.token)).toBeNull();
      // What was revoked since the copy stays revoked.
      await store.revoke(used.id);
      expect(await copyTokens(from, to)).toBe(0);
      expect(await store.authenticate(used.token)).toBeNull();
      for (const each of [old, from, to]) await each.close();
      folder.remove();
    });
  });
}
