/** The ads table of a PostgreSQL database as an `AdSource`. */
import type { TransactionSQL } from 'bun';
import type { AdSource, ChangePosition, SourceRow } from '../source.ts';
import {
  canBeId,
  type SourceColumns,
  SourceQueries,
  type SourceRelation,
  type Statement,
  sourceRow,
} from './query.ts';
import { Session, type SessionOptions } from './session.ts';

export interface PostgresSourceOptions extends SessionOptions, SourceRelation {
  readonly columns: SourceColumns;
}

const NOW = 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text';

export class PostgresSource implements AdSource {
  readonly name: string;
  readonly #session: Session;
  readonly #queries: SourceQueries;
  #idTypeOid: number | null = null;

  constructor(options: PostgresSourceOptions) {
    this.#session = new Session(options);
    this.#queries = new SourceQueries(options, options.columns);
    this.name = `${this.#session.place} ${this.#queries.name}`;
  }

  newest(): Promise<{ newestUs: number | null; nowUs: number }> {
    return this.#session.read(async (transaction) => {
      const [row] = await rowsOf(transaction, this.#queries.newest());
      const newest = row?.[0] ?? null;
      return {
        newestUs: newest === null ? null : Number(newest),
        nowUs: await nowUs(transaction),
      };
    });
  }

  page(afterAdId: string | null, limit: number): Promise<readonly SourceRow[]> {
    return this.#session.read(async (transaction) =>
      (await rowsOf(transaction, this.#queries.page(afterAdId, limit))).map(sourceRow),
    );
  }

  changes(
    after: ChangePosition,
    limit: number,
  ): Promise<{ rows: readonly SourceRow[]; nowUs: number }> {
    return this.#session.read(async (transaction) => {
      const now = await nowUs(transaction);
      const rows = await rowsOf(transaction, this.#queries.changes(after, limit));
      return { rows: rows.map(sourceRow), nowUs: now };
    });
  }

  missing(adIds: readonly string[]): Promise<readonly string[]> {
    return this.#session.read(async (transaction) => {
      this.#idTypeOid ??= await this.#readIdType(transaction);
      const typeOid = this.#idTypeOid;
      const possible = adIds.filter((adId) => canBeId(adId, typeOid));
      const rows =
        possible.length === 0 ? [] : await rowsOf(transaction, this.#queries.present(possible));
      const present = new Set(rows.map(([adId]) => adId));
      return adIds.filter((adId) => !present.has(adId));
    });
  }

  async #readIdType(transaction: TransactionSQL): Promise<number> {
    const { text } = this.#queries.idColumn();
    const result = await transaction.unsafe(text);
    return result.columns?.[0]?.type ?? 0;
  }

  close(): Promise<void> {
    return this.#session.close();
  }
}

async function nowUs(transaction: TransactionSQL): Promise<number> {
  const [row] = await rowsOf(transaction, { text: NOW, values: [] });
  return Number(row![0]);
}

async function rowsOf(
  transaction: TransactionSQL,
  { text, values }: Statement,
): Promise<readonly (readonly unknown[])[]> {
  return transaction.unsafe(text, [...values]).values();
}
