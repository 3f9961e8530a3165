/**
 * How far a partition is durable, shared between its writer and its readers through one mapped page.
 *
 * Without it a reader could count a record that is written but not yet on disk; after a power cut the
 * offset would be given to another click. The page outlives a killed writer. After a power cut it
 * may be behind the truth (never ahead: it is stored after the write returned), and the writer sets
 * it right when it opens.
 *
 * Beside it the page keeps the highest end ever promised. A writer that finds records gone lowers the
 * end until their offsets are filled again; the promise stays, so that dying in between forgets nothing.
 */
import fs from 'node:fs';
import { join } from 'node:path';

const FILE_NAME = 'durable';
const PAGE_BYTES = 4096;

export class DurableEnd {
  readonly #page: Float64Array;

  private constructor(page: Float64Array) {
    this.#page = page;
  }

  /** Opens or creates the page of the partition in `dir`. */
  static forWriter(dir: string): DurableEnd {
    const path = join(dir, FILE_NAME);
    if (!fs.existsSync(path) || fs.statSync(path).size !== PAGE_BYTES) {
      fs.writeFileSync(path, Buffer.alloc(PAGE_BYTES), { mode: 0o600 });
    }
    return new DurableEnd(mapPage(path));
  }

  /** Null when the partition has no page (a copied folder, or a writer that is just starting). */
  static forReader(dir: string): DurableEnd | null {
    const path = join(dir, FILE_NAME);
    try {
      if (fs.statSync(path).size !== PAGE_BYTES) return null;
    } catch {
      return null;
    }
    return new DurableEnd(mapPage(path));
  }

  /** The offset after the newest durable record. An aligned 8-byte store is seen whole. */
  get(): number {
    return this.#page[0]!;
  }

  /** Every offset below this was acknowledged once and names no other record. */
  get promised(): number {
    // A page written before promises were kept holds 0 there.
    return Math.max(this.#page[0]!, this.#page[1]!);
  }

  set(nextOffset: number): void {
    if (nextOffset > this.#page[1]!) this.#page[1] = nextOffset;
    this.#page[0] = nextOffset;
  }
}

function mapPage(path: string): Float64Array {
  const bytes = Bun.mmap(path, { shared: true });
  return new Float64Array(bytes.buffer, bytes.byteOffset, 2);
}
