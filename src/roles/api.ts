/**
 * The API role: answers out of the warehouse and the archive, for any number of processes of its kind.
 * What an operator asks for is done here, in turns with the reconcilers where it concerns final hours.
 */

import { SharedKeys } from '../ads/shared-keys.ts';
import { openGeo } from '../click/geo.ts';
import type { Config } from '../config/schema.ts';
import { LedgerError } from '../platform/errors.ts';
import { type Lock, takeLock } from '../platform/lock.ts';
import { addApiMetrics } from './api-metrics.ts';
import { type CatalogKeeper, type KeeperParts, openCatalogKeeper } from './catalog.ts';
import { createLedgerAdmin } from './ledger-admin.ts';
import { createLedgerApi } from './ledger-api.ts';
import { openLiveHub } from './ledger-live.ts';
import { addRoleLedgerMetrics } from './ledger-metrics.ts';
import { openLedgerWebhooks } from './ledger-webhooks.ts';
import { RoleLedger } from './role-ledger.ts';
import { addControlMetric, addGapMetric, addReadyMetric } from './role-metrics.ts';
import { openShared, type RoleContext, type RoleWork, runRole } from './run-role.ts';
import { serveApi } from './serve-api.ts';

export function runApi(config: Config, stop: AbortSignal): Promise<void> {
  return runRole(config, { role: 'api', serves: false }, stop, openApiRole);
}

async function openApiRole(context: RoleContext): Promise<RoleWork> {
  const { config, registry, logger } = context;
  const known = addRoleLedgerMetrics(registry, () => ledger);
  const metrics = { ...known, request: addApiMetrics(registry) };
  const control = await openShared(context);
  const ledger = await RoleLedger.open(context, control);
  const { catalog } = ledger.parts;
  const admin = createLedgerAdmin(ledger, await openGeo());
  const { webhooks } = openLedgerWebhooks({
    ...{ ledger, registry, logger },
    ...{ store: control.webhooks, leases: control.leases },
  });
  const live = openLiveHub(ledger, logger);
  const keys = new SharedKeys(control.state, catalog);
  const api = createLedgerApi({ ledger, control, keys, admin, metrics, webhooks, live, logger });
  const waitsFor = (): string | null => ledger.lookProblem?.message ?? null;
  addControlMetric(registry, () => ledger.lookProblem === null);
  addGapMetric(registry, () => ledger.liveGaps.length);
  addReadyMetric(registry, waitsFor);
  const server = serveApi(config.api, api);
  const keeper = openKeeper(context, { ...context, catalog, state: control.state });
  ledger.start();
  return {
    waitsFor,
    async drain() {
      await live.close();
      await server.stop();
    },
    async close() {
      await server.stop(true);
      await keeper?.close();
      await ledger.close();
    },
  };
}

/** Follows ads and keys, unless the catalog role does so for this data folder. */
function openKeeper(context: RoleContext, parts: KeeperParts): CatalogKeeper | null {
  const { paths, registry, logger } = context;
  let lock: Lock;
  try {
    lock = takeLock(paths.run, 'catalog', 'The catalog role has this data folder.');
  } catch (error) {
    if (!(error instanceof LedgerError) || error.code !== 'locked') throw error;
    logger.info('the catalog role keeps ads and keys of this data folder');
    return null;
  }
  const keeper = openCatalogKeeper(parts, registry);
  return {
    get problem() {
      return keeper.problem;
    },
    async close() {
      await keeper.close();
      lock.release();
    },
  };
}
