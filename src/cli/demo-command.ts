/** `clickledger demo`: trust in five minutes. */
import type { Command } from 'commander';
import { runDemo } from '../roles/demo.ts';
import { positive } from './catalog-commands.ts';
import {
  type CommonFlags,
  configOf,
  endProgress,
  print,
  progressLine,
  withPortFlags,
} from './context.ts';

export function addDemoCommand(program: Command): void {
  withPortFlags(
    program
      .command('demo')
      .description('real clicks through the whole product on a temporary folder'),
  )
    .option('--clicks <n>', 'impressions that are clicked', '20000')
    .option('--seed <n>', 'traffic to send', '1')
    .option('--keep', 'keep the data folder')
    .action(async (flags: CommonFlags & { clicks: string; seed: string; keep?: boolean }) => {
      const progress = progressLine();
      const clean = await runDemo({
        config: configOf(flags),
        clicks: positive(flags.clicks, '--clicks'),
        seed: positive(flags.seed, '--seed'),
        keep: flags.keep === true,
        progress,
        print: (line) => {
          endProgress();
          print(line);
        },
      });
      if (!clean) process.exitCode = 1;
    });
}
