/**
 * Names of everything in the archive. No other file spells them.
 *
 *     dt=2026-01-31/hr=07/p3-<first>-<last>.parquet   clicks of one event hour (UTC)
 *     dead/p3-<first>-<last>.parquet                  records that cannot be counted
 *     manifest/p00003/<first>.json                    commits a range that begins at `first`
 *     manifest/p00003/<first>-<last>.json             the same, as it was called in the beginning
 *     plan/p00003/<first>-<last>.json                 a range that is being written
 *     checkpoint/<number>.json.gz                     many manifest entries in one object
 *
 * Offsets have 20 digits, so that the order of names is the order of offsets. An object carries the
 * whole range of its step, not the offsets of its own rows: a retry finds its object by name.
 *
 * A commit carries its first offset alone: of two archivers that would commit ranges which begin at
 * one offset, the store takes one. When a range gives other bytes than those that lie under its names
 * (another version wrote them, or other settings), its objects and its plan carry a variant behind the
 * range, 16 hex digits made of their checksums.
 */
export interface OffsetRange {
  readonly partition: number;
  readonly firstOffset: number;
  /** Inclusive. */
  readonly lastOffset: number;
}

export const HOUR_MS = 3_600_000;
export const MANIFEST_PREFIX = 'manifest/';
export const PLAN_PREFIX = 'plan/';
export const CHECKPOINT_PREFIX = 'checkpoint/';
export const DEAD_PREFIX = 'dead/';
/** Every object that holds clicks begins with this. */
export const CLICKS_PREFIX = 'dt=';

/** Start of the hour that `timeMs` lies in. */
export function hourOf(timeMs: number): number {
  return Math.floor(timeMs / HOUR_MS) * HOUR_MS;
}

export function hourPrefix(hourMs: number): string {
  const iso = new Date(hourMs).toISOString();
  return `${CLICKS_PREFIX}${iso.slice(0, 10)}/hr=${iso.slice(11, 13)}/`;
}

/** Start of the hour that an object of clicks is named after; null for other names. */
export function hourOfName(name: string): number | null {
  const match = /^dt=(\d{4}-\d\d-\d\d)\/hr=(\d\d)\//.exec(name);
  const hourMs = match === null ? Number.NaN : Date.parse(`${match[1]}T${match[2]}:00:00Z`);
  return Number.isNaN(hourMs) ? null : hourMs;
}

/** Empty, or what tells one content of a range from another. */
export type Variant = string;

/** `hourMs` null names the object that holds dead letters. */
export function objectName(
  hourMs: number | null,
  range: OffsetRange,
  variant: Variant = '',
): string {
  const folder = hourMs === null ? DEAD_PREFIX : hourPrefix(hourMs);
  return `${folder}p${range.partition}-${offsets(range, variant)}.parquet`;
}

/** The variant that an object of the hour and range is named by; null when it is not named by them. */
export function variantOf(name: string, hourMs: number | null, range: OffsetRange): Variant | null {
  const variant = /-([0-9a-f]{16})\.parquet$/.exec(name)?.[1] ?? '';
  return name === objectName(hourMs, range, variant) ? variant : null;
}

export function entriesPrefix(partition: number): string {
  return `${MANIFEST_PREFIX}p${padPartition(partition)}/`;
}

/** Greater than the names of entries before `offset`, less than those of entries from it on. */
export function beforeEntry(partition: number, offset: number): string {
  return `${entriesPrefix(partition)}${pad(offset)}`;
}

/** Greater than the name of any entry of the partition. */
export function afterEntries(partition: number): string {
  return `${entriesPrefix(partition)}~`;
}

/** The name under which a range is committed. */
export function entryName(range: Pick<OffsetRange, 'partition' | 'firstOffset'>): string {
  return `${beforeEntry(range.partition, range.firstOffset)}.json`;
}

/** The name that commits had when they carried their last offset too. */
export function oldEntryName(range: OffsetRange): string {
  return `${entriesPrefix(range.partition)}${offsets(range)}.json`;
}

export interface EntryName {
  readonly partition: number;
  readonly firstOffset: number;
  /** Null where the name does not carry it. */
  readonly lastOffset: number | null;
}

const ENTRY_NAME = /^manifest\/p(\d{5,})\/(\d{20})(?:-(\d{20}))?\.json$/;

/** What the name of a manifest entry says; null for other names. */
export function entryOfName(name: string): EntryName | null {
  const match = ENTRY_NAME.exec(name);
  if (match === null) return null;
  const lastOffset = match[3] === undefined ? null : Number(match[3]);
  return { partition: Number(match[1]), firstOffset: Number(match[2]), lastOffset };
}

/** The partition whose entries lie in the folder of `name`, or null. */
export function partitionOfEntries(name: string): number | null {
  const match = /^manifest\/p(\d{5,})\//.exec(name);
  return match === null ? null : Number(match[1]);
}

export function checkpointName(number: number): string {
  return `${CHECKPOINT_PREFIX}${String(number).padStart(10, '0')}.json.gz`;
}

export function checkpointOfName(name: string): number | null {
  const match = /^checkpoint\/(\d{10})\.json\.gz$/.exec(name);
  return match === null ? null : Number(match[1]);
}

export function planPrefix(partition: number): string {
  return `${PLAN_PREFIX}p${padPartition(partition)}/`;
}

export function planName(range: OffsetRange, variant: Variant = ''): string {
  return `${planPrefix(range.partition)}${offsets(range, variant)}.json`;
}

const RANGE_NAME =
  /^(?:plan\/p(\d{5,})\/|(?:dead|dt=[^/]+\/hr=\d\d)\/p(\d+)-)(\d{20})-(\d{20})(?:-[0-9a-f]{16})?\.(?:json|parquet)$/;

/** The range that the name of an object or of a plan carries, or null when it is neither. */
export function rangeOfName(name: string): OffsetRange | null {
  const match = RANGE_NAME.exec(name);
  if (match === null) return null;
  return {
    partition: Number(match[1] ?? match[2]),
    firstOffset: Number(match[3]),
    lastOffset: Number(match[4]),
  };
}

function offsets(range: OffsetRange, variant: Variant = ''): string {
  const both = `${pad(range.firstOffset)}-${pad(range.lastOffset)}`;
  return variant === '' ? both : `${both}-${variant}`;
}

function pad(offset: number): string {
  return String(offset).padStart(20, '0');
}

function padPartition(partition: number): string {
  return String(partition).padStart(5, '0');
}
