/** A Prometheus histogram of latencies that were counted elsewhere, in plain fields. */
import { Histogram, type Registry } from 'prom-client';
import type { LatencyCounts } from '../platform/latency-counts.ts';

interface LatencyMetricOptions {
  readonly name: string;
  readonly help: string;
  readonly registry: Registry;
  readonly counts: LatencyCounts;
}

type Values = Awaited<ReturnType<Histogram['get']>>;

/** Observing here throws away the caller's reason for counting in plain fields; only `get` is used. */
class LatencyHistogram extends Histogram {
  readonly #options: LatencyMetricOptions;

  constructor(options: LatencyMetricOptions) {
    const { name, help, registry, counts } = options;
    super({ name, help, registers: [registry], buckets: counts.boundsMs.map(inSeconds) });
    this.#options = options;
  }

  override async get(): Promise<Values> {
    const { name, help, counts } = this.#options;
    const value = (metricName: string, number: number, labels = {}) => ({
      metricName: `${name}_${metricName}`,
      labels,
      value: number,
    });
    let total = 0;
    const buckets = counts.boundsMs.map((boundMs, at) => {
      total += counts.counts[at]!;
      return value('bucket', total, { le: inSeconds(boundMs) });
    });
    total += counts.counts.at(-1)!;
    const values = [
      ...buckets,
      value('bucket', total, { le: '+Inf' }),
      value('sum', inSeconds(counts.sumMs)),
      value('count', total),
    ];
    const type = 'histogram' as unknown as Values['type'];
    return { name, help, type, aggregator: 'sum', values, collect: () => {} };
  }

  /** What the text format asks for in place of `get`. */
  getForPromString(): Promise<Values> {
    return this.get();
  }
}

const inSeconds = (ms: number): number => ms / 1_000;

export function addLatencyMetric(options: LatencyMetricOptions): void {
  new LatencyHistogram(options);
}
