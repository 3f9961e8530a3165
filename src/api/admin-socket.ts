/**
 * The admin actions for a unix socket. There are no tokens: whoever can open the socket (mode 0600)
 * could as well open the files behind it.
 */

import type { LedgerAdmin } from './admin-port.ts';
import { type AdminParts, addAdminRoutes } from './admin-routes.ts';
import type { Api } from './api.ts';
import { newApp } from './app.ts';

export function createAdminSocketApp(admin: LedgerAdmin, more: Omit<AdminParts, 'admin'>): Api {
  const app = newApp(more.log);
  addAdminRoutes(app, { admin, ...more });
  return { fetch: async (req) => app.fetch(req) };
}
