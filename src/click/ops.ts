/**
 * The pages for whoever runs the service: `/healthz`, `/readyz`, `/metrics`. Everything else is null.
 */
import type { AdLookup } from '../ads/port.ts';
import type { ClickLogWriter } from '../log/port.ts';

export type OpsFetch = (req: Request, path: string) => Response | Promise<Response> | null;

export interface OpsOptions {
  readonly ads: Pick<AdLookup, 'activeKeys'>;
  readonly log: Pick<ClickLogWriter, 'healthy'>;
  /** Why clicks on ads may find none that are there, in words; null: they do not. */
  readonly adsProblem?: () => string | null;
  /** Prometheus text. */
  readonly metricsText: () => string | Promise<string>;
}

export function createOpsFetch(options: OpsOptions): OpsFetch {
  const { metricsText } = options;
  return (_req, path) => {
    switch (path) {
      case '/healthz':
        return text('ok', 200);
      case '/readyz': {
        const problem = unreadiness(options);
        return problem === null ? text('ready', 200) : text(problem, 503);
      }
      case '/metrics':
        return Promise.resolve(metricsText()).then((body) => text(body, 200));
      default:
        return null;
    }
  };
}

function unreadiness({ ads, log, adsProblem }: OpsOptions): string | null {
  if (!log.healthy) return 'the click log cannot make anything durable';
  if (ads.activeKeys().length === 0) return 'the catalog has no signing keys';
  return adsProblem?.() ?? null;
}

function text(body: string, status: number): Response {
  return new Response(body.endsWith('\n') ? body : `${body}\n`, {
    status,
    headers: { 'Content-Type': 'text/plain; charset=utf-8', 'Cache-Control': 'no-store' },
  });
}
