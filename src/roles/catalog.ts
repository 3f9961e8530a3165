/**
 * The catalog role: keeps this machine's ads and signing keys like those of all others, for the click
 * workers that map them. One per data folder; the API does it for its own folder.
 */
import type { Registry } from 'prom-client';
import { openLmdbCatalog } from '../ads/lmdb/catalog.ts';
import type { AdCatalog } from '../ads/port.ts';
import { SharedKeys } from '../ads/shared-keys.ts';
import type { Config } from '../config/schema.ts';
import type { SharedState } from '../control/port.ts';
import type { Clock } from '../platform/clock.ts';
import type { Logger } from '../platform/logger.ts';
import { openCatalogSync } from './catalog-sync.ts';
import { Loop } from './loop.ts';
import { openShared, type RoleContext, type RoleWork, runRole } from './run-role.ts';

/** A retired key's links get 403 within seconds. */
const PULL_MS = 1_000;

export interface CatalogKeeper {
  /** Why keys may be older than those of others; null when they are not. */
  readonly problem: Error | null;
  close(): Promise<void>;
}

export interface KeeperParts {
  readonly config: Config;
  readonly catalog: AdCatalog;
  readonly state: SharedState;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Follows the ads table and the shared keys. */
export function openCatalogKeeper(parts: KeeperParts, registry: Registry): CatalogKeeper {
  const { catalog, state, logger } = parts;
  const sync = openCatalogSync(parts, registry);
  const keys = new SharedKeys(state, catalog);
  let problem: Error | null = null;
  const loop = new Loop('signing keys', PULL_MS, async () => {
    await keys.pull();
    problem = null;
  });
  sync.start();
  loop.start((error) => {
    if (problem === null) logger.error({ err: error }, 'signing keys cannot be read');
    problem = error as Error;
  });
  return {
    get problem() {
      return problem;
    },
    async close() {
      await loop.stop();
      await sync.close();
    },
  };
}

export function runCatalog(config: Config, stop: AbortSignal): Promise<void> {
  return runRole(config, { role: 'catalog' }, stop, openCatalogRole);
}

async function openCatalogRole(context: RoleContext): Promise<RoleWork> {
  const { config, paths, clock, logger, registry } = context;
  const control = await openShared(context);
  const catalog = openLmdbCatalog({ dir: paths.catalog, readOnly: false });
  const keeper = openCatalogKeeper(
    { config, catalog, state: control.state, clock, logger },
    registry,
  );
  return {
    waitsFor() {
      if (keeper.problem !== null) return `signing keys: ${keeper.problem.message}`;
      if (catalog.count() === 0) return 'ads: there are none yet';
      return null;
    },
    drain: async () => {},
    async close() {
      await keeper.close();
      await catalog.close();
      await control.close();
    },
  };
}
