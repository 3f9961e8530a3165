/**
 * What every role that runs on its own has in common: a lock on its part of the data folder, a port
 * that says how it is, patience with what is away, and an end within a grace period.
 *
 * The port is open before anything else: a role that waits says what for.
 */
import { mkdirSync } from 'node:fs';
import { hostname } from 'node:os';
import { Registry } from 'prom-client';
import { type DataPaths, dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { type Clock, shiftedClock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { takeLock } from '../platform/lock.ts';
import { createLogger, type Logger } from '../platform/logger.ts';
import { type Control, openControl } from './open-control.ts';
import { addProcessMetrics, type RoleName } from './process-metrics.ts';
import { Readiness, StoppedWaiting, untilAborted } from './readiness.ts';
import { serveRole } from './role-server.ts';
import { openTelemetry, type Telemetry } from './telemetry.ts';

export interface RoleContext {
  readonly config: Config;
  readonly paths: DataPaths;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly readiness: Readiness;
  readonly telemetry: Telemetry | null;
  readonly stop: AbortSignal;
  /** Name among all processes of the product, the same after a restart. */
  readonly instance: string;
}

export interface RoleWork {
  /** Null while it does its work. */
  waitsFor(): string | null;
  /** Finishes what was begun and gives back what others can go on with; bounded by the grace period. */
  drain(): Promise<void>;
  close(): Promise<void>;
}

export interface RoleOptions {
  readonly role: RoleName;
  /** Tells processes of one role on one machine apart. */
  readonly index?: number;
  /** False for a role that listens by itself. */
  readonly serves?: boolean;
}

export async function runRole(
  config: Config,
  { role, index, serves = true }: RoleOptions,
  stop: AbortSignal,
  open: (context: RoleContext) => Promise<RoleWork>,
): Promise<void> {
  const name = index === undefined ? role : `${role}-${index}`;
  const logger = createLogger(config.logLevel, name);
  const paths = dataPaths(config.dataDir);
  mkdirSync(paths.run, { recursive: true, mode: 0o700 });
  const lock = takeLock(paths.run, name, `Another ${name} works on this data folder.`);
  const clock = shiftedClock(config.clockOffsetMs);
  const instance = `${instanceOf(config)}-${name}`;
  const telemetry = await openTelemetry({
    config: config.telemetry,
    service: role,
    instance: name,
    clock,
    logger,
  });
  const registry = new Registry();
  addProcessMetrics({ registry, role, spans: () => telemetry?.counts ?? null });
  const readiness = new Readiness(stop, logger);
  const waitsFor = () => readiness.waitsFor();
  const server = serves ? serveRole({ config: config.role, registry, waitsFor }) : null;
  const context = { config, paths, clock, logger, registry, readiness, telemetry, stop, instance };
  try {
    const work = await open(context);
    readiness.works(() => work.waitsFor());
    logger.info({ port: server?.port, instance }, 'working');
    await untilAborted(stop);
    await withinGrace(config.role.drainMs, work, logger);
  } catch (error) {
    if (!(error instanceof StoppedWaiting)) throw error;
  } finally {
    await server?.close();
    await telemetry?.close();
    lock.release();
  }
  logger.info('stopped');
}

async function withinGrace(drainMs: number, work: RoleWork, logger: Logger): Promise<void> {
  const ended = work.drain().then(
    () => true,
    (error: unknown) => {
      logger.error({ err: error }, 'could not finish what was begun');
      return true;
    },
  );
  const inTime = await Promise.race([ended, Bun.sleep(drainMs).then(() => false)]);
  // What is not finished is finished by whoever takes over: nothing rests on an orderly end.
  if (!inTime)
    logger.error({ drainMs }, 'did not finish within role.drain_ms and ends all the same');
  await Promise.race([work.close(), Bun.sleep(drainMs)]);
}

export function instanceOf({ role }: Pick<Config, 'role'>): string {
  return role.instance === '' ? hostname().replace(/[^A-Za-z0-9._-]/g, '-') : role.instance;
}

/** The stores that the roles share. Throws when the configuration is that of one ledger process. */
export function openShared({ config, paths, clock, readiness }: RoleContext): Promise<Control> {
  requireShared(config);
  return readiness.until('PostgreSQL (control.postgres)', () => openControl(config, paths, clock));
}

export function requireShared({ control }: Pick<Config, 'control'>): void {
  if (control.kind === 'postgres') return;
  throw new LedgerError('roles_not_shared', 'roles of their own need control.kind = "postgres"', {
    hint: 'With control.kind = "sqlite" one process does their work: "clickledger up", or "clickledger ledger".',
  });
}

/** A configuration of roles has no single ledger: both at once would write the same rows. */
export function requireSingle({ control }: Pick<Config, 'control'>): void {
  if (control.kind === 'sqlite') return;
  throw new LedgerError(
    'ledger_not_single',
    'with control.kind = "postgres" there is no ledger process',
    {
      hint: 'Start "clickledger counter", "archiver", "reconciler" and "api", or "clickledger up" for all of them.',
    },
  );
}
