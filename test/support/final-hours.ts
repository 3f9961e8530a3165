/** Writes final hours to a real warehouse, as the reconciler does: rows, day rows, publication. */
import type { FinalRow, Restatement, Warehouse } from '../../src/warehouse/port.ts';
import { hourState } from '../conformance/warehouse-world.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export function finalRow(minuteMs: number, over: Partial<FinalRow> = {}): FinalRow {
  return {
    advertiserId: 'adv-1',
    campaignId: 'c1',
    adId: 'ad-1',
    minuteMs,
    country: 'DE',
    device: 'mobile',
    clicks: 1,
    ...over,
  };
}

export class FinalHours {
  finalUntilMs = 0;
  readonly #warehouse: Warehouse;
  readonly #attempts = new Map<number, number>();
  readonly #dayAttempts = new Map<number, number>();

  constructor(warehouse: Warehouse) {
    this.#warehouse = warehouse;
  }

  /** The first time an hour turns final; again, it is a new revision. */
  async publish(
    hourMs: number,
    rows: readonly FinalRow[],
    restatements: readonly Partial<Restatement>[] = [],
  ): Promise<void> {
    const attempt = (this.#attempts.get(hourMs) ?? 0) + 1;
    await this.#warehouse.writeFinalHour(hourMs, attempt, rows);
    this.#attempts.set(hourMs, attempt);
    await this.#warehouse.publish({
      hour: hourState(hourMs, attempt, attempt),
      day: await this.#day(hourMs),
      drift: [],
      restatements: restatements.map((over) => ({
        hourMs,
        revision: attempt,
        advertiserId: 'adv-1',
        adId: 'ad-1',
        before: 0,
        after: 0,
        cause: 'late_clicks',
        atMs: hourMs + 5 * HOUR_MS,
        ...over,
      })),
    });
    this.finalUntilMs = Math.max(this.finalUntilMs, hourMs + HOUR_MS);
  }

  /** Publishes every hour of `[fromMs, toMs)` with the rows that lie in it. */
  async publishAll(fromMs: number, toMs: number, rows: readonly FinalRow[]): Promise<void> {
    const byHour = Map.groupBy(rows, ({ minuteMs }) => minuteMs - (minuteMs % HOUR_MS));
    for (let hourMs = fromMs; hourMs < toMs; hourMs += HOUR_MS) {
      await this.publish(hourMs, byHour.get(hourMs) ?? []);
    }
  }

  /** A UTC day is written with its last hour, and again with every hour after that. */
  async #day(hourMs: number): Promise<{ dayMs: number; attempt: number } | null> {
    const dayMs = hourMs - (hourMs % DAY_MS);
    const hours = new Map([...this.#attempts].filter(([ms]) => ms >= dayMs && ms < dayMs + DAY_MS));
    if (hours.size < 24) return null;
    const attempt = (this.#dayAttempts.get(dayMs) ?? 0) + 1;
    this.#dayAttempts.set(dayMs, attempt);
    await this.#warehouse.writeFinalDay(dayMs, attempt, hours);
    return { dayMs, attempt };
  }
}
