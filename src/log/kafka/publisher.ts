/**
 * Sends records to the brokers that lead their partitions, and says what became of each.
 *
 * Owns nothing but requests in flight; keeps no record and tries nothing again: its callers know
 * whether to wait, to spool or to try once more.
 *
 * P1 A record is reported without an error only when every replica in sync has it (`acks=all`).
 * P2 A record is reported exactly once. An error does not say that it was not written.
 */
import type { Clock } from '../../platform/clock.ts';
import type { KafkaCluster } from './cluster.ts';
import { unreachable } from './connections.ts';
import { partitionOf } from './partitioner.ts';
import { ERROR, type ProduceAnswer, produce } from './protocol.ts';
import {
  BATCH_OVERHEAD_BYTES,
  type Compression,
  encodeBatch,
  type KeyedRecord,
  RECORD_OVERHEAD_BYTES,
} from './record-batch.ts';

/** A topic must take batches of this size; `topic.ts` checks it. */
export const MAX_BATCH_BYTES = 512 * 1024;

export interface PublisherOptions {
  readonly cluster: KafkaCluster;
  readonly topic: string;
  readonly compression: Compression;
  /** How long a leader may wait for its followers. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  /** Everything into this partition: what tests of order and offsets need. */
  readonly fixedPartition?: number;
}

/** Called for some of the records, until all were named once. */
export type Settled<R> = (records: readonly R[], error: Error | null) => void;

export class Refused extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`the broker answered with error ${code}`);
    this.code = code;
  }
}

interface Part<R> {
  readonly partition: number;
  readonly records: R[];
  sizeBytes: number;
}

export class Publisher {
  readonly #options: PublisherOptions;
  #held: Error | null = null;

  constructor(options: PublisherOptions) {
    this.#options = options;
  }

  /** While it is held back nothing is sent, and every record gets this error. */
  hold(why: Error | null): void {
    this.#held = why;
  }

  /** The broker that takes this record; -1 when none is known. */
  leaderOf(record: KeyedRecord): number {
    const leaders = this.#options.cluster.layout?.leaders;
    if (this.#held !== null) return -1;
    return leaders?.[this.#partitionOf(record, leaders.length)] ?? -1;
  }

  /** Learns anew who leads: a broker that is frozen gives no answer that would tell. */
  lookAgain(): void {
    this.#options.cluster.refreshSoon();
  }

  publish<R extends KeyedRecord>(records: readonly R[], settled: Settled<R>): void {
    const layout = this.#options.cluster.layout;
    if (this.#held !== null) {
      settled(records, this.#held);
      return;
    }
    if (layout === null) {
      this.#options.cluster.refreshSoon();
      settled(records, unreachable('no broker has answered yet'));
      return;
    }
    const parts = new Map<number, Part<R>>();
    const rest: R[] = [];
    for (const record of records) {
      const partition = this.#partitionOf(record, layout.leaders.length);
      const sizeBytes =
        RECORD_OVERHEAD_BYTES + record.bytes.length + record.keyEnd - record.keyStart;
      let part = parts.get(partition);
      if (part === undefined) {
        part = { partition, records: [], sizeBytes: BATCH_OVERHEAD_BYTES };
        parts.set(partition, part);
      } else if (part.sizeBytes + sizeBytes > MAX_BATCH_BYTES) {
        // A request carries one batch of a partition.
        rest.push(record);
        continue;
      }
      part.records.push(record);
      part.sizeBytes += sizeBytes;
    }
    const nodes = Map.groupBy(parts.values(), (part) => layout.leaders[part.partition] ?? -1);
    for (const [node, itsParts] of nodes) void this.#send(node, itsParts, settled);
    if (rest.length > 0) this.publish(rest, settled);
  }

  #partitionOf(record: KeyedRecord, partitions: number): number {
    return this.#options.fixedPartition ?? partitionOf(record, partitions);
  }

  async #send<R extends KeyedRecord>(
    node: number,
    parts: readonly Part<R>[],
    settled: Settled<R>,
  ): Promise<void> {
    const { cluster, topic, timeoutMs, compression, clock } = this.#options;
    let answer: ProduceAnswer;
    try {
      const connection = cluster.openConnection(node) ?? (await cluster.connection(node));
      const batches = parts.map(({ partition, records }) => ({
        partition,
        batch: encodeBatch(records, clock(), compression),
      }));
      answer = await produce(connection, { topic, timeoutMs, batches });
    } catch (error) {
      cluster.refreshSoon();
      for (const { records } of parts) settled(records, error as Error);
      return;
    }
    for (const { partition, records } of parts) {
      const code = answer.get(partition) ?? -1;
      if (code !== ERROR.none) cluster.refreshSoon();
      settled(records, code === ERROR.none ? null : new Refused(code));
    }
  }
}
