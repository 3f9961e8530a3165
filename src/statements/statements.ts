/**
 * Makes statements, and reads those that were made.
 *
 * Owns the objects below `statements/` of the archive's store. Keeps no state of its own.
 *
 *  1. A version has its record exactly when both of its files are stored: the record is its commit.
 *  2. A version with a record never changes. Other numbers are a new version, which names the one
 *     before; versions have no holes.
 *  3. One process makes a statement at a time (`builds.ts`; among several, whoever holds its claim): an
 *     object of a version without a record is what a dead process left, and may be replaced.
 *
 * The effects of `create`, and what holds when the process dies right after each:
 *
 *     1 csv      no record: the version does not exist. Asking again makes it, with the same bytes, or
 *                replaces the file when the numbers have changed since
 *     2 parquet  the same
 *     3 record   the version exists; asking again gives it
 *
 * A damaged file of a version is made anew when its statement is asked for and the numbers are still
 * the same: (a) the damaged one is removed, (b) the new one is put. Dead after (a), it is missing, which
 * is damage like any other.
 */
import { sha256Hex } from '../archive/checksum.ts';
import type { ObjectStore } from '../archive/port.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import { formatInZone } from '../warehouse/buckets.ts';
import type { Warehouse } from '../warehouse/port.ts';
import { Builds } from './builds.ts';
import { csvFile, type FileHead, parquetFile } from './files.ts';
import {
  belongsTo,
  isStatementId,
  objectName,
  ownerPrefix,
  recordOfName,
  statementId,
  versionsPrefix,
} from './names.ts';
import { type Numbers, readNumbers } from './numbers.ts';
import { toPeriod } from './period.ts';
import type {
  FileKind,
  FoundStatement,
  Period,
  Statement,
  StatementFile,
  StatementPage,
  Statements,
} from './port.ts';
import { damaged, decodeRecord, encodeRecord, type StatementRecord } from './record.ts';

export interface StatementLimits {
  /** Rows of one statement; they are in memory while it is made. */
  readonly rows: number;
  /** Bytes of one CSV file. */
  readonly fileBytes: number;
  /** Statements of one advertiser, and the bytes of all their versions. */
  readonly statements: number;
  readonly storedBytes: number;
}

export const STATEMENT_LIMITS: StatementLimits = {
  rows: 1_000_000,
  fileBytes: 256 * 1024 * 1024,
  statements: 2_000,
  storedBytes: 16 * 1024 * 1024 * 1024,
};

export interface StatementParts {
  readonly store: ObjectStore;
  readonly warehouse: Pick<Warehouse, 'metrics' | 'hours'>;
  readonly finalUntilMs: () => number;
  /** Whether final hours of a range are known to change: between two restatements a click may be billed twice. */
  readonly isMoving?: (fromMs: number, toMs: number) => boolean;
  readonly clock: Clock;
  readonly limits?: StatementLimits;
  /** Keeps other processes from making the same statement; absent where there are none. */
  readonly claim?: ClaimStatement;
}

/** Runs `build` while nobody else makes the statement; `requireHeld` throws once somebody else may. */
export type ClaimStatement = <T>(
  id: string,
  build: (requireHeld: () => Promise<void>) => Promise<T>,
) => Promise<T>;

const unclaimed: ClaimStatement = (_id, build) => build(async () => {});

export function openStatements(parts: StatementParts): Statements {
  return new StoredStatements(parts);
}

class StoredStatements implements Statements {
  readonly #parts: StatementParts;
  readonly #limits: StatementLimits;
  readonly #builds = new Builds();

  constructor(parts: StatementParts) {
    this.#parts = parts;
    this.#limits = parts.limits ?? STATEMENT_LIMITS;
  }

