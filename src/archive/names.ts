/**
 * Names of everything in the archive. No other file spells them.
 *
 *     dt=2026-01-31/hr=07/p3-<first>-<last>.parquet   clicks of one event hour (UTC)
 *     dead/p3-<first>-<last>.parquet                  records that cannot be counted
 *     manifest/p00003/<first>-<last>.json             commits the range
 *     plan/p00003/<first>-<last>.json                 a range that is being written
 *
 * Offsets have 20 digits, so that the order of names is the order of offsets. An object carries the
 * whole range of its step, not the offsets of its own rows: a retry finds its object by name, and
 * nobody else can ever have that name.
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

/** `hourMs` null names the object that holds dead letters. */
export function objectName(hourMs: number | null, range: OffsetRange): string {
  const folder = hourMs === null ? DEAD_PREFIX : hourPrefix(hourMs);
  return `${folder}p${range.partition}-${offsets(range)}.parquet`;
}

export function manifestName(range: OffsetRange): string {
  return `${MANIFEST_PREFIX}p${padPartition(range.partition)}/${offsets(range)}.json`;
}

export function planPrefix(partition: number): string {
  return `${PLAN_PREFIX}p${padPartition(partition)}/`;
}

export function planName(range: OffsetRange): string {
  return `${planPrefix(range.partition)}${offsets(range)}.json`;
}

const RANGE_NAME =
  /^(?:manifest\/p(\d{5,})\/|plan\/p(\d{5,})\/|(?:dead|dt=[^/]+\/hr=\d\d)\/p(\d+)-)(\d{20})-(\d{20})\.(?:json|parquet)$/;

/** The range that a name of any of the four kinds carries, or null when it is none of them. */
export function rangeOfName(name: string): OffsetRange | null {
  const match = RANGE_NAME.exec(name);
  if (match === null) return null;
  return {
    partition: Number(match[1] ?? match[2] ?? match[3]),
    firstOffset: Number(match[4]),
    lastOffset: Number(match[5]),
  };
}

function offsets(range: OffsetRange): string {
  return `${pad(range.firstOffset)}-${pad(range.lastOffset)}`;
}

function pad(offset: number): string {
  return String(offset).padStart(20, '0');
}

function padPartition(partition: number): string {
  return String(partition).padStart(5, '0');
}
