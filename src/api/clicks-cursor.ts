/** The cursor of a page of evidence: behind which record the next one begins, and of which query. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { LedgerError } from '../platform/errors.ts';
import type { EvidencePosition, EvidenceQuery } from '../reconcile/evidence.ts';
import { HOUR_MS } from '../warehouse/buckets.ts';

type Wanted = Omit<EvidenceQuery, 'limit' | 'after'>;

const contentSchema = z.strictObject({
  q: z.string(),
  h: z.int().multipleOf(HOUR_MS),
  /** -1 in both: before the first record of the hour. */
  p: z.int().min(-1),
  o: z.int().min(-1),
});

export function encodeClicksCursor(query: Wanted, position: EvidencePosition): string {
  const { hourMs, partition, offset } = position;
  const content = { q: fingerprint(query), h: hourMs, p: partition, o: offset };
  return Buffer.from(JSON.stringify(content)).toString('base64url');
}

export function decodeClicksCursor(query: Wanted, cursor: string): EvidencePosition {
  const content = contentSchema.safeParse(parse(cursor));
  if (!content.success) throw refusal('The cursor is damaged.', 'Send it as it was given.');
  const { q, h, p, o } = content.data;
  if (q !== fingerprint(query)) {
    throw refusal('The cursor does not belong to this query.', 'Repeat all of its parameters.');
  }
  return { hourMs: h, partition: p, offset: o };
}

function parse(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
  } catch {
    return null;
  }
}

function refusal(message: string, hint: string): LedgerError {
  return new LedgerError('cursor_invalid', message, { hint });
}

function fingerprint({ adId, advertiserId, fromMs, toMs }: Wanted): string {
  const parts = [advertiserId ?? null, adId, fromMs, toMs];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url').slice(0, 16);
}
