/**
 * How commands reach things: the catalog and the tokens directly (their stores take several
 * processes), the ledger over its socket when it runs, or opened by the command itself when not.
 */

import { mkdirSync } from 'node:fs';
import { openLmdbCatalog } from '../ads/lmdb/catalog.ts';
import type { AdCatalog, KeyStore } from '../ads/port.ts';
import { SharedKeys } from '../ads/shared-keys.ts';
import { connectAdmin, isLedgerRunning } from '../api/admin-client.ts';
import type { LedgerAdmin } from '../api/admin-port.ts';
import type { CopyResult } from '../archive/copy.ts';
import type { AuditLog } from '../auth/audit-log.ts';
import { type NoteAct, recordAct } from '../auth/record-act.ts';
import type { TokenStore } from '../auth/tokens.ts';
import { openGeo } from '../click/geo.ts';
import { dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { shiftedClock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { createLogger } from '../platform/logger.ts';
import { createLedgerAdmin } from './ledger-admin.ts';
import { Ledger, requireDataDir } from './ledger-parts.ts';
import { type MoveParts, moveArchive } from './move-archive.ts';
import { type Access, type Control, openAccess, openControl } from './open-control.ts';
import type { Readiness } from './readiness.ts';
import { recordedAdmin } from './recorded-admin.ts';
import { RoleLedger } from './role-ledger.ts';
import { instanceOf } from './run-role.ts';

export async function withCatalog<T>(
  config: Config,
  use: (catalog: AdCatalog) => Promise<T>,
): Promise<T> {
  const catalog = openLmdbCatalog({ dir: dataPaths(config.dataDir).catalog, readOnly: false });
  try {
    return await use(catalog);
  } finally {
    await catalog.close();
  }
}

/** Signing keys: those of this data folder, or the ones that all machines share. */
export function withKeys<T>(config: Config, use: (keys: KeyStore) => Promise<T>): Promise<T> {
  return withCatalog(config, async (catalog) => {
    if (config.control.kind === 'sqlite') return use(catalog);
    const clock = shiftedClock(config.clockOffsetMs);
    const control = await openControl(config, dataPaths(config.dataDir), clock);
    try {
      const keys = new SharedKeys(control.state, catalog);
      await keys.pull();
      await keys.push();
      return await use(keys);
    } finally {
      await control.close();
    }
  });
}

export function withTokens<T>(config: Config, use: (tokens: TokenStore) => Promise<T>): Promise<T> {
  return withAccess(config, ({ tokens }) => use(tokens));
}

export function withAudit<T>(config: Config, use: (audit: AuditLog) => Promise<T>): Promise<T> {
  return withAccess(config, ({ audit }) => use(audit));
}

async function withAccess<T>(config: Config, use: (access: Access) => Promise<T>): Promise<T> {
  const clock = shiftedClock(config.clockOffsetMs);
  const access = await openAccess(config, dataPaths(config.dataDir), clock);
  try {
    return await use(access);
  } finally {
    await access.close();
  }
}

/** An act of a command that changes tokens, keys or ads by itself. */
export function recorded<T>(
  config: Config,
  act: { readonly action: string; readonly target?: string },
  run: (note: NoteAct) => Promise<T>,
): Promise<T> {
  const { action, target = '' } = act;
  return withAudit(config, (audit) => recordAct(audit, { actor: 'cli', action, target }, run));
}

/** What the roles share, or what the one ledger process keeps. */
export async function withControl<T>(
  config: Config,
  use: (control: Control) => Promise<T>,
): Promise<T> {
  const clock = shiftedClock(config.clockOffsetMs);
  const control = await openControl(config, dataPaths(config.dataDir), clock, 'a command');
  try {
    return await use(control);
  } finally {
    await control.close();
  }
}

export function withLedger<T>(config: Config, use: (admin: LedgerAdmin) => Promise<T>): Promise<T> {
  return config.control.kind === 'postgres'
    ? withRoleLedger(config, use)
    : withSingleLedger(config, use);
}

async function withSingleLedger<T>(
  config: Config,
  use: (admin: LedgerAdmin) => Promise<T>,
): Promise<T> {
  const socket = dataPaths(config.dataDir).adminSocket;
  if (await isLedgerRunning(socket)) return use(connectAdmin(socket));
  requireDataDir(config);
  const ledger = await Ledger.open({
    config,
    clock: shiftedClock(config.clockOffsetMs),
    logger: createLogger('warn', 'command'),
  });
  try {
    const admin = createLedgerAdmin(ledger, await openGeo());
    return await withAudit(config, (audit) => use(recordedAdmin(admin, audit)));
  } finally {
    await ledger.close();
  }
}

/** A command is a role for the moment: what is away now is an error, not something to wait for. */
async function withRoleLedger<T>(
  config: Config,
  use: (admin: LedgerAdmin) => Promise<T>,
): Promise<T> {
  const paths = dataPaths(config.dataDir);
  mkdirSync(paths.root, { recursive: true, mode: 0o700 });
  const clock = shiftedClock(config.clockOffsetMs);
  const logger = createLogger('warn', 'command');
  const instance = `${instanceOf(config)}-command`;
  const control = await openControl(config, paths, clock, instance);
  const context = { config, paths, clock, logger, telemetry: null, readiness: AT_ONCE };
  const ledger = await RoleLedger.open(context, control);
  ledger.start();
  try {
    const admin = createLedgerAdmin(ledger, await openGeo());
    return await use(recordedAdmin(admin, control.audit));
  } finally {
    await ledger.close();
  }
}

const AT_ONCE: Pick<Readiness, 'until'> = { until: (_what, open) => open() };

/** Copies another archive into this ledger's. Throws LedgerError `ledger_running`. */
export async function bringArchive(
  config: Config,
  place: string,
  progress: MoveParts['progress'],
): Promise<CopyResult> {
  if (config.control.kind === 'sqlite') {
    await requireStopped(config);
    mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
  }
  const clock = shiftedClock(config.clockOffsetMs);
  const logger = createLogger('warn', 'command');
  return recorded(config, { action: 'archive.bring', target: place }, () =>
    withControl(config, ({ state, leases }) =>
      moveArchive(place, { config, state, leases, clock, logger, progress }),
    ),
  );
}

async function requireStopped(config: Config): Promise<void> {
  if (!(await isLedgerRunning(dataPaths(config.dataDir).adminSocket))) return;
  throw new LedgerError('ledger_running', 'a running ledger does not take in another archive', {
    hint: 'Stop "clickledger up" first; the command does the rest by itself.',
  });
}
