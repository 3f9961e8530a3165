/**
 * Which partition a click belongs to: Kafka's own default hash of the impression id, so that every
 * other producer and tool puts the same key into the same partition.
 */
import { EVENT_VERSION, EventView } from '../../event/codec.ts';
import type { KeyedRecord } from './record-batch.ts';

const view = new EventView();

/** The record with its key, the impression id; a record that is no event has none. */
export function keyed(bytes: Buffer): KeyedRecord {
  const readable = view.read(bytes, 0, bytes.length);
  const isEvent = readable && view.version === EVENT_VERSION;
  return {
    bytes,
    keyStart: isEvent ? view.impressionStart : 0,
    keyEnd: isEvent ? view.impressionEnd : 0,
  };
}

/** Without a key the whole record is hashed: a replayed record comes to the same partition again. */
export function partitionOf(record: KeyedRecord, partitions: number): number {
  const { bytes, keyStart, keyEnd } = record;
  const hash =
    keyEnd > keyStart ? murmur2(bytes, keyStart, keyEnd) : murmur2(bytes, 0, bytes.length);
  return (hash & 0x7fffffff) % partitions;
}

const SEED = 0x9747b28c;
const M = 0x5bd1e995;

/** MurmurHash2 as Kafka has it, of `bytes[start, end)`. */
export function murmur2(bytes: Buffer, start: number, end: number): number {
  let hash = SEED ^ (end - start);
  let at = start;
  for (; at + 4 <= end; at += 4) {
    let k = Math.imul(bytes.readInt32LE(at), M);
    k = Math.imul(k ^ (k >>> 24), M);
    hash = Math.imul(hash, M) ^ k;
  }
  if (at < end) {
    for (let i = end - 1; i >= at; i--) hash ^= bytes[i]! << (8 * (i - at));
    hash = Math.imul(hash, M);
  }
  hash = Math.imul(hash ^ (hash >>> 13), M);
  return hash ^ (hash >>> 15);
}
