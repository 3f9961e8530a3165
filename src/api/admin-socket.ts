/**
 * The admin actions for a unix socket. There are no tokens: whoever can open the socket (mode 0600)
 * could as well open the files behind it.
 */
import type { AuditLog } from '../auth/audit-log.ts';
import { recordActs } from './acts.ts';
import { ADMIN_OPERATIONS } from './admin-operations.ts';
import type { LedgerAdmin } from './admin-port.ts';
import { type AdminParts, addAdminRoutes } from './admin-routes.ts';
import type { Api } from './api.ts';
import { newApp } from './app.ts';
import { addNumberedVerdicts } from './verdict-routes.ts';

export interface SocketParts extends Omit<AdminParts, 'admin'> {
  readonly audit: AuditLog;
}

const NAMED = [
  ...ADMIN_OPERATIONS,
  { method: 'POST', path: '/v1/admin/verdicts', action: 'verdicts.give' },
] as const;

export function createAdminSocketApp(admin: LedgerAdmin, more: SocketParts): Api {
  const { audit, log } = more;
  const app = newApp(log);
  app.use('/v1/admin/*', recordActs({ audit, log, operations: NAMED, actorOf: () => 'socket' }));
  addAdminRoutes(app, { admin, ...more });
  addNumberedVerdicts(app, { admin, log });
  return { fetch: async (req) => app.fetch(req) };
}
