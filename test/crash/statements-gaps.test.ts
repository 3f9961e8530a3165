// Proves INV-10 of SPEC.md.
/**
 * The numbered effects of making a statement: whatever dies between two of them, asking again gives the
 * same version with the same bytes. And what moves under a statement while it is read is not in it.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import type { ObjectStore } from '../../src/archive/port.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import type { Statement } from '../../src/statements/port.ts';
import { openStatements } from '../../src/statements/statements.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { Warehouse } from '../../src/warehouse/port.ts';
import { Crash, FaultyStore, namesOf } from '../support/archive-fixtures.ts';
import { FinalHours, finalRow } from '../support/final-hours.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const FROM = Date.UTC(2026, 2, 10);
const PERIOD = { advertiserId: 'adv-1', fromMs: FROM, toMs: FROM + DAY_MS, timezone: 'UTC' };
const folder = tempDir('statements-gaps');
let warehouse: Warehouse;
let hours: FinalHours;
let store: ObjectStore;
let archive = '';
let round = 0;

beforeAll(async () => {
  const path = join(folder.path, 'warehouse');
  warehouse = await openChdbWarehouse({ path, minuteTtlDays: 0, hourTtlDays: 0 });
});
beforeEach(async () => {
  await warehouse.reset();
  hours = new FinalHours(warehouse);
  await hours.publishAll(FROM, FROM + DAY_MS, [finalRow(FROM, { clicks: 5 })]);
  await newArchive();
});
afterAll(async () => {
  await warehouse.close();
  folder.remove();
});

async function newArchive(): Promise<void> {
  archive = join(folder.path, `archive-${round++}`);
  store = await openFolderStore({ dir: archive });
}

const restate = (clicks: number): Promise<void> =>
  hours.publish(FROM, [finalRow(FROM, { clicks })]);

/** A process: it shares nothing with the one before but the files. */
function open(
  over: {
    store?: ObjectStore;
    warehouse?: Pick<Warehouse, 'metrics' | 'hours'>;
    isMoving?: (fromMs: number, toMs: number) => boolean;
  } = {},
) {
  const finalUntilMs = () => hours.finalUntilMs;
  return openStatements({
    store,
    warehouse,
    finalUntilMs,
    clock: () => FROM + 2 * DAY_MS,
    ...over,
  });
}

/** Everything of the versions that are committed. */
async function given(statement: Statement): Promise<Record<string, string>> {
  const reader = open();
  const found: Record<string, string> = {};
  for (let version = 1; version <= statement.version; version++) {
    const which = { id: statement.id, version, advertiserId: undefined };
    const { statement: one } = (await reader.find(which))!;
    for (const kind of ['csv', 'parquet'] as const) {
      const bytes = await reader.file(one, kind);
      found[`v${version}.${kind}`] = Buffer.from(bytes).toString('base64');
    }
  }
  return found;
}

/** Dies at the given effect, if there is one. */
async function dieAt(effect: number, when: 'before' | 'after'): Promise<boolean> {
  const faulty = new FaultyStore(store);
  faulty.failAt = { effect, when, error: new Crash() };
  try {
    await open({ store: faulty }).create(PERIOD);
    return false;
  } catch (error) {
    if (!(error instanceof Crash)) throw error;
    return true;
  }
}

