/**
 * A table of ads that another system owns and that is only read: what `CatalogSync` needs of it.
 * Adapter: `postgres/`.
 */

/** One row as the table has it, good or not. */
export interface SourceRow {
  /** The text of its id; it need not be a valid one. */
  readonly adId: string;
  /** The columns by the names that an import has for them (`import-row.ts`). */
  readonly record: Readonly<Record<string, unknown>>;
  readonly isDeleted: boolean;
  /** Microseconds UTC; null when the row does not say. */
  readonly updatedAtUs: number | null;
}

/** Rows are read in ascending order of this; the id decides between rows of one instant. */
export interface ChangePosition {
  /** Null: from the beginning. */
  readonly updatedAtUs: number | null;
  /** Absent: after all rows of this instant. */
  readonly adId?: string;
}

export interface AdSource {
  /** Names what is read: of another table nothing is known yet. */
  readonly name: string;
  /** The newest `updated_at` of the table, and its database's own time. */
  newest(): Promise<{ readonly newestUs: number | null; readonly nowUs: number }>;
  /** Rows in the table's own order of ids. */
  page(afterAdId: string | null, limit: number): Promise<readonly SourceRow[]>;
  /** Rows behind a position, and the database's time at which they were read. */
  changes(
    after: ChangePosition,
    limit: number,
  ): Promise<{ readonly rows: readonly SourceRow[]; readonly nowUs: number }>;
  /** Those of the ids that no row has. */
  missing(adIds: readonly string[]): Promise<readonly string[]>;
  close(): Promise<void>;
}
