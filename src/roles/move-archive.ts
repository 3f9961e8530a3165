/**
 * Brings an archive in: `clickledger rebuild --from`, which moves a ledger from one machine to many, or
 * from one place to another. What is derived is built again from it afterwards.
 *
 * The effects, and what holds if the process dies right after each:
 *   1. move noted        – no turn of the reconcilers begins until it is taken up again and comes to its end
 *   2. objects copied    – the same; copying goes on where it was (`copyArchive`)
 *   3. partitions noted  – all is there; the others look for them from now on
 *   4. note removed      – hours turn final again; the warehouse is still to be built, by `rebuild`
 *
 * 1 comes right before the first object, and waits for the turn that had begun before it: what is refused
 * without a change leaves no note. The lease keeps a second command out, whose end would remove our note.
 */
import { parseArchiveUrl } from '../archive/archive-url.ts';
import { type CopyResult, copyArchive } from '../archive/copy.ts';
import { openFolderSource } from '../archive/folder/store.ts';
import { loadManifest } from '../archive/manifest.ts';
import type { ObjectSource, ObjectStore } from '../archive/port.ts';
import type { Config } from '../config/schema.ts';
import type { Leases, SharedState } from '../control/port.ts';
import type { Clock } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import { Turns } from '../reconcile/turns.ts';
import { openStore } from './open-store.ts';
import { SharedFacts } from './shared-facts.ts';

export interface MoveParts {
  readonly config: Config;
  readonly state: SharedState;
  readonly leases: Leases;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly progress: (message: string, done?: number, total?: number) => void;
}

export async function moveArchive(place: string, parts: MoveParts): Promise<CopyResult> {
  const lease = await parts.leases.tryTake('move', place);
  if (lease === null) {
    throw new LedgerError('archive_moving', 'another command brings an archive in', {
      kind: 'retry',
      hint: 'Wait for its end. When it was interrupted, try again in half a minute.',
    });
  }
  try {
    return await moved(place, parts);
  } finally {
    await lease.release();
  }
}

async function moved(place: string, parts: MoveParts): Promise<CopyResult> {
  const { config, state, clock, logger, progress } = parts;
  const facts = new SharedFacts(state);
  const from = await openSource(place, config, clock);
  const to = await openStore(config, clock, logger);
  const result = await copyArchive({
    from,
    to: withFirstPut(to, () => noteMove(place, parts)), // 1
    onProgress: ({ objects, ofObjects }) => progress('copying the archive', objects, ofObjects),
  }); // 2
  const manifest = await loadManifest(to);
  await facts.addMovedPartitions(manifest.partitions()); // 3
  await facts.setMove(null); // 4
  return result;
}

async function noteMove(place: string, { state, leases, clock }: MoveParts): Promise<void> {
  const facts = new SharedFacts(state);
  const before = await facts.move();
  await facts.setMove({ from: place, atMs: clock() });
  const turns = new Turns({ leases, state, clock, learn: async () => 0 });
  try {
    await turns.turn('an archive is brought in', async () => {});
  } catch (error) {
    // Nothing of ours is there yet; what an interrupted command has left is.
    await facts.setMove(before);
    throw error;
  }
}

/** The store, which waits for `before` once before it takes its first object. */
function withFirstPut(store: ObjectStore, before: () => Promise<void>): ObjectStore {
  let ready: Promise<void> | null = null;
  return {
    async putIfAbsent(name, bytes) {
      ready ??= before();
      await ready;
      return store.putIfAbsent(name, bytes);
    },
    get: (name) => store.get(name),
    list: (prefix, options) => store.list(prefix, options),
    remove: (name) => store.remove(name),
  };
}

/** Nothing is written there. */
async function openSource(place: string, config: Config, clock: Clock): Promise<ObjectSource> {
  const parsed = parseArchiveUrl(place);
  if (parsed.kind === 'folder') return openFolderSource({ dir: parsed.dir });
  const { openS3Source } = await import('../archive/s3/store.ts');
  const { bucket, prefix } = parsed;
  return openS3Source({ ...config.archive.s3, bucket, prefix, clock, random: Math.random });
}
