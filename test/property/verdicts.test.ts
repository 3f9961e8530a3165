// Proves INV-2, INV-7 of SPEC.md.
/**
 * Verdicts and evidence over random archives: the recount with verdicts against the auditor, and the
 * evidence of every ad against the recount.
 */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { Archiver } from '../../src/archive/archiver.ts';
import { openFolderStore } from '../../src/archive/folder/store.ts';
import { loadManifest } from '../../src/archive/manifest.ts';
import type { ClickEvent } from '../../src/event/click-event.ts';
import {
  Evidence,
  type EvidenceClick,
  type EvidencePosition,
  type OutcomeCounts,
} from '../../src/reconcile/evidence.ts';
import { type HourRecount, HourSource } from '../../src/reconcile/hour-source.ts';
import { VerdictArchive } from '../../src/verdicts/archive.ts';
import { rowKeyOf } from '../crash/ledger-world.ts';
import { click, HOUR_MS, T0 } from '../support/archive-fixtures.ts';
import { type AuditRecord, audit, auditRowName } from '../support/auditor.ts';
import { MemoryLog } from '../support/memory-log.ts';
import { fcParams } from '../support/seed.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOURS = [0, 1, 2, 3].map((index) => T0 + index * HOUR_MS);
const PARTITIONS = [0, 1, 10];
const ADS = [
  { adId: 'ad-1', advertiserId: 'adv-1' },
  { adId: 'ad-2', advertiserId: 'adv-1' },
  { adId: 'ad-3', advertiserId: 'adv-2' },
];

interface Given {
  readonly records: readonly { readonly partition: number; readonly event: ClickEvent }[];
  readonly judgements: readonly Judgement[];
}

interface Judgement {
  readonly appliesFromMs: number;
  readonly verdicts: readonly {
    readonly impressionId: string;
    readonly valid: boolean;
    readonly reason: string;
  }[];
}

const impressionId = fc.integer({ min: 0, max: 11 }).map((number) => `imp-${number}`);
const record = fc
  .record({
    partition: fc.constantFrom(...PARTITIONS),
    impressionId,
    ad: fc.constantFrom(...ADS),
    hourMs: fc.constantFrom(...HOURS),
    // Few times, so that ties are common.
    second: fc.integer({ min: 0, max: 5 }).map((number) => number * 600),
    kind: fc.constantFrom<ClickEvent['class']>('click', 'click', 'click', 'head'),
    country: fc.constantFrom('DE', 'FR'),
  })
  .map(({ partition, ad, hourMs, second, kind, ...rest }) => {
    const clickedAtMs = hourMs + second * 1_000;
    const { impressionId: id, country } = rest;
    return { partition, event: click(id, { ...ad, country, clickedAtMs, class: kind }) };
  });
const judgement = fc.record({
  appliesFromMs: fc.constantFrom(0, ...HOURS),
  verdicts: fc.array(
    fc.record({ impressionId, valid: fc.boolean(), reason: fc.constantFrom('bot', 'farm') }),
    { maxLength: 6 },
  ),
});
const given: fc.Arbitrary<Given> = fc.record({
  records: fc.array(record, { minLength: 1, maxLength: 60 }),
  judgements: fc
    .array(judgement, { maxLength: 4 })
    .map((all) => [...all].sort((a, b) => a.appliesFromMs - b.appliesFromMs)),
});

/** Archives the records in many small objects and stores the verdicts. */
async function archived(dir: string, { records, judgements }: Given) {
  const log = new MemoryLog();
  const appendedAtMs = T0 + 24 * HOUR_MS;
  for (const { partition, event } of records) log.append(partition, [event], appendedAtMs);
  const store = await openFolderStore({ dir });
  const manifest = await loadManifest(store);
  const rotate = { rotateMs: 0, rotateRecords: 7, maxSkewMs: 0 };
  const clock = () => appendedAtMs;
  await new Archiver({ reader: log, store, manifest, clock, ...rotate }).flush();
  const taking = await VerdictArchive.open(store);
  for (const { appliesFromMs, verdicts } of judgements) {
    await taking.append(await taking.changes(verdicts), { atMs: appendedAtMs, appliesFromMs });
  }
  // As a restarted process finds them.
  const verdicts = await VerdictArchive.open(store);
  const lookbackMs = 7 * 24 * HOUR_MS;
  const source = new HourSource({ store, manifest, indexes: null, lookbackMs, verdicts });
  return { store, manifest, verdicts, source };
}

/** The plain reading of the rule: per impression, the hour of its earliest click and what is said of it. */
function invalidOf({ records, judgements }: Given): Set<string> {
  const invalid = new Set<string>();
  for (const { event } of records) {
    const times = records
      .filter((each) => each.event.impressionId === event.impressionId)
      .filter((each) => each.event.class === 'click')
      .map((each) => each.event.clickedAtMs);
    const hourMs = Math.floor(Math.min(...times) / HOUR_MS) * HOUR_MS;
    const said = judgements
      .filter(({ appliesFromMs }) => appliesFromMs <= hourMs)
      .flatMap(({ verdicts }) => verdicts)
      .findLast((each) => each.impressionId === event.impressionId);
    if (said?.valid === false) invalid.add(event.impressionId);
  }
  return invalid;
}

