/** Commands about the database that the roles share. */
import { dirname } from 'node:path';
import type { Command } from 'commander';
import { isLedgerRunning } from '../api/admin-client.ts';
import { dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { shiftedClock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { Postgres } from '../platform/postgres.ts';
import { importControl } from '../roles/import-control.ts';
import { openControl } from '../roles/open-control.ts';
import { type CommonFlags, configOf, print, table, withCommonFlags } from './context.ts';

export function addControlCommands(program: Command): void {
  const control = program.command('control').description('the database that the roles share');
  withCommonFlags(
    control.command('init').description('make its tables; those that are there stay as they are'),
  ).action(async (flags: CommonFlags) => {
    const config = sharedConfig(flags);
    const opened = await openControl(
      config,
      dataPaths(config.dataDir),
      shiftedClock(config.clockOffsetMs),
    );
    try {
      // Opening forgives a database that is away.
      await opened.audit.head();
    } finally {
      await opened.close();
    }
    print('the control database has its tables');
  });
  withCommonFlags(
    control
      .command('import <control.sqlite>')
      .description('copy tokens, audit log, disputes and webhooks of one machine into it'),
  )
    .option('--dead-letters <file>', 'its dead letters too: a dead-letters.sqlite')
    .action(async (path: string, flags: CommonFlags & { deadLetters?: string }) => {
      const config = sharedConfig(flags);
      await requireStopped(path);
      const db = new Postgres(config.control.postgres);
      try {
        const clock = shiftedClock(config.clockOffsetMs);
        const source = { control: path, deadLetters: flags.deadLetters ?? null };
        const added = Object.entries(await importControl(source, { db, clock }));
        print(
          table(
            ['kind', 'added'],
            added.map(([kind, count]) => [kind, String(count)]),
          ),
        );
      } finally {
        await db.close();
      }
    });
}

function sharedConfig(flags: CommonFlags): Config {
  const config = configOf(flags);
  if (config.control.kind === 'postgres') return config;
  throw new LedgerError('config_invalid', 'control.kind is not "postgres"', {
    hint: 'See docs/operating/control-database.md.',
  });
}

/** What a ledger writes to its file after the copy would be missing in it. */
async function requireStopped(path: string): Promise<void> {
  if (!(await isLedgerRunning(dataPaths(dirname(path)).adminSocket))) return;
  throw new LedgerError('ledger_running', `a ledger uses ${path}`, {
    hint: 'Stop it first: what it writes later would not be in the copy.',
  });
}
