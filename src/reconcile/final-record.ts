/**
 * What the archive keeps of each final hour: `final/dt=…/hr=…/r<revision>.json`.
 *
 * The numbers follow from the raw clicks, their history does not. So each revision is written down
 * next to the clicks before it becomes visible, and `rebuild` finds revisions and restatements again.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { hourPrefix } from '../archive/names.ts';
import type { ObjectStore } from '../archive/port.ts';
import type { DriftRow, FinalRow, HourState, Restatement } from '../warehouse/port.ts';

const count = z.int().min(0);
const recordSchema = z.strictObject({
  version: z.literal(1),
  /** SHA-256 over the minute rows: two revisions with the same digest have the same numbers. */
  rowsDigest: z.string(),
  hour: z.strictObject({
    hourMs: z.int(),
    revision: z.int().min(1),
    finalAtMs: z.int(),
    cause: z.string(),
    records: count,
    counted: count,
    duplicate: count,
    notBillable: count,
    invalid: count,
    liveClicks: count,
    driftMax: z.number(),
    inputDigest: z.string(),
  }),
  drift: z.array(
    z.strictObject({
      hourMs: z.int(),
      revision: z.int(),
      advertiserId: z.string(),
      live: count,
      final: count,
    }),
  ),
  restatements: z.array(
    z.strictObject({
      hourMs: z.int(),
      revision: z.int(),
      advertiserId: z.string(),
      adId: z.string(),
      before: count,
      after: count,
      cause: z.string(),
      atMs: z.int(),
    }),
  ),
});

export interface FinalRecord {
  readonly rowsDigest: string;
  readonly hour: Omit<HourState, 'attempt'>;
  readonly drift: readonly DriftRow[];
  readonly restatements: readonly Restatement[];
}

function recordName(hourMs: number, revision: number): string {
  return `final/${hourPrefix(hourMs)}r${String(revision).padStart(6, '0')}.json`;
}

export async function readFinalRecord(
  store: ObjectStore,
  hourMs: number,
  revision: number,
): Promise<FinalRecord | null> {
  const bytes = await store.get(recordName(hourMs, revision));
  if (bytes === null) return null;
  const { version: _, ...record } = recordSchema.parse(JSON.parse(new TextDecoder().decode(bytes)));
  return record;
}

export async function writeFinalRecord(store: ObjectStore, record: FinalRecord): Promise<void> {
  // In the schema's order of keys: a record that was read back gives the bytes that it was read from.
  const ordered = recordSchema.parse({ version: 1, ...record });
  const bytes = new TextEncoder().encode(`${JSON.stringify(ordered)}\n`);
  await store.putIfAbsent(recordName(record.hour.hourMs, record.hour.revision), bytes);
}

export function digestRows(rows: readonly FinalRow[]): string {
  const hash = createHash('sha256');
  for (const row of rows) {
    const { advertiserId, campaignId, adId, minuteMs, country, device, clicks } = row;
    hash.update(
      `${JSON.stringify([advertiserId, campaignId, adId, minuteMs, country, device, clicks])}\n`,
    );
  }
  return hash.digest('hex');
}
