/** Disputes on a real file: the gap between verdicts and resolution, and whose turn it is. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { createDisputes } from '../../src/disputes/disputes.ts';
import type {
  DisputeStore,
  GivenVerdict,
  TakeTurn,
  VerdictsTaken,
} from '../../src/disputes/port.ts';
import { openDisputes } from '../../src/disputes/sqlite/store.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { ADMIN, READER, SUBJECT, UPHELD, WITHDRAWN } from '../conformance/dispute-store-suite.ts';
import { Crash } from '../support/archive-fixtures.ts';
import { tempDir } from '../support/temp-dir.ts';

let folder: ReturnType<typeof tempDir>;
let store: DisputeStore;
beforeEach(() => {
  folder = tempDir('disputes');
  store = openDisputes({ path: join(folder.path, 'control.sqlite'), clock: () => 1_000_000 });
});
afterEach(async () => {
  await store.close();
  folder.remove();
});

describe('ending a dispute with verdicts', () => {
  const VERDICTS = [{ impression_id: 'i-1', valid: false, reason: 'bot' }];
  const END = { ...UPHELD, verdicts: VERDICTS };
  let inForce: Set<string>;
  let log: string[];

  /** Verdicts as the ledger takes them: the same again are unchanged. */
  const take = async (verdicts: readonly GivenVerdict[]): Promise<VerdictsTaken> => {
    const texts = verdicts.map((verdict) => JSON.stringify(verdict));
    const added = texts.filter((each) => !inForce.has(each));
    for (const each of added) inForce.add(each);
    log.push(`${added.length} new`);
    const taken = verdicts.length;
    return { taken, new: added.length, unchanged: taken - added.length, hours: [] };
  };
  /** A store whose process dies before or after the dispute has ended. */
  const dying = (when: 'before' | 'after'): DisputeStore => ({
    open: (...args) => store.open(...args),
    find: (...args) => store.find(...args),
    list: (options) => store.list(options),
    close: async () => {},
    async end(...args) {
      if (when === 'after') await store.end(...args);
      throw new Crash();
    },
  });
  const openId = async (over: object = {}): Promise<string> =>
    (await store.open({ ...SUBJECT, ...over }, READER)).dispute.id;
  const which = (id: string) => ({ id, advertiserId: undefined });

  beforeEach(() => {
    inForce = new Set();
    log = [];
  });

  test('takes them first; whatever dies in between, ending it again ends it once', async () => {
    for (const when of ['before', 'after'] as const) {
      inForce = new Set();
      log = [];
      const id = await openId({ adId: when });
      const dies = createDisputes(dying(when), take).end(which(id), END, ADMIN);
      await expect(dies).rejects.toThrow(Crash);
      expect(log).toEqual(['1 new']);
      expect((await store.find(id, undefined))!.closed === null).toBe(when === 'before');
      const again = await createDisputes(store, take).end(which(id), END, ADMIN);
      expect(again!.dispute.closed).toMatchObject({ ...UPHELD, verdicts: 1 });
      expect(log).toEqual(when === 'before' ? ['1 new', '0 new'] : ['1 new']);
      expect(inForce.size).toBe(1);
    }
  });

  test('takes none for a dispute that has ended otherwise, is another’s, or is none', async () => {
    const id = await openId();
    const disputes = createDisputes(store, take);
    expect(await disputes.end({ id, advertiserId: 'adv-2' }, END, ADMIN)).toBeNull();
    expect(await disputes.end(which('dp_none'), END, ADMIN)).toBeNull();
    await disputes.end(which(id), { ...WITHDRAWN, verdicts: [] }, READER);
    await expect(disputes.end(which(id), END, ADMIN)).rejects.toThrow('withdrawn before');
    expect(log).toEqual([]);
  });

  test('that are refused leaves it open', async () => {
    const id = await openId();
    const refuse = () => Promise.reject(new LedgerError('verdicts_invalid', 'line 1'));
    const disputes = createDisputes(store, refuse);
    await expect(disputes.end(which(id), END, ADMIN)).rejects.toThrow('line 1');
    expect((await store.find(id, undefined))!.closed).toBeNull();
    const without = await disputes.end(which(id), { ...UPHELD, verdicts: [] }, ADMIN);
    expect(without!.verdicts).toBeNull();
  });

  test('keeps its advertiser from withdrawing it meanwhile', async () => {
    const id = await openId();
    const started = Promise.withResolvers<void>();
    const gate = Promise.withResolvers<void>();
    const disputes = createDisputes(store, async (verdicts) => {
      started.resolve();
      await gate.promise;
      return take(verdicts);
    });
    const ending = disputes.end(which(id), END, ADMIN);
    await started.promise;
    const withdraw = disputes.end(which(id), { ...WITHDRAWN, verdicts: [] }, READER);
    await expect(withdraw).rejects.toMatchObject({ code: 'dispute_busy', kind: 'retry' });
    gate.resolve();
    expect((await ending)!.dispute.closed?.state).toBe('resolved');
  });

  test('takes a turn, gives it back, and does not end what somebody else may end by now', async () => {
    const id = await openId();
    const turns: string[] = [];
    let isTaken = true;
    let isLost = false;
    const takeTurn: TakeTurn = async (which) => {
      if (isTaken) return null;
      turns.push(`taken ${which === id}`);
      return {
        assertHeld: async () => {
          turns.push('asked');
          if (isLost) throw new LedgerError('lease_lost', 'lost', { kind: 'retry' });
        },
        release: async () => {
          turns.push('given back');
        },
      };
    };
    const disputes = createDisputes(store, take, takeTurn);
    expect(await disputes.end(which('dp_none'), END, ADMIN)).toBeNull();
    const busy = { code: 'dispute_busy', kind: 'retry' };
    await expect(disputes.end(which(id), END, ADMIN)).rejects.toMatchObject(busy);
    expect([turns, log]).toEqual([[], []]);
    isTaken = false;
    isLost = true;
    const lost = { code: 'lease_lost', kind: 'retry' };
    await expect(disputes.end(which(id), END, ADMIN)).rejects.toMatchObject(lost);
    expect((await store.find(id, undefined))!.closed).toBeNull();
    isLost = false;
    expect((await disputes.end(which(id), END, ADMIN))!.dispute.closed).toMatchObject(UPHELD);
    const turn = ['taken true', 'asked', 'given back'];
    expect(turns).toEqual([...turn, ...turn]);
    expect(log).toEqual(['1 new', '0 new']);
  });

  test('sees what was decided while it waited for its turn', async () => {
    const id = await openId();
    const disputes = createDisputes(store, take, async () => {
      await store.end(id, { ...WITHDRAWN, verdicts: 0 }, READER);
      return { assertHeld: async () => {}, release: async () => {} };
    });
    await expect(disputes.end(which(id), END, ADMIN)).rejects.toThrow('withdrawn before');
    expect(log).toEqual([]);
  });
});
