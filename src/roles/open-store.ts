/** Opens the archive's store that the configuration names. Nobody else chooses between its adapters. */
import { openFolderStore } from '../archive/folder/store.ts';
import type { ObjectStore } from '../archive/port.ts';
import { dataPaths } from '../config/paths.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../platform/clock.ts';
import type { Logger } from '../platform/logger.ts';

export async function openStore(
  config: Pick<Config, 'archive' | 'dataDir'>,
  clock: Clock,
  logger: Logger | null,
): Promise<ObjectStore> {
  const { kind, s3 } = config.archive;
  if (kind === 'folder') return openFolderStore({ dir: dataPaths(config.dataDir).archive });
  // The client is 22 MB of code that a folder has no use for.
  const { openS3Store } = await import('../archive/s3/store.ts');
  return openS3Store({
    ...s3,
    clock,
    random: Math.random,
    onNotice: (message, error) =>
      logger?.[error === null ? 'info' : 'warn']({ ...(error && { err: error }) }, message),
  });
}
