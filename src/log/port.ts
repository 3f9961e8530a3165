/**
 * The click log as its users see it: an append side for whoever takes clicks, a read side for the
 * counter and the archiver. Adapters: `disk/` (one machine), `kafka/` (a topic).
 *
 * An offset is a record's sequence number in its partition, from 0, without holes. On the disk one writer
 * a partition; a Kafka writer spreads its clicks over all of them. A reader only ever sees records that are durable.
 */

/** Called once the record is durable (`error` null), or is known not to be acknowledged. */
export type AppendDone = (error: Error | null) => void;

export interface ClickLogWriter {
  /**
   * Takes `bytes[0, length)` (copied before the call returns) and calls `done` later, never before
   * the record is durable. Throws LedgerError `log_unavailable` when nothing can be written now, and
   * `log_full_queue` when the bound on unwritten bytes is reached: nothing was taken then.
   */
  append(bytes: Buffer, length: number, done: AppendDone): void;
  /** False while the writer cannot make anything durable (disk full, I/O error). */
  readonly healthy: boolean;
  /** Writes out what was taken, then closes. */
  close(): Promise<void>;
}

/** Consecutive records of one partition that the log took at one moment. */
export interface RecordBatch {
  readonly partition: number;
  /** Offset of the first record. */
  readonly firstOffset: number;
  readonly count: number;
  /** When the log took them: ms UTC of the log's own clock. */
  readonly appendedAtMs: number;
  /** Holds the payloads; record `i` is `bytes[bounds[2i], bounds[2i+1])`. */
  readonly bytes: Buffer;
  readonly bounds: Uint32Array;
}

export interface PartitionRange {
  readonly partition: number;
  /** Oldest offset that the log still holds. */
  readonly firstOffset: number;
  /** Offset after the newest durable record. */
  readonly endOffset: number;
}

export interface ClickLogReader {
  /** Every partition that exists, in ascending order. */
  partitions(): Promise<number[]>;
  range(partition: number): Promise<PartitionRange>;
  /**
   * Batches from `fromOffset` on, about `maxBytes` of them; empty when there is nothing new. The
   * first batch may begin before `fromOffset`: skip what you have seen. Throws LedgerError
   * `offset_out_of_retention` when `fromOffset` is older than the log, `log_damaged` when bytes
   * that were durable do not check.
   */
  read(partition: number, fromOffset: number, maxBytes: number): Promise<RecordBatch[]>;
  close(): Promise<void>;
}

/** Finds places in the log by time; what a log on the disk is not asked for. */
export interface LogTimes {
  /** The first offset that was appended at `timeMs` or later; the log's end when there is none. */
  offsetAt(partition: number, timeMs: number): Promise<number>;
}

/** Offset of the log's next record, per partition. */
export type LogPosition = ReadonlyMap<number, number>;
