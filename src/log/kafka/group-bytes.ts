/**
 * What members tell each other through the coordinator: claims when they join, shares when they sync.
 *
 * Both are in the envelope of Kafka's own consumers (version 0: topics, then data of one's own), so that
 * Kafka's tools show who has which partition. The data of ours is JSON with a version; a member whose data cannot be read claims nothing.
 *
 *     subscription   i16 version   [string topic]                    bytes user data
 *     assignment     i16 version   [string topic, [i32 partition]]   bytes user data
 */
import { z } from 'zod';

export const PROTOCOL_TYPE = 'consumer';
export const PROTOCOL_NAME = 'clickledger-sticky';

const claimsSchema = z.object({
  version: z.literal(1),
  /** Generation of the group in which the partitions were its own; -1: it only remembers them. */
  generation: z.int(),
  partitions: z.array(z.int().min(0)),
  /** Length and identity of the topic as it knows it: a member that sees another topic shows by that. */
  topicPartitions: z.int(),
  topicId: z.string(),
});
export type Claims = z.infer<typeof claimsSchema>;

const VERSION = 0;
const NO_DATA = Buffer.from([0, 0, 0, 0]);

export function encodeSubscription(topic: string, claims: Claims): Buffer {
  const data = Buffer.from(JSON.stringify(claims));
  return Buffer.concat([i16(VERSION), i32(1), text(topic), i32(data.length), data]);
}

/** Null when it is not one of ours. */
export function decodeClaims(bytes: Buffer): Claims | null {
  try {
    const reader = new EnvelopeReader(bytes);
    for (let topics = reader.i32(); topics > 0; topics--) reader.text();
    return claimsSchema.parse(JSON.parse(reader.bytes().toString('utf8')));
  } catch {
    return null;
  }
}

export function encodeShare(topic: string, partitions: readonly number[]): Buffer {
  const list = [i32(partitions.length), ...partitions.map(i32)];
  return Buffer.concat([i16(VERSION), i32(1), text(topic), ...list, NO_DATA]);
}

/** An empty assignment is what a member gets that the leader did not know of: it has nothing. */
export function decodeShare(topic: string, bytes: Buffer): number[] {
  if (bytes.length === 0) return [];
  const reader = new EnvelopeReader(bytes);
  const shares: number[] = [];
  for (let topics = reader.i32(); topics > 0; topics--) {
    const isOurs = reader.text() === topic;
    for (let left = reader.i32(); left > 0; left--) {
      const partition = reader.i32();
      if (isOurs) shares.push(partition);
    }
  }
  return shares;
}

function i16(value: number): Buffer {
  const out = Buffer.allocUnsafe(2);
  out.writeInt16BE(value);
  return out;
}

function i32(value: number): Buffer {
  const out = Buffer.allocUnsafe(4);
  out.writeInt32BE(value);
  return out;
}

const text = (value: string): Buffer => {
  const bytes = Buffer.from(value);
  return Buffer.concat([i16(bytes.length), bytes]);
};

/** Reads behind the version. Beyond the end it throws. */
class EnvelopeReader {
  #at = 2;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  i32(): number {
    this.#at += 4;
    return this.#bytes.readInt32BE(this.#at - 4);
  }

  text(): string {
    const length = this.#bytes.readInt16BE(this.#at);
    this.#at += 2 + length;
    return this.#bytes.toString('utf8', this.#at - length, this.#at);
  }

  bytes(): Buffer {
    const length = this.i32();
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
}
