/**
 * The API process of the bench: the real API over the real warehouse, and nothing else of the
 * ledger. `server.ts <year's folder> <token file> <port>`
 */
import type { LedgerAdmin } from '../../src/api/admin-port.ts';
import { createApi } from '../../src/api/api.ts';
import { topFeature } from '../../src/api/top-routes.ts';
import { requestLimits } from '../../src/auth/limits.ts';
import { openAuditLog } from '../../src/auth/sqlite/audit-log.ts';
import { openTokenStore } from '../../src/auth/sqlite/tokens.ts';
import { configSchema } from '../../src/config/schema.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { closeChdbClient, openChdbClient } from '../../src/warehouse/chdb/client.ts';
import { IN_PROCESS, SqlWarehouse } from '../../src/warehouse/sql-warehouse.ts';
import { FINAL_UNTIL_MS, NOW_MS } from './model.ts';
import { NO_TTL, warehousePath } from './year.ts';

const [dir, tokenFile, port] = process.argv.slice(2);
const client = openChdbClient(warehousePath(dir!));
const warehouse = new SqlWarehouse({
  ...IN_PROCESS,
  client,
  ttl: NO_TTL,
  clock: () => NOW_MS,
  close: () => closeChdbClient(client),
});
await warehouse.migrate();
const numbers = {
  config: configSchema.parse({ dataDir: dir }).api,
  warehouse,
  finalUntilMs: () => FINAL_UNTIL_MS,
  asOfMs: () => NOW_MS,
};
const api = createApi({
  ...numbers,
  tokens: openTokenStore({ path: tokenFile!, clock: systemClock }),
  // One client asks more often than the default limit of a token lets it.
  limits: requestLimits(0, systemClock),
  audit: openAuditLog({ path: tokenFile!, clock: systemClock }),
  features: [topFeature(numbers)],
  finality: {
    clock: () => NOW_MS,
    latenessMs: 0,
    delayMs: 0,
    stuck: () => null,
    coveredUntilMs: async () => NOW_MS,
  },
  // No question of the bench is one for an operator.
  admin: {} as LedgerAdmin,
  ops: {
    health: () => new Response('ok\n'),
    ready: () => new Response('ready\n'),
    metrics: () => new Response(''),
  },
  log: (error, message) => console.error(message, error),
});
Bun.serve({
  port: Number(port),
  hostname: '127.0.0.1',
  idleTimeout: 120,
  fetch: (request) => api.fetch(request),
});
process.on('SIGTERM', async () => {
  await warehouse.close();
  process.exit(0);
});
