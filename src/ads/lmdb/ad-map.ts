/**
 * A read-only index of all ads beside the LMDB environment: one file, mapped by every click worker.
 *
 * Derived from the environment and named by the ads version that it was begun at. The environment says
 * which map is in use and which ads have changed since (`changed-ads.ts`): for those, and when there is
 * no map, LMDB itself answers. It exists for one reason: a
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
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Ad } from '../port.ts';
import { decodeAd } from './ad-value.ts';

const MAGIC = Buffer.from('CLKADMAP');
const HEADER_BYTES = 24;
const ALIGN = 8;
const MAX_FILE_BYTES = ALIGN * 2 ** 32;
/** The second group: a map that is being written. */
const NAME = /^ads-(\d+)\.map((?:\.[0-9a-f]+)?\.tmp)?$/;
const WRITE_BYTES = 4 * 1024 * 1024;
/** A fuller table would make look-ups slow, and a full one endless. */
const MOST_FILLED = 0.75;

export const mapFileName = (version: number): string => `ads-${version}.map`;

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

/** Writes the map of one version of the ads: `add` each, then `finish`, or `abandon`. */
export class AdMapWriter {
  readonly #dir: string;
  readonly #version: number;
  readonly #temporary: string;
  readonly #table: Uint32Array;
  readonly #chunk = Buffer.alloc(WRITE_BYTES);
  #fd: number | null;
  #ads = 0;
  #used = 0;
  #chunkAt: number;

  /** `count` is how many ads are expected; up to half as many more have room. */
  constructor(dir: string, version: number, count: number) {
    let slots = 16;
    while (slots < count * 2) slots *= 2;
    this.#dir = dir;
    this.#version = version;
    this.#table = new Uint32Array(slots);
    this.#chunkAt = alignUp(HEADER_BYTES + this.#table.byteLength);
    // Of its own name: two processes may write a map of the same version.
    this.#temporary = join(dir, `${mapFileName(version)}.${randomBytes(4).toString('hex')}.tmp`);
    this.#fd = fs.openSync(this.#temporary, 'w', 0o600);
  }

  /** False when the map has no room left; it must then be abandoned. */
  add(key: string, value: Buffer): boolean {
    const slots = this.#table.length;
    if (this.#ads >= slots * MOST_FILLED) return false;
    const length = alignUp(1 + key.length + 2 + value.length);
    if (this.#used + length > WRITE_BYTES) this.#flush();
    const at = this.#used;
    const position = this.#chunkAt + at;
    if (position + length > MAX_FILE_BYTES) return false;
    const chunk = this.#chunk;
    chunk.fill(0, at, at + length);
    chunk[at] = key.length;
    chunk.latin1Write(key, at + 1);
    chunk.writeUInt16LE(value.length, at + 1 + key.length);
    value.copy(chunk, at + 3 + key.length);
    let slot = hashOf(key) & (slots - 1);
    while (this.#table[slot] !== 0) slot = (slot + 1) & (slots - 1);
    this.#table[slot] = position / ALIGN;
    this.#used += length;
    this.#ads++;
    return true;
  }

  #flush(): void {
    fs.writeSync(this.#fd!, this.#chunk, 0, this.#used, this.#chunkAt);
    this.#chunkAt += this.#used;
    this.#used = 0;
  }

  /** M1. The sync of a large file takes seconds: other work of the thread goes on meanwhile. */
  async finish(): Promise<void> {
    const fd = this.#fd!;
    this.#flush();
    const table = new Uint8Array(this.#table.buffer);
    fs.writeSync(fd, table, 0, table.length, HEADER_BYTES);
    const header = Buffer.alloc(HEADER_BYTES);
    MAGIC.copy(header);
    header.writeBigUInt64LE(BigInt(this.#version), 8);
    header.writeUInt32LE(this.#table.length, 16);
    header.writeUInt32LE(this.#ads, 20);
    fs.writeSync(fd, header, 0, HEADER_BYTES, 0);
    await promisify(fs.fsync)(fd);
    fs.closeSync(fd);
    this.#fd = null;
    fs.renameSync(this.#temporary, join(this.#dir, mapFileName(this.#version)));
  }

  abandon(): void {
    if (this.#fd !== null) fs.closeSync(this.#fd);
    this.#fd = null;
    fs.rmSync(this.#temporary, { force: true });
  }
}

/**
 * Removes maps of other versions, and what a writer that died left of this one or an older one.
 * Workers that still map a removed file keep it until they have moved on.
 */
export function removeOtherMaps(dir: string, version: number): void {
  for (const name of fs.readdirSync(dir)) {
    const found = NAME.exec(name);
    if (found === null) continue;
    const isOther = Number(found[1]) !== version;
    const isLeftOver = found[2] !== undefined && Number(found[1]) <= version;
    if (isLeftOver || (isOther && found[2] === undefined)) {
      fs.rmSync(join(dir, name), { force: true });
    }
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
    const path = join(dir, mapFileName(version));
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
