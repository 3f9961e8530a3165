/** What the counter needs besides the log and the warehouse. Adapters: `sqlite/`, `disk/`. */
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

export interface StoredDeadLetter extends DeadLetter {
  /** `<partition>-<offset>`. */
  readonly id: string;
  /** When it was appended to the log again; null while it waits. */
  readonly redrivenAtMs: number | null;
}

export interface DeadLetterStore {
  /** Stores letters durably; a letter that is there already stays as it is. Throws when it cannot. */
  put(letters: readonly DeadLetter[]): void;
  list(options: { limit: number; waitingOnly: boolean }): StoredDeadLetter[];
  get(id: string): StoredDeadLetter | null;
  /** Letters that wait, by reason. */
  waiting(): ReadonlyMap<DeadLetterReason, number>;
  markRedriven(id: string, atMs: number): void;
  close(): void;
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
