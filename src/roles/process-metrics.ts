/** Metrics that every process has: what it is, how long its loop was busy, what became of its traces. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { monotonicMs } from '../platform/clock.ts';
import { VERSION } from '../version.ts';

const LAG_INTERVAL_MS = 500;
const LAG_BUCKETS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5];
const SPAN_RESULTS = ['sent', 'failed', 'dropped'] as const;

type SpanCounts = Readonly<Record<(typeof SPAN_RESULTS)[number], number>>;

export type RoleName =
  | 'click'
  | 'ledger'
  | 'catalog'
  | 'counter'
  | 'archiver'
  | 'reconciler'
  | 'api'
  | 'shipper';

export interface ProcessMetricsOptions {
  readonly registry: Registry;
  readonly role: RoleName;
  /** Null while nothing is traced. */
  readonly spans: () => SpanCounts | null;
}

/** Registers them and begins to measure; the timer does not keep the process alive. */
export function addProcessMetrics({ registry, role, spans }: ProcessMetricsOptions): void {
  const registers = [registry];
  new Gauge({
    name: 'clickledger_build_info',
    help: 'Version and runtime of a process that answered.',
    labelNames: ['role', 'version', 'bun'],
    registers,
  }).set({ role, version: VERSION, bun: Bun.version }, 1);
  const lag = new Histogram({
    name: 'clickledger_event_loop_lag_seconds',
    help: 'How much later than asked for a timer ran: what else the process did meanwhile.',
    labelNames: ['role'],
    buckets: LAG_BUCKETS,
    registers,
  });
  let dueMs = monotonicMs() + LAG_INTERVAL_MS;
  setInterval(() => {
    const nowMs = monotonicMs();
    lag.observe({ role }, Math.max(0, nowMs - dueMs) / 1_000);
    dueMs = nowMs + LAG_INTERVAL_MS;
  }, LAG_INTERVAL_MS).unref();
  new Counter({
    name: 'clickledger_trace_spans_total',
    help: 'Spans of traced clicks by what became of them; none while tracing is off.',
    labelNames: ['role', 'result'],
    registers,
    collect() {
      const counts = spans();
      this.reset();
      if (counts === null) return;
      for (const result of SPAN_RESULTS) this.inc({ role, result }, counts[result]);
    },
  });
}
