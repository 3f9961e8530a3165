/** Prometheus metrics of one click worker. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { CLICK_REASONS, type ClickCounters } from '../click/metrics.ts';
import type { Commit, DiskLogWriter } from '../log/disk/writer.ts';
import { addLatencyMetric } from './latency-metrics.ts';
import { addProcessMetrics, type ProcessMetricsOptions } from './process-metrics.ts';

const LATENCY_BUCKETS = [0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5];

export interface ClickWorkerMetricsOptions {
  readonly counters: ClickCounters;
  /** Whether clicks are taken, and what opening the disk had to repair. */
  readonly writer: Pick<DiskLogWriter, 'healthy' | 'recovery'>;
  /** How many workers there should be. */
  readonly workers: number;
  readonly spans: ProcessMetricsOptions['spans'];
}

export class ClickWorkerMetrics {
  readonly registry = new Registry();
  readonly #commitSeconds: Histogram;
  readonly #appendSeconds: Histogram;
  readonly #commitRecords: Counter;

  constructor(options: ClickWorkerMetricsOptions) {
    const registers = [this.registry];
    addRequestMetrics(this.registry, options.counters);
    addWorkerMetrics(this.registry, options);
    addProcessMetrics({ registry: this.registry, role: 'click', spans: options.spans });
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
  }

  commit({ records, writeMs, waitedMs }: Commit): void {
    this.#commitSeconds.observe(writeMs / 1000);
    this.settled(records, waitedMs);
  }

  /** Records that Kafka or its spool has taken: not every one of them is a write of this disk. */
  settled(records: number, waitedMs: number): void {
    this.#appendSeconds.observe(waitedMs / 1000);
    this.#commitRecords.inc(records);
  }

  /** A write of the spool; its records are reported as settled. */
  spoolWrite({ writeMs }: Commit): void {
    this.#commitSeconds.observe(writeMs / 1000);
  }
}

/** How requests ended, and how long redirects took. */
function addRequestMetrics(registry: Registry, counters: ClickCounters): void {
  const registers = [registry];
  new Counter({
    name: 'clickledger_click_requests_total',
    help: 'Requests to the click service by how they ended.',
    labelNames: ['outcome'],
    registers,
    collect() {
      this.reset();
      for (const reason of CLICK_REASONS) this.inc({ outcome: reason }, counters.outcomes[reason]);
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
  addLatencyMetric({
    name: 'clickledger_click_redirect_seconds',
    help: 'Time from taking a click request to its redirect, the wait for the log included, the network not.',
    registry,
    counts: counters.redirects,
  });
}

function addWorkerMetrics(
  registry: Registry,
  { writer, workers }: Pick<ClickWorkerMetricsOptions, 'writer' | 'workers'>,
): void {
  const registers = [registry];
  new Gauge({
    name: 'clickledger_click_workers',
    help: 'Click workers that there should be; each says so.',
    registers,
  }).set(workers);
  new Gauge({
    name: 'clickledger_log_healthy_workers',
    help: 'Click workers whose log can be written.',
    registers,
    collect() {
      this.set(writer.healthy ? 1 : 0);
    },
  });
  new Gauge({
    name: 'clickledger_log_lost_records',
    help: 'Acknowledged records that the log lacked when it was opened last.',
    registers,
  }).set(writer.recovery.lostRecords);
  new Gauge({
    name: 'clickledger_click_rss_bytes',
    help: 'Resident memory of the click workers.',
    registers,
    collect() {
      this.set(process.memoryUsage().rss);
    },
  });
}
