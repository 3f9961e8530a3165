/**
 * The archive's store: named, immutable objects. Adapters: `folder/` (one machine) and `s3/` (a
 * bucket). Everything above it (Parquet, manifests, the archiver) is common to all adapters.
 *
 * Object names are relative, `/`-separated, of `A–Z a–z 0–9 . _ = -` per segment.
 */
export interface ObjectInfo {
  readonly name: string;
  readonly sizeBytes: number;
}

export interface ListOptions {
  readonly after?: string;
}

export interface ObjectStore {
  /**
   * Stores an object durably, all or nothing. When the name exists with the same bytes this is a
   * success (a retry); with other bytes it throws LedgerError `object_differs`: objects never change.
   */
  putIfAbsent(name: string, bytes: Uint8Array): Promise<void>;
  /** The object's bytes, or null when there is none. */
  get(name: string): Promise<Uint8Array | null>;
  /**
   * Objects whose name starts with `prefix`, in ascending order of name (byte order); with `after`
   * those whose name is greater, which need not be the name of an object. What was stored before the
   * call is listed; what is stored during it may be.
   */
  list(prefix: string, options?: ListOptions): AsyncIterable<ObjectInfo>;
  /** Removes an object that no manifest names; a missing one is no error. */
  remove(name: string): Promise<void>;
}

/** An archive that is only read. */
export type ObjectSource = Pick<ObjectStore, 'get' | 'list'>;

/** One Parquet object: the records of one event hour out of one range of one partition's log. */
export interface ArchiveObject {
  readonly name: string;
  /** Start of the event hour, ms UTC; null for the object that holds dead letters. */
  readonly hourMs: number | null;
  readonly rows: number;
  readonly sizeBytes: number;
  /** Lower-case hex SHA-256 of the object's bytes. */
  readonly sha256: string;
}

/**
 * What one archiver step covered: every record of `[firstOffset, lastOffset]` of the partition is in
 * exactly one of `objects`. Ranges of a partition follow each other without hole or overlap.
 */
export interface ManifestEntry {
  readonly partition: number;
  readonly firstOffset: number;
  /** Inclusive. */
  readonly lastOffset: number;
  readonly objects: readonly ArchiveObject[];
  /** Append time of the last record, ms UTC: the archive is complete up to here for this partition. */
  readonly lastAppendedAtMs: number;
}

/** One archived click, as the Parquet columns hold it. */
export interface ArchivedClick {
  readonly impressionId: string;
  readonly adId: string;
  readonly advertiserId: string;
  readonly campaignId: string;
  readonly clickedAtMs: number;
  readonly country: string;
  readonly device: string;
  readonly class: string;
  readonly source: string;
  readonly geoVersion: number;
  readonly ip: string;
  readonly userAgent: string;
  readonly referer: string;
  readonly partition: number;
  readonly offset: number;
  readonly appendedAtMs: number;
}
