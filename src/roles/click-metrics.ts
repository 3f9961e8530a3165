/** Prometheus metrics of one click worker. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { CLICK_REASONS, type ClickCounters } from '../click/metrics.ts';
import type { Commit, DiskLogWriter } from '../log/disk/writer.ts';

const LATENCY_BUCKETS = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5];

export class ClickWorkerMetrics {
  readonly registry = new Registry();
  readonly #commitSeconds: Histogram;
  readonly #appendSeconds: Histogram;
  readonly #commitRecords: Counter;

  constructor(counters: ClickCounters, writer: () => DiskLogWriter) {
    const registers = [this.registry];
    new Counter({
      name: 'clickledger_click_requests_total',
      help: 'Requests to the click service by how they ended.',
      labelNames: ['outcome'],
      registers,
      collect() {
        this.reset();
        for (const reason of CLICK_REASONS)
          this.inc({ outcome: reason }, counters.outcomes[reason]);
      },
    });
    new Counter({
      name: 'clickledger_click_addresses_total',
      help: 'Client addresses by kind; many private ones say that trusted_proxies is too low.',
      labelNames: ['kind'],
      registers,
      collect() {
        this.reset();
        this.inc({ kind: 'private' }, counters.addressesPrivate);
        this.inc({ kind: 'public' }, counters.addresses - counters.addressesPrivate);
        this.inc({ kind: 'forwarded_invalid' }, counters.xffInvalid);
      },
    });
    this.#commitSeconds = new Histogram({
      name: 'clickledger_log_fsync_seconds',
      help: 'Time of one synchronous write of the click log.',
      buckets: LATENCY_BUCKETS,
      registers,
    });
    this.#appendSeconds = new Histogram({
      name: 'clickledger_log_append_seconds',
      help: 'Time from taking the first click of a commit to its being durable: the longest that a redirect waited.',
      buckets: LATENCY_BUCKETS,
      registers,
    });
    this.#commitRecords = new Counter({
      name: 'clickledger_log_records_total',
      help: 'Records made durable.',
      registers,
    });
    new Gauge({
      name: 'clickledger_log_healthy_workers',
      help: 'Click workers whose log can be written.',
      registers,
      collect() {
        this.set(writer().healthy ? 1 : 0);
      },
    });
    new Gauge({
      name: 'clickledger_click_rss_bytes',
      help: 'Resident memory of the click workers.',
      registers,
      collect() {
        this.set(process.memoryUsage().rss);
      },
    });
  }

  commit({ records, writeMs, waitedMs }: Commit): void {
    this.#commitSeconds.observe(writeMs / 1000);
    this.#appendSeconds.observe(waitedMs / 1000);
    this.#commitRecords.inc(records);
  }
}
