/**
 * Ships the spools of a data folder into the topic: each that is wanted, and whose lock is free.
 *
 * X1 Whoever holds the lock of a spool ships it, and nobody else: the position is one process's to write.
 *    A spool whose shipper has died is taken over at the next look.
 */
import type { DataPaths } from '../config/paths.ts';
import { DiskLogReader } from '../log/disk/reader.ts';
import { removeOldSegments } from '../log/disk/retention.ts';
import type { Publisher } from '../log/kafka/publisher.ts';
import { SpoolShipper } from '../log/kafka/shipper.ts';
import { LedgerError } from '../platform/errors.ts';
import { type Lock, takeLock } from '../platform/lock.ts';
import type { Logger } from '../platform/logger.ts';

export interface SpoolShippersOptions {
  readonly paths: DataPaths;
  readonly publisher: Publisher;
  readonly shipRecordsPerSecond: number;
  readonly logger: Logger;
  readonly lookIntervalMs: number;
  readonly wants: (partition: number) => boolean;
}

interface Held {
  readonly shipper: SpoolShipper;
  readonly lock: Lock;
  /** Why it does not come on; null while it does. */
  problem: Error | null;
}

export class SpoolShippers {
  readonly #options: SpoolShippersOptions;
  readonly #held = new Map<number, Held>();
  readonly #spools: DiskLogReader;
  #timer: ReturnType<typeof setInterval> | null = null;
  #looking: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: SpoolShippersOptions) {
    this.#options = options;
    this.#spools = new DiskLogReader(options.paths.spool);
  }

  /** Those of the spools that are ours by now. */
  get shippers(): SpoolShipper[] {
    return [...this.#held.values()].map(({ shipper }) => shipper);
  }

  /** Why nothing comes on with one of the spools; null while all do. */
  get problem(): Error | null {
    return [...this.#held.values()].find(({ problem }) => problem !== null)?.problem ?? null;
  }

  async backlogRecords(): Promise<number> {
    const backlogs = await Promise.all(this.shippers.map((each) => each.backlogRecords()));
    return backlogs.reduce((sum, records) => sum + records, 0);
  }

  /** Takes what there is, and looks again and again for more. */
  async start(): Promise<void> {
    await this.look();
    this.#timer = setInterval(() => {
      this.look().catch((error: unknown) =>
        this.#options.logger.error({ err: error }, 'a spool cannot be shipped'),
      );
    }, this.#options.lookIntervalMs);
  }

  look(): Promise<void> {
    this.#looking = this.#looking.catch(() => {}).then(() => this.#takeFree());
    return this.#looking;
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#looking.catch(() => {});
    for (const { shipper, lock } of this.#held.values()) {
      await shipper.close();
      lock.release();
    }
    this.#held.clear();
    await this.#spools.close();
  }

  async #takeFree(): Promise<void> {
    for (const partition of await this.#spools.partitions()) {
      if (this.#closed) return;
      if (this.#held.has(partition) || !this.#options.wants(partition)) continue;
      const lock = this.#tryLock(partition);
      if (lock !== null) await this.#take(partition, lock);
    }
  }

  /** X1. Null while another process has it. */
  #tryLock(partition: number): Lock | null {
    try {
      return takeLock(this.#options.paths.run, `ship-${partition}`, 'Another process ships it.');
    } catch (error) {
      if (error instanceof LedgerError && error.code === 'locked') return null;
      throw error;
    }
  }

  async #take(partition: number, lock: Lock): Promise<void> {
    const { paths, publisher, shipRecordsPerSecond, logger } = this.#options;
    const shipper = new SpoolShipper({
      publisher,
      partition,
      spool: new DiskLogReader(paths.spool),
      positionDir: paths.spool,
      shipRecordsPerSecond,
      removeShipped: (safeOffset) => {
        const olderThanMs = Number.POSITIVE_INFINITY;
        removeOldSegments(paths.spool, partition, { safeOffset, olderThanMs });
      },
      onHealth: (error) => {
        held.problem = error;
        logger[error === null ? 'info' : 'warn']({ err: error, partition }, 'shipping the spool');
      },
    });
    const held: Held = { shipper, lock, problem: null };
    try {
      await shipper.start();
    } catch (error) {
      lock.release();
      throw error;
    }
    this.#held.set(partition, held);
  }
}
