// Proves INV-2, INV-3, INV-7 of SPEC.md.
/**
 * Counting against the auditor: whatever the interleaving of partitions, the split into batches and
 * the crash points, rows and outcome totals are the auditor's.
 */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import type { Claim } from '../../src/counting/claim-words.ts';
import { Counting } from '../../src/counting/counting.ts';
import { ImpressionHash } from '../../src/counting/impression-hash.ts';
import type {
  CountingOptions,
  CountingRecord,
  OpenRow,
  Outcome,
} from '../../src/counting/types.ts';
import { type AuditRecord, type AuditRules, audit, auditRowName } from '../support/auditor.ts';
import { fcParams } from '../support/seed.ts';

const START_MS = Date.UTC(2026, 2, 1, 11, 58);
const MINUTE = 60_000;
const DAY_MS = 86_400_000;
const PARTITIONS = [0, 1, 7, 1000] as const;

const rowKey = fc.constantFrom('ad1 DE mobile', 'ad1 DE desktop', 'ad1 FR mobile', 'ad2 DE mobile');
const billableMostly = fc.constantFrom<AuditRecord['class'][]>(
  'click',
  'click',
  'click',
  'click',
  'head',
  'prefetch',
  'preview',
);

/** Times that meet: few distinct values, many at or beside a minute's boundary. */
const offsetMs = (spanMinutes: number) =>
  fc.oneof(
    fc
      .tuple(fc.integer({ min: 0, max: spanMinutes }), fc.constantFrom(-1, 0, 1, 59_999))
      .map(([minute, ms]) => minute * MINUTE + ms),
    fc.integer({ min: 0, max: spanMinutes * MINUTE }),
  );

/** A log per partition: arbitrary order of times within `spanMinutes`, few impressions, all classes. */
const logsOf = (spanMinutes: number, impressions: number, maxLength = 60) =>
  fc
    .tuple(
      ...PARTITIONS.map(() =>
        fc.array(
          fc.record({
            impression: fc.integer({ min: 0, max: impressions }),
            at: offsetMs(spanMinutes),
            class: billableMostly,
            rowKey,
          }),
          { maxLength },
        ),
      ),
    )
    .map((logs) =>
      logs.map((log, index) =>
        log.map(
          (record, offset): AuditRecord => ({
            partition: PARTITIONS[index]!,
            offset,
            impressionId: `imp-${record.impression}`,
            clickedAtMs: START_MS + record.at,
            class: record.class,
            rowKey: record.rowKey,
          }),
        ),
      ),
    );

/** Which partition is read next, how many records of it, and whether to commit or crash after it. */
const steps = fc.infiniteStream(
  fc.record({
    partition: fc.nat(3),
    records: fc.integer({ min: 1, max: 9 }),
    after: fc.constantFrom('go on', 'go on', 'commit', 'die in commit', 'die'),
  }),
);
type Steps = Iterator<{ partition: number; records: number; after: string }>;

type Totals = Record<string, number>;

/** What a counter commits together: the position and everything counting holds. */
interface Saved {
  readonly position: number[];
  readonly claims: Map<string, Claim>;
  readonly rows: OpenRow[];
  /** Rows that changed and are not known to be in the warehouse. */
  readonly unsent: OpenRow[];
  readonly nextRowId: number;
  readonly watermarks: [number, number][];
  readonly totals: Totals;
}

const hash = new ImpressionHash();

/** `crowded` hashes fall into one section of the table, so that few impressions fill and rebuild it. */
function toCounting(record: AuditRecord, shards: AuditRules['shards'], crowded: boolean) {
  hash.ofText(record.impressionId);
  const out: CountingRecord = {
    partition: record.partition,
    offset: record.offset,
    shard: shards === 'partition' ? record.partition : 0,
    clickedAtMs: record.clickedAtMs,
    billable: record.class === 'click',
    hash0: crowded ? hash.hash0 >>> 6 : hash.hash0,
    hash1: hash.hash1,
    hash2: hash.hash2,
    rowKey: record.rowKey,
  };
  return out;
}

/** A counter without disk: counts, commits and dies as the steps say. */
class ToyCounter {
  readonly options: CountingOptions;
  readonly rules: AuditRules;
  readonly crowded: boolean;
  counting!: Counting;
  position: number[] = [];
  totals: Totals = {};
  /** The warehouse: the full count of every row that ever changed. */
  readonly warehouse = new Map<string, number>();
  #claims = new Map<string, Claim>();
  #saved: Saved;

