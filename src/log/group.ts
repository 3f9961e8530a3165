/**
 * Sharing the log's partitions among processes. Adapter: `kafka/` (a consumer group).
 *
 * G1 A partition belongs to one member at a time, but for members that were stopped without knowing it:
 *    their commits are refused.
 * G2 Nothing is given up before `pause` has resolved (bounded by the rebalance timeout).
 */

/** How far the members have come with a partition, as it was committed last. */
export interface Committed {
  /** Offset of the next record. */
  readonly offset: number;
  /** What the member wrote beside it; at most 3 KB of text. */
  readonly note: string;
}

export interface GroupHandlers {
  /** Partitions may move: finish, commit, and write nothing more until `assigned`. */
  pause(): Promise<void>;
  /** Belongs to us from now on, and nothing else does; also what belonged to us before. Returns soon. */
  assigned(partitions: readonly number[]): Promise<void>;
  /** The group has gone on without us: write nothing; `assigned` comes when we are in it again. */
  lost(): void;
}

export interface GroupStatus {
  /** What it waits for, in words; null when it has its partitions. */
  readonly waitsFor: string | null;
  readonly partitions: readonly number[];
  /** How often partitions were shared out since the start. */
  readonly rebalances: number;
  /** Identity of the log itself: differs when it was made anew under the same name. */
  readonly logId: string | null;
}

/** Reads what any member has committed; needs no membership. */
export interface GroupProgress {
  /** Of all partitions that have a commit. */
  committed(): Promise<ReadonlyMap<number, Committed>>;
  close(): Promise<void>;
}

export interface PartitionGroup extends GroupProgress {
  /** Joins, and stays in the group until `leave`, whatever happens to the brokers meanwhile. */
  join(handlers: GroupHandlers): void;
  /** Throws LedgerError `partition_lost` when a partition is not ours any longer: nothing was committed. */
  commit(commits: ReadonlyMap<number, Committed>): Promise<void>;
  /** Pauses, and gives everything back. */
  leave(): Promise<void>;
  status(): GroupStatus;
}
