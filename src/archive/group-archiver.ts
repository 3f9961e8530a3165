/**
 * An archiver that shares the log's partitions with others: archives those that a group assigns to it.
 *
 * Owns which partitions are ours at a moment. Does not own how far they are archived: the store knows,
 * so nothing is committed to the group.
 *
 *  1. A partition is ours from the moment that it is assigned and the step in progress before it is done.
 *  2. It is not ours any more when `pause` is called; `pause` resolves when the step in progress is done.
 *  3. After `lost` a step in progress goes on to its end, though others may have the partition already:
 *     R1 to R3 of `range-writer.ts` make that harmless.
 */
import type { GroupHandlers, PartitionGroup } from '../log/group.ts';
import { Archiver, type ArchiverOptions, type ArchiverStatus } from './archiver.ts';

export interface GroupArchiverOptions extends Omit<ArchiverOptions, 'partitions'> {
  readonly group: Pick<PartitionGroup, 'join' | 'leave' | 'status'>;
}

export interface GroupArchiverStatus extends ArchiverStatus {
  /** What it waits for, in words; null while it archives. */
  readonly waitsFor: string | null;
  readonly rebalances: number;
}

export class GroupArchiver implements GroupHandlers {
  readonly #group: GroupArchiverOptions['group'];
  readonly #archiver: Archiver;
  #partitions: readonly number[] = [];
  /** Rises with everything that the group says: what was begun for an older word is not ended. */
  #word = 0;

  constructor(options: GroupArchiverOptions) {
    this.#group = options.group;
    this.#archiver = new Archiver({ ...options, partitions: () => this.#partitions });
  }

  /** Joins the group and archives until `signal` is aborted; gives the partitions back at the end. */
  async run(signal: AbortSignal): Promise<void> {
    this.#group.join(this);
    try {
      await this.#archiver.run(signal);
    } finally {
      await this.#group.leave();
    }
  }

  /** Archives what is due now of our partitions. False when something is worth another try. */
  pass(signal?: AbortSignal): Promise<boolean> {
    return this.#archiver.pass(signal);
  }

  /** Archives what the log holds of our partitions. */
  flush(): Promise<void> {
    return this.#archiver.flush();
  }

  async pause(): Promise<void> {
    this.#word++;
    this.#partitions = [];
    await this.#archiver.release();
  }

  async assigned(partitions: readonly number[]): Promise<void> {
    const word = ++this.#word;
    this.#partitions = [];
    // Not waited for: the group must not wait until a large object is written.
    void this.#archiver.release().then(() => {
      if (word === this.#word) this.#partitions = [...partitions];
    });
  }

  lost(): void {
    this.#word++;
    this.#partitions = [];
  }

  status(): GroupArchiverStatus {
    const { waitsFor, rebalances } = this.#group.status();
    return { ...this.#archiver.status(), waitsFor, rebalances };
  }
}
