/** What every adapter of the archive's store must do. Runs against the real adapter, no fakes. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { ObjectStore } from '../../src/archive/port.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { namesOf } from '../support/archive-fixtures.ts';

export interface StoreUnderTest {
  readonly store: ObjectStore;
  /** Another instance on the same objects, as a restarted process has it. */
  reopen(): Promise<ObjectStore>;
  remove(): Promise<void>;
}

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text));
const textOf = (bytes: Uint8Array | null) =>
  bytes === null ? null : Buffer.from(bytes).toString();

async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    if (error instanceof LedgerError) return error.code;
    throw error;
  }
  return 'no error';
}

export function objectStoreSuite(adapter: string, open: () => Promise<StoreUnderTest>): void {
  describe(`object store: ${adapter}`, () => {
    let subject: StoreUnderTest;
    let store: ObjectStore;
    beforeEach(async () => {
      subject = await open();
      store = subject.store;
    });
    afterEach(() => subject.remove());

    test('an object that was put is there, also for another instance', async () => {
      await store.putIfAbsent('a/b=1/c.json', bytesOf('one'));
      expect(textOf(await store.get('a/b=1/c.json'))).toBe('one');
      expect(textOf(await (await subject.reopen()).get('a/b=1/c.json'))).toBe('one');
    });

    test('a name that was never put gives null', async () => {
      expect(await store.get('a/none')).toBeNull();
    });

    test('an object of no bytes is an object', async () => {
      await store.putIfAbsent('empty', new Uint8Array());
      expect((await store.get('empty'))?.length).toBe(0);
    });

    test('putting the same bytes again succeeds and changes nothing', async () => {
      await store.putIfAbsent('a/x', bytesOf('same'));
      await store.putIfAbsent('a/x', bytesOf('same'));
      expect(await namesOf(store)).toEqual(['a/x']);
    });

    test('putting other bytes under a taken name throws and keeps the first', async () => {
      await store.putIfAbsent('a/x', bytesOf('first'));
      for (const other of ['other', 'firs', 'first and more', '']) {
        expect(await codeOf(store.putIfAbsent('a/x', bytesOf(other)))).toBe('object_differs');
      }
      expect(textOf(await store.get('a/x'))).toBe('first');
    });

    test('of many concurrent puts with different bytes exactly one wins', async () => {
      const puts = Array.from({ length: 8 }, (_, i) => store.putIfAbsent('race', bytesOf(`v${i}`)));
      const results = await Promise.allSettled(puts);
      const won = results.flatMap((result, i) => (result.status === 'fulfilled' ? [i] : []));
      expect(won).toHaveLength(1);
      expect(textOf(await store.get('race'))).toBe(`v${won[0]}`);
    });

    test('the bytes given may be a view into a larger buffer', async () => {
      const whole = bytesOf('<inner>');
      await store.putIfAbsent('view', whole.subarray(1, 6));
      expect(textOf(await store.get('view'))).toBe('inner');
    });

    test('a listing is in byte order of the whole names and honours any prefix', async () => {
      const names = ['a/b/1', 'a/b-c', 'a/b.d', 'a-b', 'a/b0', 'b/x', 'A/z', 'a/B/1'];
      for (const name of names) await store.putIfAbsent(name, bytesOf(name));
      const inOrder = [...names].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
      expect(await namesOf(store)).toEqual(inOrder);
      for (const prefix of ['a', 'a/', 'a/b', 'a/b/', 'a/b/1', 'b/', 'c', 'a/b/1/']) {
        expect(await namesOf(store, prefix)).toEqual(inOrder.filter((n) => n.startsWith(prefix)));
      }
    });

    test('a listing may begin behind any name, also one that is no object', async () => {
      const names = ['a/b/1', 'a/b/2', 'a/b-c', 'a/b.d', 'a-b', 'a/b0', 'b/x', 'A/z', 'a/b/3-4'];
      for (const name of names) await store.putIfAbsent(name, bytesOf(name));
      const inOrder = [...names].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
      const starts = [
        '',
        ...names,
        'a',
        'a/',
        'a/b',
        'a/b/',
        'a/b/1~',
        'a/b/3',
        'a~',
        'b/x/y',
        'z',
      ];
      for (const prefix of ['', 'a', 'a/b', 'a/b/', 'b/']) {
        for (const after of starts) {
          const wanted = inOrder.filter((name) => name.startsWith(prefix) && name > after);
          expect(await namesOf(store, prefix, after)).toEqual(wanted);
        }
      }
    });

    test('a listing tells the size', async () => {
      await store.putIfAbsent('a/x', bytesOf('12345'));
      const infos: unknown[] = [];
      for await (const info of store.list('a/')) infos.push(info);
      expect(infos).toEqual([{ name: 'a/x', sizeBytes: 5 }]);
    });

    test('a removed object is gone, and removing it again is no error', async () => {
      await store.putIfAbsent('a/x', bytesOf('1'));
      await store.remove('a/x');
      await store.remove('a/x');
      await store.remove('never/there');
      expect(await store.get('a/x')).toBeNull();
      expect(await namesOf(store)).toEqual([]);
      await store.putIfAbsent('a/x', bytesOf('2'));
      expect(textOf(await store.get('a/x'))).toBe('2');
    });

    test('names that leave the store or hold other characters are refused', async () => {
      const names = ['', '/', '/a', 'a/', 'a//b', '.', '..', 'a/../b', '../a', 'a/.', 'a b', 'ä'];
      for (const name of [...names, 'a\\b', 'a\0b', 'a\nb', `${'x'.repeat(600)}`]) {
        expect(await codeOf(store.putIfAbsent(name, bytesOf('1')))).toBe('object_name');
        expect(await codeOf(store.get(name))).toBe('object_name');
        expect(await codeOf(store.remove(name))).toBe('object_name');
      }
      expect(await namesOf(store)).toEqual([]);
    });
  });
}
