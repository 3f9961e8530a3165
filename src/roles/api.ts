/**
 * The API role: answers out of the warehouse and the archive, for any number of processes of its kind.
 * What an operator asks for is done here, in turns with the reconcilers where it concerns final hours.
 */

import { SharedKeys } from '../ads/shared-keys.ts';
import type { Api } from '../api/api.ts';
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
import { answerOfRole } from './role-server.ts';
import { openShared, type RoleContext, type RoleWork, runRole } from './run-role.ts';
import { serveApi } from './serve-api.ts';

export function runApi(config: Config, stop: AbortSignal): Promise<void> {
  return runRole(config, { role: 'api', serves: false }, stop, openApiRole);
}

/** The port is open before anything else, as that of every role: one that waits says what for. */
async function openApiRole(context: RoleContext): Promise<RoleWork> {
  const { config, registry, readiness } = context;
  const waitsFor = (): string | null => readiness.waitsFor();
  addReadyMetric(registry, waitsFor);
  let api: Pick<Api, 'fetch'> = {
    fetch: async (request) =>
      (await answerOfRole(request, { registry, waitsFor })) ??
      new Response('the API is starting\n', { status: 503, headers: { 'Retry-After': '5' } }),
  };
  const server = serveApi(config.api, {
    fetch: (request, connection) => api.fetch(request, connection),
  });
  try {
    const { work, ...opened } = await openAnswers(context);
    api = opened.api;
    return {
      waitsFor: work.waitsFor,
      async drain() {
        await work.drain();
        await server.stop();
      },
      async close() {
        await server.stop(true);
        await work.close();
      },
    };
  } catch (error) {
    await server.stop(true);
    throw error;
  }
}

async function openAnswers(context: RoleContext): Promise<{ api: Api; work: RoleWork }> {
  const { registry, logger } = context;
  const request = addApiMetrics(registry);
  const control = await openShared(context);
  const ledger = await RoleLedger.open(context, control);
  const metrics = { ...addRoleLedgerMetrics(registry, () => ledger), request };
  const { catalog } = ledger.parts;
  const admin = createLedgerAdmin(ledger, await openGeo());
  const { webhooks } = openLedgerWebhooks({
    ...{ ledger, registry, logger },
    ...{ store: control.webhooks, leases: control.leases },
  });
  const live = openLiveHub(ledger, logger);
  const keys = new SharedKeys(control.state, catalog);
  const waitsFor = (): string | null => ledger.answerProblem?.message ?? null;
  const api = createLedgerApi({
    ...{ ledger, control, keys, admin, metrics, webhooks, live, logger, waitsFor },
  });
  addControlMetric(registry, () => ledger.controlProblem === null);
  addGapMetric(registry, () => ledger.liveGaps.length);
  const keeper = openKeeper(context, { ...context, catalog, state: control.state });
  ledger.start();
  const work: RoleWork = {
    waitsFor: () => ledger.lookProblem?.message ?? null,
    drain: () => live.close(),
    async close() {
      await keeper?.close();
      await ledger.close();
    },
  };
  return { api, work };
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