  constructor(rules: AuditRules, partitions: number, crowded = false) {
    this.rules = rules;
    this.options = { ...rules, maxClaims: Number.POSITIVE_INFINITY };
    this.crowded = crowded;
    this.#saved = {
      position: Array.from({ length: partitions }, () => 0),
      claims: new Map(),
      rows: [],
      unsent: [],
      nextRowId: 1,
      watermarks: [],
      totals: {},
    };
    this.crash();
  }

  apply(record: AuditRecord): Outcome {
    const outcome = this.counting.apply(toCounting(record, this.rules.shards, this.crowded));
    this.totals[outcome] = (this.totals[outcome] ?? 0) + 1;
    return outcome;
  }

  /**
   * Saves position and state together, with the rows still to be sent. Rows go out only after that: a
   * row of a state that a crash takes back might not exist in the replay, which may read in another
   * order, and nobody would ever correct it.
   */
  commit(): void {
    const { windows, watermarks } = this.counting;
    const unsent = [...this.#saved.unsent, ...windows.takeChanged()].map((row) => ({ ...row }));
    if (this.rules.shards === 'partition') {
      for (const partition of watermarks.entries().keys()) {
        windows.evict(partition, this.counting.closedUntilMs(partition));
      }
    }
    this.#saved = {
      position: [...this.position],
      claims: new Map(this.#claims),
      rows: [...windows.rows()].map((row) => ({ ...row })),
      unsent,
      nextRowId: windows.nextRowId,
      watermarks: [...watermarks.entries()],
      totals: { ...this.totals },
    };
  }

  upsert(): void {
    for (const row of this.#saved.unsent.splice(0)) {
      this.warehouse.set(auditRowName(row.shard, row.minuteMs, row.rowKey), row.clicks);
    }
  }

  /** Everything since the last commit is gone. */
  crash(): void {
    const saved = this.#saved;
    const counting = new Counting(this.options);
    for (const [partition, largest] of saved.watermarks) {
      counting.watermarks.observe(partition, largest);
    }
    for (const row of saved.rows) counting.windows.restore(row);
    counting.windows.reserveIds(saved.nextRowId);
    for (const claim of saved.claims.values()) counting.restoreClaim(claim);
    this.#claims = new Map(saved.claims);
    counting.onClaim = (claim) => {
      this.#claims.set(`${claim.hash0} ${claim.hash1} ${claim.hash2}`, { ...claim });
    };
    this.counting = counting;
    this.position = [...saved.position];
    this.totals = { ...saved.totals };
  }

  result(): { rows: Map<string, number>; totals: Totals } {
    this.commit();
    this.upsert();
    const rows = new Map([...this.warehouse].filter(([, clicks]) => clicks !== 0));
    return { rows, totals: this.totals };
  }
}

function run(counter: ToyCounter, logs: AuditRecord[][], order: Steps): void {
  let crashes = 0;
  while (logs.some((log, index) => counter.position[index]! < log.length)) {
    const { partition, records, after } = order.next().value;
    const log = logs[partition]!;
    const from = counter.position[partition]!;
    const until = Math.min(log.length, from + records);
    for (let i = from; i < until; i++) counter.apply(log[i]!);
    counter.position[partition] = until;
    if (after === 'go on') continue;
    if (after !== 'die') counter.commit();
    // A bound, so that a run which only ever dies comes to an end.
    if (after !== 'commit' && crashes++ < 30) counter.crash();
    else counter.upsert();
  }
}

function expectAudited(counter: ToyCounter, logs: AuditRecord[][], rules: AuditRules): void {
  const expected = audit(logs, rules);
  const { rows, totals } = counter.result();
  expect(Object.fromEntries([...rows].sort())).toEqual(
    Object.fromEntries([...expected.rows].sort()),
  );
  const all = { counted: 0, duplicate: 0, late: 0, not_billable: 0, ...totals };
  expect(all).toEqual({ ...expected.outcomes });
  const sum = Object.values(all).reduce((a, b) => a + b, 0);
  expect(sum).toBe(logs.reduce((records, log) => records + log.length, 0));
}

const stream = (rules: Partial<AuditRules>): AuditRules => ({
  dedupWindowMs: DAY_MS,
  latenessMs: 5 * MINUTE,
  watermarkLagMs: 10_000,
  shards: 'partition',
  ...rules,
});

