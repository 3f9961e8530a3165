// Proves INV-2 of SPEC.md.
/** The claim table against a plain map, and the bound on its size. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { Claim } from '../../src/counting/claim-words.ts';
import { ClaimTable } from '../../src/counting/claims.ts';
import { Counting } from '../../src/counting/counting.ts';
import { fcParams } from '../support/seed.ts';

const T0 = Date.UTC(2026, 2, 1);
const u32 = fc.integer({ min: 0, max: 0xffff_ffff });
/** Hashes that crowd: the same section, the same home slot, the last slot, equal lanes. */
const hash0 = fc.oneof(
  u32,
  fc.integer({ min: 0, max: 2_000 }),
  fc.integer({ min: 0xffff_f000, max: 0xffff_ffff }),
  fc.constantFrom(0, 1, 0x03ff_ffff, 0x0400_0000, 0xffff_ffff),
);
const claim = fc.record<Claim>({
  hash0,
  hash1: fc.oneof(u32, fc.constantFrom(0, 1)),
  hash2: fc.oneof(u32, fc.constantFrom(0, 1)),
  clickedAtMs: fc.oneof(
    fc.integer({ min: T0, max: T0 + 100_000 }),
    fc.constantFrom(2 ** 32, 2 ** 40, 2 ** 48 - 1, Date.UTC(2000, 0, 1)),
  ),
  partition: fc.oneof(fc.integer({ min: 0, max: 65_535 }), fc.constantFrom(0, 65_535)),
  offsetLow: u32,
  rowId: u32,
});

const keyOf = (each: Readonly<Claim>): string => `${each.hash0} ${each.hash1} ${each.hash2}`;

function put(table: ClaimTable, each: Claim): void {
  if (table.find(each.hash0, each.hash1, each.hash2)) {
    table.replaceFound(each);
    return;
  }
  table.addMissing(each);
  if (table.needsRoom) table.makeRoom(() => Number.NEGATIVE_INFINITY);
}

function expectSame(table: ClaimTable, model: Map<string, Claim>): void {
  expect(table.size).toBe(model.size);
  for (const each of model.values()) {
    expect(table.find(each.hash0, each.hash1, each.hash2)).toBe(true);
    expect([
      table.foundClickedAtMs,
      table.foundPartition,
      table.foundOffsetLow,
      table.foundRowId,
    ]).toEqual([each.clickedAtMs, each.partition, each.offsetLow, each.rowId]);
  }
  const seen = new Map<string, Claim>();
  table.forEach((each) => {
    expect(seen.has(keyOf(each))).toBe(false);
    seen.set(keyOf(each), { ...each });
  });
  expect(seen.size).toBe(model.size);
  for (const [key, each] of model) expect(seen.get(key)).toEqual(each);
}

