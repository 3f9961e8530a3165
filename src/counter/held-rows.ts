/**
 * Rows that changed and are not yet acknowledged by the warehouse.
 *
 * H1 A row's newest full count replaces an older one that still waits: nothing is added up here.
 * H2 A batch that failed goes back, unless a newer count of the same row has come meanwhile.
 */
import type { OpenRow } from '../counting/types.ts';
import { decodeRowKey } from '../event/codec.ts';
import type { LiveRow } from '../warehouse/port.ts';

export class HeldRows {
  #rows = new Map<number, LiveRow>();

  get size(): number {
    return this.#rows.size;
  }

  add(row: OpenRow): void {
    const { shard, minuteMs, clicks } = row;
    this.#rows.set(row.id, { ...decodeRowKey(row.rowKey), shard, minuteMs, clicks });
  }

  /** Hands over everything; give it back with `giveBack` when the warehouse did not take it. */
  take(): Map<number, LiveRow> {
    const taken = this.#rows;
    this.#rows = new Map();
    return taken;
  }

  giveBack(rows: Map<number, LiveRow>): void {
    for (const [id, row] of this.#rows) rows.set(id, row);
    this.#rows = rows;
  }
}
