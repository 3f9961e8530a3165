/** The API of the ledger process as the product puts it together, in this process, on a fresh folder. */
import { join } from 'node:path';
import { type ApiDeps, createApiApp } from '../../src/api/api.ts';
import { openGeo } from '../../src/click/geo.ts';
import { configSchema } from '../../src/config/schema.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { createLedgerAdmin } from '../../src/roles/ledger-admin.ts';
import { ledgerApiDeps } from '../../src/roles/ledger-api.ts';
import { openLiveHub } from '../../src/roles/ledger-live.ts';
import { createLedgerMetrics } from '../../src/roles/ledger-metrics.ts';
import { Ledger } from '../../src/roles/ledger-parts.ts';
import { openLedgerWebhooks } from '../../src/roles/ledger-webhooks.ts';
import { openControl } from '../../src/roles/open-control.ts';
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
  const control = await openControl(config, ledger.parts.paths, clock, 'a test');
  const admin = createLedgerAdmin(ledger, await openGeo());
  const { webhooks, close: closeWebhooks } = openLedgerWebhooks({
    ...{ ledger, logger, registry: metrics.registry },
    ...{ store: control.webhooks, leases: control.leases },
  });
  const live = openLiveHub(ledger, logger);
  const deps = ledgerApiDeps({
    ...{ ledger, control, keys: ledger.parts.catalog },
    ...{ admin, metrics, webhooks, live, logger },
  });
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
    await control.close();
    folder.remove();
  };
  const { tokens, audit, disputes } = control;
  return { tokens, audit, disputes, app, operations, ledger, send, close };
}
