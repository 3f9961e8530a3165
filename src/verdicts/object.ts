/**
 * Verdicts in the archive: `verdicts/v<sequence>.ndjson`, immutable, numbered from 1 without a hole.
 *
 *     {"version":1,"sequence":7,"at":"2026-03-10T12:00:00.000Z","applies_from":"…","rows":2,"sha256":"…"}
 *     {"impression_id":"imp-1","valid":false,"reason":"data centre"}
 *     {"impression_id":"imp-2","valid":true,"reason":"checked by hand"}
 *
 * `applies_from` is written down because it follows from what was final when the verdicts were taken: a
 * later count must come to the same answer about which hours they reach.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { NewVerdict } from './port.ts';

export const VERDICTS_PREFIX = 'verdicts/';
const SEQUENCE_DIGITS = 12;
const NAME = /^verdicts\/v(\d{12})\.ndjson$/;

const headerSchema = z.strictObject({
  version: z.literal(1),
  sequence: z.int().min(1),
  at: z.iso.datetime(),
  applies_from: z.iso.datetime(),
  rows: z.int().min(1),
  sha256: z.string(),
});
const rowSchema = z.strictObject({
  impression_id: z.string(),
  valid: z.boolean(),
  reason: z.string(),
});

export interface VerdictObject {
  readonly sequence: number;
  /** When they were taken, ms UTC. */
  readonly atMs: number;
  /** Start of the first hour that they apply to, ms UTC. */
  readonly appliesFromMs: number;
  readonly rows: readonly NewVerdict[];
}

export function verdictsName(sequence: number): string {
  return `${VERDICTS_PREFIX}v${String(sequence).padStart(SEQUENCE_DIGITS, '0')}.ndjson`;
}

/** The sequence that a name carries, or null when it is none of ours. */
export function sequenceOf(name: string): number | null {
  const digits = NAME.exec(name)?.[1];
  return digits === undefined ? null : Number(digits);
}

export function encodeVerdicts({ sequence, atMs, appliesFromMs, rows }: VerdictObject): Uint8Array {
  const body = rows
    .map(({ impressionId, valid, reason }) => {
      return `${JSON.stringify({ impression_id: impressionId, valid, reason })}\n`;
    })
    .join('');
  const header = {
    version: 1,
    sequence,
    at: new Date(atMs).toISOString(),
    applies_from: new Date(appliesFromMs).toISOString(),
    rows: rows.length,
    sha256: sha256(body),
  };
  return Buffer.from(`${JSON.stringify(header)}\n${body}`);
}

/** Throws when the bytes are not the complete object of that name. */
export function decodeVerdicts(name: string, bytes: Uint8Array): VerdictObject {
  const text = Buffer.from(bytes).toString('utf8');
  const end = text.indexOf('\n') + 1;
  const header = headerSchema.parse(JSON.parse(text.slice(0, end)));
  const body = text.slice(end);
  if (sequenceOf(name) !== header.sequence) throw new Error('its sequence is not that of its name');
  if (sha256(body) !== header.sha256) throw new Error('its rows do not have its checksum');
  const lines = body.split('\n').slice(0, -1);
  if (lines.length !== header.rows) throw new Error('it has another number of rows than it says');
  const rows = lines.map((line) => {
    const { impression_id, valid, reason } = rowSchema.parse(JSON.parse(line));
    return { impressionId: impression_id, valid, reason };
  });
  const appliesFromMs = Date.parse(header.applies_from);
  return { sequence: header.sequence, atMs: Date.parse(header.at), appliesFromMs, rows };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
