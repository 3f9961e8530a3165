/** Journals in memory: what survives a process is here, what a disk loses can be taken away. */
import type { JournalLog } from '../../src/counter/port.ts';
import type { AppendDone } from '../../src/log/port.ts';
import { MemoryLog } from './memory-log.ts';

export class MemoryJournals {
  readonly #logs = new Map<number, MemoryLog>();
  readonly #open = new Set<number>();
  /** Called before a record is made durable; throws what the disk answers. */
  beforeAppend: (bytes: Buffer) => void = () => {};
  afterAppend: (bytes: Buffer) => void = () => {};

  async open(partition: number): Promise<JournalLog> {
    if (this.#open.has(partition)) throw new Error(`journal ${partition} is open already`);
    this.#open.add(partition);
    const log = this.#logs.get(partition) ?? new MemoryLog();
    log.create(0);
    this.#logs.set(partition, log);
    const { endOffset } = await log.range(0);
    const close = async (): Promise<void> => void this.#open.delete(partition);
    const append = (bytes: Buffer, length: number, done: AppendDone): void => {
      const copy = Buffer.from(bytes.subarray(0, length));
      setImmediate(() => {
        try {
          this.beforeAppend(copy);
          log.appendBytes(0, [copy], 0);
          this.afterAppend(copy);
        } catch (error) {
          return done(error as Error);
        }
        done(null);
      });
    };
    return {
      partition: 0,
      writer: { append, healthy: true, close },
      reader: log,
      nextOffset: endOffset,
      trim: (offset) => log.removeBefore(0, offset),
    };
  }

  readonly drop = (partition: number): void => {
    if (this.#open.has(partition)) throw new Error(`journal ${partition} is open`);
    this.#logs.delete(partition);
  };

  /** The process is gone; what it wrote stays. */
  crash(): void {
    this.#open.clear();
  }

  has(partition: number): boolean {
    return this.#logs.has(partition);
  }

  /** As a new machine, or one without its disk. */
  lose(): void {
    this.#logs.clear();
    this.#open.clear();
  }
}
