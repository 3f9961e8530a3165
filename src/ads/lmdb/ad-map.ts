/**
 * A read-only index of all ads beside the LMDB environment: one file, mapped by every click worker.
 *
 * Derived from the environment and named by its ads version, so a reader uses it only while it is of
 * the version that the environment has; otherwise LMDB itself answers. It exists for one reason: a
 * look-up among a million ads costs LMDB about 5 µs of tree walk and call, and this one about 1 µs, on
 * a path where the whole rest of a click takes 30.
 *
 * M1 The file appears by rename when it is complete and synced; it never changes afterwards.
 * M2 What does not look right (size, magic, a record out of bounds) reads as "not there": LMDB answers.
 *
 *     0..7    magic "CLKADMAP"
 *     8..15   u64  version of the ads it was made from
 *     16..19  u32  slots (a power of two)
 *     20..23  u32  ads
 *     24..    slots × u32: position of the record divided by 8, 0 for an empty slot
 *             records, 8-byte aligned: u8 n, ad id (n ASCII bytes), u16 m, the ad's bytes (m, ad-value.ts)
 *
 * All integers little endian. A slot follows from the id's hash; collisions go to the next slot.
 */
import fs from 'node:fs';
import { join } from 'node:path';
import type { Ad } from '../port.ts';
import { decodeAd } from './ad-value.ts';

const MAGIC = Buffer.from('CLKADMAP');
const HEADER_BYTES = 24;
const ALIGN = 8;
const MAX_FILE_BYTES = ALIGN * 2 ** 32;
const NAME = /^ads-(\d+)\.map$/;
const WRITE_BYTES = 4 * 1024 * 1024;

const fileName = (version: number): string => `ads-${version}.map`;

/** FNV-1a over the id's character codes. */
function hashOf(adId: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < adId.length; at++) {
    hash = Math.imul(hash ^ adId.charCodeAt(at), 0x01000193);
  }
  // The low bits choose the slot: mix the high ones in.
  return (hash ^ (hash >>> 15)) >>> 0;
}

const alignUp = (position: number): number => Math.ceil(position / ALIGN) * ALIGN;

/** Writes the map of `ads` (id and value bytes, any order) and removes older ones. */
export function writeAdMap(
  dir: string,
  version: number,
  count: number,
  ads: Iterable<{ key: string; value: Buffer }>,
): void {
  let slots = 16;
  while (slots < count * 2) slots *= 2;
  const table = new Uint32Array(slots);
  const temporary = join(dir, `${fileName(version)}.tmp`);
  const fd = fs.openSync(temporary, 'w', 0o600);
  try {
    let position = HEADER_BYTES + table.byteLength;
    const chunk = Buffer.alloc(WRITE_BYTES);
    let used = 0;
    let chunkAt = position;
    for (const { key, value } of ads) {
      const length = alignUp(1 + key.length + 2 + value.length);
      if (used + length > chunk.length) {
        fs.writeSync(fd, chunk, 0, used, chunkAt);
        chunkAt += used;
        used = 0;
      }
      chunk.fill(0, used, used + length);
      chunk[used] = key.length;
      chunk.latin1Write(key, used + 1);
      chunk.writeUInt16LE(value.length, used + 1 + key.length);
      value.copy(chunk, used + 3 + key.length);
      let slot = hashOf(key) & (slots - 1);
      while (table[slot] !== 0) slot = (slot + 1) & (slots - 1);
      table[slot] = position / ALIGN;
      used += length;
      position += length;
      if (position > MAX_FILE_BYTES) throw new Error('the ad map has reached its limit');
    }
    fs.writeSync(fd, chunk, 0, used, chunkAt);
    fs.writeSync(fd, new Uint8Array(table.buffer), 0, table.byteLength, HEADER_BYTES);
    const header = Buffer.alloc(HEADER_BYTES);
    MAGIC.copy(header);
    header.writeBigUInt64LE(BigInt(version), 8);
    header.writeUInt32LE(slots, 16);
    header.writeUInt32LE(count, 20);
    fs.writeSync(fd, header, 0, HEADER_BYTES, 0);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  fs.renameSync(temporary, join(dir, fileName(version)));
  removeOthers(dir, version);
}

/** Workers that still map a removed file keep it until they have moved on. */
function removeOthers(dir: string, version: number): void {
  for (const name of fs.readdirSync(dir)) {
    const found = NAME.exec(name.replace(/\.tmp$/, ''));
    if (found !== null && Number(found[1]) !== version) fs.rmSync(join(dir, name), { force: true });
  }
}

export class AdMap {
  readonly #bytes: Buffer;
  readonly #slots: Uint32Array;
  readonly #mask: number;

  private constructor(bytes: Buffer, slots: number) {
    this.#bytes = bytes;
    this.#slots = new Uint32Array(bytes.buffer, bytes.byteOffset + HEADER_BYTES, slots);
    this.#mask = slots - 1;
  }

  /** The map of exactly this version, or null. */
  static open(dir: string, version: number): AdMap | null {
    const path = join(dir, fileName(version));
    if (!fs.existsSync(path) || fs.statSync(path).size < HEADER_BYTES) return null;
    const mapped = Bun.mmap(path, { shared: true });
    const bytes = Buffer.from(mapped.buffer, mapped.byteOffset, mapped.byteLength);
    if (!bytes.subarray(0, MAGIC.length).equals(MAGIC)) return null;
    if (bytes.readBigUInt64LE(8) !== BigInt(version)) return null;
    const slots = bytes.readUInt32LE(16);
    const isPowerOfTwo = slots > 0 && (slots & (slots - 1)) === 0;
    if (!isPowerOfTwo || HEADER_BYTES + slots * 4 > bytes.length) return null;
    return new AdMap(bytes, slots);
  }

  /** The ad; null when there is none; undefined when the file is not right there (M2). */
  find(adId: string): Ad | null | undefined {
    const bytes = this.#bytes;
    let slot = hashOf(adId) & this.#mask;
    for (;;) {
      const at = this.#slots[slot]! * ALIGN;
      if (at === 0) return null;
      if (at + 3 + adId.length > bytes.length) return undefined;
      if (bytes[at] === adId.length && this.#isId(at + 1, adId)) {
        const valueAt = at + 3 + adId.length;
        const length = bytes.readUInt16LE(valueAt - 2);
        if (valueAt + length > bytes.length) return undefined;
        return decodeAd(adId, { bytes, start: valueAt, end: valueAt + length });
      }
      slot = (slot + 1) & this.#mask;
    }
  }

  #isId(at: number, adId: string): boolean {
    const bytes = this.#bytes;
    for (let i = 0; i < adId.length; i++) if (bytes[at + i] !== adId.charCodeAt(i)) return false;
    return true;
  }
}
