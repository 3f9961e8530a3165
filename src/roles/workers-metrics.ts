/**
 * The metrics of all click workers in one answer: a scrape reaches one of them, whichever took the
 * connection, and that one asks the others over their sockets.
 *
 * Each worker's series have its own label; they are not summed here. A worker that restarts would make
 * the sum fall, and `rate()` would take that for a reset of all of them: a spike of every click ever
 * counted.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { AggregatorRegistry, type Registry } from 'prom-client';

const PEER_TIMEOUT_MS = 500;

export interface Workers {
  readonly runDir: string;
  /** This worker's number. */
  readonly own: number;
  readonly count: number;
  readonly registry: Registry;
}

type WorkerMetrics = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

const socketOf = (runDir: string, worker: number): string => join(runDir, `click-${worker}.sock`);

/** Answers the other workers. */
export function serveToPeers({ runDir, own, registry }: Workers): Bun.Server<undefined> {
  const socket = socketOf(runDir, own);
  rmSync(socket, { force: true });
  return Bun.serve({
    unix: socket,
    fetch: async () => Response.json(await registry.getMetricsAsJSON()),
  });
}

/** Prometheus text. */
export async function workersMetrics({ runDir, own, count, registry }: Workers): Promise<string> {
  const all = await Promise.all(
    Array.from({ length: count }, async (_, worker) => {
      if (worker === own) return labelled(await registry.getMetricsAsJSON(), worker);
      try {
        const response = await fetch('http://worker/', {
          unix: socketOf(runDir, worker),
          signal: AbortSignal.timeout(PEER_TIMEOUT_MS),
        });
        return labelled((await response.json()) as WorkerMetrics, worker);
      } catch {
        // A worker that is restarting answers again soon; the others' numbers are still worth having.
        return [];
      }
    }),
  );
  return AggregatorRegistry.aggregate(all).metrics();
}

function labelled(metrics: WorkerMetrics, worker: number): WorkerMetrics {
  return metrics.map((metric) => ({
    ...metric,
    values: metric.values.map((value) => ({
      ...value,
      labels: { ...value.labels, worker: String(worker) },
    })),
  }));
}
