/** Prometheus metrics of the ledger: counting, archive, finality. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { ObserveRequest } from '../api/observe.ts';
import type { HourResult } from '../reconcile/reconciler.ts';
import { addApiMetrics } from './api-metrics.ts';
import { addCountingMetrics } from './counting-metrics.ts';
import { type DefineGauge, gaugesIn } from './gauge.ts';
import { partitionStatuses } from './ledger-admin.ts';
import type { LedgerView } from './ledger-view.ts';
import { perScrape, unlessAway } from './per-scrape.ts';
import { addProcessMetrics, type ProcessMetricsOptions } from './process-metrics.ts';
import { addStorageMetrics } from './storage-metrics.ts';

const HOUR_MS = 3_600_000;

export interface LedgerMetrics {
  readonly registry: Registry;
  hour(result: HourResult): void;
  readonly request: ObserveRequest;
}

const RECOUNT_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800];

export function createLedgerMetrics(
  ledger: () => LedgerView,
  spans: ProcessMetricsOptions['spans'],
): LedgerMetrics {
  const registry = new Registry();
  logMetrics(registry, ledger);
  countingMetrics(registry, ledger);
  addStorageMetrics(registry, ledger);
  addProcessMetrics({ registry, role: 'ledger', spans });
  const hour = hourMetrics(registry, ledger);
  return { registry, hour, request: addApiMetrics(registry) };
}

/** What a role that neither counts nor archives knows: others tell the rest, each of its own part. */
export function addRoleLedgerMetrics(
  registry: Registry,
  ledger: () => LedgerView,
): Pick<LedgerMetrics, 'hour' | 'registry'> {
  deadLetterMetric(registry, ledger);
  finalityMetrics(ledger, gaugesIn(registry));
  return { registry, hour: hourMetrics(registry, ledger) };
}

/** What recounting an hour brought. */
function hourMetrics(registry: Registry, ledger: () => LedgerView): LedgerMetrics['hour'] {
  const registers = [registry];
  new Gauge({
    name: 'clickledger_drift_ratio',
    help: 'Largest |live - final| / final over advertisers, of the last hour that turned final.',
    registers,
    collect() {
      // After a restart the last final hour is still the last one.
      const { reconciler } = ledger();
      const last = reconciler.hour(reconciler.finalUntilMs - HOUR_MS);
      if (last !== undefined) this.set(last.driftMax);
    },
  });
  const alerts = new Counter({
    name: 'clickledger_drift_alerts_total',
    help: 'Hours whose drift was above the configured bound.',
    registers,
  });
  const hours = new Counter({
    name: 'clickledger_hours_total',
    help: 'Hours recounted, by what came of it.',
    labelNames: ['kind'],
    registers,
  });
  const recountBytes = new Gauge({
    name: 'clickledger_recount_memory_bytes',
    help: 'Memory of the dedup table of the last recount.',
    registers,
  });
  const recountSeconds = new Histogram({
    name: 'clickledger_recount_seconds',
    help: 'Time to recount and publish one hour.',
    buckets: RECOUNT_BUCKETS,
    registers,
  });
  return (result) => {
    hours.inc({ kind: result.kind });
    recountBytes.set(result.memoryBytes);
    recountSeconds.observe(result.durationMs / 1_000);
    if (result.driftAlert) alerts.inc();
  };
}

/** What counting reads: backlog, age, watermark. */
function logMetrics(registry: Registry, ledger: () => LedgerView): void {
  const registers = [registry];
  const partitions = perScrape(() => partitionStatuses(ledger()));
  new Gauge({
    name: 'clickledger_oldest_uncounted_seconds',
    help: 'Age of the oldest record of the log that is not counted yet; 0 when all are.',
    registers,
    async collect() {
      const nowMs = ledger().parts.clock();
      const times = (await partitions()).map((each) => each.oldestUncountedAtMs ?? nowMs);
      this.set(Math.max(0, nowMs - Math.min(nowMs, ...times)) / 1000);
    },
  });
  new Gauge({
    name: 'clickledger_watermark_lag_seconds',
    help: 'How far the counter is behind in event time; 0 when every partition is idle.',
    registers,
    collect() {
      const watermarkMs = ledger().counter.watermarkMs();
      const nowMs = ledger().parts.clock();
      this.set(watermarkMs === null ? 0 : Math.max(0, nowMs - watermarkMs) / 1000);
    },
  });
  new Gauge({
    name: 'clickledger_unarchived_records',
    help: 'Records of the log that are not archived yet.',
    labelNames: ['partition'],
    registers,
    async collect() {
      for (const { partition, logEndOffset, archivedOffset } of await partitions()) {
        this.set({ partition: String(partition) }, logEndOffset - archivedOffset);
      }
    },
  });
  new Gauge({
    name: 'clickledger_log_backlog_records',
    help: 'Records of the log that are not counted yet.',
    labelNames: ['partition'],
    registers,
    async collect() {
      for (const { partition, backlog } of await partitions()) {
        this.set({ partition: String(partition) }, backlog);
      }
    },
  });
}

function countingMetrics(registry: Registry, ledger: () => LedgerView): void {
  const gauge = gaugesIn(registry);
  addCountingMetrics(registry, () => ledger().counter);
  deadLetterMetric(registry, ledger);
  finalityMetrics(ledger, gauge);
  stateMetrics(ledger, gauge);
}

function deadLetterMetric(registry: Registry, ledger: () => LedgerView): void {
  new Gauge({
    name: 'clickledger_dead_letters',
    help: 'Dead letters that wait, by reason.',
    labelNames: ['reason'],
    registers: [registry],
    async collect() {
      const waiting = await unlessAway(() => ledger().parts.deadLetters.waiting());
      if (waiting === null) return;
      this.reset();
      for (const [reason, count] of waiting) this.set({ reason }, count);
    },
  });
}

/** How far what others read is. */
function finalityMetrics(ledger: () => LedgerView, gauge: DefineGauge): void {
  const nowMs = () => ledger().parts.clock();
  const ageSeconds = (timeMs: number) => (timeMs === 0 ? 0 : Math.max(0, nowMs() - timeMs) / 1000);
  gauge('final_until_age_seconds', 'Age of the end of the last final hour; 0 when none is.', () =>
    ageSeconds(ledger().reconciler.finalUntilMs),
  );
  gauge('live_age_seconds', 'How old the newest complete live numbers are.', () =>
    ageSeconds(ledger().counter.asOfMs),
  );
  gauge('finality_stuck', '1 while the next hour cannot turn final for a reason.', () =>
    ledger().stuck === null ? 0 : 1,
  );
  gauge(
    'invalid_impressions',
    'Impressions whose verdict in force is that their click is invalid.',
    () => ledger().parts.verdicts.table.invalid,
  );
}

/** What only the one ledger process has. */
function stateMetrics(ledger: () => LedgerView, gauge: DefineGauge): void {
  gauge('counter_stopped', '1 when counting has stopped on an error.', () =>
    ledger().counterProblem === null ? 0 : 1,
  );
  gauge('ledger_rss_bytes', 'Resident memory of the ledger.', () => process.memoryUsage().rss);
}
