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
 */
import type { Connection } from '@platformatic/kafka';
import { monotonicMs } from '../../platform/clock.ts';
import { LedgerError } from '../../platform/errors.ts';
import type { ClickLogReader, PartitionRange, RecordBatch } from '../port.ts';
import { KafkaCluster, unreachable } from './cluster.ts';
import type { KafkaConnection } from './options.ts';
import { ERROR, type FetchAnswer, fetchRecords, type OffsetAnswer, offsetOf } from './protocol.ts';
import { DamagedBatch, type DecodedBatch, decodeBatches } from './record-batch.ts';

export interface KafkaReaderOptions {
  readonly connection: KafkaConnection;
  readonly topic: string;
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

type Ask<T> = (connection: Connection, of: { topicId: string; leaderEpoch: number }) => Promise<T>;

const DEFAULT_PATIENCE_MS = 5_000;
const MIN_BACKOFF_MS = 20;
const MAX_BACKOFF_MS = 500;
/** Most records that stand for a hole in one batch. */
const MAX_FILL = 10_000;
const MAX_FETCH_BYTES = 64 * 1024 * 1024;
const NOTHING = Buffer.alloc(0);

export class KafkaLogReader implements ClickLogReader {
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
    return leaders.map((_, partition) => partition);
  }

  async range(partition: number): Promise<PartitionRange> {
    const { topic } = this.#options;
    const [firstOffset, endOffset] = await Promise.all(
      (['first', 'end'] as const).map(async (which) => {
        const ask: Ask<OffsetAnswer> = (connection, { leaderEpoch }) =>
          offsetOf(connection, { topic, partition, leaderEpoch, which });
        return (await this.#ask(partition, ask)).offset;
      }),
    );
    return { partition, firstOffset: firstOffset!, endOffset: endOffset! };
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

  async close(): Promise<void> {
    await this.#cluster.close();
  }

  #fetch(partition: number, fromOffset: number, maxBytes: number): Promise<FetchAnswer> {
    return this.#ask(partition, (connection, { topicId, leaderEpoch }) =>
      fetchRecords(connection, { topicId, partition, leaderEpoch, fromOffset, maxBytes }),
    );
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
    return this.#patiently(async () => {
      const { leaders, epochs, topicId } = this.#cluster.layout ?? (await this.#layout());
      const leader = leaders[partition];
      if (leader === undefined) {
        throw new LedgerError('log_missing', `there is no partition ${partition}`);
      }
      if (leader === -1) throw unreachable(`partition ${partition} has no leader`);
      const answer = await ask(await this.#cluster.connection(leader), {
        topicId,
        leaderEpoch: epochs[partition] ?? -1,
      });
      if (answer.errorCode === ERROR.none || answer.errorCode === ERROR.offsetOutOfRange) {
        return answer;
      }
      throw unreachable(`partition ${partition}: error ${answer.errorCode}`);
    });
  }

  /** Tries again, with what the brokers then say, until the patience is used up. */
  async #patiently<T>(attempt: () => Promise<T>): Promise<T> {
    const untilMs = monotonicMs() + (this.#options.patienceMs ?? DEFAULT_PATIENCE_MS);
    let backoffMs = MIN_BACKOFF_MS;
    for (;;) {
      let failure: unknown;
      try {
        return await attempt();
      } catch (error) {
        if (error instanceof LedgerError && error.kind === 'refuse') throw error;
        failure = error;
      }
      if (monotonicMs() + backoffMs >= untilMs) {
        if (failure instanceof LedgerError) throw failure;
        throw unreachable('the brokers do not answer', failure);
      }
      await Bun.sleep(backoffMs);
      backoffMs = Math.min(MAX_BACKOFF_MS, backoffMs * 2);
      // What cannot be learnt now is learnt by the next attempt, or not at all.
      await this.#layout().catch((error: unknown) => {
        if (error instanceof LedgerError && error.kind === 'refuse') throw error;
      });
    }
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
