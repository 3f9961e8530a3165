/** The API of the ledger process as the product puts it together, in this process, on a fresh folder. */
import { join } from 'node:path';
import { type ApiDeps, createApiApp } from '../../src/api/api.ts';
import { openAuditLog } from '../../src/auth/audit-log.ts';
import { openTokenStore } from '../../src/auth/tokens.ts';
import { openGeo } from '../../src/click/geo.ts';
import { configSchema } from '../../src/config/schema.ts';
import { openDisputes } from '../../src/disputes/sqlite/store.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { createLedgerAdmin } from '../../src/roles/ledger-admin.ts';
import { ledgerApiDeps } from '../../src/roles/ledger-api.ts';
import { openLiveHub } from '../../src/roles/ledger-live.ts';
import { createLedgerMetrics } from '../../src/roles/ledger-metrics.ts';
import { Ledger } from '../../src/roles/ledger-parts.ts';
import { openLedgerWebhooks } from '../../src/roles/ledger-webhooks.ts';
import { tempDir } from './temp-dir.ts';

export async function openWholeApi(over: Partial<ApiDeps> = {}) {
  const folder = tempDir('whole-api');
  const logger = createLogger('error', 'ledger');
  const clock = systemClock;
  const config = configSchema.parse({ dataDir: join(folder.path, 'data') });
  const metrics = createLedgerMetrics(
    () => ledger,
    () => null,
  );
  const ledger = await Ledger.open({ config, clock, logger, telemetry: null });
  const path = ledger.parts.paths.control;
  const stores = {
    tokens: openTokenStore({ path, clock }),
    audit: openAuditLog({ path, clock }),
    disputes: openDisputes({ path, clock }),
  };
  const admin = createLedgerAdmin(ledger, await openGeo());
  const { webhooks, close: closeWebhooks } = openLedgerWebhooks({
    ledger,
    logger,
    registry: metrics.registry,
  });
  const live = openLiveHub(ledger, logger);
  const deps = ledgerApiDeps({ ledger, ...stores, admin, metrics, webhooks, live, logger });
  const { app, operations } = createApiApp({ ...deps, ...over });
  const send = (path: string, token: string | null, init: RequestInit = {}) => {
    const headers = new Headers(init.headers);
    if (token !== null) headers.set('Authorization', `Bearer ${token}`);
    return app.fetch(new Request(`http://t.example${path}`, { ...init, headers }), {});
  };
  const close = async (): Promise<void> => {
    await live.close();
    await closeWebhooks();
    await ledger.close();
    for (const store of Object.values(stores)) store.close();
    folder.remove();
  };
  return { ...stores, app, operations, ledger, send, close };
}
