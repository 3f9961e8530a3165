// Proves INV-2, INV-3, INV-4, INV-7 of SPEC.md.
/** The rules of counting at their edges: window boundaries, the dedup window, classes, ties. */
import { describe, expect, test } from 'bun:test';
import { Counting } from '../../src/counting/counting.ts';
import { ImpressionHash } from '../../src/counting/impression-hash.ts';
import type { CountingOptions, Outcome } from '../../src/counting/types.ts';
import { type AuditRecord, type AuditRules, audit, auditRowName } from '../support/auditor.ts';

const MINUTE = 60_000;
const HOUR_MS = 60 * MINUTE;
const T0 = Date.UTC(2026, 2, 1, 12, 0);
const STREAM: CountingOptions = {
  dedupWindowMs: 24 * HOUR_MS,
  watermarkLagMs: 10_000,
  latenessMs: 5 * MINUTE,
  maxClaims: 1_000_000,
};
const RECOUNT: CountingOptions = {
  ...STREAM,
  dedupWindowMs: Number.POSITIVE_INFINITY,
  latenessMs: Number.POSITIVE_INFINITY,
};

type Given = Partial<AuditRecord> & { clickedAtMs: number };

/** Counts records one by one; partition 0, class `click` and one row key unless told otherwise. */
class Bench {
  readonly counting: Counting;
  readonly log: AuditRecord[] = [];
  readonly #hash = new ImpressionHash();
  #offset = 0;

  constructor(options: CountingOptions = STREAM) {
    this.counting = new Counting(options);
  }

  apply(given: Given): Outcome {
    const record: AuditRecord = {
      partition: 0,
      offset: this.#offset++,
      impressionId: 'imp',
      class: 'click',
      rowKey: 'ad DE mobile',
      ...given,
    };
    this.log.push(record);
    this.#hash.ofText(record.impressionId);
    const { hash0, hash1, hash2 } = this.#hash;
    const billable = record.class === 'click';
    return this.counting.apply({
      ...record,
      shard: record.partition,
      billable,
      hash0,
      hash1,
      hash2,
    });
  }

  rows(): Map<string, number> {
    const rows = [...this.counting.windows.rows()].filter((row) => row.clicks !== 0);
    return new Map(
      rows.map((row) => [auditRowName(row.shard, row.minuteMs, row.rowKey), row.clicks]),
    );
  }

  /** The auditor's rows, with the logs split by partition. */
  audited(): Map<string, number> {
    const partitions = [...new Set(this.log.map((record) => record.partition))];
    const logs = partitions.map((each) => this.log.filter((record) => record.partition === each));
    const rules: AuditRules = { ...this.counting.options, shards: 'partition' };
    return audit(logs, rules).rows;
  }
}

describe('window and lateness boundaries (F6)', () => {
  test('a minute is [start, end): its last millisecond belongs to it, its end to the next', () => {
    const bench = new Bench();
    for (const [i, ms] of [-1, 0, 1, 59_999, 60_000, 60_001].entries()) {
      bench.apply({ impressionId: `i${i}`, clickedAtMs: T0 + ms });
    }
    const row = (ms: number, clicks: number): [string, number] => [
      auditRowName(0, T0 + ms, 'ad DE mobile'),
      clicks,
    ];
    expect(bench.rows()).toEqual(new Map([row(-MINUTE, 1), row(0, 3), row(MINUTE, 2)]));
    expect(bench.rows()).toEqual(bench.audited());
  });

  // The minute [T0, T0 + 60 s) closes when the largest time seen is its end + lateness + lag.
  const closesAt = T0 + MINUTE + STREAM.latenessMs + STREAM.watermarkLagMs;
  for (const [ms, clicked, outcome] of [
    [-1, T0 + 59_999, 'counted'],
    [0, T0 + 59_999, 'late'],
    [1, T0 + 59_999, 'late'],
    [0, T0, 'late'],
    [0, T0 + MINUTE, 'counted'],
  ] as const) {
    test(`with the watermark ${ms} ms from closing 12:00, a click at ${clicked - T0} ms is ${outcome}`, () => {
      const bench = new Bench();
      bench.apply({ impressionId: 'newest', clickedAtMs: closesAt + ms });
      expect(bench.apply({ clickedAtMs: clicked })).toBe(outcome);
      expect(bench.rows()).toEqual(bench.audited());
    });
  }

  test('a record as old as the watermark, and 1 ms to both sides, is not late', () => {
    for (const ms of [-1, 0, 1]) {
      const bench = new Bench();
      bench.apply({ impressionId: 'newest', clickedAtMs: T0 });
      const clickedAtMs = T0 - STREAM.watermarkLagMs + ms;
      expect(bench.apply({ clickedAtMs })).toBe('counted');
    }
  });

  test('a minute is evicted exactly when it no longer takes clicks', () => {
    for (const ms of [-1, 0, 1]) {
      const bench = new Bench();
      const { counting } = bench;
      bench.apply({ clickedAtMs: T0 });
      bench.apply({ impressionId: 'newest', clickedAtMs: closesAt + ms });
      const evicted = counting.windows.evict(0, counting.closedUntilMs(0));
      expect(evicted.length === 1).toBe(counting.isLate(0, T0));
      expect(evicted.length).toBe(ms < 0 ? 0 : 1);
    }
  });

  test('a fast partition makes no other partition’s records late', () => {
    const bench = new Bench();
    bench.apply({ impressionId: 'fast', partition: 1, clickedAtMs: T0 + 10 * HOUR_MS });
    expect(bench.apply({ clickedAtMs: T0 })).toBe('counted');
  });

  test('a late record claims nothing: the same impression counts in a minute that is open', () => {
    const bench = new Bench();
    bench.apply({ impressionId: 'newest', clickedAtMs: closesAt });
    expect(bench.apply({ clickedAtMs: T0 })).toBe('late');
    expect(bench.apply({ clickedAtMs: closesAt })).toBe('counted');
    expect(bench.rows()).toEqual(bench.audited());
  });

  test('a record that is late in one partition may be counted in another that is behind', () => {
    const bench = new Bench();
    bench.apply({ impressionId: 'newest', clickedAtMs: closesAt });
    expect(bench.apply({ clickedAtMs: T0 })).toBe('late');
    expect(bench.apply({ partition: 1, clickedAtMs: T0 })).toBe('counted');
  });
});

