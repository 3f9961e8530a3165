/**
 * Minute windows: the rows being counted, their full counts, and which of them changed.
 *
 * N1 A row's count is changed only through `add`; every change marks the row for the next upsert.
 * N2 A row leaves (`evict`) only when its minute is closed; ids are never used again.
 */
import type { OpenRow } from './types.ts';

export const MINUTE_MS = 60_000;

/** Claims keep the low 32 bits of a row's id: rows are found by them, ids go on rising. */
const ID_MODULUS = 0x1_0000_0000;

/** The minute `[start, start + 60 s)` that a time lies in. */
export function minuteOf(timeMs: number): number {
  return timeMs - (timeMs % MINUTE_MS);
}

export class Windows {
  /** shard → minute → row key → row. */
  readonly #shards = new Map<number, Map<number, Map<string, OpenRow>>>();
  readonly #byId = new Map<number, OpenRow>();
  #changed: OpenRow[] = [];
  #nextId = 1;
  /** The minute looked up last: consecutive records mostly share it. */
  #lastShard = -1;
  #lastMinuteMs = -1;
  #lastRows: Map<string, OpenRow> = new Map();

  get size(): number {
    return this.#byId.size;
  }

  row(shard: number, minuteMs: number, rowKey: string): OpenRow {
    if (shard !== this.#lastShard || minuteMs !== this.#lastMinuteMs) {
      this.#lastRows = this.#minute(shard, minuteMs);
      this.#lastShard = shard;
      this.#lastMinuteMs = minuteMs;
    }
    let row = this.#lastRows.get(rowKey);
    if (row === undefined) {
      row = { id: this.#nextId++, shard, minuteMs, rowKey, clicks: 0, isChanged: false };
      this.#lastRows.set(rowKey, row);
      this.#byId.set(row.id % ID_MODULUS, row);
    }
    return row;
  }

  #minute(shard: number, minuteMs: number): Map<string, OpenRow> {
    let minutes = this.#shards.get(shard);
    if (minutes === undefined) {
      minutes = new Map();
      this.#shards.set(shard, minutes);
    }
    let rows = minutes.get(minuteMs);
    if (rows === undefined) {
      rows = new Map();
      minutes.set(minuteMs, rows);
    }
    return rows;
  }

  byId(id: number): OpenRow | undefined {
    return this.#byId.get(id % ID_MODULUS);
  }

  add(row: OpenRow, delta: 1 | -1): void {
    row.clicks += delta;
    // A mark on the row: asking a set for every click costs more than counting it.
    if (row.isChanged) return;
    row.isChanged = true;
    this.#changed.push(row);
  }

  /** Hands over the rows changed since the last call. */
  takeChanged(): OpenRow[] {
    const rows = this.#changed;
    this.#changed = [];
    for (const row of rows) row.isChanged = false;
    return rows;
  }

  /** Puts a row back as it was, for a state that is being loaded. */
  restore(row: Readonly<Omit<OpenRow, 'isChanged'>>): void {
    const known = this.byId(row.id);
    if (known !== undefined) {
      known.clicks = row.clicks;
      return;
    }
    const copy = { ...row, isChanged: false };
    this.#minute(row.shard, row.minuteMs).set(row.rowKey, copy);
    this.#byId.set(row.id % ID_MODULUS, copy);
    this.#nextId = Math.max(this.#nextId, row.id + 1);
  }

  get nextRowId(): number {
    return this.#nextId;
  }

  /** Never hands out an id that an earlier run of this state has used (N2). */
  reserveIds(nextRowId: number): void {
    this.#nextId = Math.max(this.#nextId, nextRowId);
  }

  /** Drops a shard's minutes that end at or before `closedUntilMs` and returns their rows. */
  evict(shard: number, closedUntilMs: number): OpenRow[] {
    const minutes = this.#shards.get(shard);
    if (minutes === undefined) return [];
    const gone: OpenRow[] = [];
    for (const [minuteMs, rows] of minutes) {
      if (minuteMs + MINUTE_MS > closedUntilMs) continue;
      for (const row of rows.values()) {
        gone.push(row);
        this.#byId.delete(row.id % ID_MODULUS);
      }
      minutes.delete(minuteMs);
    }
    if (gone.length > 0) this.#lastShard = -1;
    return gone;
  }

  *rows(): IterableIterator<OpenRow> {
    yield* this.#byId.values();
  }
}
