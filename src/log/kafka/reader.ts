/**
 * Reads a Kafka topic by partition and offset, without a consumer group: who counts keeps the
 * positions, together with what was counted.
 *
 * Owns its connections. Keeps no position.
 *
 * R1 Offsets come without holes: where the topic has one, empty records stand for what is missing, so
 *    that they are seen as dead letters, and `onMissing` is told.
 * R2 An offset that the topic does not hold is an error. It is never moved to where the topic begins
 *    or ends: clicks would be skipped, or counted again, and nobody would know.
 * R3 A topic that was made anew under the same name is refused: the same offset is another click.
 * R4 Partitions are numbered from `firstPartition` on: no number is that of a partition on a disk, or of
 *    the topic that was there before.
 */
import type { Connection } from '@platformatic/kafka';
import { assert, LedgerError } from '../../platform/errors.ts';
import type { ClickLogReader, LogTimes, PartitionRange, RecordBatch } from '../port.ts';
import { KafkaCluster } from './cluster.ts';
import { unreachable } from './connections.ts';
import type { KafkaConnection } from './options.ts';
import { DEFAULT_PATIENCE_MS, patiently } from './patience.ts';
import {
  ERROR,
  type FetchAnswer,
  fetchRecords,
  type OffsetAnswer,
  offsetOf,
  type WhichOffset,
} from './protocol.ts';
import { DamagedBatch, type DecodedBatch, decodeBatches } from './record-batch.ts';

export interface KafkaReaderOptions {
  readonly connection: KafkaConnection;
  readonly topic: string;
  /** The number here of the topic's partition 0; the others follow. */
  readonly firstPartition: number;
  /** A read that gets no answer is tried again for so long. */
  readonly patienceMs?: number;
  /** Offsets `[firstOffset, firstOffset + count)` hold no record. */
  readonly onMissing?: (missing: MissingRecords) => void;
}

export interface MissingRecords {
  readonly partition: number;
  readonly firstOffset: number;
  readonly count: number;
}

/** `index` is the topic's own number of the partition. */
interface Asked {
  readonly topicId: string;
  readonly index: number;
  readonly leaderEpoch: number;
}

type Ask<T> = (connection: Connection, of: Asked) => Promise<T>;

/** Most records that stand for a hole in one batch. */
const MAX_FILL = 10_000;
const MAX_FETCH_BYTES = 64 * 1024 * 1024;
/** A claim keeps the number in 16 bits. */
const MAX_PARTITIONS = 65_536;
const NOTHING = Buffer.alloc(0);

export class KafkaLogReader implements ClickLogReader, LogTimes {
  readonly #options: KafkaReaderOptions;
  readonly #cluster: KafkaCluster;
  #topicId: string | null = null;

  constructor(options: KafkaReaderOptions) {
    this.#options = options;
    const patienceMs = options.patienceMs ?? DEFAULT_PATIENCE_MS;
    // A broker that hangs must not use up more than the patience by itself.
    const requestTimeoutMs = Math.min(options.connection.requestTimeoutMs, patienceMs);
    this.#cluster = new KafkaCluster({ ...options.connection, requestTimeoutMs }, options.topic);
  }

  async partitions(): Promise<number[]> {
    const leaders = await this.#patiently(async () => (await this.#layout()).leaders);
    const { firstPartition } = this.#options;
    assert(
      firstPartition + leaders.length <= MAX_PARTITIONS,
      'partitions are beyond their numbers',
    );
    return leaders.map((_, index) => firstPartition + index);
  }

  async range(partition: number): Promise<PartitionRange> {
    const [firstOffset, endOffset] = await Promise.all([
      this.#offset(partition, 'first'),
      this.#offset(partition, 'end'),
    ]);
    return { partition, firstOffset, endOffset };
  }

  async offsetAt(partition: number, timeMs: number): Promise<number> {
    // The end first: what is appended between the two questions lies behind it.
    const end = await this.#offset(partition, 'end');
    const found = await this.#offset(partition, { timeMs });
    return found === -1 ? end : found;
  }

  async read(partition: number, fromOffset: number, maxBytes: number): Promise<RecordBatch[]> {
    let wanted = maxBytes;
    for (;;) {
      const answer = await this.#fetch(partition, fromOffset, wanted);
      if (answer.errorCode === ERROR.offsetOutOfRange) {
        await this.#explain(partition, fromOffset);
        return [];
      }
      const batches = decoded(partition, answer.records);
      if (batches.length > 0) return this.#withoutHoles(partition, fromOffset, batches);
      if (answer.records.length === 0 || wanted >= MAX_FETCH_BYTES) return [];
      // The first batch is larger than what was asked for, and came cut.
      wanted *= 4;
    }
  }

