/** The audit log on the command line: a store that works whether or not the product runs. */
import type { Command } from 'commander';
import type { AuditHead } from '../auth/audit-log.ts';
import { LedgerError } from '../platform/errors.ts';
import { withAudit } from '../roles/access.ts';
import { positive } from './catalog-commands.ts';
import { type CommonFlags, configOf, isoOrDash, print, table, withCommonFlags } from './context.ts';

export function addAuditCommands(program: Command): void {
  const audit = program
    .command('audit')
    .description('look at what was done, and check the log of it');
  withCommonFlags(audit.command('list').description('list acts, newest first'))
    .option('--limit <n>', 'most to list', '100')
    .option('--before <id>', 'continue before this entry')
    .action(async (flags: CommonFlags & { limit: string; before?: string }) => {
      const options = {
        limit: positive(flags.limit, '--limit'),
        ...(flags.before === undefined ? {} : { beforeId: positive(flags.before, '--before') }),
      };
      const entries = await withAudit(configOf(flags), (log) => log.list(options));
      const rows = entries.map((entry) => [
        String(entry.id),
        isoOrDash(entry.atMs),
        entry.actor,
        entry.action,
        entry.target,
        entry.code === null ? entry.outcome : `${entry.outcome} (${entry.code})`,
        entry.detail,
      ]);
      print(table(['id', 'at', 'actor', 'action', 'target', 'outcome', 'detail'], rows));
      if (entries.length === options.limit) print(`more: --before ${entries.at(-1)?.id}`);
    });
  withCommonFlags(
    audit
      .command('verify')
      .description('check every line; exit 1 when one was changed or is missing'),
  )
    .option('--head <line:hash>', 'a head that was noted before and must be part of the log')
    .action(async (flags: CommonFlags & { head?: string }) => {
      const noted = flags.head === undefined ? undefined : headOf(flags.head);
      const { head, broken } = await withAudit(configOf(flags), (log) => log.verify(noted));
      if (broken !== null) {
        print(`line ${broken.line}: ${broken.reason}`);
        process.exitCode = 1;
        return;
      }
      print(`${head.line} lines, all as they were written`);
      print(`head ${head.line}:${head.hash}`);
    });
}

function headOf(text: string): AuditHead {
  const [, line, hash] = /^(\d{1,15}):([0-9a-f]{64})$/.exec(text) ?? [];
  if (line !== undefined && hash !== undefined) return { line: Number(line), hash };
  throw new LedgerError('head_invalid', `--head "${text}" is no head of the audit log`, {
    hint: 'Give it as "audit verify" printed it: LINE:HASH.',
  });
}
