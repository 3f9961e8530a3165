/**
 * Ids of statements, and their objects' names in the archive's store:
 *
 *     statements/<id>/v<version>.csv       the rows
 *     statements/<id>/v<version>.parquet   the same rows
 *     statements/<id>/v<version>.json      commits the version
 *
 * An id is `st_<advertiser>_<from>_<to>_<digest>`: a digest of the advertiser's id, the local dates of
 * the period, a digest of all of it with the time zone. So the names of one advertiser's statements lie
 * together, by period; and everything is in lower case, for file systems that do not tell.
 */
import { createHash } from 'node:crypto';
import { localDate } from './period.ts';
import type { FileKind, Period } from './port.ts';

const PREFIX = 'statements/';
const DIGEST_DIGITS = 12;
const ID = /^st_[0-9a-f]{12}_\d{8}_\d{8}_[0-9a-f]{12}$/;
const RECORD_NAME = /^statements\/([^/]+)\/v([1-9]\d{0,8})\.json$/;

export function isStatementId(text: string): boolean {
  return ID.test(text);
}

export function statementId(period: Period): string {
  const { advertiserId, fromMs, toMs, timezone } = period;
  const date = (ms: number): string => localDate(ms, timezone).replaceAll('-', '');
  const whole = digest(JSON.stringify([advertiserId, fromMs, toMs, timezone]));
  return `${idPrefix(advertiserId)}${date(fromMs)}_${date(toMs)}_${whole}`;
}

/** Whether an id can be one of this advertiser's. */
export function belongsTo(id: string, advertiserId: string): boolean {
  return id.startsWith(idPrefix(advertiserId));
}

function idPrefix(advertiserId: string): string {
  return `st_${digest(JSON.stringify([advertiserId]))}_`;
}

/** Below it lies every object of an advertiser's statements, or of all. */
export function ownerPrefix(advertiserId: string | undefined): string {
  return advertiserId === undefined ? PREFIX : PREFIX + idPrefix(advertiserId);
}

export function versionsPrefix(id: string): string {
  return `${PREFIX}${id}/v`;
}

export function objectName(id: string, version: number, kind: FileKind | 'json'): string {
  return `${versionsPrefix(id)}${version}.${kind}`;
}

/** What a record's name says; null for every other object. */
export function recordOfName(name: string): { id: string; version: number } | null {
  const match = RECORD_NAME.exec(name);
  if (match === null || !isStatementId(match[1]!)) return null;
  return { id: match[1]!, version: Number(match[2]) };
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, DIGEST_DIGITS);
}
