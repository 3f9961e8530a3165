/** Disputes on a real file: their steps, their bounds, and the gap between verdicts and resolution. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import { createDisputes } from '../../src/disputes/disputes.ts';
import type { Actor, DisputeStore, GivenVerdict, VerdictsTaken } from '../../src/disputes/port.ts';
import { openDisputes } from '../../src/disputes/sqlite/store.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { Crash } from '../support/archive-fixtures.ts';
import { tempDir } from '../support/temp-dir.ts';

const DAY_MS = 86_400_000;
const READER: Actor = { tokenId: 'aaa', scope: 'read' };
const ADMIN: Actor = { tokenId: 'bbb', scope: 'admin' };
const SUBJECT = {
  advertiserId: 'adv-1',
  adId: 'ad-1',
  fromMs: 0,
  toMs: DAY_MS,
  timezone: 'UTC',
  reason: "Too many; they're not ours\n'); DROP TABLE disputes; --",
};
const UPHELD = { state: 'resolved', resolution: 'upheld', note: 'a crawler' } as const;
const WITHDRAWN = { state: 'withdrawn', resolution: null, note: '' } as const;

let folder: ReturnType<typeof tempDir>;
let path: string;
let nowMs: number;
let store: DisputeStore;
beforeEach(() => {
  folder = tempDir('disputes');
  path = join(folder.path, 'control.sqlite');
  nowMs = 1_000_000;
  store = openDisputes({ path, clock: () => nowMs });
});
afterEach(() => {
  store.close();
  folder.remove();
});

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error;
    return error.code;
  }
  return 'ok';
}

describe('a dispute', () => {
  test('is there after a restart, with who and when for each step', () => {
    const { dispute, created } = store.open(SUBJECT, READER);
    expect(created).toBe(true);
    expect(dispute.id).toMatch(/^dp_[A-Za-z0-9_-]{22}$/);
    nowMs += 5;
    store.end(dispute.id, { ...UPHELD, verdicts: 2 }, ADMIN);
    store.close();
    store = openDisputes({ path, clock: () => nowMs });
    expect(store.find(dispute.id, 'adv-1')).toEqual({
      id: dispute.id,
      ...SUBJECT,
      opened: { by: READER, atMs: 1_000_000 },
      closed: { ...UPHELD, verdicts: 2, by: ADMIN, atMs: 1_000_005 },
    });
  });

  test('that is open already is not opened twice, one that has ended is', () => {
    const first = store.open(SUBJECT, READER);
    expect(store.open({ ...SUBJECT }, ADMIN)).toEqual({ ...first, created: false });
    expect(store.open({ ...SUBJECT, reason: 'other' }, READER).created).toBe(true);
    expect(store.open({ ...SUBJECT, advertiserId: 'adv-2' }, READER).created).toBe(true);
    store.end(first.dispute.id, { ...WITHDRAWN, verdicts: 0 }, READER);
    const again = store.open(SUBJECT, READER);
    expect([again.created, again.dispute.id === first.dispute.id]).toEqual([true, false]);
  });

  test('ends once; the same end again changes nothing, another one is refused', () => {
    const { id } = store.open(SUBJECT, READER).dispute;
    const ended = store.end(id, { ...UPHELD, verdicts: 1 }, ADMIN);
    nowMs += 1;
    expect(store.end(id, { ...UPHELD, verdicts: 0 }, READER)).toEqual(ended);
    const others = [
      WITHDRAWN,
      { ...UPHELD, note: 'other' },
      { ...UPHELD, resolution: 'rejected' },
    ] as const;
    for (const other of others) {
      expect(codeOf(() => store.end(id, { ...other, verdicts: 0 }, ADMIN))).toBe('dispute_closed');
    }
    expect(store.find(id, undefined)).toEqual(ended);
    expect(codeOf(() => store.end('dp_x', { ...UPHELD, verdicts: 0 }, ADMIN))).toBe(
      'dispute_unknown',
    );
  });

  test('is found by its own advertiser and by who may see all', () => {
    const { id } = store.open(SUBJECT, READER).dispute;
    expect(store.find(id, 'adv-2')).toBeNull();
    expect(store.find(id, undefined)).not.toBeNull();
    expect(store.find('', 'adv-1')).toBeNull();
  });

  test('comes newest first, filtered, page by page, also among those of one moment', () => {
    const ids = Array.from({ length: 6 }, (_, at) => {
      if (at % 2 === 0) nowMs += 1;
      const advertiserId = at === 5 ? 'adv-2' : 'adv-1';
      return store.open({ ...SUBJECT, advertiserId, adId: `ad-${at}` }, READER).dispute.id;
    });
    store.end(ids[1]!, { ...WITHDRAWN, verdicts: 0 }, READER);
    const all = { advertiserId: undefined, adId: undefined, state: undefined, before: undefined };
    const whole = store.list({ ...all, limit: 100 });
    expect(whole.map(({ opened }) => opened.atMs)).toEqual(
      whole.map(({ opened }) => opened.atMs).sort((a, b) => b - a),
    );
    const paged: string[] = [];
    for (let before: { openedAtMs: number; id: string } | undefined; ; ) {
      const [next] = store.list({ ...all, before, limit: 1 });
      if (next === undefined) break;
      paged.push(next.id);
      before = { openedAtMs: next.opened.atMs, id: next.id };
    }
    expect(paged).toEqual(whole.map(({ id }) => id));
    const idsOf = (over: object) => store.list({ ...all, limit: 100, ...over }).map(({ id }) => id);
    expect(idsOf({ advertiserId: 'adv-2' })).toEqual([ids[5]!]);
    expect(idsOf({ adId: 'ad-3' })).toEqual([ids[3]!]);
    expect(idsOf({ state: 'withdrawn' })).toEqual([ids[1]!]);
    expect(idsOf({ state: 'open', advertiserId: 'adv-1' }).length).toBe(4);
  });

  test('too many open or in one day are refused, for one advertiser only', () => {
    const open = (at: number) => store.open({ ...SUBJECT, adId: `ad-${at}` }, READER);
    store.close();
    store = openDisputes({ path, clock: () => nowMs, maxPerAdvertiser: 10 });
    for (let at = 0; at < 10; at++) open(at);
    expect(codeOf(() => open(10))).toBe('disputes_too_many');
    expect(open(7).created).toBe(false);
    expect(store.open({ ...SUBJECT, advertiserId: 'adv-2' }, READER).created).toBe(true);
    store.end(open(7).dispute.id, { ...WITHDRAWN, verdicts: 0 }, READER);
    expect(codeOf(() => open(7))).toBe('disputes_too_many');
    nowMs += DAY_MS;
    expect(open(7).created).toBe(true);
    expect(codeOf(() => open(10))).toBe('disputes_too_many');
  });
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
    close: () => undefined,
    end(...args) {
      if (when === 'after') store.end(...args);
      throw new Crash();
    },
  });
  const which = (id: string) => ({ id, advertiserId: undefined });

  beforeEach(() => {
    inForce = new Set();
    log = [];
  });

  test('takes them first; whatever dies in between, ending it again ends it once', async () => {
    for (const when of ['before', 'after'] as const) {
      inForce = new Set();
      log = [];
      const { id } = store.open({ ...SUBJECT, adId: when }, READER).dispute;
      expect(createDisputes(dying(when), take).end(which(id), END, ADMIN)).rejects.toThrow(Crash);
      expect(log).toEqual(['1 new']);
      expect(store.find(id, undefined)!.closed === null).toBe(when === 'before');
      const again = await createDisputes(store, take).end(which(id), END, ADMIN);
      expect(again!.dispute.closed).toMatchObject({ ...UPHELD, verdicts: 1 });
      expect(log).toEqual(when === 'before' ? ['1 new', '0 new'] : ['1 new']);
      expect(inForce.size).toBe(1);
    }
  });

  test('takes none for a dispute that has ended otherwise, is another’s, or is none', async () => {
    const { id } = store.open(SUBJECT, READER).dispute;
    const disputes = createDisputes(store, take);
    expect(await disputes.end({ id, advertiserId: 'adv-2' }, END, ADMIN)).toBeNull();
    expect(await disputes.end(which('dp_none'), END, ADMIN)).toBeNull();
    await disputes.end(which(id), { ...WITHDRAWN, verdicts: [] }, READER);
    expect(disputes.end(which(id), END, ADMIN)).rejects.toThrow('withdrawn before');
    expect(log).toEqual([]);
  });

  test('that are refused leaves it open', async () => {
    const { id } = store.open(SUBJECT, READER).dispute;
    const refuse = () => Promise.reject(new LedgerError('verdicts_invalid', 'line 1'));
    const disputes = createDisputes(store, refuse);
    expect(disputes.end(which(id), END, ADMIN)).rejects.toThrow('line 1');
    expect(store.find(id, undefined)!.closed).toBeNull();
    const without = await disputes.end(which(id), { ...UPHELD, verdicts: [] }, ADMIN);
    expect(without!.verdicts).toBeNull();
  });

  test('keeps its advertiser from withdrawing it meanwhile', async () => {
    const { id } = store.open(SUBJECT, READER).dispute;
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
    expect(withdraw).rejects.toMatchObject({ code: 'dispute_busy', kind: 'retry' });
    gate.resolve();
    expect((await ending)!.dispute.closed?.state).toBe('resolved');
  });
});
