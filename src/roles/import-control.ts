/**
 * Copies what one machine keeps in its SQLite files into the database that the roles share.
 *
 * Safe to repeat: what is there stays as it is. The audit log goes first, since no other lines may
 * come before its own; from then on the import is an act in it like any other.
 */
import { existsSync } from 'node:fs';
import { copyAuditLog } from '../auth/audit-chain.ts';
import { openPgAuditLines, openPgAuditLog } from '../auth/postgres/audit-log.ts';
import { openPgTokenRows } from '../auth/postgres/tokens.ts';
import { recordAct } from '../auth/record-act.ts';
import { openAuditLines } from '../auth/sqlite/audit-log.ts';
import { openTokenRows } from '../auth/sqlite/tokens.ts';
import { copyTokens } from '../auth/tokens.ts';
import { copyDeadLetters } from '../counter/copy-letters.ts';
import { openPgDeadLetters } from '../counter/postgres/dead-letters.ts';
import { openDeadLetters } from '../counter/sqlite/dead-letters.ts';
import { copyDisputes } from '../disputes/copy.ts';
import { openPgDisputes } from '../disputes/postgres/store.ts';
import { openDisputes } from '../disputes/sqlite/store.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Postgres } from '../platform/postgres.ts';
import { copyWebhooks } from '../webhooks/copy.ts';
import { openPgWebhooks } from '../webhooks/postgres/store.ts';
import { openWebhookStore } from '../webhooks/sqlite/store.ts';

export interface ImportSource {
  /** A `control.sqlite`. */
  readonly control: string;
  /** A `dead-letters.sqlite`, or null. */
  readonly deadLetters: string | null;
}

/** How many of each kind were added. */
export type Imported = Readonly<Record<string, number>>;

export async function importControl(
  source: ImportSource,
  { db, clock }: { readonly db: Postgres; readonly clock: Clock },
): Promise<Imported> {
  // Opening makes a file that is missing.
  for (const path of [source.control, source.deadLetters]) {
    if (path !== null && !existsSync(path)) {
      throw new LedgerError('import_file_missing', `there is no file ${path}`);
    }
  }
  const auditLines = await importAuditLog(source.control, db);
  const audit = await openPgAuditLog(db, clock);
  const act = { actor: 'cli', action: 'control.import', target: '' };
  const rest = await recordAct(audit, act, async (): Promise<Imported> => {
    return {
      tokens: await importTokens(source.control, db),
      disputes: await importDisputes(source.control, { db, clock }),
      ...(await importWebhooks(source.control, db)),
      ...(source.deadLetters === null ? {} : await importLetters(source.deadLetters, db)),
    };
  });
  return { auditLines, ...rest };
}

async function importAuditLog(path: string, db: Postgres): Promise<number> {
  const from = openAuditLines(path);
  try {
    return await copyAuditLog(from, await openPgAuditLines(db));
  } finally {
    await from.close();
  }
}

async function importTokens(path: string, db: Postgres): Promise<number> {
  const from = openTokenRows(path);
  try {
    return await copyTokens(from, await openPgTokenRows(db));
  } finally {
    await from.close();
  }
}

async function importDisputes(
  path: string,
  { db, clock }: { readonly db: Postgres; readonly clock: Clock },
): Promise<number> {
  const from = openDisputes({ path, clock });
  try {
    return await copyDisputes(from, await openPgDisputes(db, { clock }));
  } finally {
    await from.close();
  }
}

async function importWebhooks(path: string, db: Postgres): Promise<Imported> {
  const from = openWebhookStore(path);
  try {
    const { webhooks, events } = await copyWebhooks(from, await openPgWebhooks(db));
    return { webhooks, webhookEvents: events };
  } finally {
    await from.close();
  }
}

async function importLetters(path: string, db: Postgres): Promise<Imported> {
  const from = openDeadLetters(path);
  try {
    return { deadLetters: await copyDeadLetters(from, await openPgDeadLetters(db)) };
  } finally {
    await from.close();
  }
}
