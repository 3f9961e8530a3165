/** What operators ask of the ledger, carried out on its parts. */

import type { LedgerAdmin, LedgerStatus, PartitionStatus, Progress } from '../api/admin-port.ts';
import { checkArchive } from '../archive/audit.ts';
import type { GeoLookup } from '../click/geo.ts';
import { OUTCOMES } from '../counting/types.ts';
import { decodeEvent } from '../event/codec.ts';
import { ingestRows } from '../ingest/ingest.ts';
import { HourSource } from '../reconcile/hour-source.ts';
import type { HourResult, Reconciler } from '../reconcile/reconciler.ts';
import { verifyWarehouse } from '../reconcile/verify.ts';
import { VerdictArchive } from '../verdicts/archive.ts';
import { VERSION } from '../version.ts';
import { ClickSampler, workerReader } from './click-sampler.ts';
import { takeVerdicts } from './ledger-verdicts.ts';
import type { LedgerView } from './ledger-view.ts';
import { appendedAtMsOf } from './log-age.ts';
import { redriveLetters, unknownLetter } from './redrive.ts';
import { keptFrom } from './warehouse-ttl.ts';

const RECENT_HOURS = 48;
const HOUR_MS = 3_600_000;

export function createLedgerAdmin(ledger: LedgerView, geo: GeoLookup): LedgerAdmin {
  const { parts } = ledger;
  const { deadLetters, clock, config } = parts;
  const sampler = new ClickSampler(config.click.workers, workerReader(parts.paths.run));
  return {
    status: () => ledgerStatus(ledger, sampler),
    async reconcile(options, progress) {
      progress('archiving and counting what the log holds');
      // `rebuild` opens another reconciler: what this one would write meanwhile is not for that warehouse.
      const results = await ledger.alone(() => recounted(ledger.reconciler, options));
      const hours = results.map(({ hour, kind, driftAlert }) => ({ hour, kind, driftAlert }));
      return { hours, finalUntilMs: ledger.reconciler.finalUntilMs };
    },
    ingest: (rows, progress) =>
      ingestRows({
        rows,
        geo,
        clock,
        progress,
        ads: parts.catalog,
        log: parts.writer,
        config: {
          maxSkewMs: config.counting.maxSkewMs,
          storeAddress: config.click.storeAddress,
        },
        spoolDir: parts.paths.run,
      }),
    verdicts: async (rows, progress) => {
      const { hoursMs, ...taken } = await takeVerdicts(ledger).take(rows, progress);
      return { ...taken, hours: hoursMs.map((hourMs) => new Date(hourMs).toISOString()) };
    },
    async deadLetters(options) {
      return deadLetters.list(options);
    },
    async deadLetter(id) {
      const [letter] = await deadLetters.read([id]);
      if (letter === undefined) throw unknownLetter(id);
      const { bytes, ...head } = letter;
      const event = decodeEvent(bytes, 0, bytes.length);
      return {
        ...head,
        bytes: bytes.toString('base64'),
        event: event === null ? null : { ...event },
      };
    },
    redrive: (which) => redriveLetters(parts, which),
    verify: (progress) => verify(ledger, progress),
    async rebuild(progress) {
      const { records, hours } = await ledger.rebuild((message) => progress(message));
      return { records, hours, finalUntilMs: ledger.reconciler.finalUntilMs };
    },
  };
}

async function recounted(
  reconciler: Reconciler,
  { hourMs, untilMs }: { readonly hourMs?: number; readonly untilMs?: number },
): Promise<HourResult[]> {
  if (hourMs !== undefined) return [await reconciler.reconcileHour(hourMs)];
  return reconciler.reconcile(untilMs === undefined ? {} : { untilMs });
}