describe('the claim table', () => {
  test('holds what a map holds, through inserts, replacements, growth and sweeps', () => {
    const action = fc.oneof(
      { weight: 6, arbitrary: fc.array(claim, { maxLength: 400, size: 'max' }) },
      { weight: 1, arbitrary: fc.integer({ min: T0, max: T0 + 100_000 }) },
    );
    fc.assert(
      fc.property(fc.array(action, { maxLength: 6 }), (actions) => {
        const table = new ClaimTable();
        const model = new Map<string, Claim>();
        for (const each of actions) {
          if (typeof each === 'number') {
            table.sweep(() => each - 1);
            for (const [key, kept] of model) if (kept.clickedAtMs < each) model.delete(key);
            continue;
          }
          for (const one of each) {
            put(table, one);
            model.set(keyOf(one), one);
          }
        }
        expectSame(table, model);
      }),
      { ...fcParams(40), endOnFailure: true },
    );
  });

  test('lookups of what is not there do not find a neighbour of the same section or slot', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(claim, { selector: keyOf, minLength: 2, maxLength: 300 }),
        (all) => {
          const table = new ClaimTable();
          const half = Math.floor(all.length / 2);
          for (const each of all.slice(0, half)) put(table, each);
          for (const each of all.slice(half)) {
            expect(table.find(each.hash0, each.hash1, each.hash2)).toBe(false);
          }
        },
      ),
      fcParams(50),
    );
  });

  /** `count` evenly spread claims; a multiplicative sequence, so that it is the same every time. */
  function* spread(count: number): Generator<Claim> {
    for (let i = 1; i <= count; i++) {
      const mix = Math.imul(i, 0x9e37_79b1) >>> 0;
      const hash1 = i;
      yield {
        hash0: Math.imul(mix ^ (mix >>> 15), 0x85eb_ca6b) >>> 0,
        hash1,
        hash2: 0,
        clickedAtMs: T0 + i,
        partition: i % 3,
        offsetLow: i,
        rowId: i,
      };
    }
  }

  test('is walked in nearly ascending order of hash0', () => {
    const table = new ClaimTable();
    for (const each of spread(200_000)) put(table, each);
    let last = 0;
    let largest = 0;
    let backward = 0;
    let farthest = 0;
    table.forEach(({ hash0: value }) => {
      if (value < last) backward++;
      farthest = Math.max(farthest, largest - value);
      last = value;
      largest = Math.max(largest, value);
    });
    expect(table.size).toBe(200_000);
    expect(backward / table.size).toBeLessThan(0.5);
    // The wrap at the end of a section puts a few of its last entries first: one section at most.
    expect(farthest).toBeLessThan(2 ** 26);
  });

  test('gives memory back when a sweep empties it, and finds what was kept', () => {
    const table = new ClaimTable();
    const empty = table.memoryBytes;
    for (const each of spread(100_000)) put(table, each);
    const full = table.memoryBytes;
    expect(full).toBeLessThan(100_000 * 28 * 3);
    table.sweep(() => T0 + 99_990);
    expect(table.size).toBe(10);
    expect(table.memoryBytes).toBe(empty);
    for (const each of [...spread(100_000)].slice(-10)) {
      expect(table.find(each.hash0, each.hash1, each.hash2)).toBe(true);
    }
  });

  /** Counts one click a second on ever new impressions. */
  function countSeconds(counting: Counting, seconds: number): void {
    for (const each of spread(seconds)) {
      const clickedAtMs = T0 + each.hash1 * 1_000;
      const { hash0: first, hash1, hash2 } = each;
      counting.apply({
        partition: 0,
        offset: hash1,
        shard: 0,
        clickedAtMs,
        billable: true,
        hash0: first,
        hash1,
        hash2,
        rowKey: 'a',
      });
    }
  }
  const options = { dedupWindowMs: 86_400_000, watermarkLagMs: 10_000, latenessMs: 300_000 };

  test('never holds more than maxClaims, and counts what it forgets inside the window', () => {
    const counting = new Counting({ ...options, maxClaims: 1_000 });
    countSeconds(counting, 30_000);
    expect(counting.claims.size).toBeLessThanOrEqual(1_000);
    // Only the oldest go, also when all that is held is of a small part of the window.
    expect(counting.claims.size).toBeGreaterThan(890);
    for (const each of [...spread(30_000)].slice(-890)) {
      expect(counting.claims.find(each.hash0, each.hash1, each.hash2)).toBe(true);
    }
    // Everything lies within one window, so everything that is not held was forgotten.
    expect(counting.claims.size + counting.forgotten).toBe(30_000);
  });

  test('claims whose window is over are not counted as forgotten', () => {
    const short = { ...options, dedupWindowMs: 600_000, latenessMs: 60_000 };
    const counting = new Counting({ ...short, maxClaims: 1_000 });
    countSeconds(counting, 30_000);
    expect(counting.claims.size).toBeLessThanOrEqual(1_000);
    expect(counting.forgotten).toBe(0);
  });

  test('loading a state forgets nothing, whether its watermarks come before the claims or after', () => {
    const counting = new Counting({ ...options, maxClaims: 1_000 });
    for (const each of spread(1_500)) counting.restoreClaim(each);
    expect(counting.claims.size).toBe(1_500);
    for (const partition of [0, 1, 2]) counting.watermarks.observe(partition, T0 + 1_500);
    countSeconds(counting, 1);
    expect(counting.forgotten).toBe(0);
    const next = {
      hash0: 7,
      hash1: 7_777,
      hash2: 7,
      rowKey: 'a',
      partition: 0,
      offset: 9,
      shard: 0,
    };
    counting.apply({ ...next, clickedAtMs: T0 + 1_501, billable: true });
    expect(counting.claims.size).toBeLessThanOrEqual(1_000);
    expect(counting.claims.size).toBeGreaterThan(880);
    expect(counting.forgotten).toBe(1_501 - counting.claims.size);
  });

  test('a burst that maxClaims cannot hold goes on being counted in reasonable time', () => {
    const counting = new Counting({ ...options, maxClaims: 1_000 });
    const startedMs = performance.now();
    for (const each of spread(30_000)) {
      counting.apply({
        ...each,
        offset: 0,
        shard: 0,
        billable: true,
        rowKey: 'a',
        clickedAtMs: T0,
      });
    }
    expect(counting.claims.size).toBe(30_000);
    expect(performance.now() - startedMs).toBeLessThan(5_000);
  });
});
