/** Commands that ask the ledger: of the running one, or of one opened for the command. */
import type { Command } from 'commander';
import type { LedgerStatus } from '../api/admin-port.ts';
import { INGEST_COLUMNS } from '../ingest/recorded-click.ts';
import { shiftedClock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { readRowsFile } from '../platform/rows-file.ts';
import { bringArchive, withLedger } from '../roles/access.ts';
import { VERDICT_COLUMNS } from '../verdicts/check.ts';
import { positive } from './catalog-commands.ts';
import {
  type CommonFlags,
  configOf,
  endProgress,
  isoOrDash,
  print,
  progressLine,
  table,
  timeOf,
  withCommonFlags,
} from './context.ts';

export function addLedgerCommands(program: Command): void {
  addIngest(program);
  addVerdicts(program);
  addReconcile(program);
  addStatus(program);
  addDeadLetters(program);
  addRebuild(program);
  addVerify(program);
}

function addIngest(program: Command): void {
  withCommonFlags(
    program
      .command('ingest <file>')
      .description('take recorded clicks into the log (NDJSON, CSV, - for stdin)'),
  )
    .addHelpText(
      'after',
      '\nColumns: impression_id, ad_id, clicked_at, optional country, device, ip, ua.\nTaking the same file twice counts nothing twice.',
    )
    .action(async (file: string, flags: CommonFlags) => {
      const outcome = await withLedger(configOf(flags), (admin) =>
        admin.ingest(readRowsFile(file, INGEST_COLUMNS), progressLine()),
      );
      endProgress();
      print(`${outcome.taken} clicks taken`);
    });
}

function addVerdicts(program: Command): void {
  withCommonFlags(
    program
      .command('verdicts <file>')
      .description(
        'take verdicts that clicks are invalid, or valid after all (NDJSON, CSV, - for stdin)',
      ),
  )
    .addHelpText(
      'after',
      '\nColumns: impression_id, valid (true or false), reason.\nTaking the same file twice changes nothing.',
    )
    .action(async (file: string, flags: CommonFlags) => {
      const outcome = await withLedger(configOf(flags), (admin) =>
        admin.verdicts(readRowsFile(file, VERDICT_COLUMNS), progressLine()),
      );
      endProgress();
      print(`${outcome.taken} verdicts taken, ${outcome.new} of them new`);
      if (outcome.hours.length > 0) {
        print(`the next reconcile restates ${outcome.hours.length} final hours`);
      }
    });
}

function addReconcile(program: Command): void {
  withCommonFlags(
    program.command('reconcile').description('recount closed hours and turn them final'),
  )
    .option('--hour <time>', 'recount this one hour (its start)')
    .option('--until <time>', 'finalise hours that end by then, without the usual delay')
    .action(async (flags: CommonFlags & { hour?: string; until?: string }) => {
      const config = configOf(flags);
      const nowMs = shiftedClock(config.clockOffsetMs)();
      if (flags.hour !== undefined && flags.until !== undefined) {
        throw new LedgerError('reconcile_options', 'give --hour or --until, not both');
      }
      const options = {
        ...(flags.hour === undefined ? {} : { hourMs: timeOf(flags.hour, nowMs, '--hour') }),
        ...(flags.until === undefined ? {} : { untilMs: timeOf(flags.until, nowMs, '--until') }),
      };
      const outcome = await withLedger(config, (admin) => admin.reconcile(options, progressLine()));
      endProgress();
      const rows = outcome.hours.map(({ hour, kind, driftAlert }) => [
        isoOrDash(hour.hourMs),
        kind,
        String(hour.revision),
        String(hour.records),
        String(hour.counted),
        String(hour.duplicate),
        String(hour.notBillable),
        String(hour.invalid),
        `${(hour.driftMax * 100).toFixed(3)} %${driftAlert ? ' !' : ''}`,
      ]);
      const headings = [
        'hour',
        'what',
        'revision',
        'records',
        'counted',
        'duplicate',
        'not billable',
        'invalid',
        'drift',
      ];
      if (rows.length > 0) print(table(headings, rows));
      else print('nothing to do: no hour is closed, and no final hour has changed');
      print(`final until ${isoOrDash(outcome.finalUntilMs)}`);
    });
}

function addStatus(program: Command): void {
  withCommonFlags(program.command('status').description('show what is counted, archived and final'))
    .option('--json', 'as JSON')
    .action(async (flags: CommonFlags & { json?: boolean }) => {
      const status = await withLedger(configOf(flags), (admin) => admin.status());
      print(flags.json ? JSON.stringify(status, null, 2) : statusText(status));
    });
}

function statusText(status: LedgerStatus): string {
  const { nowMs } = status;
  const partitions = status.partitions.map((each) => [
    String(each.partition),
    String(each.logEndOffset),
    String(each.countedOffset),
    String(each.archivedOffset),
    String(each.backlog),
    each.oldestUncountedAtMs === null
      ? '-'
      : `${((nowMs - each.oldestUncountedAtMs) / 1000).toFixed(1)} s`,
    isoOrDash(each.watermarkMs),
  ]);
  const hours = status.recentHours
    .slice(0, 5)
    .map((hour) => [
      isoOrDash(hour.hourMs),
      String(hour.revision),
      String(hour.counted),
      `${(hour.driftMax * 100).toFixed(3)} %`,
      hour.cause,
    ]);
  const outcomes = Object.entries(status.outcomes).map(([outcome, count]) => `${outcome} ${count}`);
  const memory = `${(status.rssBytes / 1e6).toFixed(0)} MB, ${status.counter.claims} impressions remembered (${(status.counter.claimBytes / 1e6).toFixed(0)} MB), ${status.counter.openRows} open rows`;
  return [
    `final until  ${isoOrDash(status.finalUntilMs)}`,
    `live as of   ${isoOrDash(status.asOfMs)}`,
    `outcomes     ${outcomes.join(', ')}`,
    `memory       ${memory}`,
    '',
    table(
      ['partition', 'log', 'counted', 'archived', 'backlog', 'oldest', 'watermark'],
      partitions,
    ),
    ...(hours.length > 0
      ? ['', table(['final hour', 'revision', 'counted', 'drift', 'cause'], hours)]
      : []),
    '',
    ...(status.problems.length === 0
      ? ['all is well']
      : status.problems.map((problem) => `problem: ${problem}`)),
  ].join('\n');
}

function addDeadLetters(program: Command): void {
  const dlq = program
    .command('dlq')
    .description('look at records that could not be counted, and redrive them');
  withCommonFlags(dlq.command('list').description('list dead letters'))
    .option('--all', 'also those that were redriven')
    .option('--limit <n>', 'most to list', '100')
    .action(async (flags: CommonFlags & { all?: boolean; limit: string }) => {
      const options = { limit: positive(flags.limit, '--limit'), waitingOnly: flags.all !== true };
      const letters = await withLedger(configOf(flags), (admin) => admin.deadLetters(options));
      const rows = letters.map((letter) => [
        letter.id,
        letter.reason,
        isoOrDash(letter.appendedAtMs),
        String(letter.sizeBytes),
        isoOrDash(letter.redrivenAtMs),
      ]);
      print(table(['id', 'reason', 'appended', 'bytes', 'redriven'], rows));
      print(`${letters.length} dead letters`);
    });
  withCommonFlags(
    dlq.command('show <id>').description('show one dead letter with its bytes'),
  ).action(async (id: string, flags: CommonFlags) => {
    print(
      JSON.stringify(await withLedger(configOf(flags), (admin) => admin.deadLetter(id)), null, 2),
    );
  });
  withCommonFlags(dlq.command('redrive [id]').description('append dead letters to the log again'))
    .option('--all', 'all that wait')
    .option('--reason <reason>', 'all of this reason')
    .action(
      async (id: string | undefined, flags: CommonFlags & { all?: boolean; reason?: string }) => {
        const named = [id, flags.all, flags.reason].filter((each) => each !== undefined);
        if (named.length !== 1) {
          throw new LedgerError('redrive_options', 'give one of ID, --reason REASON and --all');
        }
        const which = {
          ...(id === undefined ? {} : { id }),
          ...(flags.all === undefined ? {} : { all: flags.all }),
          ...(flags.reason === undefined ? {} : { reason: flags.reason }),
        };
        const { redriven } = await withLedger(configOf(flags), (admin) => admin.redrive(which));
        print(`${redriven} redriven`);
      },
    );
}

function addRebuild(program: Command): void {
  withCommonFlags(
    program
      .command('rebuild')
      .description('drop state and warehouse and build them again from archive and log'),
  )
    .option('--from <place>', 'first bring in the archive at s3://bucket/prefix or in a folder')
    .addHelpText(
      'after',
      '\nWith --from a ledger moves: from one machine to many, or to another place. Final numbers, revisions\nand restatements come out the same. Copying goes on where it was interrupted.',
    )
    .action(async (flags: CommonFlags & { from?: string }) => {
      const config = configOf(flags);
      if (flags.from !== undefined) {
        const { objects, copied } = await bringArchive(config, flags.from, progressLine());
        endProgress();
        print(`${objects} objects of ${flags.from}, ${copied} of them new`);
      }
      const outcome = await withLedger(config, (admin) => admin.rebuild(progressLine()));
      endProgress();
      print(`${outcome.records} records counted, ${outcome.hours} hours final again`);
      print(`final until ${isoOrDash(outcome.finalUntilMs)}`);
    });
}

function addVerify(program: Command): void {
  withCommonFlags(
    program
      .command('verify')
      .description('recount the archive and compare every final row; exit 1 on a difference'),
  ).action(async (flags: CommonFlags) => {
    const outcome = await withLedger(configOf(flags), (admin) => admin.verify(progressLine()));
    endProgress();
    for (const problem of outcome.archiveProblems) print(`archive: ${problem}`);
    if (outcome.differences.length > 0) {
      const rows = outcome.differences.map((each) => [
        each.tier,
        isoOrDash(each.startMs),
        each.advertiserId,
        each.adId,
        each.country,
        each.device,
        String(each.archive),
        String(each.warehouse),
      ]);
      print(
        table(
          ['tier', 'start', 'advertiser', 'ad', 'country', 'device', 'archive', 'warehouse'],
          rows,
        ),
      );
    }
    print(
      `${outcome.hours} final hours, ${outcome.rows} minute rows, ${outcome.clicks} clicks recounted`,
    );
    print(
      `${outcome.differences.length} differences, ${outcome.archiveProblems.length} archive problems`,
    );
    if (outcome.differences.length + outcome.archiveProblems.length > 0) process.exitCode = 1;
  });
}
