/**
 * The click event: what the click service logs, and everything counting needs.
 *
 * Owns the words (classes, devices), the limits of every field and what makes an event countable.
 * Does not own its bytes (`codec.ts`) nor what is done with it.
 */

/** Only `click` can be billed; the other classes are logged and do not use up the impression. */
export const CLICK_CLASSES = ['click', 'head', 'prefetch', 'preview'] as const;
export type ClickClass = (typeof CLICK_CLASSES)[number];

export const DEVICES = ['desktop', 'mobile', 'tablet', 'other'] as const;
export type Device = (typeof DEVICES)[number];

/** How the event entered the log: a request, or recorded clicks taken in by `ingest`. */
export const SOURCES = ['http', 'ingest'] as const;
export type Source = (typeof SOURCES)[number];

/** The one code for "country not known" (ISO 3166-1 user-assigned). */
export const UNKNOWN_COUNTRY = 'ZZ';

export const MAX_ID_LENGTH = 128;
export const MAX_IP_LENGTH = 45;
export const MAX_USER_AGENT_LENGTH = 512;
export const MAX_REFERER_LENGTH = 512;

const ID_PATTERN = /^[A-Za-z0-9._~-]{1,128}$/;
const COUNTRY_PATTERN = /^[A-Z]{2}$/;

/** Ids of impressions, ads, campaigns and advertisers: 1–128 of `A–Z a–z 0–9 . _ ~ -`. */
export function isId(value: string): boolean {
  return ID_PATTERN.test(value);
}

export function isCountry(value: string): boolean {
  return COUNTRY_PATTERN.test(value);
}

export interface ClickEvent {
  readonly impressionId: string;
  readonly adId: string;
  readonly advertiserId: string;
  readonly campaignId: string;
  /** Server clock at arrival, ms UTC. */
  readonly clickedAtMs: number;
  /** ISO 3166-1 alpha-2, upper case, `ZZ` when unknown. */
  readonly country: string;
  readonly device: Device;
  readonly class: ClickClass;
  readonly source: Source;
  /** Build date of the country database as YYYYMMDD, 0 when none was used. */
  readonly geoVersion: number;
  /** Whole, truncated or empty, as configured. */
  readonly ip: string;
  readonly userAgent: string;
  readonly referer: string;
}

/** 2000-01-01: before any click; catches seconds read as milliseconds. */
export const MIN_CLICKED_AT_MS = Date.UTC(2000, 0, 1);
/** 2100-01-01: ClickHouse's `DateTime` ends in 2106 and wraps instead of failing. */
export const MAX_CLICKED_AT_MS = Date.UTC(2100, 0, 1);

/** Why a record cannot be counted; it goes to the dead letters with this reason. */
export const DEAD_LETTER_REASONS = [
  'undecodable',
  'unsupported_version',
  'clicked_at_out_of_range',
  'clicked_at_ahead_of_log',
] as const;
export type DeadLetterReason = (typeof DEAD_LETTER_REASONS)[number];

/**
 * Tells whether a time can be counted, given when the log took the record.
 *
 * A click cannot be newer than its own append; `maxSkewMs` allows for clocks that differ a little.
 * Both the stream and the archiver ask this same question, so that they leave out the same records.
 */
export function clickedAtProblem(
  clickedAtMs: number,
  appendedAtMs: number,
  maxSkewMs: number,
): DeadLetterReason | null {
  if (!(clickedAtMs >= MIN_CLICKED_AT_MS && clickedAtMs < MAX_CLICKED_AT_MS)) {
    return 'clicked_at_out_of_range';
  }
  return clickedAtMs > appendedAtMs + maxSkewMs ? 'clicked_at_ahead_of_log' : null;
}
