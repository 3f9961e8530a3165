/** Dead letters that go into the log again: which, in what order of effects, and how many at once. */
import { afterEach, beforeEach, expect, test } from 'bun:test';
import { join } from 'node:path';
import { letterBatches } from '../../src/counter/letter-batches.ts';
import type { DeadLetterStore } from '../../src/counter/port.ts';
import { openDeadLetters } from '../../src/counter/sqlite/dead-letters.ts';
import type { AppendDone } from '../../src/log/port.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { redriveLetters } from '../../src/roles/redrive.ts';
import { letterOf } from '../conformance/dead-letter-store-suite.ts';
import { codeOf } from '../support/code-of.ts';
import { tempDir } from '../support/temp-dir.ts';

let folder: ReturnType<typeof tempDir>;
let store: DeadLetterStore;
let appended: string[];
let onAppend: (bytes: Buffer) => void;

beforeEach(() => {
  folder = tempDir('redrive');
  store = openDeadLetters(join(folder.path, 'dead-letters.sqlite'));
  appended = [];
  onAppend = () => undefined;
});
afterEach(async () => {
  await store.close();
  folder.remove();
});

const writer = {
  append(bytes: Buffer, length: number, done: AppendDone) {
    onAppend(bytes);
    appended.push(bytes.subarray(0, length).toString());
    setImmediate(done, null);
  },
};
const redrive = (which: Parameters<typeof redriveLetters>[1]) =>
  redriveLetters({ deadLetters: store, writer, clock: () => 77 }, which);
const named = (partition: number, offset: number, over: object = {}) =>
  letterOf(partition, offset, { bytes: Buffer.from(`${partition}-${offset}`), ...over });

test('one, those of a reason, or all that wait are appended and marked, none twice', async () => {
  const late = { reason: 'clicked_at_ahead_of_log' as const };
  await store.put([named(0, 1), named(0, 2, late), named(3, 1), named(3, 2, late)]);
  expect(await redrive({ id: '3-1' })).toEqual({ redriven: 1 });
  expect(await codeOf(redrive({ id: '3-1' }))).toBe('dead_letter_redriven');
  expect(await codeOf(redrive({ id: '9-9' }))).toBe('dead_letter_unknown');
  expect(await redrive({ reason: late.reason })).toEqual({ redriven: 2 });
  expect(await redrive({ all: true })).toEqual({ redriven: 1 });
  expect(await redrive({ all: true })).toEqual({ redriven: 0 });
  expect(appended).toEqual(['3-1', '0-2', '3-2', '0-1']);
  const marks = (await store.list({ limit: 9, waitingOnly: false })).map((each) => [
    each.id,
    each.redrivenAtMs,
  ]);
  expect(marks).toEqual(['0-1', '0-2', '3-1', '3-2'].map((id) => [id, 77]));
});

test('a letter that cannot be counted again is not of the same request', async () => {
  await store.put([named(0, 1), named(0, 2)]);
  let next = 100;
  onAppend = () => void store.put([named(1_000, next++)]);
  expect(await redrive({ all: true })).toEqual({ redriven: 2 });
  expect(appended).toEqual(['0-1', '0-2']);
  expect(await store.waiting()).toEqual(new Map([['undecodable', 2]]));
});

test('those that the log did not take wait on', async () => {
  const many = Array.from({ length: 250 }, (_, at) => named(0, at));
  await store.put(many);
  onAppend = (bytes) => {
    if (bytes.toString() === '0-220') throw new LedgerError('log_unavailable', 'full');
  };
  expect(await codeOf(redrive({ all: true }))).toBe('log_unavailable');
  const waiting = await store.list({ limit: 1_000, waitingOnly: true });
  // Of the batch that it was in none is marked: they are appended once more, and dedup absorbs it.
  expect(waiting.map(({ offset }) => offset)).toEqual(
    Array.from({ length: 50 }, (_, at) => 200 + at),
  );
  onAppend = () => undefined;
  expect(await redrive({ all: true })).toEqual({ redriven: 50 });
});

test('batches hold as much as they may, and a letter that is larger alone', () => {
  const batches = (sizes: number[]) => [
    ...letterBatches(sizes, { letters: 3, bytes: 10 }, (size) => size),
  ];
  expect(batches([])).toEqual([]);
  expect(batches([1, 1, 1, 1])).toEqual([[1, 1, 1], [1]]);
  expect(batches([4, 6, 1])).toEqual([[4, 6], [1]]);
  expect(batches([1, 99, 1, 2])).toEqual([[1], [99], [1, 2]]);
});
