/**
 * Rows that changed and are not yet acknowledged by the warehouse.
 *
 * H1 A row's newest full count replaces an older one that still waits: nothing is added up here.
 * H2 A batch that failed goes back, unless a newer count of the same row has come meanwhile.
 * H3 What is held is the count at the commit: the row itself is counted on meanwhile.
 */
import type { OpenRow } from '../counting/types.ts';
import { decodeRowKey } from '../event/codec.ts';
import type { LiveRow } from '../warehouse/port.ts';

export interface HeldRow {
  readonly row: Readonly<OpenRow>;
  /** H3. */
  readonly clicks: number;
}

export class HeldRows {
  /** Each row once. */
  #rows: readonly HeldRow[] = [];

  get size(): number {
    return this.#rows.length;
  }

  /** Rows of one commit, each once. */
  add(rows: readonly OpenRow[]): void {
    this.#put(
      this.#rows,
      rows.map((row) => ({ row, clicks: row.clicks })),
    );
  }

  /** Hands over everything; give it back with `giveBack` when the warehouse did not take it. */
  take(): readonly HeldRow[] {
    const taken = this.#rows;
    this.#rows = [];
    return taken;
  }

  giveBack(rows: readonly HeldRow[]): void {
    this.#put(rows, this.#rows);
  }

  /** H1, H2. Mostly one of the two is empty: rows are looked up by their ids only when they must be. */
  #put(older: readonly HeldRow[], newer: readonly HeldRow[]): void {
    if (older.length === 0 || newer.length === 0) {
      this.#rows = older.length === 0 ? newer : older;
      return;
    }
    const byId = new Map<number, HeldRow>();
    for (const held of older) byId.set(held.row.id, held);
    for (const held of newer) byId.set(held.row.id, held);
    this.#rows = [...byId.values()];
  }
}

export function liveRowOf({ row, clicks }: HeldRow): LiveRow {
  const { advertiserId, campaignId, adId, country, device } = decodeRowKey(row.rowKey);
  const { shard, minuteMs } = row;
  return { advertiserId, campaignId, adId, country, device, shard, minuteMs, clicks };
}