describe('the dedup window (E10)', () => {
  const TTL = STREAM.dedupWindowMs;
  for (const [label, ms, outcome] of [
    ['at the same time', 0, 'duplicate'],
    ['1 ms before the window ends', TTL - 1, 'duplicate'],
    ['at the window’s end', TTL, 'counted'],
    ['1 ms after it', TTL + 1, 'counted'],
    ['after 25 h', 25 * HOUR_MS, 'counted'],
    ['after three windows', 3 * TTL, 'counted'],
  ] as const) {
    test(`a repeat ${label} is ${outcome} in the stream and a duplicate in the recount`, () => {
      const stream = new Bench();
      const recount = new Bench(RECOUNT);
      for (const bench of [stream, recount]) {
        expect(bench.apply({ clickedAtMs: T0 })).toBe('counted');
      }
      expect(stream.apply({ clickedAtMs: T0 + ms })).toBe(outcome);
      expect(recount.apply({ clickedAtMs: T0 + ms })).toBe('duplicate');
      expect(stream.rows()).toEqual(stream.audited());
      expect(recount.rows()).toEqual(recount.audited());
    });
  }

  test('duplicates do not prolong the window; a re-admitted click begins a new one', () => {
    const bench = new Bench();
    const outcomes = [0, TTL - 1, TTL, TTL + 1, 2 * TTL - 1, 2 * TTL].map((ms) =>
      bench.apply({ clickedAtMs: T0 + ms }),
    );
    expect(outcomes).toEqual([
      'counted',
      'duplicate',
      'counted',
      'duplicate',
      'duplicate',
      'counted',
    ]);
    expect(bench.rows()).toEqual(bench.audited());
  });
});

describe('claims that make room', () => {
  const options: CountingOptions = { ...STREAM, dedupWindowMs: HOUR_MS };
  /** Fills the first section of the table at one time, so that claims whose window is over go. */
  const fill = (counting: Counting, clickedAtMs: number): void => {
    for (let i = 1; i <= 200; i++) {
      const key = { hash0: i, hash1: i, hash2: i, rowKey: 'filler' };
      counting.apply({ ...key, partition: 0, offset: i, shard: 0, clickedAtMs, billable: true });
    }
  };
  const again = { hash0: 0, hash1: 0, hash2: 0, partition: 0, offset: 0, shard: 0, rowKey: 'a' };

  test('stay while a record that is not late may still lie within their window (C1)', () => {
    const counting = new Counting(options);
    counting.apply({ ...again, clickedAtMs: T0, billable: true });
    // The watermark is past the window's end, but the minute of its last millisecond is open.
    const closesAtMs = T0 + HOUR_MS + options.latenessMs + options.watermarkLagMs;
    fill(counting, closesAtMs - 1);
    const clickedAtMs = T0 + HOUR_MS - 1;
    expect(counting.apply({ ...again, offset: 1, clickedAtMs, billable: true })).toBe('duplicate');
  });

  test('go once every record within their window would be late', () => {
    const counting = new Counting(options);
    counting.apply({ ...again, clickedAtMs: T0, billable: true });
    const goneAtMs = T0 + HOUR_MS + MINUTE + options.latenessMs + options.watermarkLagMs;
    fill(counting, goneAtMs);
    expect(counting.claims.size).toBe(200);
    const clickedAtMs = T0 + HOUR_MS - 1;
    expect(counting.apply({ ...again, offset: 1, clickedAtMs, billable: true })).toBe('late');
  });
});

