/** Entry point: arguments → command. */
import { Command } from 'commander';
import { addAuditCommands } from './cli/audit-commands.ts';
import { addCatalogCommands } from './cli/catalog-commands.ts';
import { printError, useEnvironment } from './cli/context.ts';
import { addControlCommands } from './cli/control-commands.ts';
import { addDemoCommand } from './cli/demo-command.ts';
import { addKafkaCommands } from './cli/kafka-commands.ts';
import { addLedgerCommands } from './cli/ledger-commands.ts';
import { addRunCommands } from './cli/run-commands.ts';
import { VERSION } from './version.ts';

useEnvironment(process.env);
const program = new Command('clickledger')
  .description('Counts ad clicks so that every count can stand on an invoice.')
  .version(VERSION)
  .showHelpAfterError('(add --help for the options)');
addRunCommands(program);
addCatalogCommands(program);
addLedgerCommands(program);
addAuditCommands(program);
addKafkaCommands(program);
addControlCommands(program);
addDemoCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  printError(error);
  process.exitCode = 1;
}
// A command that has answered is done, whatever a library still holds open.
process.exit(process.exitCode ?? 0);