  async create(asked: Period): Promise<{ statement: Statement; created: boolean }> {
    const period = toPeriod(asked);
    this.#finalUntil(period);
    const claim = this.#parts.claim ?? unclaimed;
    return this.#builds.run(period.advertiserId, () =>
      claim(statementId(period), (requireHeld) => this.#build(period, requireHeld)),
    );
  }

  async #build(
    period: Period,
    requireHeld: () => Promise<void>,
  ): Promise<{ statement: Statement; created: boolean }> {
    const { warehouse, isMoving } = this.#parts;
    const finalUntilMs = this.#finalUntil(period);
    const id = statementId(period);
    const latest = await this.#latest(id);
    if (latest === null) await this.#requireRoom(period.advertiserId);
    const maxRows = this.#limits.rows;
    const numbers = await readNumbers({ warehouse, maxRows, isMoving }, period, finalUntilMs);
    if (latest !== null && latest.numbersDigest === numbers.digest) {
      await this.#mend(latest, numbers);
      return { statement: latest, created: false };
    }
    const before = latest?.version ?? null;
    const version = (before ?? 0) + 1;
    await requireHeld();
    const files = await this.#writeFiles({ ...period, id, version }, numbers);
    const record: StatementRecord = {
      id,
      version,
      supersedes: before,
      ...period,
      finalUntilMs,
      rows: numbers.rowCount,
      clicks: numbers.clicks,
      numbersDigest: numbers.digest,
      createdAtMs: this.#parts.clock(),
      files,
    };
    await requireHeld();
    // 3
    await this.#parts.store.putIfAbsent(objectName(id, version, 'json'), encodeRecord(record));
    return { statement: record, created: true };
  }

  /** Throws `period_not_final` when an hour of the period may still change without a restatement. */
  #finalUntil({ toMs, timezone }: Period): number {
    const finalUntilMs = this.#parts.finalUntilMs();
    if (finalUntilMs >= toMs) return finalUntilMs;
    const shown = (ms: number): string => new Date(ms).toISOString();
    const until =
      finalUntilMs === 0 ? 'nothing is final yet' : `final_until ${shown(finalUntilMs)}`;
    throw new LedgerError(
      'period_not_final',
      `The period ends at ${shown(toMs)} (${formatInZone(toMs, timezone)}); ${until}.`,
      {
        hint: 'A statement has final numbers only: ask again when final_until has passed its end.',
      },
    );
  }

  async #requireRoom(advertiserId: string): Promise<void> {
    const ids = new Set<string>();
    let bytes = 0;
    for await (const { name, sizeBytes } of this.#parts.store.list(ownerPrefix(advertiserId))) {
      bytes += sizeBytes;
      const id = recordOfName(name)?.id;
      if (id !== undefined) ids.add(id);
    }
    const { statements, storedBytes } = this.#limits;
    if (ids.size < statements && bytes < storedBytes) return;
    const message = `the advertiser has ${ids.size} statements of ${bytes} bytes`;
    throw new LedgerError('statements_too_many', message, {
      hint: `There is room for ${statements} statements and ${storedBytes} bytes. They are kept for good: read those that there are.`,
    });
  }

  async #writeFiles(head: FileHead, numbers: Numbers): Promise<Statement['files']> {
    // 1
    const csv = await this.#putFile(head, 'csv', await this.#bytes(head, 'csv', numbers));
    // 2
    const bytes = await this.#bytes(head, 'parquet', numbers);
    return { csv, parquet: await this.#putFile(head, 'parquet', bytes) };
  }

  #bytes(head: FileHead, kind: FileKind, numbers: Numbers): Promise<Uint8Array> {
    return kind === 'csv'
      ? csvFile(head, numbers, this.#limits.fileBytes)
      : parquetFile(head, numbers);
  }

  async #putFile(head: FileHead, kind: FileKind, bytes: Uint8Array): Promise<StatementFile> {
    const name = objectName(head.id, head.version, kind);
    const { store } = this.#parts;
    try {
      await store.putIfAbsent(name, bytes);
    } catch (error) {
      if (!(error instanceof LedgerError && error.code === 'object_differs')) throw error;
      // Left by a process that died before its record; the numbers have changed since.
      await store.remove(name);
      await store.putIfAbsent(name, bytes);
    }
    return { sha256: await sha256Hex(bytes), sizeBytes: bytes.length };
  }

  /** Makes files of a version anew that are missing or damaged, if they come out as they were. */
  async #mend(record: StatementRecord, numbers: Numbers): Promise<void> {
    for (const kind of ['csv', 'parquet'] as const) {
      const name = objectName(record.id, record.version, kind);
      if ((await this.#problemOf(record, kind)) === null) continue;
      const bytes = await this.#bytes(record, kind, numbers);
      if ((await sha256Hex(bytes)) !== record.files[kind].sha256) {
        throw damaged(name, 'it is damaged, and made anew it has other bytes');
      }
      await this.#parts.store.remove(name);
      await this.#parts.store.putIfAbsent(name, bytes);
    }
  }

  async #problemOf(statement: Statement, kind: FileKind): Promise<LedgerError | null> {
    try {
      await this.file(statement, kind);
      return null;
    } catch (error) {
      if (error instanceof LedgerError && error.code === 'statement_damaged') return error;
      throw error;
    }
  }

  async file({ id, version, files }: Statement, kind: FileKind): Promise<Uint8Array> {
    const name = objectName(id, version, kind);
    const bytes = await this.#parts.store.get(name);
    const { sha256, sizeBytes } = files[kind];
    if (bytes === null) throw damaged(name, 'it is missing');
    if (bytes.length !== sizeBytes || (await sha256Hex(bytes)) !== sha256) {
      throw damaged(name, 'it does not have the bytes that were written');
    }
    return bytes;
  }

  async find(which: Parameters<Statements['find']>[0]): Promise<FoundStatement | null> {
    const { id, version, advertiserId } = which;
    // Told from the id alone, so that the time it takes says nothing about what others have.
    if (!isStatementId(id) || (advertiserId !== undefined && !belongsTo(id, advertiserId))) {
      return null;
    }
    const latestVersion = await this.#latestVersion(id);
    if (latestVersion === 0) return null;
    const statement = await this.#record(id, version ?? latestVersion);
    return statement === null ? null : { statement, latestVersion };
  }

  async #latest(id: string): Promise<StatementRecord | null> {
    const version = await this.#latestVersion(id);
    return version === 0 ? null : this.#record(id, version);
  }

  /** 0 when there is none. */
  async #latestVersion(id: string): Promise<number> {
    let latest = 0;
    for await (const { name } of this.#parts.store.list(versionsPrefix(id))) {
      latest = Math.max(latest, recordOfName(name)?.version ?? 0);
    }
    return latest;
  }

  async #record(id: string, version: number): Promise<StatementRecord | null> {
    const name = objectName(id, version, 'json');
    const bytes = await this.#parts.store.get(name);
    return bytes === null ? null : decodeRecord(name, bytes);
  }

  async list(options: Parameters<Statements['list']>[0]): Promise<StatementPage> {
    const { advertiserId, after = '', limit } = options;
    // Names come in order, so all versions of an id follow each other.
    const latest = new Map<string, number>();
    for await (const { name } of this.#parts.store.list(ownerPrefix(advertiserId))) {
      const found = recordOfName(name);
      if (found === null || found.id <= after) continue;
      if (!latest.has(found.id) && latest.size === limit + 1) break;
      latest.set(found.id, Math.max(latest.get(found.id) ?? 0, found.version));
    }
    const given = [...latest].slice(0, limit);
    const statements: Statement[] = [];
    for (const [id, version] of given) {
      const statement = await this.#record(id, version);
      if (statement !== null) statements.push(statement);
    }
    return { statements, next: latest.size > limit ? given.at(-1)![0] : undefined };
  }
}
