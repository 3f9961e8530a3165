/** Opens the API's port: requests in, with the address that they came from. */
import type { Api, Connection } from '../api/api.ts';
import type { Config } from '../config/schema.ts';
import { listen } from './listen.ts';

/** Recorded clicks come in one long request; everything else is bounded by the API itself. */
export const MAX_ADMIN_BODY_BYTES = 64 * 1024 * 1024 * 1024;
const IDLE_TIMEOUT_SECONDS = 255;

export function serveApi({ port, host }: Config['api'], api: Pick<Api, 'fetch'>) {
  return listen('api', port, () =>
    Bun.serve({
      port,
      hostname: host,
      maxRequestBodySize: MAX_ADMIN_BODY_BYTES,
      idleTimeout: IDLE_TIMEOUT_SECONDS,
      fetch: (request, bun) => api.fetch(request, connectionOf(bun.requestIP(request))),
    }),
  );
}

/** A connection that is gone by now has no address. */
function connectionOf(peer: { readonly address: string } | null): Connection {
  return peer === null ? {} : { peerAddress: peer.address };
}
