/** Commands that run the product: `up`, and the roles that it starts. */
import type { Command } from 'commander';
import { describeConfig } from '../config/describe.ts';
import { configSchema } from '../config/schema.ts';
import { createLogger, type Logger } from '../platform/logger.ts';
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
    .requiredOption('--config-json <json>', '"-": the first line of the standard input')
    .action(async (role: string, index: string | undefined, flags: { configJson: string }) => {
      // Before the first wait: an input that ends meanwhile must be noticed.
      const stop = supervisedStopSignal();
      const json = flags.configJson === '-' ? await firstInputLine() : flags.configJson;
      const effective = configSchema.parse(JSON.parse(json));
      await orLog(
        createLogger(effective.logLevel, [role, index].join('-').replace(/-$/, '')),
        () => {
          if (role === 'up') return runUp(effective, stop, print);
          if (role === 'click') return runClickWorker(effective, Number(index), stop);
          return runLedger(effective, stop);
        },
      );
    });
}

/** The input stays open after it: its end means that the supervisor is gone. */
function firstInputLine(): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    process.stdin.setEncoding('utf8');
    process.stdin.on('data', (chunk: string) => {
      text += chunk;
      const end = text.indexOf('\n');
      if (end >= 0) resolve(text.slice(0, end));
    });
    process.stdin.on('end', () => reject(new Error('the input ended before the configuration')));
  });
}

/** Nobody reads the terminal of a supervised process: what ends it is a log line like any other. */
async function orLog(logger: Logger, run: () => Promise<void>): Promise<void> {
  const end = (error: unknown): never => {
    logger.fatal({ err: error }, 'ended by an error');
    process.exit(1);
  };
  process.on('uncaughtException', end);
  process.on('unhandledRejection', end);
  await run().catch(end);
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
