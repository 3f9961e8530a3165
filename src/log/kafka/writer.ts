/**
 * Appends clicks to a Kafka topic, with a disk log beside it for when Kafka is slow or away.
 *
 * Owns the clicks between `append` and their `done`. Does not own what happens to the spool's
 * records afterwards (`shipper.ts`), nor the connections (`cluster.ts`).
 *
 * K1 `done(null)` only when every replica in sync has the record, or the spool's disk has it.
 * K2 A record without an answer from Kafka after `publishDeadlineMs` goes to the spool. It may have
 *    been written all the same: it then is in the topic twice, and counting knows it by its impression.
 * K3 `done` is called once, at the latest one spool write after the deadline.
 * K4 What waits is bounded, and small enough for the spool to take all of it in one frame.
 */
import { monotonicMs } from '../../platform/clock.ts';
import { LedgerError } from '../../platform/errors.ts';
import type { AppendDone, ClickLogWriter } from '../port.ts';
import { Breaker, type BreakerState } from './breaker.ts';
import { keyed } from './partitioner.ts';
import type { Publisher } from './publisher.ts';
import type { KeyedRecord } from './record-batch.ts';

export interface KafkaWriterOptions {
  readonly publisher: Publisher;
  /** Takes what Kafka does not take in time. The writer closes it. */
  readonly spool: ClickLogWriter;
  readonly publishDeadlineMs: number;
  /** A request is sent when so many records have come together … */
  readonly batchRecords: number;
  /** … or this long after the first of them. */
  readonly lingerMs: number;
  readonly maxPendingBytes: number;
  readonly breakerFailures: number;
  readonly breakerLastingMs: number;
  readonly breakerOpenMs: number;
  /** Called when records were acknowledged: by whom, and how long the first of them had waited. */
  readonly onSettled?: (by: 'kafka' | 'spool', records: number, waitedMs: number) => void;
}

export const WRITER_DEFAULTS = {
  publishDeadlineMs: 50,
  batchRecords: 500,
  lingerMs: 2,
  // The spool's frame takes 8 MiB with its headers.
  maxPendingBytes: 4 * 1024 * 1024,
  breakerFailures: 3,
  breakerLastingMs: 200,
  breakerOpenMs: 1_000,
};

interface Waiting extends KeyedRecord {
  readonly done: AppendDone;
  readonly takenMs: number;
  /** The broker it was meant for. */
  readonly node: number;
  /** Somebody has answered for it, or the spool is about to. */
  decided: boolean;
}

export interface KafkaWriterCounts {
  published: number;
  spooled: number;
  /** Neither Kafka nor the spool took them. */
  failed: number;
  /** Records that ran into the deadline. */
  expired: number;
}

export class KafkaLogWriter implements ClickLogWriter {
  readonly counts: KafkaWriterCounts = { published: 0, spooled: 0, failed: 0, expired: 0 };
  readonly #options: KafkaWriterOptions;
  readonly #breakers = new Map<number, Breaker>();
  #filling: Waiting[] = [];
  #lingerTimer: ReturnType<typeof setTimeout> | null = null;
  #pendingBytes = 0;
  #pending = 0;
  #closed = false;
  #idle: (() => void)[] = [];

  constructor(options: KafkaWriterOptions) {
    this.#options = options;
  }

  get healthy(): boolean {
    return !this.#closed && (this.#options.spool.healthy || this.breakerState === 'closed');
  }

