/**
 * Brings an archive in: `clickledger rebuild --from`, which moves a ledger from one machine to many, or
 * from one place to another. What is derived is built again from it afterwards.
 *
 * The effects, and what holds if the process dies right after each:
 *   1. move noted        – no hour turns final until it is taken up again and comes to its end
 *   2. objects copied    – the same; copying goes on where it was (`copyArchive`)
 *   3. partitions noted  – all is there; the others look for them from now on
 *   4. note removed      – hours turn final again; the warehouse is still to be built, by `rebuild`
 */
import { parseArchiveUrl } from '../archive/archive-url.ts';
import { type CopyResult, copyArchive } from '../archive/copy.ts';
import { openFolderSource } from '../archive/folder/store.ts';
import { loadManifest } from '../archive/manifest.ts';
import type { ObjectSource } from '../archive/port.ts';
import type { Config } from '../config/schema.ts';
import type { SharedState } from '../control/port.ts';
import type { Clock } from '../platform/clock.ts';
import type { Logger } from '../platform/logger.ts';
import { openStore } from './open-store.ts';
import { SharedFacts } from './shared-facts.ts';

export interface MoveParts {
  readonly config: Config;
  readonly state: SharedState;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly progress: (message: string, done?: number, total?: number) => void;
}

export async function moveArchive(place: string, parts: MoveParts): Promise<CopyResult> {
  const { config, state, clock, logger, progress } = parts;
  const facts = new SharedFacts(state);
  const from = await openSource(place, config, clock);
  const to = await openStore(config, clock, logger);
  await facts.setMove({ from: place, atMs: clock() }); // 1
  const result = await copyArchive({
    ...{ from, to },
    onProgress: ({ objects, ofObjects }) => progress('copying the archive', objects, ofObjects),
  }); // 2
  const manifest = await loadManifest(to);
  await facts.addMovedPartitions(manifest.partitions()); // 3
  await facts.setMove(null); // 4
  return result;
}

/** Nothing is written there. */
async function openSource(place: string, config: Config, clock: Clock): Promise<ObjectSource> {
  const parsed = parseArchiveUrl(place);
  if (parsed.kind === 'folder') return openFolderSource({ dir: parsed.dir });
  const { openS3Source } = await import('../archive/s3/store.ts');
  const { bucket, prefix } = parsed;
  return openS3Source({ ...config.archive.s3, bucket, prefix, clock, random: Math.random });
}