describe('a process that dies while it makes a statement', () => {
  test('leaves no half version; asking again gives the very statement of an undisturbed run', async () => {
    const { statement: undisturbed } = await open().create(PERIOD);
    const expected = await given(undisturbed);
    let deaths = 0;
    for (const when of ['before', 'after'] as const) {
      for (let effect = 0; ; effect++) {
        await newArchive();
        if (!(await dieAt(effect, when))) break;
        deaths++;
        const which = { id: undisturbed.id, version: undefined, advertiserId: 'adv-1' };
        const isCommitted = (await open().find(which)) !== null;
        expect([effect, when, isCommitted]).toEqual([
          effect,
          when,
          effect === 2 && when === 'after',
        ]);
        const { statement, created } = await open().create(PERIOD);
        expect(created).toBe(!isCommitted);
        expect(statement).toEqual(undisturbed);
        expect(await given(statement)).toEqual(expected);
        expect((await namesOf(store, 'statements/')).length).toBe(3);
      }
    }
    expect(deaths).toBe(6);
  });

  test('and whose numbers have changed since gives way: the version has the numbers of now', async () => {
    for (const [at, effect] of [0, 1, 2].entries()) {
      await newArchive();
      expect(await dieAt(effect, effect === 2 ? 'before' : 'after')).toBe(true);
      await restate(100 + at);
      const { statement, created } = await open().create(PERIOD);
      expect([statement.version, statement.clicks, created]).toEqual([1, 100 + at, true]);
      expect(Object.keys(await given(statement))).toEqual(['v1.csv', 'v1.parquet']);
    }
  });

  test('while it makes a second version leaves the first alone', async () => {
    const { statement: first } = await open().create(PERIOD);
    const before = await given(first);
    await restate(6);
    for (const effect of [0, 1]) expect(await dieAt(effect, 'after')).toBe(true);
    const which = { id: first.id, version: undefined, advertiserId: 'adv-1' };
    expect((await open().find(which))!.statement).toEqual(first);
    const { statement: second } = await open().create(PERIOD);
    expect(second).toMatchObject({ version: 2, supersedes: 1, clicks: 6 });
    expect(await given(second)).toMatchObject(before);
  });

  test('while it makes a damaged file anew has lost nothing that was good', async () => {
    const { statement } = await open().create(PERIOD);
    const expected = await given(statement);
    for (const [effect, when] of [
      [0, 'before'],
      [0, 'after'],
      [1, 'before'],
      [1, 'after'],
    ] as const) {
      writeFileSync(join(archive, 'statements', statement.id, 'v1.csv'), 'x');
      expect(await dieAt(effect, when)).toBe(true);
      expect((await open().create(PERIOD)).created).toBe(false);
      expect(await given(statement)).toEqual(expected);
    }
  });
});

describe('what moves while a statement is read', () => {
  /** The warehouse, with something that happens after each read of rows. */
  const during = (happens: () => Promise<void>): Pick<Warehouse, 'metrics' | 'hours'> => ({
    hours: (fromMs, toMs) => warehouse.hours(fromMs, toMs),
    async metrics(query, finalUntilMs) {
      const page = await warehouse.metrics(query, finalUntilMs);
      await happens();
      return page;
    },
  });
  const codeOf = async (moving: Pick<Warehouse, 'metrics' | 'hours'>): Promise<string> => {
    try {
      await open({ warehouse: moving }).create(PERIOD);
      return 'ok';
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error;
      return `${error.kind} ${error.code}`;
    }
  };

  test('is read again, so that all numbers are of one moment', async () => {
    let times = 0;
    const moving = during(async () => {
      if (times++ === 0) await restate(7);
    });
    const { statement } = await open({ warehouse: moving }).create(PERIOD);
    expect([times, statement.clicks]).toEqual([2, 7]);
    expect((await open().create(PERIOD)).created).toBe(false);
  });

  test('without end makes no statement', async () => {
    let clicks = 10;
    expect(await codeOf(during(() => restate(clicks++)))).toBe('retry period_moving');
    expect(await namesOf(store, 'statements/')).toEqual([]);
  });

  test('and is not there yet, though it is known to come, makes no statement', async () => {
    const asked: number[][] = [];
    let isMoving = true;
    const statements = open({
      isMoving: (...range) => {
        asked.push(range);
        return isMoving;
      },
    });
    await expect(statements.create(PERIOD)).rejects.toMatchObject({ code: 'period_moving' });
    expect(await namesOf(store, 'statements/')).toEqual([]);
    isMoving = false;
    expect((await statements.create(PERIOD)).created).toBe(true);
    expect(asked).toEqual(asked.map(() => [FROM, FROM + DAY_MS]));
  });

  test('to nothing, because the warehouse is built again, is not taken for no clicks', async () => {
    expect(await codeOf(during(() => warehouse.reset()))).toBe('retry warehouse_rebuilding');
    expect(await codeOf(warehouse)).toBe('retry warehouse_rebuilding');
    expect(await namesOf(store, 'statements/')).toEqual([]);
  });
});
