/**
 * Reads the final clicks of a period: per ad, local day and campaign.
 *
 * N1 All numbers are of one moment. A period takes many queries; when an hour of it got other numbers
 *    meanwhile, they are read again. While an hour of it is known to change there is no such moment: a
 *    click that moves from one hour to another is in both for a while.
 * N2 Memory is bounded by the number of rows. The warehouse gives days first, a statement has ads
 *    first, so the rows are held as three numbers each until all are there.
 */
import { createHash } from 'node:crypto';
import { yieldToEventLoop } from '../archive/parquet.ts';
import { LedgerError } from '../platform/errors.ts';
import { floorTo, HOUR_MS } from '../warehouse/buckets.ts';
import type { MetricsRow, Warehouse } from '../warehouse/port.ts';
import type { Period } from './port.ts';

export interface NumbersParts {
  readonly warehouse: Pick<Warehouse, 'metrics' | 'hours'>;
  readonly maxRows: number;
  /** Whether final hours of the range are known to change. */
  readonly isMoving?: ((fromMs: number, toMs: number) => boolean) | undefined;
}

export interface StatementRow {
  /** `2026-03-01` */
  readonly day: string;
  readonly adId: string;
  readonly campaignId: string;
  readonly clicks: number;
}

export interface Numbers {
  readonly rowCount: number;
  readonly clicks: number;
  /** SHA-256 over all rows: the same digest is the same numbers. */
  readonly digest: string;
  /** By ad, day, campaign; without rows that have no clicks. */
  rows(): Iterable<StatementRow>;
}

/** A page is decoded in one go, while everybody waits: a tenth of a second. */
const PAGE_ROWS = 20_000;
const MOST_READS = 3;
const YIELD_ROWS = 5_000;

export async function readNumbers(
  parts: NumbersParts,
  period: Period,
  finalUntilMs: number,
): Promise<Numbers> {
  const { fromMs, toMs } = period;
  for (let read = 0; read < MOST_READS && parts.isMoving?.(fromMs, toMs) !== true; read++) {
    const before = await revisions(parts, period, finalUntilMs);
    const held = await readRows(parts, period, finalUntilMs);
    if ((await revisions(parts, period, finalUntilMs)) === before) return finish(held);
  }
  throw new LedgerError('period_moving', 'hours of the period get other numbers just now', {
    kind: 'retry',
    hint: 'Ask again in a minute.',
  });
}

/**
 * What the numbers rest on. The hour before `finalUntilMs` is final by definition: when the warehouse
 * does not have it, it is being rebuilt, and its hours without rows are no hours without clicks.
 */
async function revisions(
  { warehouse }: NumbersParts,
  { fromMs, toMs }: Period,
  finalUntilMs: number,
): Promise<string> {
  const last = await warehouse.hours(finalUntilMs - HOUR_MS, finalUntilMs);
  if (last.length === 0) {
    throw new LedgerError('warehouse_rebuilding', 'the final hours are being built again', {
      kind: 'retry',
      hint: 'Ask again when final_until is past the period.',
    });
  }
  const digest = createHash('sha256');
  for (const { hourMs, revision, attempt } of await warehouse.hours(
    floorTo(fromMs, HOUR_MS),
    toMs,
  )) {
    digest.update(`${hourMs},${revision},${attempt}\n`);
  }
  return digest.digest('hex');
}

async function readRows(
  { warehouse, maxRows }: NumbersParts,
  { advertiserId, fromMs, toMs, timezone }: Period,
  finalUntilMs: number,
): Promise<HeldRows> {
  const held = new HeldRows();
  let after: readonly string[] | undefined;
  do {
    const query = {
      advertiserId,
      adIds: undefined,
      campaignIds: undefined,
      countries: undefined,
      devices: undefined,
      fromMs,
      toMs,
      granularity: 'day',
      timezone,
      groupBy: ['ad', 'campaign'],
      limit: PAGE_ROWS,
      after,
    } as const;
    const page = await warehouse.metrics(query, finalUntilMs);
    for (const row of page.rows) held.add(row);
    if (held.rowCount > maxRows) {
      throw new LedgerError(
        'statement_too_large',
        `the period has more than ${maxRows} rows of clicks per ad and day`,
        { hint: 'Ask for shorter periods: those that touch, [a, b) and [b, c), add up exactly.' },
      );
    }
    after = page.next;
  } while (after !== undefined);
  return held;
}

/** Rows by ad: a day, a campaign and the clicks, as numbers; texts are held once. */
class HeldRows {
  readonly #days = new Names();
  readonly #campaigns = new Names();
  readonly #byAd = new Map<string, number[]>();
  rowCount = 0;
  clicks = 0;

  /** In the warehouse's order: by day, ad, campaign. */
  add({ bucketStart, adId, campaignId, clicks }: MetricsRow): void {
    if (clicks === 0) return;
    const day = this.#days.indexOf(bucketStart!.slice(0, 10));
    const campaign = this.#campaigns.indexOf(campaignId!);
    const cells = this.#byAd.get(adId!);
    if (cells === undefined) this.#byAd.set(adId!, [day, campaign, clicks]);
    else cells.push(day, campaign, clicks);
    this.rowCount++;
    this.clicks += clicks;
  }

  *rows(): Generator<StatementRow> {
    for (const adId of [...this.#byAd.keys()].sort(byteOrder)) {
      const cells = this.#byAd.get(adId)!;
      for (let at = 0; at < cells.length; at += 3) {
        const day = this.#days.name(cells[at]!);
        const campaignId = this.#campaigns.name(cells[at + 1]!);
        yield { day, adId, campaignId, clicks: cells[at + 2]! };
      }
    }
  }
}

/** Texts as small numbers. */
class Names {
  readonly #indexes = new Map<string, number>();
  readonly #names: string[] = [];

  indexOf(name: string): number {
    let index = this.#indexes.get(name);
    if (index === undefined) {
      index = this.#names.push(name) - 1;
      this.#indexes.set(name, index);
    }
    return index;
  }

  name(index: number): string {
    return this.#names[index]!;
  }
}

/** Ids are ASCII, so this is the order of their bytes wherever it runs. */
function byteOrder(a: string, b: string): number {
  return a < b ? -1 : 1;
}

async function finish(held: HeldRows): Promise<Numbers> {
  const digest = createHash('sha256');
  let done = 0;
  for (const { day, adId, campaignId, clicks } of held.rows()) {
    digest.update(`${adId},${day},${campaignId},${clicks}\n`);
    if (++done % YIELD_ROWS === 0) await yieldToEventLoop();
  }
  const { rowCount, clicks } = held;
  return { rowCount, clicks, digest: digest.digest('hex'), rows: () => held.rows() };
}
