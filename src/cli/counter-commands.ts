/** Commands about partitions that counters have stopped at. */
import type { Command } from 'commander';
import { createLogger } from '../platform/logger.ts';
import { recorded, withControl } from '../roles/access.ts';
import { acceptGap, stoppedPartitions } from '../roles/gaps.ts';
import { requireShared } from '../roles/run-role.ts';
import { positive } from './catalog-commands.ts';
import { type CommonFlags, configOf, isoOrDash, print, table, withCommonFlags } from './context.ts';

/** Below the role's own command, `clickledger counter`. */
export function addCounterCommands(counter: Command): void {
  withCommonFlags(
    counter.command('gaps').description('list partitions that are not counted until somebody acts'),
  ).action(async (flags: CommonFlags) => {
    const config = configOf(flags);
    requireShared(config);
    const rows = (await stoppedPartitions(config)).map(({ partition, problem }) => [
      String(partition),
      problem.code,
      isoOrDash(problem.fromMs),
      isoOrDash(problem.toMs),
      problem.message,
    ]);
    if (rows.length === 0) print('all partitions are counted');
    else print(table(['partition', 'code', 'live misses from', 'to', 'why'], rows));
  });

  withCommonFlags(
    counter
      .command('accept-gap')
      .description('let counting go on behind clicks that the log no longer has'),
  )
    .requiredOption('--partition <n>', 'the partition, as "counter gaps" names it')
    .addHelpText(
      'after',
      '\nLive numbers of the hours in between stay too small; final ones come from the archive.',
    )
    .action(async (flags: CommonFlags & { partition: string }) => {
      const config = configOf(flags);
      requireShared(config);
      const partition = positive(flags.partition, '--partition');
      const target = String(partition);
      const logger = createLogger('warn', 'command');
      const problem = await recorded(config, { action: 'counter.accept-gap', target }, () =>
        withControl(config, (control) => acceptGap(config, control, { partition, logger })),
      );
      const missing = `${isoOrDash(problem.fromMs)} to ${isoOrDash(problem.toMs)}`;
      print(`partition ${partition} goes on; its live numbers miss clicks from ${missing}`);
    });
}
