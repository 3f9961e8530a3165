/** The API of the ledger process: which parts answer which routes. */
import { importAds } from '../ads/import.ts';
import { createKey, retireKey } from '../ads/keys.ts';
import type { KeyStore } from '../ads/port.ts';
import { accessFeature } from '../api/access-routes.ts';
import type { LedgerAdmin } from '../api/admin-port.ts';
import type { ImportAds } from '../api/admin-routes.ts';
import { type Api, type ApiDeps, createApi } from '../api/api.ts';
import { clicksFeature } from '../api/clicks-routes.ts';
import type { Finality } from '../api/history.ts';
import type { LiveHub } from '../api/live.ts';
import { liveFeature } from '../api/live-routes.ts';
import type { ApiFeature } from '../api/operation.ts';
import type { ErrorLog } from '../api/problem.ts';
import { topFeature } from '../api/top-routes.ts';
import { verdictsFeature } from '../api/verdict-routes.ts';
import { webhooksFeature } from '../api/webhook-routes.ts';
import { requestLimits } from '../auth/limits.ts';
import { consoleFeature } from '../console/serve.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import { refuseImportOfSynced } from './catalog-sync.ts';
import { billingOf } from './ledger-billing.ts';
import type { LedgerMetrics } from './ledger-metrics.ts';
import type { LedgerParts } from './ledger-parts.ts';
import { clicksParts } from './ledger-verdicts.ts';
import type { LedgerView } from './ledger-view.ts';
import type { Control } from './open-control.ts';
import { wholeWarehouse } from './whole-warehouse.ts';

export interface LedgerApiParts {
  readonly ledger: LedgerView;
  readonly control: Pick<Control, 'tokens' | 'audit' | 'disputes' | 'leases'>;
  /** Where signing keys are made and retired. */
  readonly keys: KeyStore;
  readonly admin: LedgerAdmin;
  readonly metrics: LedgerMetrics;
  readonly webhooks: Webhooks;
  readonly live: LiveHub;
  readonly logger: Logger;
  /** Why a process that does not count cannot answer, in words; null while it can. */
  readonly waitsFor?: () => string | null;
}

export function createLedgerApi(apiParts: LedgerApiParts): Api {
  return createApi(ledgerApiDeps(apiParts));
}

export function ledgerApiDeps(apiParts: LedgerApiParts): ApiDeps {
  const { ledger, admin, metrics, logger } = apiParts;
  const { tokens, audit } = apiParts.control;
  const { parts } = ledger;
  return {
    config: parts.config.api,
    tokens,
    limits: requestLimits(parts.config.api.rateLimitPerMinute, parts.clock),
    audit,
    admin,
    importAds: adsImporter(parts),
    warehouse: wholeWarehouse(parts.warehouse, ledger),
    finalUntilMs: () => ledger.reconciler.finalUntilMs,
    finality: finalityOf(ledger),
    asOfMs: () => ledger.counter.asOfMs,
    isRebuilding: () => ledger.isRebuilding,
    log: (error, message) => logger.error({ err: error }, message),
    observe: metrics.request,
    features: featuresOf(apiParts),
    ops: {
      health: () => new Response('ok\n'),
      ready: () => readiness(apiParts),
      metrics: async () =>
        new Response(await metrics.registry.metrics(), {
          headers: { 'Content-Type': metrics.registry.contentType },
        }),
    },
  };
}

/** Every part of the API with routes of its own, one line each. */
function featuresOf(apiParts: LedgerApiParts): ApiFeature[] {
  const { ledger } = apiParts;
  const log: ErrorLog = (error, message) => apiParts.logger.error({ err: error }, message);
  return [
    verdictsFeature({ admin: apiParts.admin, log }),
    clicksFeature(clicksParts(ledger)),
    topOf(apiParts),
    webhooksFeature(apiParts),
    liveFeature({ hub: apiParts.live, tokens: apiParts.control.tokens }),
    consoleFeature(),
    accessOf(apiParts),
    ...billingOf(apiParts),
  ];
}

function topOf({ ledger }: LedgerApiParts): ApiFeature {
  const { warehouse, config } = ledger.parts;
  return topFeature({
    warehouse: wholeWarehouse(warehouse, ledger),
    config: config.api,
    finalUntilMs: () => ledger.reconciler.finalUntilMs,
    asOfMs: () => ledger.counter.asOfMs,
  });
}

function finalityOf(ledger: LedgerView): Finality {
  const { clock, config, archiver } = ledger.parts;
  return {
    clock,
    latenessMs: config.counting.latenessMs,
    delayMs: config.reconcile.delayMs,
    stuck: () => ledger.stuck,
    coveredUntilMs: () => archiver.coveredUntilMs(),
    liveGaps: () => ledger.liveGaps,
  };
}

function accessOf({ ledger, control, keys }: LedgerApiParts): ApiFeature {
  const { catalog, clock } = ledger.parts;
  return accessFeature({
    tokens: control.tokens,
    audit: control.audit,
    ads: catalog,
    keys: {
      list: () => keys.keys(),
      create: (kid) => createKey(keys, clock, kid),
      retire: (which) => retireKey(keys, clock, which),
    },
  });
}

export function adsImporter({
  catalog,
  config,
}: Pick<LedgerParts, 'catalog' | 'config'>): ImportAds {
  return async (source, { format }, progress) => {
    refuseImportOfSynced(config);
    const result = await importAds(source, catalog, {
      ...(format === undefined ? {} : { format }),
      onProgress: ({ phase, done }) => progress(`${phase} ads`, done),
    });
    if (result.ok) return result;
    const lines = result.problems.map(({ line, reason }) => `line ${line}: ${reason}`);
    throw new LedgerError(
      'import_invalid',
      `${result.problemCount} of ${result.rows} rows are wrong; nothing was imported`,
      { hint: lines.join('; ') },
    );
  };
}

/** Says what it waits for. A partition that others have stopped at is no reason to send requests elsewhere. */
function readiness({ ledger, waitsFor }: LedgerApiParts): Response {
  const reason = waitsFor?.() ?? null;
  if (reason !== null) return new Response(`waits: ${reason}\n`, { status: 503 });
  if (ledger.isRebuilding) return new Response('the warehouse is being rebuilt\n', { status: 503 });
  const problem = waitsFor === undefined ? countingProblem(ledger) : null;
  if (problem !== null) return new Response(`${problem.message}\n`, { status: 503 });
  return new Response('ready\n');
}

function countingProblem({ counter, counterProblem }: LedgerView): Error | null {
  return counterProblem ?? counter.lastUpsertError;
}
