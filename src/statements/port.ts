/**
 * What a statement is: the final clicks of one advertiser in one period, per ad and local day.
 *
 * Its id is a function of advertiser, period and time zone. Its version rises when the numbers are
 * others than before; the versions before it stay as they were.
 */
export interface Period {
  readonly advertiserId: string;
  /** `[fromMs, toMs)`; both are local midnights of `timezone`. */
  readonly fromMs: number;
  readonly toMs: number;
  /** IANA zone that days are cut in. */
  readonly timezone: string;
}

export type FileKind = 'csv' | 'parquet';

export interface StatementFile {
  /** Lower-case hex. */
  readonly sha256: string;
  readonly sizeBytes: number;
}

export interface Statement extends Period {
  readonly id: string;
  readonly version: number;
  /** The version before, whose numbers this one replaces; null for the first. */
  readonly supersedes: number | null;
  /** End of the last final hour when it was made. */
  readonly finalUntilMs: number;
  readonly rows: number;
  readonly clicks: number;
  readonly createdAtMs: number;
  readonly files: Readonly<Record<FileKind, StatementFile>>;
}

export interface FoundStatement {
  readonly statement: Statement;
  readonly latestVersion: number;
}

export interface StatementPage {
  /** Latest version of each, by id. */
  readonly statements: readonly Statement[];
  /** The last id when there may be more; undefined otherwise. */
  readonly next: string | undefined;
}

export interface Statements {
  /**
   * The statement of the period as its numbers are now: the latest version when they are the same, a
   * new one otherwise. Throws LedgerError `period_not_final` when hours of it may still change.
   */
  create(period: Period): Promise<{ statement: Statement; created: boolean }>;
  /**
   * Without `version` the latest. Null when there is none, and, whether there is or not, when it cannot
   * be one of the advertiser that is named.
   */
  find(which: {
    id: string;
    version: number | undefined;
    advertiserId: string | undefined;
  }): Promise<FoundStatement | null>;
  /** Of one advertiser, or of all. */
  list(options: {
    advertiserId: string | undefined;
    after: string | undefined;
    limit: number;
  }): Promise<StatementPage>;
  /** The bytes as they were written; throws LedgerError `statement_damaged` when they are not. */
  file(statement: Statement, kind: FileKind): Promise<Uint8Array>;
}
