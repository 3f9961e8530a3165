/**
 * The SQL texts that read the ads table, and how its rows become `SourceRow`s.
 *
 * Names come from the configuration and are quoted; values are always parameters, and PostgreSQL takes
 * them as the type of the column that they are compared with, whatever that is.
 */
import { LedgerError } from '../../platform/errors.ts';
import type { ChangePosition, SourceRow } from '../source.ts';

/** Names of the columns; an empty one is not there. */
export interface SourceColumns {
  readonly adId: string;
  readonly advertiserId: string;
  readonly campaignId: string;
  readonly targetUrl: string;
  readonly passQuery: string;
  readonly updatedAt: string;
  readonly deletedAt: string;
  readonly active: string;
}

/** Exactly one of the two is given. */
export interface SourceRelation {
  readonly table: string;
  readonly query: string;
}

/** PostgreSQL's limit; a longer name would be cut, and then name something else. */
const MAX_NAME_BYTES = 63;
/** What has a year of four digits; `infinity` and `NULL` have no place in the order of changes. */
const DATED = "BETWEEN '0001-01-02' AND '9999-12-30'";
const US_PER_MS = 1_000;

export function quotedName(name: string): string {
  if (name === '' || name.includes('\0') || Buffer.byteLength(name) > MAX_NAME_BYTES) {
    throw new LedgerError(
      'catalog_source_name',
      `${JSON.stringify(name)} names nothing in PostgreSQL`,
      {
        hint: `Names in catalog.postgres have 1 to ${MAX_NAME_BYTES} bytes.`,
      },
    );
  }
  return `"${name.replaceAll('"', '""')}"`;
}

export interface Statement {
  readonly text: string;
  readonly values: readonly string[];
}

export class SourceQueries {
  readonly #from: string;
  readonly #adId: string;
  readonly #updatedAt: string;
  readonly #select: string;

  constructor(relation: SourceRelation, columns: SourceColumns) {
    const { table, query } = relation;
    // A name may be that of a schema and a table; a dot within a name needs a query.
    this.#from =
      query === '' ? `${table.split('.').map(quotedName).join('.')} AS ads` : `(${query}\n) AS ads`;
    const column = (name: string): string => `ads.${quotedName(name)}`;
    this.#adId = column(columns.adId);
    this.#updatedAt = column(columns.updatedAt);
    const isDeleted = [
      columns.deletedAt === '' ? null : `${column(columns.deletedAt)} IS NOT NULL`,
      columns.active === '' ? null : `${column(columns.active)} IS NOT TRUE`,
    ].filter((each) => each !== null);
    this.#select = [
      `SELECT ${this.#adId}::text`,
      `${column(columns.advertiserId)}::text`,
      `${column(columns.campaignId)}::text`,
      `${column(columns.targetUrl)}::text`,
      columns.passQuery === '' ? 'NULL' : `${column(columns.passQuery)}::text`,
      isDeleted.length === 0 ? 'false' : isDeleted.join(' OR '),
      `CASE WHEN ${this.#updatedAt} ${DATED} THEN ${micros(this.#updatedAt)} END`,
    ].join(', ');
  }

  /** Names what is read. */
  get name(): string {
    return `${this.#from} ${this.#select}`;
  }

  newest(): Statement {
    const text = `SELECT ${micros(`max(${this.#updatedAt})`)} FROM ${this.#from} WHERE ${this.#updatedAt} ${DATED}`;
    return { text, values: [] };
  }

  page(afterAdId: string | null, limit: number): Statement {
    const where = afterAdId === null ? `${this.#adId} IS NOT NULL` : `${this.#adId} > $1`;
    return {
      text: `${this.#select} FROM ${this.#from} WHERE ${where} ORDER BY ${this.#adId} LIMIT ${limit}`,
      values: afterAdId === null ? [] : [afterAdId],
    };
  }

  changes({ updatedAtUs, adId }: ChangePosition, limit: number): Statement {
    const conditions = [`${this.#updatedAt} ${DATED}`, `${this.#adId} IS NOT NULL`];
    const values: string[] = [];
    if (updatedAtUs !== null) {
      values.push(instantText(updatedAtUs));
      if (adId === undefined) conditions.push(`${this.#updatedAt} > $1`);
      else {
        conditions.push(`(${this.#updatedAt}, ${this.#adId}) > ($1, $2)`);
        values.push(adId);
      }
    }
    const order = `ORDER BY ${this.#updatedAt}, ${this.#adId} LIMIT ${limit}`;
    const where = conditions.join(' AND ');
    return { text: `${this.#select} FROM ${this.#from} WHERE ${where} ${order}`, values };
  }

  /** No row, but the type of the id column. */
  idColumn(): Statement {
    return { text: `SELECT ${this.#adId} FROM ${this.#from} LIMIT 0`, values: [] };
  }

  /** Those of the ids that there are; each must be of the column's type. */
  present(adIds: readonly string[]): Statement {
    const list = `{${adIds.map((adId) => `"${adId}"`).join(',')}}`;
    return {
      text: `SELECT ${this.#adId}::text FROM ${this.#from} WHERE ${this.#adId} = ANY($1)`,
      values: [list],
    };
  }
}

const micros = (expression: string): string =>
  `(extract(epoch FROM ${expression}) * 1000000)::bigint::text`;

/** To the microsecond, which a `Date` does not hold. */
export function instantText(us: number): string {
  const ms = Math.floor(us / US_PER_MS);
  const rest = String(us - ms * US_PER_MS).padStart(3, '0');
  return new Date(ms).toISOString().replace('Z', `${rest}Z`);
}

/** The columns in the order of the select list. */
export function sourceRow(values: readonly unknown[]): SourceRow {
  const [adId, advertiserId, campaignId, targetUrl, passQuery, isDeleted, updatedAtUs] = values;
  return {
    adId: String(adId),
    record: {
      ad_id: adId,
      advertiser_id: advertiserId,
      campaign_id: campaignId,
      target_url: targetUrl,
      pass_query: passQuery ?? undefined,
    },
    isDeleted: isDeleted === true,
    updatedAtUs: updatedAtUs === null ? null : Number(updatedAtUs),
  };
}

const INT2 = 21;
const INT4 = 23;
const INT8 = 20;
const NUMERIC = 1700;
const UUID = 2950;
const LARGEST: Readonly<Record<number, bigint>> = {
  [INT2]: 2n ** 15n - 1n,
  [INT4]: 2n ** 31n - 1n,
  [INT8]: 2n ** 63n - 1n,
  [NUMERIC]: 10n ** 130n,
};
const INTEGER = /^-?\d{1,128}$/;
const UUID_FORM = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Whether a column of this type can hold an id at all; PostgreSQL fails on one that it cannot. */
export function canBeId(adId: string, typeOid: number): boolean {
  if (typeOid === UUID) return UUID_FORM.test(adId);
  const largest = LARGEST[typeOid];
  if (largest === undefined) return true;
  if (!INTEGER.test(adId)) return false;
  const value = BigInt(adId);
  return value <= largest && value >= -largest;
}
