/**
 * Objects of the archive in memory, packed: there are millions, in every process that reads it.
 *
 * An object's name is made of its hour, range and variant; only these are held, about 80 bytes an object
 * instead of 600.
 */
import { assert } from '../platform/errors.ts';
import { type OffsetRange, objectName, rangeOfName, variantOf } from './names.ts';
import type { ArchiveObject } from './port.ts';

const SHA256_BYTES = 32;

/** Objects of one hour or, with null, dead letters; in the order in which they were added. */
export class ObjectTable {
  readonly #hourMs: number | null;
  readonly #partitions: number[] = [];
  readonly #firstOffsets: number[] = [];
  readonly #lastOffsets: number[] = [];
  readonly #rows: number[] = [];
  readonly #sizes: number[] = [];
  #checksums = Buffer.alloc(4 * SHA256_BYTES);
  /** Of the few objects that have one. */
  readonly #variants = new Map<number, string>();
  /** As long as first offsets rise, which they do within a partition. */
  #isSorted = true;

  constructor(hourMs: number | null) {
    this.#hourMs = hourMs;
  }

  get size(): number {
    return this.#rows.length;
  }

  add(object: ArchiveObject, range: OffsetRange): void {
    const { name, rows, sizeBytes, sha256 } = object;
    const variant = variantOf(name, this.#hourMs, range);
    assert(variant !== null, `${name} is not named after its hour and range`);
    const at = this.size;
    if (variant !== '') this.#variants.set(at, variant);
    if (at > 0 && range.firstOffset < this.#firstOffsets[at - 1]!) this.#isSorted = false;
    this.#partitions.push(range.partition);
    this.#firstOffsets.push(range.firstOffset);
    this.#lastOffsets.push(range.lastOffset);
    this.#rows.push(rows);
    this.#sizes.push(sizeBytes);
    if (this.#checksums.length === at * SHA256_BYTES) {
      this.#checksums = Buffer.concat([this.#checksums, Buffer.alloc(this.#checksums.length)]);
    }
    this.#checksums.write(sha256, at * SHA256_BYTES, 'hex');
  }

  at(index: number): ArchiveObject {
    const start = index * SHA256_BYTES;
    return {
      name: objectName(this.#hourMs, this.#rangeAt(index), this.#variants.get(index)),
      hourMs: this.#hourMs,
      rows: this.#rows[index]!,
      sizeBytes: this.#sizes[index]!,
      sha256: this.#checksums.toString('hex', start, start + SHA256_BYTES),
    };
  }

  #rangeAt(index: number): OffsetRange {
    return {
      partition: this.#partitions[index]!,
      firstOffset: this.#firstOffsets[index]!,
      lastOffset: this.#lastOffsets[index]!,
    };
  }

  *all(): Generator<ArchiveObject> {
    for (let index = 0; index < this.size; index++) yield this.at(index);
  }

  find(name: string): ArchiveObject | undefined {
    const range = rangeOfName(name);
    if (range === null) return undefined;
    const { firstOffset, partition } = range;
    for (let index = this.#startFor(firstOffset); index < this.size; index++) {
      if (this.#isSorted && this.#firstOffsets[index]! > firstOffset) return undefined;
      if (this.#firstOffsets[index] !== firstOffset) continue;
      if (this.#partitions[index] !== partition) continue;
      const object = this.at(index);
      if (object.name === name) return object;
    }
    return undefined;
  }

  /** Nothing with this first offset is before it. */
  #startFor(firstOffset: number): number {
    if (!this.#isSorted) return 0;
    let low = 0;
    let high = this.size;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#firstOffsets[middle]! < firstOffset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
