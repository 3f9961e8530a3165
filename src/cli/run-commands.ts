/** Commands that run the product: `up`, and the roles that it starts. */
import type { Command } from 'commander';
import { describeConfig } from '../config/describe.ts';
import { configSchema } from '../config/schema.ts';
import { runClickWorker } from '../roles/click.ts';
import { runLedger } from '../roles/ledger.ts';
import { runUp } from '../roles/up.ts';
import { type CommonFlags, configOf, print, withPortFlags } from './context.ts';

export function addRunCommands(program: Command): void {
  withPortFlags(program.command('up').description('start everything: click workers, ledger, API'))
    .option('--clock-offset <ms>', 'run all clocks ahead by this much (demonstrations only)')
    .action(async (flags: CommonFlags) => runUp(configOf(flags), stopSignal(), print));

  withPortFlags(program.command('click').description('run one click worker alone'))
    .option('--index <n>', 'its number, which is its log partition', '0')
    .action(async (flags: CommonFlags & { index: string }) =>
      runClickWorker(configOf(flags), Number(flags.index), stopSignal()),
    );

  withPortFlags(program.command('ledger').description('run the ledger and API alone')).action(
    async (flags: CommonFlags) => runLedger(configOf(flags), stopSignal()),
  );

  const config = program.command('config').description('show or check the configuration');
  withPortFlags(config.command('check').description('check it and print what is in force')).action(
    (flags: CommonFlags) => print(describeConfig(configOf(flags))),
  );

  program
    .command('run-role <role> [index]', { hidden: true })
    .requiredOption('--config-json <json>')
    .action(async (role: string, index: string | undefined, flags: { configJson: string }) => {
      const effective = configSchema.parse(JSON.parse(flags.configJson));
      const stop = supervisedStopSignal();
      if (role === 'up') await runUp(effective, stop, print);
      else if (role === 'click') await runClickWorker(effective, Number(index), stop);
      else await runLedger(effective, stop);
    });
}

/** Aborts on the first SIGINT or SIGTERM; a second one ends the process at once. */
function stopSignal(): AbortSignal {
  const controller = new AbortController();
  const stop = (): void => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort();
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  return controller.signal;
}

/** A supervised process leaves Ctrl-C to its supervisor, and stops when that one is gone. */
function supervisedStopSignal(): AbortSignal {
  const controller = new AbortController();
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => controller.abort());
  process.stdin.on('end', () => controller.abort());
  process.stdin.on('close', () => controller.abort());
  process.stdin.resume();
  return controller.signal;
}
