/** How far a source was read: a line of JSON that the catalog keeps with the ads it covers. */
import { z } from 'zod';

const VERSION = 1;

const SCHEMA = z.object({
  version: z.literal(VERSION),
  /** Which source; of another one everything is read anew. */
  source: z.string(),
  /** Number of the load that is running or was last. */
  round: z.int(),
  /** Null when no load is running. */
  load: z
    .discriminatedUnion('phase', [
      z.object({ phase: z.literal('pages'), afterAdId: z.string().nullable() }),
      z.object({ phase: z.literal('sweep') }),
    ])
    .nullable(),
  /** When the last load was through; null before the first. */
  loadedAtMs: z.int().nullable(),
  /** When changes were read to their end. */
  syncedAtMs: z.int().nullable(),
  fromUs: z.int().nullable(),
  newestUs: z.int().nullable(),
  /** Ads that the last load did not remove because they were too many. */
  heldRemovals: z.int(),
});

export type SyncState = Readonly<z.infer<typeof SCHEMA>>;

export const writeSyncState = (state: SyncState): string => JSON.stringify(state);

/** Null for no state and for one that cannot be read: then everything is read anew. */
export function readSyncState(text: string | null): SyncState | null {
  if (text === null) return null;
  try {
    return SCHEMA.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

export const newSyncState = (source: string): SyncState => ({
  version: VERSION,
  source,
  round: 0,
  load: null,
  loadedAtMs: null,
  syncedAtMs: null,
  fromUs: null,
  newestUs: null,
  heldRemovals: 0,
});
