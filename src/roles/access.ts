/**
 * How commands reach things: the catalog and the tokens directly (their stores take several
 * processes), the ledger over its socket when it runs, or opened by the command itself when not.
 */

import { openLmdbCatalog } from '../ads/lmdb/catalog.ts';
import type { AdCatalog } from '../ads/port.ts';
import { connectAdmin, isLedgerRunning } from '../api/admin-client.ts';
import type { LedgerAdmin } from '../api/admin-port.ts';
import { type AuditLog, openAuditLog } from '../auth/audit-log.ts';
import { type NoteAct, recordAct } from '../auth/record-act.ts';
import { openTokenStore, type TokenStore } from '../auth/tokens.ts';
import { openGeo } from '../click/geo.ts';
import { dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { shiftedClock } from '../platform/clock.ts';
import { createLogger } from '../platform/logger.ts';
import { createLedgerAdmin } from './ledger-admin.ts';
import { Ledger, requireDataDir } from './ledger-parts.ts';
import { recordedAdmin } from './recorded-admin.ts';

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

export async function withTokens<T>(config: Config, use: (tokens: TokenStore) => T): Promise<T> {
  const path = dataPaths(config.dataDir).control;
  const tokens = openTokenStore({ path, clock: shiftedClock(config.clockOffsetMs) });
  try {
    return use(tokens);
  } finally {
    tokens.close();
  }
}

export async function withAudit<T>(
  config: Config,
  use: (audit: AuditLog) => Promise<T> | T,
): Promise<T> {
  const path = dataPaths(config.dataDir).control;
  const audit = openAuditLog({ path, clock: shiftedClock(config.clockOffsetMs) });
  try {
    return await use(audit);
  } finally {
    audit.close();
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

export async function withLedger<T>(
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
