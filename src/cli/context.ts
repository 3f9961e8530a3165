/** What every command shares: configuration from flags, printing, and how errors end a command. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { loadConfig } from '../config/load.ts';
import type { Config, ConfigInput } from '../config/schema.ts';
import { monotonicMs } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';

export interface CommonFlags {
  readonly config?: string;
  readonly data?: string;
  readonly clickPort?: string;
  readonly apiPort?: string;
  readonly clickWorkers?: string;
  readonly rolePort?: string;
  readonly instance?: string;
  readonly clockOffset?: string;
}

export function withCommonFlags(command: Command): Command {
  return command
    .option('--data <dir>', 'data folder (default ./data)')
    .option('--config <file>', 'configuration file (default ./clickledger.toml when it exists)');
}

export function withPortFlags(command: Command): Command {
  return withCommonFlags(command)
    .option('--click-port <n>', 'port that takes clicks (default 8080)')
    .option('--api-port <n>', 'port of the API (default 8081)')
    .option('--click-workers <n>', 'processes that take clicks (default half the cores)');
}

export function withRoleFlags(command: Command): Command {
  return withCommonFlags(command)
    .option('--role-port <n>', 'port of its health and metrics (default 8082)')
    .option('--api-port <n>', 'port of the API (default 8081)')
    .option('--instance <name>', 'name of this machine among the others (default the host name)')
    .option('--clock-offset <ms>', 'run the clock ahead by this much (demonstrations only)');
}

let environment: Readonly<Record<string, string | undefined>> = {};

/** Gives commands the process's environment; `main.ts` does, once. */
export function useEnvironment(env: Readonly<Record<string, string | undefined>>): void {
  environment = env;
}

/** The effective configuration of a command; every problem at once. */
export function configOf(flags: CommonFlags): Config {
  const input: ConfigInput = {
    ...(flags.data === undefined ? {} : { dataDir: flags.data }),
    click: {
      ...(flags.clickPort === undefined ? {} : { port: numberOf(flags.clickPort) }),
      ...(flags.clickWorkers === undefined ? {} : { workers: numberOf(flags.clickWorkers) }),
    },
    api: flags.apiPort === undefined ? {} : { port: numberOf(flags.apiPort) },
    role: {
      ...(flags.rolePort === undefined ? {} : { port: numberOf(flags.rolePort) }),
      ...(flags.instance === undefined ? {} : { instance: flags.instance }),
    },
    ...(flags.clockOffset === undefined ? {} : { clockOffsetMs: numberOf(flags.clockOffset) }),
  };
  const config = loadConfig({ file: flags.config, env: environment, flags: input });
  return { ...config, dataDir: resolve(config.dataDir) };
}

/** Not a number stays NaN: the configuration's own check says what is expected. */
function numberOf(text: string): number {
  return text.trim() === '' ? Number.NaN : Number(text);
}

export function print(line = ''): void {
  process.stdout.write(`${line}\n`);
}

export function printError(error: unknown): void {
  if (!(error instanceof LedgerError)) {
    process.stderr.write(`clickledger: unexpected error\n${(error as Error)?.stack ?? error}\n`);
    return;
  }
  process.stderr.write(`clickledger: ${error.message}\n`);
  // The message is for everybody; where the database is and what it said is for who has a shell here.
  const reason = error.kind === 'retry' ? reasonOf(error) : '';
  if (!error.message.includes(reason)) process.stderr.write(`  ${reason}\n`);
  if (error.hint !== undefined) process.stderr.write(`  ${error.hint}\n`);
}

/** What lies below the errors that have a code; nothing when they name no cause. */
function reasonOf(error: LedgerError): string {
  if (error.cause instanceof LedgerError) return reasonOf(error.cause);
  return error.cause instanceof Error ? error.cause.message : '';
}

/** Progress on standard error, overwritten in place on a terminal, every few seconds otherwise. */
export function progressLine(): (message: string, done?: number, total?: number) => void {
  const isTerminal = process.stderr.isTTY === true;
  let last = '';
  let lastAtMs = 0;
  return (message, done, total) => {
    const share = done === undefined || total === undefined ? '' : ` (${done} of ${total})`;
    const line = `${message}${share}`;
    const nowMs = monotonicMs();
    if (
      line === last ||
      (nowMs - lastAtMs < (isTerminal ? 100 : 2_000) && last.startsWith(message))
    )
      return;
    last = line;
    lastAtMs = nowMs;
    process.stderr.write(isTerminal ? `\r\x1b[K${line}` : `${line}\n`);
  };
}

/** Ends a line that `progressLine` has left open on a terminal. */
export function endProgress(): void {
  if (process.stderr.isTTY === true) process.stderr.write('\r\x1b[K');
}

/** Rows under headings, in columns wide enough for their widest cell. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return [line(headings), ...rows.map(line)].join('\n');
}

export function isoOrDash(timeMs: number | null): string {
  return timeMs === null || timeMs === 0
    ? '-'
    : new Date(timeMs).toISOString().replace('.000Z', 'Z');
}

/** A time argument: ISO 8601 with a zone, or `now`. */
export function timeOf(text: string, nowMs: number, flag: string): number {
  if (text === 'now') return nowMs;
  const zoned = /(Z|[+-]\d{2}:\d{2})$/.test(text);
  const timeMs = Date.parse(text);
  if (!zoned || Number.isNaN(timeMs)) {
    throw new LedgerError('time_invalid', `${flag} "${text}" is not a time`, {
      hint: 'Give ISO 8601 with a zone, e.g. 2026-01-31T14:00Z, or "now".',
    });
  }
  return timeMs;
}
