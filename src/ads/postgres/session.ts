/**
 * One connection to PostgreSQL for short read-only transactions.
 *
 * S1 Every transaction is read-only and bounded: by the server's statement timeout, and by a deadline here
 *    for a server that does not answer at all (a cut cable ends no connection).
 * S2 After any failure the client is thrown away and the next transaction begins with a new one: whatever
 *    state the old one was in, it is not used again.
 */
import { SQL, type TransactionSQL } from 'bun';
import { LedgerError } from '../../platform/errors.ts';

export type TlsMode = 'disable' | 'prefer' | 'require' | 'verify-full';

export interface SessionOptions {
  readonly url: string;
  readonly tls: TlsMode;
  /** Certificates to trust besides those of the system; empty: none. */
  readonly tlsCaFile: string;
  readonly timeoutMs: number;
  /** Channel whose notifications call `onNotify`; empty: none. */
  readonly channel: string;
  readonly onNotify: () => void;
  readonly onListenFailed: (error: unknown) => void;
}

/** What the server's own timeout gets before ours. */
const DEADLINE_EXTRA_MS = 5_000;

export class Session {
  readonly #options: SessionOptions;
  #client: SQL | null = null;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** Where it connects to, without user and password. */
  get place(): string {
    const { host, pathname } = new URL(this.#options.url);
    return `${host || 'local'}${pathname}`;
  }

  async read<T>(work: (transaction: TransactionSQL) => Promise<T>): Promise<T> {
    this.#client ??= this.#connect();
    const client = this.#client;
    try {
      return await this.#withDeadline(
        client.begin('read only', async (transaction) => {
          const timeout = String(this.#options.timeoutMs);
          await transaction`SELECT set_config('statement_timeout', ${timeout}, true), set_config('TimeZone', 'UTC', true)`;
          return work(transaction);
        }),
      );
    } catch (error) {
      await this.close();
      throw this.#asSourceError(error);
    }
  }

  #connect(): SQL {
    const { url, tls, tlsCaFile, timeoutMs, channel } = this.#options;
    const client = new SQL(url, {
      max: 1,
      // A pooler between us and the server may give every transaction another connection.
      prepare: false,
      connectionTimeout: Math.max(1, timeoutMs / 1_000),
      connection: { application_name: 'clickledger' },
      tls: tlsCaFile === '' ? tls : { ca: Bun.file(tlsCaFile) },
    });
    if (channel !== '') void this.#listen(client, channel);
    return client;
  }

  /** Notifications only make it quicker: without them changes are seen at the next poll. */
  async #listen(client: SQL, channel: string): Promise<void> {
    const { onNotify, onListenFailed } = this.#options;
    // What was notified before the subscription was lost: hence also when it begins.
    await client.listen(channel, onNotify, onNotify).catch((error: unknown) => {
      if (client === this.#client) onListenFailed(error);
    });
  }

  async #withDeadline<T>(work: Promise<T>): Promise<T> {
    const { timeoutMs } = this.#options;
    const deadline = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => deadline.reject(new Error(`no answer within ${timeoutMs + DEADLINE_EXTRA_MS} ms`)),
      timeoutMs + DEADLINE_EXTRA_MS,
    );
    // Its failure after the deadline is nobody's.
    work.catch(() => {});
    try {
      return await Promise.race([work, deadline.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  #asSourceError(error: unknown): LedgerError {
    const { message, errno } = error as Error & { errno?: unknown };
    const state = typeof errno === 'string' ? errno : '';
    const code = state === '' ? '' : ` (${state})`;
    return new LedgerError(
      'catalog_source_failed',
      `PostgreSQL at ${this.place}: ${message}${code}`,
      {
        kind: 'retry',
        hint: HINTS.find(([prefix]) => state.startsWith(prefix))?.[1] ?? HINT,
        cause: error,
      },
    );
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    await client?.close({ timeout: 0 }).catch(() => {});
  }
}

const HINT = 'Clicks go on with the ads as they are; it is tried again.';
/** By the beginning of the SQLSTATE. */
const HINTS: readonly (readonly [string, string])[] = [
  [
    '42501',
    'Grant SELECT on the table, and USAGE on its schema, to the user of catalog.postgres.url.',
  ],
  [
    '42P01',
    'Check catalog.postgres.table (names are taken as they are written), and USAGE on its schema.',
  ],
  ['42703', 'Check the names in catalog.postgres.columns.'],
  ['42', 'Check catalog.postgres: PostgreSQL does not understand the query that it makes.'],
  ['28', 'Check user and password of catalog.postgres.url.'],
  ['3D', 'Check the name of the database in catalog.postgres.url.'],
  [
    '57014',
    'The query took longer than catalog.postgres.timeout_ms; is there the index that it needs?',
  ],
];
