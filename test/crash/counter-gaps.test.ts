// Proves INV-3, INV-4, INV-7 of SPEC.md.
/** The counter's numbered effects: whatever dies between two of them, the rows come out right. */
import { afterEach, expect, test } from 'bun:test';
import type { ClickEvent } from '../../src/event/click-event.ts';
import { Crash, click } from '../support/archive-fixtures.ts';
import { type AuditRecord, audit } from '../support/auditor.ts';
import { until } from '../support/log-tools.ts';
import { eventBytes } from '../support/memory-log.ts';
import { COUNTING, Deaths, LedgerFiles, LiveRows, MINUTE_MS, rowKeyOf } from './ledger-world.ts';

const T0 = Date.UTC(2026, 0, 31, 7, 0, 0);
const open: LedgerFiles[] = [];

afterEach(async () => {
  for (const files of open.splice(0)) await files.dispose();
});

function newFiles(nowMs = T0): LedgerFiles {
  const files = new LedgerFiles(nowMs);
  open.push(files);
  return files;
}

interface Phase {
  readonly nowMs: number;
  /** Partition → what it takes at that time; bytes are records that nobody can read. */
  readonly records: readonly (readonly [partition: number, record: ClickEvent | Buffer])[];
}

/** Doubles on one partition and across two, HEADs, garbage, late clicks, and minutes that settle. */
function scenario(): Phase[] {
  return Array.from({ length: 4 }, (_, phase) => {
    const nowMs = T0 + phase * 9 * MINUTE_MS;
    const records: [number, ClickEvent | Buffer][] = [];
    for (let i = 0; i < 10; i++) {
      const at = { clickedAtMs: nowMs + i * 1_500, country: i % 3 === 0 ? 'FR' : 'DE' };
      const impression = `imp-${phase}-${i}`;
      records.push([i % 2, click(impression, { ...at, adId: `ad-${i % 3}` })]);
      if (i % 4 === 0) {
        const again = { ...at, clickedAtMs: at.clickedAtMs + 700, country: 'US' };
        records.push([(i + 1) % 2, click(impression, { ...again, adId: `ad-${i % 3}` })]);
      }
      if (i % 5 === 0) records.push([0, click(`head-${phase}-${i}`, { ...at, class: 'head' })]);
    }
    records.push([1, Buffer.from([0xff, phase, 1])]);
    if (phase > 1) records.push([0, click(`late-${phase}`, { clickedAtMs: T0 + phase })]);
    // A duplicate of a click whose minute settled long ago.
    if (phase > 1) records.push([0, click('imp-0-1', { clickedAtMs: nowMs + 20_000 })]);
    return { nowMs, records };
  });
}

function expected(phases: readonly Phase[]) {
  const logs: AuditRecord[][] = [[], []];
  const offsets = [0, 0];
  let deadLetters = 0;
  for (const [partition, record] of phases.flatMap(({ records }) => records)) {
    const offset = offsets[partition]!++;
    if (Buffer.isBuffer(record)) {
      deadLetters++;
      continue;
    }
    const { impressionId, clickedAtMs } = record;
    const { class: kind } = record;
    const rowKey = rowKeyOf(record);
    logs[partition]!.push({ partition, offset, impressionId, clickedAtMs, class: kind, rowKey });
  }
  const { rows, outcomes } = audit(logs, { ...COUNTING, shards: 'partition' });
  return { rows, outcomes: { ...outcomes, invalid: 0, dead_letter: deadLetters } };
}