  /** Identity of the topic: differs when it was made anew under the same name. */
  async logId(): Promise<string> {
    return (await this.#patiently(() => this.#layout())).topicId;
  }

  async close(): Promise<void> {
    await this.#cluster.close();
  }

  #fetch(partition: number, fromOffset: number, maxBytes: number): Promise<FetchAnswer> {
    return this.#ask(partition, (connection, { topicId, index, leaderEpoch }) =>
      fetchRecords(connection, { topicId, partition: index, leaderEpoch, fromOffset, maxBytes }),
    );
  }

  async #offset(partition: number, which: WhichOffset): Promise<number> {
    const { topic } = this.#options;
    const ask: Ask<OffsetAnswer> = (connection, { index, leaderEpoch }) =>
      offsetOf(connection, { topic, partition: index, leaderEpoch, which });
    return (await this.#ask(partition, ask)).offset;
  }

  /** R2. Returns when the offset is within the log after all: the end had not been known yet. */
  async #explain(partition: number, offset: number): Promise<void> {
    const { firstOffset, endOffset } = await this.range(partition);
    const place = `${this.#options.topic}, partition ${partition}`;
    if (offset < firstOffset) {
      throw new LedgerError(
        'offset_out_of_retention',
        `${place}: offset ${offset} is gone, the log begins at ${firstOffset}`,
        { hint: 'Run "clickledger rebuild": the archive holds what the log has dropped.' },
      );
    }
    if (offset > endOffset) {
      throw new LedgerError(
        'log_damaged',
        `${place}: offset ${offset} was read before and the log now ends at ${endOffset}`,
        { hint: 'The topic has lost records or was made anew. See docs/operating/kafka.md.' },
      );
    }
  }

  /** R1. */
  #withoutHoles(
    partition: number,
    fromOffset: number,
    batches: readonly DecodedBatch[],
  ): RecordBatch[] {
    const out: RecordBatch[] = [];
    let next = fromOffset;
    for (const batch of batches) {
      const { firstOffset, count, appendedAtMs, bytes, bounds } = batch;
      if (firstOffset > next) {
        const missing = Math.min(MAX_FILL, firstOffset - next);
        this.#options.onMissing?.({ partition, firstOffset: next, count: missing });
        out.push(emptyRecords(partition, { firstOffset: next, count: missing, appendedAtMs }));
        next += missing;
        if (next < firstOffset) return out;
      }
      if (batch.missing > 0) {
        this.#options.onMissing?.({ partition, firstOffset, count: batch.missing });
      } else if (!batch.logAppendTime) throw misdated(this.#options.topic, partition, firstOffset);
      out.push({ partition, firstOffset, count, appendedAtMs, bytes, bounds });
      next = firstOffset + count;
    }
    return out;
  }

  /** Asks the partition's leader, whoever it is by now. */
  #ask<T extends { errorCode: number }>(partition: number, ask: Ask<T>): Promise<T> {
    const index = partition - this.#options.firstPartition;
    return this.#patiently(async () => {
      const { leaders, epochs, topicId } = this.#cluster.layout ?? (await this.#layout());
      const leader = leaders[index];
      if (leader === undefined) {
        throw new LedgerError('log_missing', `there is no partition ${partition}`);
      }
      if (leader === -1) throw unreachable(`partition ${partition} has no leader`);
      const answer = await ask(await this.#cluster.connection(leader), {
        ...{ topicId, index },
        leaderEpoch: epochs[index] ?? -1,
      });
      if (answer.errorCode === ERROR.none || answer.errorCode === ERROR.offsetOutOfRange) {
        return answer;
      }
      throw unreachable(`partition ${partition}: error ${answer.errorCode}`);
    });
  }

  /** Tries again, with what the brokers then say, until the patience is used up. */
  #patiently<T>(attempt: () => Promise<T>): Promise<T> {
    const patienceMs = this.#options.patienceMs ?? DEFAULT_PATIENCE_MS;
    return patiently({ patienceMs, beforeNext: () => this.#layout() }, attempt);
  }

  /** R3. */
  async #layout() {
    const layout = await this.#cluster.refresh();
    this.#topicId ??= layout.topicId;
    if (layout.topicId === this.#topicId) return layout;
    throw new LedgerError('log_replaced', `the topic ${this.#options.topic} was made anew`, {
      hint: 'Positions of the old topic mean nothing in it. See docs/operating/kafka.md.',
    });
  }
}

function decoded(partition: number, bytes: Buffer): DecodedBatch[] {
  try {
    return decodeBatches(bytes);
  } catch (error) {
    if (!(error instanceof DamagedBatch)) throw error;
    throw new LedgerError('log_damaged', `Kafka, partition ${partition}: ${error.message}`, {
      cause: error,
    });
  }
}

function emptyRecords(
  partition: number,
  at: { firstOffset: number; count: number; appendedAtMs: number },
): RecordBatch {
  return { partition, ...at, bytes: NOTHING, bounds: new Uint32Array(at.count * 2) };
}

function misdated(topic: string, partition: number, firstOffset: number): LedgerError {
  return new LedgerError(
    'log_misdated',
    `${topic}, partition ${partition}: the batch at offset ${firstOffset} carries its producer's time`,
    {
      hint: 'The topic must have message.timestamp.type=LogAppendTime from its first record on.',
    },
  );
}
