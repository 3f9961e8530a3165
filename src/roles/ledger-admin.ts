/** What operators ask of the ledger, carried out on its parts. */

import type {
  DeadLetterView,
  LedgerAdmin,
  LedgerStatus,
  PartitionStatus,
  Progress,
} from '../api/admin-port.ts';
import { checkArchive } from '../archive/audit.ts';
import type { GeoLookup } from '../click/geo.ts';
import { LEDGER_PARTITION } from '../config/paths.ts';
import type { StoredDeadLetter } from '../counter/port.ts';
import { OUTCOMES } from '../counting/types.ts';
import { decodeEvent } from '../event/codec.ts';
import { ingestRows } from '../ingest/ingest.ts';
import { LedgerError } from '../platform/errors.ts';
import { HourSource } from '../reconcile/hour-source.ts';
import type { HourResult, Reconciler } from '../reconcile/reconciler.ts';
import { verifyWarehouse } from '../reconcile/verify.ts';
import { VerdictArchive } from '../verdicts/archive.ts';
import { VERSION } from '../version.ts';
import { ClickSampler, workerReader } from './click-sampler.ts';
import { keptFrom, type Ledger } from './ledger-parts.ts';
import { takeVerdicts } from './ledger-verdicts.ts';
import { appendedAtMsOf } from './log-age.ts';

const RECENT_HOURS = 48;
const HOUR_MS = 3_600_000;
const MAX_REDRIVEN = 1_000_000;

export function createLedgerAdmin(ledger: Ledger, geo: GeoLookup): LedgerAdmin {
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
      return deadLetters.list(options).map(viewLetter);
    },
    async deadLetter(id) {
      const letter = requireLetter(deadLetters.get(id), id);
      const event = decodeEvent(letter.bytes, 0, letter.bytes.length);
      const bytes = letter.bytes.toString('base64');
      return { ...viewLetter(letter), bytes, event: event === null ? null : { ...event } };
    },
    redrive: (which) => redrive(ledger, which),
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

function viewLetter(letter: StoredDeadLetter): DeadLetterView {
  const { id, partition, offset, appendedAtMs, reason, redrivenAtMs, bytes } = letter;
  return { id, partition, offset, appendedAtMs, reason, redrivenAtMs, sizeBytes: bytes.length };
}

function requireLetter(letter: StoredDeadLetter | null, id: string): StoredDeadLetter {
  if (letter !== null) return letter;
  throw new LedgerError('dead_letter_unknown', `there is no dead letter ${id}`, {
    hint: '"clickledger dlq list" shows those that there are.',
  });
}

/**
 * Appends letters to the log again. A letter is marked only after its record is durable: dying in
 * between appends it once more, and dedup by impression absorbs that.
 */
async function redrive(
  ledger: Ledger,
  which: { id?: string; reason?: string; all?: boolean },
): Promise<{ redriven: number }> {
  const { deadLetters, writer, clock } = ledger.parts;
  const letters =
    which.id === undefined
      ? deadLetters
          .list({ limit: MAX_REDRIVEN, waitingOnly: true })
          .filter((letter) => which.all === true || letter.reason === which.reason)
      : [requireLetter(deadLetters.get(which.id), which.id)];
  for (const letter of letters) {
    if (letter.redrivenAtMs !== null) {
      throw new LedgerError('dead_letter_redriven', `dead letter ${letter.id} was redriven before`);
    }
    await new Promise<void>((resolve, reject) => {
      writer.append(letter.bytes, letter.bytes.length, (error) =>
        error ? reject(error) : resolve(),
      );
    });
    deadLetters.markRedriven(letter.id, clock());
  }
  return { redriven: letters.length };
}

async function verify(ledger: Ledger, progress: Progress) {
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

async function ledgerStatus(ledger: Ledger, sampler: ClickSampler): Promise<LedgerStatus> {
  const { counter, reconciler } = ledger;
  const { clock, warehouse, deadLetters } = ledger.parts;
  const finalUntilMs = reconciler.finalUntilMs;
  const partitions = await partitionStatuses(ledger);
  const recent = await warehouse.hours(finalUntilMs - RECENT_HOURS * HOUR_MS, finalUntilMs);
  const memory = counter.memory();
  const outcomes = counter.outcomes();
  return {
    version: VERSION,
    nowMs: clock(),
    partitions,
    outcomes: Object.fromEntries(OUTCOMES.map((outcome) => [outcome, outcomes[outcome]])),
    asOfMs: counter.asOfMs,
    finalUntilMs,
    recentHours: recent.reverse(),
    stuck: reconciler.stuck,
    deadLetters: Object.fromEntries(deadLetters.waiting()),
    counter: { ...memory, heldRows: counter.heldRows },
    problems: problemsOf(ledger),
    clicks: await sampler.status(),
    rssBytes: process.memoryUsage().rss,
  };
}

export async function partitionStatuses(ledger: Ledger): Promise<PartitionStatus[]> {
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

function problemsOf(ledger: Ledger): string[] {
  const { counter, reconciler } = ledger;
  const { archiver, writer, deadLetters, verdicts } = ledger.parts;
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
  if (reconciler.stuck !== null) problems.push(`finality: ${reconciler.stuck.reason}`);
  if (!writer.healthy) problems.push(`partition ${LEDGER_PARTITION} of the log cannot be written`);
  const waiting = [...deadLetters.waiting().values()].reduce((sum, n) => sum + n, 0);
  if (waiting > 0) problems.push(`${waiting} dead letters wait: see "clickledger dlq list"`);
  return problems;
}
