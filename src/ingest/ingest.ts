/**
 * Takes recorded clicks into the log: all rows are checked before the first is logged.
 *
 * Half a file in the log would be half an invoice, so the rows go into a spool while they are
 * checked, and only a file without a mistake is appended. What holds when the process dies
 *
 *  1. while checking: nothing was logged, and the spool is gone with the process;
 *  2. while appending: a part of the file is in the log. Run the same file again: what is there
 *     already has the same impression ids and becomes duplicates, in the stream within its window
 *     and in the recount in any case, so no click counts twice;
 *  3. after the last record is durable and before the answer: as 2.
 */
import type { IngestOutcome, IngestRow, Progress } from '../api/admin-port.ts';
import type { ClickLogWriter } from '../log/port.ts';
import { LedgerError } from '../platform/errors.ts';
import { DurableAppender } from './append.ts';
import { type RecordedClickOptions, RecordedClicks } from './recorded-click.ts';
import { EventSpool } from './spool.ts';

const PROBLEMS_SHOWN = 20;
const PROGRESS_EVERY = 10_000;

export interface IngestOptions extends RecordedClickOptions {
  readonly rows: AsyncIterable<IngestRow>;
  readonly log: ClickLogWriter;
  /** Needs as much space as the clicks take in the log, for as long as the ingest runs. */
  readonly spoolDir: string;
  readonly progress: Progress;
}

export async function ingestRows(options: IngestOptions): Promise<IngestOutcome> {
  const spool = await EventSpool.open(options.spoolDir);
  try {
    await checkAll(options, spool);
    await appendAll(options, spool);
    return { taken: spool.events };
  } finally {
    await spool.close();
  }
}

async function checkAll(options: IngestOptions, spool: EventSpool): Promise<void> {
  const clicks = new RecordedClicks(options);
  const problems: string[] = [];
  let wrong = 0;
  let checked = 0;
  for await (const { line, record, problem } of options.rows) {
    const row =
      problem === undefined ? clicks.check(record) : ({ ok: false, reason: problem } as const);
    if (row.ok) {
      // Once a row is wrong nothing will be logged: the rest is only checked.
      if (wrong === 0) await spool.add(row.event);
    } else {
      wrong += 1;
      if (problems.length < PROBLEMS_SHOWN) problems.push(`line ${line}: ${row.reason}`);
    }
    checked += 1;
    if (checked % PROGRESS_EVERY === 0) options.progress('checking', checked);
  }
  if (wrong > 0) throw invalid(problems, wrong, checked);
}

function invalid(problems: readonly string[], wrong: number, checked: number): LedgerError {
  const more = wrong - problems.length;
  const lines = more > 0 ? [...problems, `and ${more} more`] : problems;
  const message = `${wrong} of ${checked} rows are wrong, nothing was taken:\n${lines.join('\n')}`;
  return new LedgerError('ingest_invalid', message, {
    hint: 'Correct the rows, or take them out, and run the whole file again.',
  });
}

async function appendAll(options: IngestOptions, spool: EventSpool): Promise<void> {
  const total = spool.events;
  const appender = new DurableAppender(options.log);
  let appended = 0;
  try {
    for await (const bytes of spool.read()) {
      await appender.append(bytes);
      appended += 1;
      if (appended % PROGRESS_EVERY === 0) options.progress('logging', appender.durable, total);
    }
    await appender.drain();
    appender.assertDurable();
  } catch (cause) {
    // Nothing may be in flight any more when the answer says how many are safe.
    await appender.drain();
    throw cause instanceof LedgerError ? interrupted(appender.durable, total, cause) : cause;
  }
  options.progress('logging', total, total);
}

function interrupted(durable: number, total: number, cause: LedgerError): LedgerError {
  const message = `${durable} of ${total} clicks were taken: ${cause.message}`;
  return new LedgerError('ingest_interrupted', message, {
    kind: 'retry',
    hint: 'Run the same file again: clicks that were taken are recognised and not counted twice.',
    cause,
  });
}
