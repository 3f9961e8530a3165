/**
 * The bytes of a Kafka record batch, format 2: the one format that brokers store since Kafka 0.11.
 *
 * The client's own codec builds an object for every record and does not check the checksum. Here a
 * batch is written into one buffer, and read into offsets of one buffer, which is what the counter
 * works on.
 *
 *     0   i64 base offset          21  i16 attributes        43  i64 producer id
 *     8   i32 length from byte 12  23  i32 last offset delta 51  i16 producer epoch
 *     12  i32 leader epoch         27  i64 base timestamp    53  i32 base sequence
 *     16  i8  magic, 2             35  i64 max timestamp     57  i32 count of records
 *     17  u32 CRC-32C from byte 21                           61      records, perhaps compressed
 */
import { crc32c } from '@node-rs/crc32';
import { compressionsAlgorithms, compressionsAlgorithmsByBitmask } from '@platformatic/kafka';
import { VarintReader, varintBytes, writeVarint } from './varint.ts';

export const COMPRESSIONS = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;
export type Compression = (typeof COMPRESSIONS)[number];

const HEADER_BYTES = 61;
const PREFIX_BYTES = 12;
const CHECKED_FROM = 21;
const MAGIC_AT = 16;
const MAGIC = 2;
const COMPRESSION_BITS = 0b111;
const LOG_APPEND_TIME = 1 << 3;
const CONTROL = 1 << 5;
/** Below this a compressed batch is no smaller. */
const MIN_COMPRESSED_BYTES = 512;
/** No honest batch holds more; a damaged length must not ask for memory. */
const MAX_RECORDS = 10_000_000;

/** One record to publish: `bytes` whole, the key a part of it (empty: no key). */
export interface KeyedRecord {
  readonly bytes: Buffer;
  readonly keyStart: number;
  readonly keyEnd: number;
}

/** What a record takes in a batch at the most, beside its key and value. */
export const RECORD_OVERHEAD_BYTES = 32;
export const BATCH_OVERHEAD_BYTES = HEADER_BYTES;

/** A whole batch of records that were all made at `timestampMs`. */
export function encodeBatch(
  records: readonly KeyedRecord[],
  timestampMs: number,
  compression: Compression,
): Buffer {
  let size = HEADER_BYTES;
  for (const { bytes, keyStart, keyEnd } of records) {
    size += RECORD_OVERHEAD_BYTES + bytes.length + keyEnd - keyStart;
  }
  let out = Buffer.allocUnsafe(size);
  let end = HEADER_BYTES;
  for (let i = 0; i < records.length; i++) end = writeRecord(records[i]!, i, { out, at: end });
  let attributes = 0;
  if (compression !== 'none' && end - HEADER_BYTES >= MIN_COMPRESSED_BYTES) {
    const algorithm = compressionsAlgorithms[compression];
    const packed = algorithm.compressSync(out.subarray(HEADER_BYTES, end));
    attributes = algorithm.bitmask;
    out = Buffer.concat([out.subarray(0, HEADER_BYTES), packed]);
    end = out.length;
  }
  const batch = out.subarray(0, end);
  batch.writeBigInt64BE(0n, 0);
  batch.writeInt32BE(end - PREFIX_BYTES, 8);
  batch.writeInt32BE(-1, 12);
  batch[MAGIC_AT] = MAGIC;
  batch.writeInt16BE(attributes, 21);
  batch.writeInt32BE(records.length - 1, 23);
  batch.writeBigInt64BE(BigInt(timestampMs), 27);
  batch.writeBigInt64BE(BigInt(timestampMs), 35);
  // No producer id, epoch or sequence: the producer is not idempotent.
  batch.fill(0xff, 43, 57);
  batch.writeInt32BE(records.length, 57);
  batch.writeUInt32BE(crc32c(batch.subarray(CHECKED_FROM)), 17);
  return batch;
}

function writeRecord(record: KeyedRecord, delta: number, to: { out: Buffer; at: number }): number {
  const { bytes, keyStart, keyEnd } = record;
  const { out } = to;
  const keyBytes = keyEnd - keyStart;
  const keyLength = keyBytes === 0 ? -1 : keyBytes;
  const body =
    3 + // attributes, timestamp delta, count of headers
    varintBytes(delta) +
    varintBytes(keyLength) +
    keyBytes +
    varintBytes(bytes.length) +
    bytes.length;
  let at = writeVarint(out, body, to.at);
  out[at++] = 0;
  out[at++] = 0;
  at = writeVarint(out, delta, at);
  at = writeVarint(out, keyLength, at);
  at += bytes.copy(out, at, keyStart, keyEnd);
  at = writeVarint(out, bytes.length, at);
  at += bytes.copy(out, at);
  out[at++] = 0;
  return at;
}

