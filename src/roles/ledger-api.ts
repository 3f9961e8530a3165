/** The API of the ledger process: which parts answer which routes. */
import { importAds } from '../ads/import.ts';
import type { AdCatalog } from '../ads/port.ts';
import type { LedgerAdmin } from '../api/admin-port.ts';
import type { ImportAds } from '../api/admin-routes.ts';
import { type Api, createApi } from '../api/api.ts';
import type { ApiFeature } from '../api/operation.ts';
import type { TokenStore } from '../auth/tokens.ts';
import { consoleFeature } from '../console/serve.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import type { LedgerMetrics } from './ledger-metrics.ts';
import type { Ledger } from './ledger-parts.ts';

export interface LedgerApiParts {
  readonly ledger: Ledger;
  readonly tokens: TokenStore;
  readonly admin: LedgerAdmin;
  readonly metrics: LedgerMetrics;
  readonly logger: Logger;
}

export function createLedgerApi(apiParts: LedgerApiParts): Api {
  const { ledger, tokens, admin, metrics, logger } = apiParts;
  const { parts } = ledger;
  return createApi({
    config: parts.config.api,
    tokens,
    admin,
    importAds: adsImporter(parts.catalog),
    warehouse: parts.warehouse,
    finalUntilMs: () => ledger.reconciler.finalUntilMs,
    asOfMs: () => ledger.counter.asOfMs,
    isRebuilding: () => ledger.isRebuilding,
    log: (error, message) => logger.error({ err: error }, message),
    features: featuresOf(apiParts),
    ops: {
      health: () => new Response('ok\n'),
      ready: () => readiness(ledger),
      metrics: async () =>
        new Response(await metrics.registry.metrics(), {
          headers: { 'Content-Type': metrics.registry.contentType },
        }),
    },
  });
}

/** Every part of the API with routes of its own, one line each. */
function featuresOf(_parts: LedgerApiParts): ApiFeature[] {
  return [consoleFeature()];
}

export function adsImporter(catalog: AdCatalog): ImportAds {
  return async (source, { format }, progress) => {
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

/** Ready when live numbers are kept up to date; says what it waits for otherwise. */
function readiness(ledger: Ledger): Response {
  const { counter } = ledger;
  if (ledger.isRebuilding) return new Response('the warehouse is being rebuilt\n', { status: 503 });
  const problem = ledger.counterProblem ?? counter.lastUpsertError;
  if (problem !== null) return new Response(`${problem.message}\n`, { status: 503 });
  return new Response('ready\n');
}