describe('what uses up an impression', () => {
  for (const kind of ['head', 'prefetch', 'preview'] as const) {
    test(`a ${kind} before and after the click is never billed and does not use it up (A1, A4, A5)`, () => {
      const bench = new Bench();
      expect(bench.apply({ class: kind, clickedAtMs: T0 })).toBe('not_billable');
      expect(bench.apply({ clickedAtMs: T0 + 5 })).toBe('counted');
      expect(bench.apply({ class: kind, clickedAtMs: T0 - 5 })).toBe('not_billable');
      expect(bench.apply({ clickedAtMs: T0 + 9 })).toBe('duplicate');
      expect(bench.rows()).toEqual(bench.audited());
    });
  }

  test('a late head is not billable, not late: it was never going to be counted', () => {
    const bench = new Bench();
    bench.apply({ impressionId: 'newest', clickedAtMs: T0 + HOUR_MS });
    expect(bench.apply({ class: 'head', clickedAtMs: T0 })).toBe('not_billable');
  });

  test('the earliest click fixes country and device, whichever was read first (A7)', () => {
    const first = { clickedAtMs: T0, rowKey: 'ad DE mobile' };
    const second = { clickedAtMs: T0 + 12_000, rowKey: 'ad US desktop', partition: 1 };
    for (const order of [
      [first, second],
      [second, first],
    ]) {
      const bench = new Bench();
      for (const record of order) bench.apply(record);
      expect(bench.rows()).toEqual(new Map([[auditRowName(0, T0, 'ad DE mobile'), 1]]));
    }
  });

  test('equal times are settled by partition, then by offset, also across 2^32', () => {
    const at = { clickedAtMs: T0 };
    const records: Given[] = [
      { ...at, partition: 2, offset: 0, rowKey: 'c' },
      { ...at, partition: 1, offset: 2 ** 32 + 1, rowKey: 'b' },
      { ...at, partition: 1, offset: 2 ** 32 - 1, rowKey: 'a' },
    ];
    for (const order of [
      records,
      [...records].reverse(),
      [records[1]!, records[0]!, records[2]!],
    ]) {
      const bench = new Bench();
      for (const record of order) bench.apply(record);
      expect(bench.rows()).toEqual(new Map([[auditRowName(1, T0, 'a'), 1]]));
    }
  });

  test('the same record read again is a duplicate of itself and changes no row', () => {
    const bench = new Bench();
    bench.apply({ clickedAtMs: T0, offset: 5 });
    const before = bench.rows();
    expect(bench.apply({ clickedAtMs: T0, offset: 5 })).toBe('duplicate');
    expect(bench.rows()).toEqual(before);
  });

  test('a click of a closed minute is not moved: the recount does that', () => {
    const bench = new Bench();
    const { counting } = bench;
    bench.apply({ clickedAtMs: T0 + 1 });
    bench.apply({ impressionId: 'newest', clickedAtMs: T0 + HOUR_MS });
    const [row] = counting.windows.evict(0, counting.closedUntilMs(0));
    expect(bench.apply({ partition: 1, clickedAtMs: T0 })).toBe('duplicate');
    expect(row!.clicks).toBe(1);
    expect([...counting.windows.rows()].filter((each) => each.shard === 1)).toEqual([]);
  });
});

describe('rows and their ids', () => {
  test('clicks move between rows also when ids have passed 2^32, where claims keep only the low half', () => {
    const bench = new Bench();
    bench.counting.windows.reserveIds(2 ** 32 + 7);
    bench.apply({ clickedAtMs: T0 + 1, rowKey: 'second' });
    bench.apply({ clickedAtMs: T0, rowKey: 'first' });
    expect(bench.rows()).toEqual(new Map([[auditRowName(0, T0, 'first'), 1]]));
    expect(bench.counting.windows.nextRowId).toBe(2 ** 32 + 9);
  });

  test('every changed row is handed over once, with a count of 0 when it gave its click back (N1)', () => {
    const bench = new Bench();
    bench.apply({ clickedAtMs: T0 + 1, rowKey: 'second' });
    bench.counting.windows.takeChanged();
    bench.apply({ clickedAtMs: T0, rowKey: 'first' });
    const changed = bench.counting.windows.takeChanged().map((row) => [row.rowKey, row.clicks]);
    expect(changed).toEqual([
      ['second', 0],
      ['first', 1],
    ]);
    expect(bench.counting.windows.takeChanged()).toEqual([]);
  });

  test('an evicted row stays handed over, and its minute opens under a new id (N2)', () => {
    const { windows } = new Counting(STREAM);
    const row = windows.row(0, T0, 'a');
    windows.add(row, 1);
    expect(windows.evict(0, T0 + MINUTE)).toEqual([row]);
    expect(windows.byId(row.id)).toBeUndefined();
    expect(windows.takeChanged()).toEqual([row]);
    const next = windows.row(0, T0, 'a');
    expect(next.id).toBeGreaterThan(row.id);
    expect(next.clicks).toBe(0);
  });
});
