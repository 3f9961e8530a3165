/**
 * Appends to a Kafka topic without a spool: for what somebody waits for and can hand in again, as
 * recorded clicks and redriven dead letters are.
 *
 * Owns the records between `append` and their `done`. Does not own the connections (`cluster.ts`).
 *
 * T1 `done(null)` only when every replica in sync has the record.
 * T2 A record that is not acknowledged is published again, for `giveUpAfterMs` and one request at the most;
 *    then `done` gets an error that says `retry`. It may have been written all the same, also more than
 *    once: counting knows it. A topic that must not be written to is no reason to try again.
 * T3 What waits is bounded.
 */
import { monotonicMs } from '../../platform/clock.ts';
import { LedgerError } from '../../platform/errors.ts';
import type { AppendDone, ClickLogWriter } from '../port.ts';
import { unreachable } from './connections.ts';
import { keyed } from './partitioner.ts';
import type { Publisher } from './publisher.ts';
import type { KeyedRecord } from './record-batch.ts';

export interface TopicWriterOptions {
  readonly publisher: Publisher;
  /** Called at the end, for what the publisher is made of. */
  readonly closeConnections: () => Promise<void>;
  readonly giveUpAfterMs?: number;
  readonly maxPendingBytes?: number;
}

const GIVE_UP_AFTER_MS = 30_000;
const MAX_PENDING_BYTES = 4 * 1024 * 1024;
/** Records come together for so long before they are sent. */
const LINGER_MS = 2;
const MIN_RETRY_MS = 50;
const MAX_RETRY_MS = 1_000;

interface Waiting extends KeyedRecord {
  readonly done: AppendDone;
  readonly untilMs: number;
  retryMs: number;
}

export class KafkaTopicWriter implements ClickLogWriter {
  readonly #options: TopicWriterOptions & { giveUpAfterMs: number; maxPendingBytes: number };
  #filling: Waiting[] = [];
  #pending = 0;
  #pendingBytes = 0;
  #failing = false;
  #closed = false;
  #idle: (() => void)[] = [];

  constructor(options: TopicWriterOptions) {
    this.#options = {
      giveUpAfterMs: GIVE_UP_AFTER_MS,
      maxPendingBytes: MAX_PENDING_BYTES,
      ...options,
    };
  }

  /** True until a record was given up, and again from the next one that is acknowledged. */
  get healthy(): boolean {
    return !this.#closed && !this.#failing;
  }

  append(bytes: Buffer, length: number, done: AppendDone): void {
    if (this.#closed) throw unreachable('the click log is closing');
    if (this.#pendingBytes + length > this.#options.maxPendingBytes) {
      throw new LedgerError('log_full_queue', 'too many clicks wait for the log', {
        kind: 'retry',
      });
    }
    const copy = Buffer.from(bytes.subarray(0, length));
    const untilMs = monotonicMs() + this.#options.giveUpAfterMs;
    this.#pending++;
    this.#pendingBytes += length;
    this.#fill([{ ...keyed(copy), done, untilMs, retryMs: MIN_RETRY_MS }]);
  }

  /** Bounded by T2. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#pending > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    await this.#options.closeConnections();
  }

  #fill(records: readonly Waiting[]): void {
    if (this.#filling.length === 0) setTimeout(() => this.#flush(), LINGER_MS);
    this.#filling.push(...records);
  }

  #flush(): void {
    const records = this.#filling;
    this.#filling = [];
    this.#options.publisher.publish(records, (some, error) => {
      if (error === null) for (const waiting of some) this.#finish(waiting, null);
      else this.#again(some, error);
    });
  }

  /** T2. */
  #again(records: readonly Waiting[], cause: Error): void {
    this.#options.publisher.lookAgain();
    const nowMs = monotonicMs();
    const isRefused = cause instanceof LedgerError && cause.kind === 'refuse';
    for (const waiting of records) {
      if (isRefused) {
        this.#finish(waiting, cause);
        continue;
      }
      if (nowMs + waiting.retryMs >= waiting.untilMs) {
        this.#finish(waiting, unreachable('the topic does not take records', cause));
        continue;
      }
      setTimeout(() => this.#fill([waiting]), waiting.retryMs);
      waiting.retryMs = Math.min(MAX_RETRY_MS, waiting.retryMs * 2);
    }
  }

  #finish(waiting: Waiting, error: Error | null): void {
    this.#failing = error !== null;
    this.#pending--;
    this.#pendingBytes -= waiting.bytes.length;
    waiting.done(error);
    if (this.#pending === 0) for (const idle of this.#idle.splice(0)) idle();
  }
}
