/** What every `DisputeStore` must do: disputes' steps, their bounds, and how they are listed. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { Actor, DisputeStore } from '../../src/disputes/port.ts';
import type { Clock } from '../../src/platform/clock.ts';
import { codeOf } from '../support/code-of.ts';

export interface DisputeHarness {
  /** Opens the same disputes again and again. */
  open(options: { clock: Clock; maxPerAdvertiser?: number }): Promise<DisputeStore>;
  remove(): Promise<void>;
}

const DAY_MS = 86_400_000;
export const READER: Actor = { tokenId: 'aaa', scope: 'read' };
export const ADMIN: Actor = { tokenId: 'bbb', scope: 'admin' };
export const SUBJECT = {
  advertiserId: 'adv-1',
  adId: 'ad-1',
  fromMs: 0,
  toMs: DAY_MS,
  timezone: 'UTC',
  reason: "Too many; they're not ours\n'); DROP TABLE disputes; -- \u{1f916}é",
};
export const UPHELD = { state: 'resolved', resolution: 'upheld', note: 'a crawler' } as const;
export const WITHDRAWN = { state: 'withdrawn', resolution: null, note: '' } as const;

export function disputeStoreSuite(
  name: string,
  createHarness: () => DisputeHarness | Promise<DisputeHarness>,
): void {
  describe(`a dispute in ${name}`, () => {
    let harness: DisputeHarness;
    let store: DisputeStore;
    let nowMs: number;
    const clock = (): number => nowMs;
    beforeEach(async () => {
      nowMs = 1_000_000;
      harness = await createHarness();
      store = await harness.open({ clock });
    });
    afterEach(async () => {
      await store.close();
      await harness.remove();
    });
    const openId = async (over: object = {}): Promise<string> =>
      (await store.open({ ...SUBJECT, ...over }, READER)).dispute.id;

    test('is there after a restart, with who and when for each step', async () => {
      const { dispute, created } = await store.open(SUBJECT, READER);
      expect(created).toBe(true);
      expect(dispute).toEqual({
        id: expect.stringMatching(/^dp_[A-Za-z0-9_-]{22}$/),
        ...SUBJECT,
        opened: { by: READER, atMs: 1_000_000 },
        closed: null,
      });
      nowMs += 5;
      await store.end(dispute.id, { ...UPHELD, verdicts: 2 }, ADMIN);
      await store.close();
      store = await harness.open({ clock });
      expect(await store.find(dispute.id, 'adv-1')).toEqual({
        ...dispute,
        closed: { ...UPHELD, verdicts: 2, by: ADMIN, atMs: 1_000_005 },
      });
    });

    test('that is open already is not opened twice, one that has ended is', async () => {
      const first = await store.open(SUBJECT, READER);
      expect(await store.open({ ...SUBJECT }, ADMIN)).toEqual({ ...first, created: false });
      expect((await store.open({ ...SUBJECT, reason: 'other' }, READER)).created).toBe(true);
      expect((await store.open({ ...SUBJECT, advertiserId: 'adv-2' }, READER)).created).toBe(true);
      await store.end(first.dispute.id, { ...WITHDRAWN, verdicts: 0 }, READER);
      const again = await store.open(SUBJECT, READER);
      expect([again.created, again.dispute.id === first.dispute.id]).toEqual([true, false]);
    });

    test('ends once; the same end again changes nothing, another one is refused', async () => {
      const id = await openId();
      const ended = await store.end(id, { ...UPHELD, verdicts: 1 }, ADMIN);
      expect(ended.closed).toEqual({ ...UPHELD, verdicts: 1, by: ADMIN, atMs: nowMs });
      nowMs += 1;
      expect(await store.end(id, { ...UPHELD, verdicts: 0 }, READER)).toEqual(ended);
      const others = [
        WITHDRAWN,
        { ...UPHELD, note: 'other' },
        { ...UPHELD, resolution: 'rejected' },
      ] as const;
      for (const other of others) {
        const code = await codeOf(store.end(id, { ...other, verdicts: 0 }, ADMIN));
        expect(code).toBe('dispute_closed');
      }
      expect(await store.find(id, undefined)).toEqual(ended);
      const unknown = store.end('dp_x', { ...UPHELD, verdicts: 0 }, ADMIN);
      expect(await codeOf(unknown)).toBe('dispute_unknown');
    });

    test('is found by its own advertiser and by who may see all', async () => {
      const id = await openId();
      expect(await store.find(id, 'adv-2')).toBeNull();
      expect(await store.find(id, undefined)).not.toBeNull();
      for (const other of ['', '\0', `${id}\0`, "' OR 1=1 --"]) {
        expect(await store.find(other, 'adv-1')).toBeNull();
      }
    });

    test('comes newest first, filtered, page by page, also among those of one moment', async () => {
      const ids: string[] = [];
      for (let at = 0; at < 6; at++) {
        if (at % 2 === 0) nowMs += 1;
        ids.push(await openId({ advertiserId: at === 5 ? 'adv-2' : 'adv-1', adId: `ad-${at}` }));
      }
      await store.end(ids[1]!, { ...WITHDRAWN, verdicts: 0 }, READER);
      const all = { advertiserId: undefined, adId: undefined, state: undefined, before: undefined };
      const whole = await store.list({ ...all, limit: 100 });
      const times = whole.map(({ opened }) => opened.atMs);
      expect(times).toEqual([...times].sort((a, b) => b - a));
      const paged: string[] = [];
      for (let before: { openedAtMs: number; id: string } | undefined; ; ) {
        const [next] = await store.list({ ...all, before, limit: 1 });
        if (next === undefined) break;
        paged.push(next.id);
        before = { openedAtMs: next.opened.atMs, id: next.id };
      }
      expect(paged).toEqual(whole.map(({ id }) => id));
      const idsOf = async (over: object) =>
        (await store.list({ ...all, limit: 100, ...over })).map(({ id }) => id);
      expect(await idsOf({ advertiserId: 'adv-2' })).toEqual([ids[5]!]);
      expect(await idsOf({ adId: 'ad-3' })).toEqual([ids[3]!]);
      expect(await idsOf({ state: 'withdrawn' })).toEqual([ids[1]!]);
      expect(await idsOf({ state: 'open', advertiserId: 'adv-1' })).toHaveLength(4);
      const before = { openedAtMs: whole[0]!.opened.atMs, id: whole[0]!.id };
      const every = { advertiserId: 'adv-1', adId: 'ad-3', state: 'open' as const, before };
      expect(await idsOf(every)).toEqual([ids[3]!]);
    });

    test('too many open or in one day are refused, for one advertiser only', async () => {
      await store.close();
      store = await harness.open({ clock, maxPerAdvertiser: 10 });
      const open = (at: number) => store.open({ ...SUBJECT, adId: `ad-${at}` }, READER);
      for (let at = 0; at < 10; at++) await open(at);
      expect(await codeOf(open(10))).toBe('disputes_too_many');
      const known = await open(7);
      expect(known.created).toBe(false);
      expect((await store.open({ ...SUBJECT, advertiserId: 'adv-2' }, READER)).created).toBe(true);
      await store.end(known.dispute.id, { ...WITHDRAWN, verdicts: 0 }, READER);
      expect(await codeOf(open(7))).toBe('disputes_too_many');
      nowMs += DAY_MS;
      expect((await open(7)).created).toBe(true);
      expect(await codeOf(open(10))).toBe('disputes_too_many');
    });
  });
}