function audited(all: Given) {
  const logs = PARTITIONS.map((partition) =>
    all.records
      .filter((each) => each.partition === partition)
      .map(({ event }, offset): AuditRecord => {
        const { impressionId: id, clickedAtMs, class: kind } = event;
        const rowKey = rowKeyOf(event);
        return { partition, offset, impressionId: id, clickedAtMs, class: kind, rowKey };
      }),
  );
  const forever = Number.POSITIVE_INFINITY;
  const rules = { dedupWindowMs: forever, latenessMs: forever, watermarkLagMs: 0 };
  return audit(logs, { ...rules, shards: 'none', invalid: invalidOf(all) });
}

async function withDir(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = tempDir('verdicts');
  try {
    await work(dir.path);
  } finally {
    dir.remove();
  }
}

describe('the recount with verdicts', () => {
  test('equals the auditor: an invalid click does not count, and uses its impression up', async () => {
    await fc.assert(
      fc.asyncProperty(given, (all) =>
        withDir(async (dir) => {
          const { source, manifest } = await archived(dir, all);
          const rows = new Map<string, number>();
          const outcomes = { counted: 0, duplicate: 0, late: 0, not_billable: 0, invalid: 0 };
          for (const hourMs of manifest.hours()) {
            const count = await source.recount(hourMs);
            for (const row of count.rows) {
              rows.set(auditRowName(0, row.minuteMs, rowKeyOf(row)), row.clicks);
            }
            outcomes.counted += count.counted;
            outcomes.duplicate += count.duplicate;
            outcomes.not_billable += count.notBillable;
            outcomes.invalid += count.invalid;
          }
          const expected = audited(all);
          expect(rows).toEqual(expected.rows);
          expect(outcomes).toEqual({ invalid: 0, ...expected.outcomes });
        }),
      ),
      fcParams(60),
    );
  });
});

async function allClicks(
  evidence: Evidence,
  ad: (typeof ADS)[number],
  limit: number,
): Promise<EvidenceClick[]> {
  const range = { fromMs: T0, toMs: T0 + 4 * HOUR_MS };
  const clicks: EvidenceClick[] = [];
  let after: EvidencePosition | undefined;
  for (;;) {
    const page = await evidence.clicks({ ...ad, ...range, limit, after });
    expect(page.clicks.length).toBeLessThanOrEqual(limit);
    clicks.push(...page.clicks);
    if (page.next === null) return clicks;
    after = page.next;
  }
}

function outcomesOf(clicks: readonly EvidenceClick[]): OutcomeCounts {
  const counts = { counted: 0, duplicate: 0, not_billable: 0, invalid: 0 };
  for (const { outcome } of clicks) counts[outcome]++;
  return counts;
}

describe('evidence', () => {
  test('has as many counted clicks as the recount, and every record once, whatever the pages', async () => {
    const paging = fc.record({
      limit: fc.integer({ min: 1, max: 20 }),
      maxExamined: fc.constantFrom(1, 15, 1_000),
    });
    await fc.assert(
      fc.asyncProperty(given, paging, (all, { limit, maxExamined }) =>
        withDir(async (dir) => {
          const { store, manifest, verdicts, source } = await archived(dir, all);
          const counts = new Map<number, HourRecount>();
          for (const hourMs of manifest.hours()) counts.set(hourMs, await source.recount(hourMs));
          const evidence = new Evidence({
            store,
            manifest,
            verdicts,
            maxExamined,
            takenBack: async (hourMs) => counts.get(hourMs)!.takenBack,
          });
          const seen: EvidenceClick[] = [];
          for (const ad of ADS) {
            const clicks = await allClicks(evidence, ad, limit);
            for (const [hourMs, count] of counts) {
              const rows = count.rows.filter((row) => row.adId === ad.adId);
              const own = clicks.filter(({ clickedAtMs }) => hourOf(clickedAtMs) === hourMs);
              expect(outcomesOf(own).counted).toBe(rows.reduce((sum, row) => sum + row.clicks, 0));
            }
            expect(clicks).toEqual([...clicks].sort(inOrder));
            const range = { fromMs: T0, toMs: T0 + 4 * HOUR_MS };
            expect(await evidence.outcomes({ ...ad, ...range })).toEqual(outcomesOf(clicks));
            const stranger = { ...ad, advertiserId: 'adv-3' };
            expect(await allClicks(evidence, stranger, limit)).toEqual([]);
            seen.push(...clicks);
          }
          const places = seen.map(({ partition, offset }) => `${partition}:${offset}`);
          expect(new Set(places).size).toBe(places.length);
          expect(places.length).toBe(all.records.length);
          const sums = { counted: 0, duplicate: 0, not_billable: 0, invalid: 0 };
          for (const count of counts.values()) {
            sums.counted += count.counted;
            sums.duplicate += count.duplicate;
            sums.not_billable += count.notBillable;
            sums.invalid += count.invalid;
          }
          expect(outcomesOf(seen)).toEqual(sums);
        }),
      ),
      fcParams(40),
    );
  });
});

function hourOf(timeMs: number): number {
  return Math.floor(timeMs / HOUR_MS) * HOUR_MS;
}

function inOrder(a: EvidenceClick, b: EvidenceClick): number {
  const byHour = hourOf(a.clickedAtMs) - hourOf(b.clickedAtMs);
  return byHour || a.partition - b.partition || a.offset - b.offset;
}
