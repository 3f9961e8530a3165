/** The port of a role that has no API: is it alive, what does it wait for, how is it doing. */
import type { Registry } from 'prom-client';
import type { Config } from '../config/schema.ts';
import { listen } from './listen.ts';
import { addReadyMetric } from './role-metrics.ts';

export interface RoleServer {
  readonly port: number;
  close(): Promise<void>;
}

export interface RoleServerOptions {
  readonly config: Config['role'];
  readonly registry: Registry;
  /** What the role waits for, in words; null while it does its work. */
  readonly waitsFor: () => string | null;
}

export function serveRole({ config, registry, waitsFor }: RoleServerOptions): RoleServer {
  addReadyMetric(registry, waitsFor);
  const server = listen('role', config.port, () =>
    Bun.serve({
      port: config.port,
      hostname: config.host,
      fetch: async (request) =>
        (await answerOfRole(request, { registry, waitsFor })) ?? text('not found', 404),
    }),
  );
  return { port: server.port ?? 0, close: () => server.stop(true) };
}

/** What every role says on its port; null for anything else. */
export async function answerOfRole(
  request: Request,
  { registry, waitsFor }: Pick<RoleServerOptions, 'registry' | 'waitsFor'>,
): Promise<Response | null> {
  const path = new URL(request.url).pathname;
  if (path === '/healthz') return text('ok', 200);
  if (path === '/readyz') {
    const reason = waitsFor();
    return reason === null ? text('ready', 200) : text(`waits: ${reason}`, 503);
  }
  if (path === '/metrics') {
    return new Response(await registry.metrics(), {
      headers: { 'Content-Type': registry.contentType },
    });
  }
  return null;
}

function text(body: string, status: number): Response {
  return new Response(`${body}\n`, {
    status,
    headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' },
  });
}
