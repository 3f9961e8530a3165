/**
 * Rows of another system's table that are no valid ads: by what names them, the round of reading that
 * saw them last, and the reason. They lie beside the ads so that one transaction keeps both in step.
 */
import type { Database } from 'lmdb';
import type { RefusedRow } from '../port.ts';

const ROUND_BYTES = 6;
/** A key of LMDB is shorter than the ids and reasons that a foreign table may hold. */
const MAX_KEY = 400;
const MAX_REASON_BYTES = 400;

export class RefusedRows {
  readonly #db: Database<Buffer, string>;

  constructor(db: Database<Buffer, string>) {
    this.#db = db;
  }

  get count(): number {
    return (this.#db.getStats() as { entryCount: number }).entryCount;
  }

  put({ adId, reason }: RefusedRow, round: number): void {
    const text = Buffer.from(reason).subarray(0, MAX_REASON_BYTES);
    const value = Buffer.alloc(ROUND_BYTES + text.length);
    value.writeUIntLE(round, 0, ROUND_BYTES);
    text.copy(value, ROUND_BYTES);
    this.#db.putSync(keyOf(adId), value);
  }

  remove(adId: string): void {
    this.#db.removeSync(keyOf(adId));
  }

  removeBefore(round: number): void {
    const old = [...this.#db.getRange({ start: '' })].filter(
      ({ value }) => value.readUIntLE(0, ROUND_BYTES) < round,
    );
    for (const { key } of old) this.#db.removeSync(key);
  }

  list(limit: number): RefusedRow[] {
    if (limit === 0) return [];
    return [...this.#db.getRange({ start: '', limit })].map(({ key, value }) => ({
      adId: shownKey(key),
      reason: value.toString('utf8', ROUND_BYTES),
    }));
  }
}

/** Valid ids stay as they are; anything else becomes ASCII without losing what it was. */
function keyOf(adId: string): string {
  return `=${encodeURIComponent(adId.toWellFormed())}`.slice(0, MAX_KEY);
}

function shownKey(key: string): string {
  try {
    return decodeURIComponent(key.slice(1));
  } catch {
    // Cut in the middle of an escape.
    return key.slice(1);
  }
}
