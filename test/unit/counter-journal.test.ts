// Proves INV-3 of SPEC.md.
/** The counter's journal: what a commit that died has left behind never counts. */
import { expect, test } from 'bun:test';
import { CounterState } from '../../src/counter/counter-state.ts';
import { encodeRows, type KeptRow, KIND_SEAL, readRows } from '../../src/counter/journal-codec.ts';
import type { JournalLog } from '../../src/counter/port.ts';
import { RecordSource } from '../../src/counter/record-source.ts';
import { Counting } from '../../src/counting/counting.ts';
import { COUNTING } from '../crash/ledger-world.ts';
import { click, T0 } from '../support/archive-fixtures.ts';
import { MemoryJournals } from '../support/memory-journal.ts';
import { MemoryLog } from '../support/memory-log.ts';

const open = (journal: JournalLog): Promise<CounterState> =>
  CounterState.open(journal, new Counting(COUNTING));

/** Counts the log from the state's position up to `until`. */
async function countUpTo(state: CounterState, log: MemoryLog, until: number): Promise<void> {
  const source = new RecordSource(COUNTING.maxSkewMs);
  state.beginPartition(0, 0, T0);
  for (const batch of await log.read(0, state.positions.get(0) ?? 0, 1_000_000)) {
    if (batch.firstOffset >= until) break;
    expect(source.read(batch, 0)).toBeNull();
    state.tally(0, state.counting.apply(source.record));
    state.positions.set(0, batch.firstOffset + 1);
  }
}

test('claims of a commit that died before its seal do not count with the next commit', async () => {
  const journals = new MemoryJournals();
  const log = new MemoryLog();
  for (let i = 0; i < 10; i++) log.append(0, [click(`imp-${i}`, { clickedAtMs: T0 + i })], T0);
  const first = await open(await journals.open(0));
  await countUpTo(first, log, 10);
  journals.beforeAppend = (bytes) => {
    if (bytes[0] === KIND_SEAL) throw new Error('dies before the seal');
  };
  await expect(first.commit(first.counting.windows.takeChanged())).rejects.toThrow('seal');
  journals.beforeAppend = () => {};
  journals.crash();

  // The next process commits sooner, and dies as well.
  const second = await open(await journals.open(0));
  expect(second.isNew).toBe(true);
  await countUpTo(second, log, 4);
  await second.commit(second.counting.windows.takeChanged());
  journals.crash();

  const third = await open(await journals.open(0));
  expect(third.positions.get(0)).toBe(4);
  expect(third.counting.claims.size).toBe(4);
  await countUpTo(third, log, 10);
  expect(third.outcomes.get(0)).toMatchObject({ counted: 10, duplicate: 0 });
  expect([...third.counting.windows.rows()].map(({ clicks }) => clicks)).toEqual([10]);
});

test('a journal says what it was counted from', async () => {
  const journals = new MemoryJournals();
  const state = await open(await journals.open(7));
  expect(state.origin).toBeNull();
  state.origin = { logId: 'a', rebuildId: 3 };
  await state.commit([]);
  journals.crash();
  expect((await open(await journals.open(7))).origin).toEqual({ logId: 'a', rebuildId: 3 });
});

test('rows come back as they were, from a small part and from several large ones', () => {
  const rowsOf = (count: number): KeptRow[] =>
    Array.from({ length: count }, (_, i) => ({
      id: 2 ** 40 + i,
      shard: 65_535 - (i % 3),
      minuteMs: T0 + 60_000 * i,
      clicks: i % 2 === 0 ? i : 2 ** 47 + i,
      rowKey: `\u00ff\u0000${'k'.repeat(i % 255)}`,
    }));
  for (const count of [0, 1, 1_000, 60_000]) {
    const rows = rowsOf(count);
    const parts = encodeRows(rows.map((row) => ({ ...row, isChanged: false })));
    const read: KeptRow[] = [];
    for (const part of parts) readRows(part, (row) => read.push(row));
    expect(read).toEqual(rows);
    expect(Math.max(0, ...parts.map(({ length }) => length))).toBeLessThanOrEqual(4 * 1024 * 1024);
  }
});
