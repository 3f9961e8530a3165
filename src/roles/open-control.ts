/**
 * What the roles keep in common besides log, archive and warehouse: SQLite files below the data
 * folder, for one ledger process; or a database, for roles of their own on many machines.
 */
import { hostname } from 'node:os';
import type { AuditLog } from '../auth/audit-log.ts';
import { openPgAuditLog } from '../auth/postgres/audit-log.ts';
import { openPgTokens } from '../auth/postgres/tokens.ts';
import { openAuditLog } from '../auth/sqlite/audit-log.ts';
import { openTokenStore } from '../auth/sqlite/tokens.ts';
import type { TokenStore } from '../auth/tokens.ts';
import type { DataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import { openLocalLeases } from '../control/local/leases.ts';
import { openLocalState } from '../control/local/state.ts';
import type { Leases, SharedState } from '../control/port.ts';
import { openPgLeases } from '../control/postgres/leases.ts';
import { openPgState } from '../control/postgres/state.ts';
import type { DeadLetterStore } from '../counter/port.ts';
import { openPgDeadLetters } from '../counter/postgres/dead-letters.ts';
import { openDeadLetters } from '../counter/sqlite/dead-letters.ts';
import type { DisputeStore } from '../disputes/port.ts';
import { openPgDisputes } from '../disputes/postgres/store.ts';
import { openDisputes } from '../disputes/sqlite/store.ts';
import type { Clock } from '../platform/clock.ts';
import { Postgres } from '../platform/postgres.ts';
import type { WebhookStore } from '../webhooks/port.ts';
import { openPgWebhooks } from '../webhooks/postgres/store.ts';
import { openWebhookStore } from '../webhooks/sqlite/store.ts';

/** Who may ask, and what was done: all that most commands need. */
export interface Access {
  readonly tokens: TokenStore;
  readonly audit: AuditLog;
  close(): Promise<void>;
}

export interface Control extends Access {
  readonly disputes: DisputeStore;
  readonly webhooks: WebhookStore;
  readonly deadLetters: DeadLetterStore;
  readonly leases: Leases;
  readonly state: SharedState;
}

type Place = Pick<DataPaths, 'control' | 'deadLetters' | 'recountIndex'>;

/** A database that is away now is no hindrance: what needs it fails until it is there. */
export async function openControl(
  config: Config,
  paths: Place,
  clock: Clock,
  /** Name of this process in leases, for people. */
  holder = `${hostname()}, process ${process.pid}`,
): Promise<Control> {
  if (config.control.kind === 'sqlite') return openLocal(paths, clock, holder);
  return withDatabase(config, (db) => openShared(db, clock, holder));
}

/** Leases and shared state of one ledger process. Its facts are derived, and lie where such things lie. */
export function openLocalWork(
  { recountIndex }: Pick<Place, 'recountIndex'>,
  clock: Clock,
  holder: string,
) {
  return {
    leases: openLocalLeases({ holder, clock }),
    state: openLocalState({ dir: recountIndex, names: { 'pending-hours': 'pending.json' } }),
  };
}

export async function openAccess(
  config: Config,
  { control: path }: Pick<Place, 'control'>,
  clock: Clock,
): Promise<Access> {
  if (config.control.kind === 'postgres') {
    return withDatabase(config, (db) => openSharedAccess(db, clock));
  }
  return closedTogether(openLocalAccess(path, clock));
}

async function openLocal(paths: Place, clock: Clock, holder: string): Promise<Control> {
  const path = paths.control;
  const stores = closedTogether({
    ...openLocalAccess(path, clock),
    disputes: openDisputes({ path, clock }),
    webhooks: openWebhookStore(path),
    deadLetters: openDeadLetters(paths.deadLetters),
  });
  return { ...stores, ...openLocalWork(paths, clock, holder) };
}

function openLocalAccess(path: string, clock: Clock) {
  return { tokens: openTokenStore({ path, clock }), audit: openAuditLog({ path, clock }) };
}

async function openShared(db: Postgres, clock: Clock, holder: string) {
  return {
    ...(await openSharedAccess(db, clock)),
    disputes: await openPgDisputes(db, { clock }),
    webhooks: await openPgWebhooks(db),
    deadLetters: await openPgDeadLetters(db),
    leases: await openPgLeases({ db, holder }),
    state: await openPgState(db),
  };
}

async function openSharedAccess(db: Postgres, clock: Clock) {
  return { tokens: await openPgTokens(db, clock), audit: await openPgAuditLog(db, clock) };
}

interface Closable {
  close(): Promise<void>;
}

/** The stores of a database share its connections, which end with them. */
async function withDatabase<T extends object>(
  config: Config,
  open: (db: Postgres) => Promise<T>,
): Promise<T & Closable> {
  const db = new Postgres(config.control.postgres);
  try {
    return { ...(await open(db)), close: () => db.close() };
  } catch (error) {
    await db.close();
    throw error;
  }
}

function closedTogether<T extends Record<string, Closable>>(stores: T): T & Closable {
  const close = async (): Promise<void> => {
    for (const store of Object.values(stores)) await store.close();
  };
  return { ...stores, close };
}