/** Plays the phases; a counter that dies is opened again. `deathsOf` gives each life its death. */
async function play(files: LedgerFiles, live: LiveRows, deathsOf: (life: number) => Deaths) {
  let life = 0;
  let deaths = deathsOf(life);
  let counter = await files.openCounter(live, { deaths });
  for (const { nowMs, records } of scenario()) {
    files.nowMs = nowMs + 30_000;
    for (const partition of [0, 1]) {
      const own = records.filter(([each]) => each === partition).map(([, record]) => record);
      await files.appendBytes(
        partition,
        own.map((record) => (Buffer.isBuffer(record) ? record : eventBytes(record))),
      );
    }
    for (;;) {
      try {
        await counter.catchUp();
        break;
      } catch (error) {
        if (!(error instanceof Crash)) throw error;
        await counter.close();
        deaths = deathsOf(++life);
        counter = await files.openCounter(live, { deaths });
      }
    }
  }
  const outcomes = counter.outcomes();
  await counter.close();
  return { outcomes, lives: life + 1, effects: deaths.effects };
}

const WANTED = expected(scenario());

test('the scenario meets every outcome and every effect', async () => {
  const files = newFiles();
  const live = new LiveRows();
  const { outcomes, effects } = await play(files, live, () => new Deaths());
  expect(live.clicks()).toEqual(WANTED.rows);
  expect(outcomes).toEqual(WANTED.outcomes);
  for (const outcome of ['counted', 'duplicate', 'late', 'not_billable', 'dead_letter'] as const) {
    expect(outcomes[outcome]).toBeGreaterThan(0);
  }
  expect(new Set(effects)).toEqual(
    new Set(['1 dead letters', '2 journal commit', '3 rows upserted']),
  );
});

for (const when of ['before', 'after'] as const) {
  test(`a counter that dies once, ${when} any of its effects, ends with the auditor's rows`, async () => {
    for (let at = 0; ; at++) {
      const files = newFiles();
      const live = new LiveRows();
      const { outcomes, lives } = await play(files, live, (life) =>
        life === 0 ? new Deaths(at, when) : new Deaths(),
      );
      expect({ at, rows: live.clicks(), outcomes }).toEqual({ at, ...WANTED });
      expect(await files.letters.list({ limit: 100, waitingOnly: true })).toHaveLength(
        WANTED.outcomes.dead_letter,
      );
      await open.pop()!.dispose();
      if (lives === 1) break;
    }
  });

  test(`a counter whose every life ends ${when} its n-th effect makes progress and ends right`, async () => {
    // In fewer effects than a commit and an upsert take, nothing can be got done.
    for (let at = when === 'after' ? 2 : 3; at < 9; at++) {
      const files = newFiles();
      const live = new LiveRows();
      const { outcomes } = await play(files, live, () => new Deaths(at, when));
      expect({ at, rows: live.clicks(), outcomes }).toEqual({ at, ...WANTED });
      await open.pop()!.dispose();
    }
  });
}

test('a counter without its state counts the log again to the same rows', async () => {
  const files = newFiles();
  const live = new LiveRows();
  await play(files, live, () => new Deaths());
  files.loseState();
  const counter = await files.openCounter(live);
  await counter.catchUp();
  expect(counter.outcomes()).toEqual(WANTED.outcomes);
  await counter.close();
  expect(live.clicks()).toEqual(WANTED.rows);
});

test('while the warehouse is away counting goes on, and all rows arrive when it is back (D8)', async () => {
  const files = newFiles();
  const live = new LiveRows();
  live.failure = new Error('the warehouse is away');
  const counter = await files.openCounter(live, { over: { upsertIntervalMs: 5 } });
  const stop = new AbortController();
  const run = counter.run(stop.signal);
  const events = Array.from({ length: 50 }, (_, i) => click(`a-${i}`, { adId: `ad-${i}` }));
  await files.append(0, events);
  await until(() => counter.committedPositions.get(0) === 50, 'the records are counted');
  await until(() => counter.lastUpsertError !== null, 'the upsert has failed');
  const { asOfMs } = counter;
  files.nowMs += 60_000;
  await files.append(0, [click('a-50', { adId: 'ad-0' })]);
  await until(() => counter.committedPositions.get(0) === 51, 'counting goes on');
  expect(counter.asOfMs).toBe(asOfMs);
  expect(counter.heldRows).toBeGreaterThan(0);
  live.failure = null;
  await until(() => counter.heldRows === 0 && counter.lastUpsertError === null, 'rows arrive');
  stop.abort();
  await run;
  expect([...live.clicks().values()].reduce((sum, clicks) => sum + clicks, 0)).toBe(51);
});

