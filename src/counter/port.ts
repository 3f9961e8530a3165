/** What the counter needs besides the log and the warehouse. Adapters: `sqlite/`, `postgres/`, `disk/`. */
import type { DeadLetterReason } from '../event/click-event.ts';
import type { ClickLogReader, ClickLogWriter } from '../log/port.ts';

/** A record that cannot be counted, with all that is needed to look at it and to try it again. */
export interface DeadLetter {
  readonly partition: number;
  readonly offset: number;
  readonly appendedAtMs: number;
  readonly reason: DeadLetterReason;
  readonly bytes: Buffer;
}

/** A dead letter without its bytes, of which a list has no need. */
export interface DeadLetterHead extends Omit<DeadLetter, 'bytes'> {
  /** `<partition>-<offset>`. */
  readonly id: string;
  readonly sizeBytes: number;
  /** When it was appended to the log again; null while it waits. */
  readonly redrivenAtMs: number | null;
}

export interface StoredDeadLetter extends DeadLetterHead {
  readonly bytes: Buffer;
}

export interface DeadLetterQuery {
  readonly limit: number;
  readonly waitingOnly: boolean;
  /** Of this reason only. */
  readonly reason?: string;
  /** Those behind this letter, by its id. */
  readonly after?: string;
}

/**
 * L1 A letter is kept once, under its position in the log, whoever puts it and how often.
 * L2 A letter is marked once: the first time stays.
 */
export interface DeadLetterStore {
  /** Stores letters durably; a letter that is there already stays as it is. Throws when it cannot. */
  put(letters: readonly DeadLetter[]): Promise<void>;
  /** By partition and offset, at most `limit`: whoever wants all asks page by page. */
  list(query: DeadLetterQuery): Promise<DeadLetterHead[]>;
  /** Those of the letters that there are, with their bytes: give no more than fit into memory. */
  read(ids: readonly string[]): Promise<StoredDeadLetter[]>;
  /** Letters that wait, by reason; at a price that does not depend on those that do not. */
  waiting(): Promise<ReadonlyMap<DeadLetterReason, number>>;
  markRedriven(ids: readonly string[], atMs: number): Promise<void>;
  close(): Promise<void>;
}

/** Where letters of another store are copied to. */
export interface DeadLetterTarget {
  /**
   * Takes letters as they are elsewhere. One that is there stays as it is, unless it waits here and was
   * redriven there. Returns how many were added or marked.
   */
  restore(letters: readonly StoredDeadLetter[]): Promise<number>;
}

/** Where the counter's state is written: an append-only log of one partition with one user. */
export interface JournalLog {
  readonly partition: number;
  readonly writer: ClickLogWriter;
  readonly reader: ClickLogReader;
  /** Offset of the next record, when opened. */
  readonly nextOffset: number;
  /** Drops what lies wholly below `offset`. */
  trim(offset: number): void;
}
