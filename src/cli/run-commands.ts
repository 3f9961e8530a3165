/** Commands that run the product: `up`, and the roles that it starts. */
import type { Command } from 'commander';
import { describeConfig } from '../config/describe.ts';
import { type Config, configSchema } from '../config/schema.ts';
import { LedgerError } from '../platform/errors.ts';
import { createLogger, type Logger } from '../platform/logger.ts';
import { runApi } from '../roles/api.ts';
import { runArchiver } from '../roles/archiver.ts';
import { runCatalog } from '../roles/catalog.ts';
import { runClickWorker } from '../roles/click.ts';
import { runCounter } from '../roles/counter.ts';
import { runLedger } from '../roles/ledger.ts';
import { runReconciler } from '../roles/reconciler.ts';
import { runShipper } from '../roles/shipper.ts';
import { runUp } from '../roles/up.ts';
import { type CommonFlags, configOf, print, withPortFlags, withRoleFlags } from './context.ts';
import { addCounterCommands } from './counter-commands.ts';

export function addRunCommands(program: Command): void {
  withPortFlags(program.command('up').description('start everything: click workers, ledger, API'))
    .option('--clock-offset <ms>', 'run all clocks ahead by this much (demonstrations only)')
    .action(async (flags: CommonFlags) => runUp(configOf(flags), stopSignal(), print));

  withPortFlags(program.command('click').description('run one click worker alone'))
    .option('--index <n>', 'its number, which is its log partition', '0')
    .action(async (flags: CommonFlags & { index: string }) =>
      runClickWorker(configOf(flags), indexOf(flags.index), stopSignal()),
    );

  withPortFlags(
    program.command('ledger').description('run counting, archive, finality and API in one process'),
  ).action(async (flags: CommonFlags) => runLedger(configOf(flags), stopSignal()));

  addRoles(program);

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
          const run = ROLES[role];
          if (run !== undefined) return run.run(effective, stop, Number(index ?? 0));
          throw new LedgerError('role_unknown', `there is no role ${role}`);
        },
      );
    });
}

interface Role {
  /** Absent: a command of its own says it. */
  readonly description?: string;
  readonly isNumbered?: boolean;
  run(config: Config, stop: AbortSignal, index: number): Promise<void>;
}

const ROLES: Readonly<Record<string, Role>> = {
  click: { run: (config, stop, index) => runClickWorker(config, index, stop) },
  ledger: { run: (config, stop) => runLedger(config, stop) },
  catalog: {
    description: 'keep this machine’s ads and keys like those of all others',
    run: runCatalog,
  },
  counter: {
    description: 'count the partitions of the log that fall to this process',
    isNumbered: true,
    run: runCounter,
  },
  archiver: {
    description: 'archive the partitions of the log that fall to this process',
    run: runArchiver,
  },
  reconciler: { description: 'turn hours final, and send webhooks', run: runReconciler },
  api: { description: 'answer the API and the console', run: runApi },
  shipper: {
    description: 'bring spools into Kafka whose click workers are not there',
    run: runShipper,
  },
};

/** Roles that share their work with other machines. */
function addRoles(program: Command): void {
  for (const [name, { description, isNumbered, run }] of Object.entries(ROLES)) {
    if (description === undefined) continue;
    const command = withRoleFlags(program.command(name).description(description));
    if (isNumbered === true) {
      command.option('--index <n>', 'its number among those of this data folder', '0');
    }
    if (name === 'counter') addCounterCommands(command);
    command.action(async (flags: CommonFlags & { index?: string }) =>
      run(configOf(flags), stopSignal(), indexOf(flags.index)),
    );
  }
}

function indexOf(text = '0'): number {
  if (/^\d{1,3}$/.test(text)) return Number(text);
  throw new LedgerError('index_invalid', `--index "${text}" is not a number from 0 to 999`);
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