test('a counter with all rows it may hold waits, and loses nothing', async () => {
  const files = newFiles();
  const live = new LiveRows();
  live.failure = new Error('the warehouse is away');
  const over = { upsertIntervalMs: 5, maxHeldRows: 20, commitRecords: 1 };
  const counter = await files.openCounter(live, { over });
  const stop = new AbortController();
  const run = counter.run(stop.signal);
  for (let i = 0; i < 60; i++) await files.append(0, [click(`a-${i}`, { adId: `ad-${i}` })]);
  await until(() => counter.heldRows >= 20, 'all rows are held');
  expect(counter.committedPositions.get(0)).toBeLessThan(60);
  live.failure = null;
  await until(() => live.clicks().size === 60, 'all rows arrive');
  stop.abort();
  await run;
});

test('a position ahead of the log is refused, with what to do about it', async () => {
  const files = newFiles();
  const live = new LiveRows();
  await files.append(0, [click('a'), click('b')]);
  const counter = await files.openCounter(live);
  await counter.catchUp();
  await counter.close();
  await files.loseLog();
  await files.append(0, [click('c')]);
  const stopped = await files.openCounter(live);
  expect(stopped.failure).toMatchObject({ code: 'position_ahead_of_log' });
  await expect(stopped.catchUp()).rejects.toMatchObject({ code: 'position_ahead_of_log' });
  await stopped.close();
});

test('each kind of unreadable record becomes a dead letter, and the partition goes on (E7, F1, G11)', async () => {
  const files = newFiles();
  const live = new LiveRows();
  const otherVersion = eventBytes(click('future'));
  otherVersion[0] = 200;
  const wrapped = eventBytes(click('wrapped', { clickedAtMs: T0 / 1000 }));
  const ahead = click('ahead', { clickedAtMs: T0 + 2 * 60 * MINUTE_MS });
  const beyond = click('beyond', { clickedAtMs: Date.UTC(2201, 0, 1) });
  await files.append(0, [click('before', { clickedAtMs: T0 })]);
  await files.appendBytes(0, [
    Buffer.alloc(0),
    Buffer.from('not an event'),
    otherVersion,
    wrapped,
    eventBytes(beyond),
    eventBytes(ahead),
  ]);
  await files.append(0, [click('after', { clickedAtMs: T0 + 1 })]);
  const counter = await files.openCounter(live);
  await counter.catchUp();
  const letters = await files.letters.list({ limit: 10, waitingOnly: true });
  expect(letters.map(({ offset, reason }) => [offset, reason])).toEqual([
    [1, 'undecodable'],
    [2, 'undecodable'],
    [3, 'unsupported_version'],
    [4, 'clicked_at_out_of_range'],
    [5, 'clicked_at_out_of_range'],
    [6, 'clicked_at_ahead_of_log'],
  ]);
  expect(counter.outcomes()).toMatchObject({ counted: 2, dead_letter: 6 });
  // The fast clock has not moved the watermark: an honest click is still on time (F1).
  await files.append(0, [click('honest', { clickedAtMs: T0 + 2 })]);
  await counter.catchUp();
  expect(counter.outcomes()).toMatchObject({ counted: 3, late: 0 });

  // Once the clock has caught up, the letter counts, and counts once.
  files.nowMs = ahead.clickedAtMs;
  const [letter] = await files.letters.read([letters.at(-1)!.id]);
  const { bytes } = letter!;
  await files.appendBytes(1000, [bytes, bytes]);
  await counter.catchUp();
  expect(counter.outcomes()).toMatchObject({ counted: 4, duplicate: 1, dead_letter: 6 });
  await counter.close();
});
