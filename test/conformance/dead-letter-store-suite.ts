/** What every `DeadLetterStore` must do: letters once, by position, read page by page. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import type { DeadLetter, DeadLetterStore } from '../../src/counter/port.ts';
import type { DeadLetterReason } from '../../src/event/click-event.ts';
import { codeOf } from '../support/code-of.ts';

export interface DeadLetterHarness {
  /** Opens the same letters again and again. */
  open(): Promise<DeadLetterStore>;
  remove(): Promise<void>;
}

export const letterOf = (
  partition: number,
  offset: number,
  over: Partial<DeadLetter> = {},
): DeadLetter => ({
  partition,
  offset,
  appendedAtMs: Date.UTC(2026, 2, 10) + offset,
  reason: 'undecodable',
  bytes: Buffer.from([0, partition & 0xff, offset & 0xff, 0xff]),
  ...over,
});

const ALL = { limit: 100, waitingOnly: false };
const WAITING = { limit: 100, waitingOnly: true };

export function deadLetterStoreSuite(
  name: string,
  createHarness: () => DeadLetterHarness | Promise<DeadLetterHarness>,
): void {
  describe(`dead letters in ${name}`, () => {
    let harness: DeadLetterHarness;
    let store: DeadLetterStore;
    beforeEach(async () => {
      harness = await createHarness();
      store = await harness.open();
    });
    afterEach(async () => {
      await store.close();
      await harness.remove();
    });
    const idsOf = async (query: Parameters<DeadLetterStore['list']>[0]): Promise<string[]> =>
      (await store.list(query)).map(({ id }) => id);

    test('are there after a restart, with all their bytes', async () => {
      const largest = 2 ** 40;
      const letters = [
        letterOf(63, largest, {
          bytes: Buffer.alloc(300_000, 0xa5),
          reason: 'unsupported_version',
        }),
        letterOf(10_001, 7),
        letterOf(10_001, 8, { bytes: Buffer.alloc(0) }),
      ];
      await store.put(letters);
      await store.close();
      store = await harness.open();
      const heads = letters.map(({ bytes, ...letter }) => ({
        id: `${letter.partition}-${letter.offset}`,
        ...letter,
        sizeBytes: bytes.length,
        redrivenAtMs: null,
      }));
      expect(await store.list(ALL)).toEqual(heads);
      const whole = await store.read(heads.map(({ id }) => id));
      expect(whole).toEqual(heads.map((head, at) => ({ ...head, bytes: letters[at]!.bytes })));
      expect(await store.read(['0-99', `63-${largest}`])).toHaveLength(1);
      expect(await store.read([])).toEqual([]);
    });

    test('are kept once, as they were first put (L1)', async () => {
      await store.put([letterOf(0, 1), letterOf(0, 2)]);
      const other = { bytes: Buffer.from('other'), reason: 'unsupported_version' as const };
      await store.put([letterOf(0, 2, other), letterOf(0, 3), letterOf(0, 3, other)]);
      await store.put([]);
      const letters = await store.read(['0-1', '0-2', '0-3']);
      expect(letters.map(({ reason }) => reason)).toEqual(Array(3).fill('undecodable'));
      expect(letters[1]!.bytes).toEqual(letterOf(0, 2).bytes);
    });

    test('come by position, page by page, all of them or those that wait', async () => {
      const reasons: DeadLetterReason[] = ['undecodable', 'clicked_at_ahead_of_log'];
      const positions = [2, 0, 10].flatMap((partition) =>
        [9, 10, 100].map((offset) => [partition, offset] as const),
      );
      await store.put(
        positions.map(([partition, offset], at) =>
          letterOf(partition, offset, { reason: reasons[at % 2]! }),
        ),
      );
      const sorted = ['0-9', '0-10', '0-100', '2-9', '2-10', '2-100', '10-9', '10-10', '10-100'];
      expect(await idsOf(ALL)).toEqual(sorted);
      await store.markRedriven(['0-10', '2-9'], 5);
      const waiting = sorted.filter((id) => id !== '0-10' && id !== '2-9');
      expect(await idsOf(WAITING)).toEqual(waiting);
      const paged: string[] = [];
      for (let after: { after: string } | object = {}; ; ) {
        const page = await idsOf({ limit: 2, waitingOnly: true, ...after });
        paged.push(...page);
        const last = page.at(-1);
        if (last === undefined) break;
        after = { after: last };
      }
      expect(paged).toEqual(waiting);
      const ahead = await store.list({ ...WAITING, reason: reasons[1]!, after: '0-10' });
      expect(ahead.map(({ id }) => id)).toEqual(['0-100', '2-10', '10-10']);
      expect(await idsOf({ ...ALL, reason: 'no such' })).toEqual([]);
      expect(await idsOf({ ...ALL, reason: '\0' })).toEqual([]);
    });

    test('are counted by reason while they wait', async () => {
      expect(await store.waiting()).toEqual(new Map());
      const late = { reason: 'clicked_at_out_of_range' as const };
      await store.put([letterOf(0, 1), letterOf(0, 2), letterOf(0, 3, late)]);
      await store.markRedriven(['0-1'], 5);
      expect(await store.waiting()).toEqual(
        new Map<DeadLetterReason, number>([
          ['undecodable', 1],
          ['clicked_at_out_of_range', 1],
        ]),
      );
    });

    test('are marked once: the first time stays (L2)', async () => {
      await store.put([letterOf(0, 1), letterOf(0, 2)]);
      await store.markRedriven(['0-1'], 5);
      await store.markRedriven(['0-1', '0-2', '0-3'], 9);
      await store.markRedriven([], 11);
      const times = (await store.list(ALL)).map(({ redrivenAtMs }) => redrivenAtMs);
      expect(times).toEqual([5, 9]);
    });

    test('are put in any number at once', async () => {
      const many = Array.from({ length: 2_500 }, (_, at) => letterOf(3, at));
      await store.put([...many].reverse());
      await store.put(many);
      expect(await store.waiting()).toEqual(new Map([['undecodable', 2_500]]));
      expect(await idsOf({ ...ALL, limit: 2, after: '3-2497' })).toEqual(['3-2498', '3-2499']);
    });

    test('have ids that are positions, and nothing else is one', async () => {
      for (const id of ['', '0', '0-', '-1', '0-1-2', '0--1', '1e3-1', '\0-1', '0-1\n']) {
        expect([id, await codeOf(store.read([id]))]).toEqual([id, 'dead_letter_id']);
        expect([id, await codeOf(store.list({ ...ALL, after: id }))]).toEqual([
          id,
          'dead_letter_id',
        ]);
      }
      expect(await codeOf(store.markRedriven(['x'], 1))).toBe('dead_letter_id');
    });
  });
}