describe('counting agrees with the auditor', () => {
  test('while minutes are open, interleaving, batches and crashes change neither rows nor totals', () => {
    const rules = stream({ latenessMs: 60 * MINUTE });
    fc.assert(
      fc.property(logsOf(50, 12), steps, (logs, order) => {
        const counter = new ToyCounter(rules, logs.length);
        run(counter, logs, order);
        expectAudited(counter, logs, rules);
      }),
      fcParams(300),
    );
  });

  test('with late records, one partition read in any batches with any crashes gives the auditor’s totals', () => {
    // Distinct impressions, so that only lateness decides; ties of dedup with closed rows are below.
    const rules = stream({ latenessMs: 2 * MINUTE });
    fc.assert(
      fc.property(logsOf(30, 12), steps, (logs, order) => {
        const apart = logs.map((log) =>
          log.map((record) => ({
            ...record,
            impressionId: `${record.partition}-${record.offset}`,
          })),
        );
        const counter = new ToyCounter(rules, apart.length);
        run(counter, apart, order);
        expectAudited(counter, apart, rules);
      }),
      fcParams(),
    );
  });

  test('outcome totals with late records and duplicates do not depend on order, batches or crashes', () => {
    const rules = stream({ latenessMs: MINUTE });
    fc.assert(
      fc.property(logsOf(30, 8), steps, (logs, order) => {
        const counter = new ToyCounter(rules, logs.length);
        run(counter, logs, order);
        const { rows, totals } = counter.result();
        const expected = audit(logs, rules);
        const all = { counted: 0, duplicate: 0, late: 0, not_billable: 0, ...totals };
        expect(all).toEqual({ ...expected.outcomes });
        // A click may stay in a row that closed before an earlier record came; it is counted once.
        const clicks = [...rows.values()].reduce((a, b) => a + b, 0);
        expect(clicks).toBe(expected.outcomes.counted);
        expect([...rows.values()].every((count) => count > 0)).toBe(true);
      }),
      fcParams(),
    );
  });

  test('impressions seen again a window later count again, however each day is interleaved', () => {
    const rules = stream({ dedupWindowMs: 60 * MINUTE, latenessMs: 40 * MINUTE });
    fc.assert(
      fc.property(logsOf(30, 8, 30), logsOf(30, 8, 30), steps, (first, second, order) => {
        const laterMs = 2 * 60 * MINUTE;
        const later = second.map((log, index) =>
          log.map((record) => ({
            ...record,
            offset: record.offset + first[index]!.length,
            clickedAtMs: record.clickedAtMs + laterMs,
          })),
        );
        const counter = new ToyCounter(rules, first.length);
        run(counter, first, order);
        // Else a crash would take some partitions back by a whole window, and those would be read
        // far behind the others: what that may give is outside of what counting promises live.
        counter.commit();
        const whole = first.map((log, index) => [...log, ...later[index]!]);
        run(counter, whole, order);
        expectAudited(counter, whole, rules);
      }),
      fcParams(),
    );
  });

  test('a table that fills, sweeps and grows under way forgets nothing inside the window', () => {
    const rules = stream({ dedupWindowMs: 10 * MINUTE, latenessMs: 5 * MINUTE });
    const jitterMs = 4 * MINUTE;
    const log = fc.array(
      fc.record({
        again: fc.boolean(),
        back: fc.integer({ min: 1, max: 160 }),
        stepMs: fc.integer({ min: 0, max: 9_000 }),
        jitterMs: fc.integer({ min: 0, max: jitterMs }),
        rowKey,
      }),
      { minLength: 400, maxLength: 900, size: 'max' },
    );
    fc.assert(
      fc.property(log, steps, (plan, order) => {
        let nowMs = START_MS;
        let fresh = 0;
        // All records of an impression lie within one window: the auditor's condition for any order.
        const spans = new Map<string, [first: number, last: number]>();
        const records = plan.map((each, offset): AuditRecord => {
          nowMs += each.stepMs;
          const clickedAtMs = nowMs - each.jitterMs;
          let impressionId = `imp-${fresh - each.back}`;
          const [first, last] = spans.get(impressionId) ?? [Number.NEGATIVE_INFINITY, 0];
          const span = Math.max(last, clickedAtMs) - Math.min(first, clickedAtMs);
          if (!each.again || span >= rules.dedupWindowMs) {
            impressionId = `imp-${fresh++}`;
            spans.set(impressionId, [clickedAtMs, clickedAtMs]);
          } else {
            spans.set(impressionId, [Math.min(first, clickedAtMs), Math.max(last, clickedAtMs)]);
          }
          const { rowKey } = each;
          return { partition: 0, offset, impressionId, clickedAtMs, class: 'click', rowKey };
        });
        const counter = new ToyCounter(rules, 4, true);
        run(counter, [records, [], [], []], order);
        expectAudited(counter, [records, [], [], []], rules);
      }),
      // Shrinking hundreds of records takes minutes; the seed is enough.
      { ...fcParams(25), endOnFailure: true },
    );
  });

  test('the recount equals the auditor over all records in any order', () => {
    const rules = stream({
      dedupWindowMs: Number.POSITIVE_INFINITY,
      latenessMs: Number.POSITIVE_INFINITY,
      shards: 'none',
    });
    const shuffled = logsOf(3 * 24 * 60, 10).chain((logs) => {
      const all = logs.flat();
      return fc.tuple(
        fc.constant(logs),
        fc.shuffledSubarray(all, { minLength: all.length, maxLength: all.length }),
      );
    });
    fc.assert(
      fc.property(shuffled, fc.boolean(), ([logs, records], crowded) => {
        const counter = new ToyCounter(rules, 1, crowded);
        for (const record of records) counter.apply(record);
        expectAudited(counter, logs, rules);
      }),
      fcParams(),
    );
  });
});