  /** The worst of all brokers'. */
  get breakerState(): BreakerState {
    const states = [...this.#breakers.values()].map(({ state }) => state);
    return (
      states.find((state) => state === 'open') ?? states.find((s) => s !== 'closed') ?? 'closed'
    );
  }

  get breakersOpened(): number {
    return [...this.#breakers.values()].reduce((sum, { opened }) => sum + opened, 0);
  }

  append(bytes: Buffer, length: number, done: AppendDone): void {
    if (this.#closed) {
      throw new LedgerError('log_unavailable', 'the click log is closing', { kind: 'retry' });
    }
    if (this.#pendingBytes + length > this.#options.maxPendingBytes) {
      throw new LedgerError('log_full_queue', 'too many clicks wait for the log', {
        kind: 'retry',
      });
    }
    const copy = Buffer.allocUnsafe(length);
    bytes.copy(copy, 0, 0, length);
    const record = keyed(copy);
    const node = this.#options.publisher.leaderOf(record);
    const waiting: Waiting = {
      ...record,
      done,
      takenMs: monotonicMs(),
      node,
      decided: false,
    };
    this.#pending++;
    this.#pendingBytes += length;
    // With the spool's disk full as well, waiting for Kafka is what is left.
    const allowed = this.#breaker(node).allows(waiting.takenMs);
    if (!allowed && this.#options.spool.healthy) {
      this.#spool([waiting]);
    } else {
      this.#fill(waiting);
    }
  }

  #fill(waiting: Waiting): void {
    this.#filling.push(waiting);
    if (this.#filling.length >= this.#options.batchRecords) this.#flush();
    else this.#lingerTimer ??= setTimeout(() => this.#flush(), this.#options.lingerMs);
  }

  #flush(): void {
    if (this.#lingerTimer !== null) clearTimeout(this.#lingerTimer);
    this.#lingerTimer = null;
    const records = this.#filling;
    const first = records[0];
    if (first === undefined) return;
    this.#filling = [];
    const leftMs = this.#options.publishDeadlineMs - (monotonicMs() - first.takenMs);
    let unsettled = records.length;
    const deadline = setTimeout(() => this.#expire(records), Math.max(0, leftMs));
    this.#options.publisher.publish(records, (some, error) => {
      unsettled -= some.length;
      if (unsettled === 0) clearTimeout(deadline);
      if (error === null) this.#published(some);
      else this.#refused(some);
    });
  }

  #published(records: readonly Waiting[]): void {
    const inTime = records.filter(({ decided }) => !decided);
    const first = inTime[0];
    if (first === undefined) return;
    for (const node of nodesOf(inTime)) this.#breaker(node).succeeded();
    this.counts.published += inTime.length;
    const waitedMs = monotonicMs() - first.takenMs;
    for (const waiting of inTime) waiting.decided = true;
    for (const waiting of inTime) this.#finish(waiting, null);
    this.#options.onSettled?.('kafka', inTime.length, waitedMs);
  }

  #refused(records: readonly Waiting[]): void {
    const open = records.filter(({ decided }) => !decided);
    if (open.length === 0) return;
    for (const node of nodesOf(open)) this.#breaker(node).failed(monotonicMs());
    this.#spool(open);
  }

  /** K2: the answer may still come; nobody waits for it any longer. */
  #expire(records: readonly Waiting[]): void {
    const late = records.filter(({ decided }) => !decided);
    if (late.length === 0) return;
    this.counts.expired += late.length;
    this.#options.publisher.lookAgain();
    this.#refused(late);
  }

  #spool(records: readonly Waiting[]): void {
    for (const waiting of records) {
      waiting.decided = true;
      const done = (error: Error | null): void => {
        if (error === null) {
          this.counts.spooled++;
          this.#options.onSettled?.('spool', 1, monotonicMs() - waiting.takenMs);
        } else this.counts.failed++;
        this.#finish(waiting, error);
      };
      try {
        this.#options.spool.append(waiting.bytes, waiting.bytes.length, done);
      } catch (error) {
        // Not thrown on: `append` has taken the record, and whoever called may have gone.
        done(error as Error);
      }
    }
  }

  #finish(waiting: Waiting, error: Error | null): void {
    this.#pending--;
    this.#pendingBytes -= waiting.bytes.length;
    waiting.done(error);
    if (this.#pending === 0) for (const idle of this.#idle.splice(0)) idle();
  }

  #breaker(node: number): Breaker {
    let breaker = this.#breakers.get(node);
    if (breaker === undefined) {
      const { breakerFailures: failures, breakerLastingMs, breakerOpenMs } = this.#options;
      breaker = new Breaker({ failures, lastingMs: breakerLastingMs, openMs: breakerOpenMs });
      this.#breakers.set(node, breaker);
    }
    return breaker;
  }

  /** Bounded by K3: what Kafka does not answer in time goes to the spool. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#flush();
    if (this.#pending > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
    await this.#options.spool.close();
  }
}

const nodesOf = (records: readonly Waiting[]): Set<number> =>
  new Set(records.map(({ node }) => node));
