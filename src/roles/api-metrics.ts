/** Prometheus metrics of the API: how long requests took, by route and status. */
import { Histogram, type Registry } from 'prom-client';
import type { ObserveRequest } from '../api/observe.ts';

const BUCKETS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function addApiMetrics(registry: Registry): ObserveRequest {
  const seconds = new Histogram({
    name: 'clickledger_api_request_seconds',
    help: 'Time from taking an API request to the head of its answer; a stream goes on after it.',
    labelNames: ['method', 'route', 'status'],
    buckets: BUCKETS,
    registers: [registry],
  });
  return ({ method, route, status, durationMs }) => {
    seconds.observe({ method, route, status: String(status) }, durationMs / 1_000);
  };
}