async function verify(ledger: LedgerView, progress: Progress) {
  const { store, manifest, warehouse, config } = ledger.parts;
  progress('checking the archive');
  const problems = await checkArchive(store, manifest);
  const archiveProblems = problems
    .filter((problem) => problem.kind !== 'orphan')
    .map((problem) => problem.message);
  const lookbackMs = config.reconcile.lookbackMs;
  // Without stored indexes: what an earlier run has derived must not be believed here.
  const verdicts = await VerdictArchive.open(store);
  const source = new HourSource({ store, manifest, indexes: null, lookbackMs, verdicts });
  const result = await verifyWarehouse(source, warehouse, {
    hoursInArchive: manifest.hours(),
    keptFrom: () => keptFrom(ledger.parts.clock()),
    onProgress: (hourMs, done, total) =>
      progress(`recounting ${new Date(hourMs).toISOString()}`, done, total),
  });
  return { ...result, archiveProblems };
}

async function ledgerStatus(ledger: LedgerView, sampler: ClickSampler): Promise<LedgerStatus> {
  const { counter, reconciler } = ledger;
  const { clock, warehouse, deadLetters } = ledger.parts;
  const finalUntilMs = reconciler.finalUntilMs;
  const partitions = await partitionStatuses(ledger);
  const recent = await warehouse.hours(finalUntilMs - RECENT_HOURS * HOUR_MS, finalUntilMs);
  const memory = counter.memory();
  const outcomes = counter.outcomes();
  const waiting = await deadLetters.waiting();
  return {
    version: VERSION,
    nowMs: clock(),
    partitions,
    outcomes: Object.fromEntries(OUTCOMES.map((outcome) => [outcome, outcomes[outcome]])),
    asOfMs: counter.asOfMs,
    finalUntilMs,
    recentHours: recent.reverse(),
    stuck: ledger.stuck,
    deadLetters: Object.fromEntries(waiting),
    counter: { ...memory, heldRows: counter.heldRows },
    problems: problemsOf(ledger, sumOf(waiting.values())),
    clicks: await sampler.status(),
    rssBytes: process.memoryUsage().rss,
  };
}

export async function partitionStatuses(ledger: LedgerView): Promise<PartitionStatus[]> {
  const { reader, manifest } = ledger.parts;
  const counted = new Map(ledger.counter.partitions().map((each) => [each.partition, each]));
  const statuses: PartitionStatus[] = [];
  for (const partition of await reader.partitions()) {
    const range = await reader.range(partition);
    const { firstOffset, endOffset } = range;
    const progress = counted.get(partition);
    const countedOffset = progress?.nextOffset ?? firstOffset;
    statuses.push({
      partition,
      logFirstOffset: firstOffset,
      logEndOffset: endOffset,
      countedOffset,
      archivedOffset: manifest.archivedUpTo(partition).nextOffset,
      backlog: Math.max(0, endOffset - countedOffset),
      oldestUncountedAtMs: await appendedAtMsOf(reader, range, countedOffset),
      watermarkMs: progress?.watermarkMs ?? null,
    });
  }
  return statuses;
}

function problemsOf(ledger: LedgerView, waitingLetters: number): string[] {
  const { counter } = ledger;
  const { archiver, writer, verdicts } = ledger.parts;
  const problems: string[] = [];
  const { counterProblem } = ledger;
  if (counterProblem !== null) problems.push(`counting has stopped: ${counterProblem.message}`);
  if (counter.lastUpsertError !== null) {
    problems.push(`the warehouse does not take live rows: ${counter.lastUpsertError.message}`);
  }
  for (const partition of archiver.status().partitions) {
    if (partition.stopped === null) continue;
    problems.push(
      `archiving partition ${partition.partition} has stopped: ${partition.stopped.message}`,
    );
  }
  const archiving = archiver.status().lastError;
  if (archiving !== null) problems.push(`archiving: ${archiving.message}`);
  if (verdicts.problem !== null) problems.push(`verdicts: ${verdicts.problem.message}`);
  if (ledger.stuck !== null) problems.push(`finality: ${ledger.stuck.reason}`);
  if (!writer.healthy) problems.push('the log does not take what is ingested and redriven');
  if (waitingLetters > 0) {
    problems.push(`${waitingLetters} dead letters wait: see "clickledger dlq list"`);
  }
  return problems;
}

function sumOf(counts: Iterable<number>): number {
  return [...counts].reduce((sum, count) => sum + count, 0);
}