export interface DecodedBatch {
  readonly firstOffset: number;
  /** Offsets that the batch spans; a record that is missing within is an empty one. */
  readonly count: number;
  /** How many of them held no record, as compaction or a transaction marker leaves them. */
  readonly missing: number;
  readonly appendedAtMs: number;
  /** False when the time is the producer's and not the broker's. */
  readonly logAppendTime: boolean;
  readonly bytes: Buffer;
  readonly bounds: Uint32Array;
}

/** Thrown for bytes that are not what a broker wrote. */
export class DamagedBatch extends Error {
  readonly firstOffset: number;
  constructor(firstOffset: number, what: string) {
    super(`the batch at offset ${firstOffset} ${what}`);
    this.firstOffset = firstOffset;
  }
}

/** Every whole batch in `bytes`; a fetch may end in the middle of one, which is left out. */
export function decodeBatches(bytes: Buffer): DecodedBatch[] {
  const batches: DecodedBatch[] = [];
  let at = 0;
  while (at + HEADER_BYTES <= bytes.length) {
    const size = PREFIX_BYTES + bytes.readInt32BE(at + 8);
    if (size < HEADER_BYTES)
      throw new DamagedBatch(offsetAt(bytes, at), 'has an impossible length');
    if (at + size > bytes.length) break;
    batches.push(decodeBatch(bytes.subarray(at, at + size)));
    at += size;
  }
  return batches;
}

const offsetAt = (bytes: Buffer, at: number): number => Number(bytes.readBigInt64BE(at));

function decodeBatch(batch: Buffer): DecodedBatch {
  const firstOffset = offsetAt(batch, 0);
  if (batch[MAGIC_AT] !== MAGIC) throw new DamagedBatch(firstOffset, 'has an unknown format');
  if (crc32c(batch.subarray(CHECKED_FROM)) !== batch.readUInt32BE(17)) {
    throw new DamagedBatch(firstOffset, 'does not match its checksum');
  }
  const attributes = batch.readInt16BE(21);
  const count = batch.readInt32BE(23) + 1;
  const records = batch.readInt32BE(57);
  if (count < 1 || count > MAX_RECORDS || records < 0 || records > count) {
    throw new DamagedBatch(firstOffset, 'has an impossible count of records');
  }
  const control = (attributes & CONTROL) !== 0;
  const bytes = unpacked(batch, attributes, firstOffset);
  const bounds = new Uint32Array(count * 2);
  const present = control ? 0 : readRecords(bytes, records, { bounds, firstOffset });
  return {
    firstOffset,
    count,
    missing: count - present,
    appendedAtMs: Number(batch.readBigInt64BE(35)),
    logAppendTime: (attributes & LOG_APPEND_TIME) !== 0,
    bytes,
    bounds,
  };
}

function unpacked(batch: Buffer, attributes: number, firstOffset: number): Buffer {
  const packed = batch.subarray(HEADER_BYTES);
  const bits = attributes & COMPRESSION_BITS;
  if (bits === 0) return packed;
  const algorithm = compressionsAlgorithmsByBitmask[bits];
  if (algorithm === undefined) throw new DamagedBatch(firstOffset, 'has an unknown compression');
  try {
    return algorithm.decompressSync(packed);
  } catch (error) {
    throw new DamagedBatch(firstOffset, `cannot be decompressed: ${String(error)}`);
  }
}

/** Notes where each value lies; returns how many records there were. A null value is an empty one. */
function readRecords(
  bytes: Buffer,
  records: number,
  to: { bounds: Uint32Array; firstOffset: number },
): number {
  const { bounds, firstOffset } = to;
  const reader = new VarintReader(bytes);
  let expected = 0;
  for (let i = 0; i < records; i++) {
    const length = reader.read();
    const end = reader.at + length;
    if (length < 0 || end > bytes.length) throw new DamagedBatch(firstOffset, 'is cut within');
    reader.at += 1;
    reader.skip();
    const delta = reader.read();
    if (delta < expected || delta * 2 >= bounds.length) {
      throw new DamagedBatch(firstOffset, 'has records out of order');
    }
    expected = delta + 1;
    const keyLength = reader.read();
    if (keyLength > 0) reader.at += keyLength;
    const valueLength = Math.max(0, reader.read());
    if (reader.at + valueLength > end) throw new DamagedBatch(firstOffset, 'is cut within');
    bounds[2 * delta] = reader.at;
    bounds[2 * delta + 1] = reader.at + valueLength;
    reader.at = end;
  }
  return records;
}
