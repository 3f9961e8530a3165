/** Every metric that the product exposes, from the real registries of a click worker, a ledger and roles of their own. */
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { ClickCounters } from '../../src/click/metrics.ts';
import { configSchema } from '../../src/config/schema.ts';
import { DiskLogWriter } from '../../src/log/disk/writer.ts';
import { KafkaCluster } from '../../src/log/kafka/cluster.ts';
import { CONNECTION_DEFAULTS } from '../../src/log/kafka/options.ts';
import { Publisher } from '../../src/log/kafka/publisher.ts';
import { KafkaLogWriter, WRITER_DEFAULTS } from '../../src/log/kafka/writer.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { openCatalogSync } from '../../src/roles/catalog-sync.ts';
import { ClickWorkerMetrics } from '../../src/roles/click-metrics.ts';
import { addKafkaMetrics } from '../../src/roles/kafka-metrics.ts';
import { createLedgerMetrics } from '../../src/roles/ledger-metrics.ts';
import { Ledger } from '../../src/roles/ledger-parts.ts';
import { openLedgerWebhooks } from '../../src/roles/ledger-webhooks.ts';
import { openControl } from '../../src/roles/open-control.ts';
import {
  addControlMetric,
  addGapMetric,
  addGroupMetrics,
  addLeaseMetric,
  addStoppedPartitions,
} from '../../src/roles/role-metrics.ts';
import { serveRole } from '../../src/roles/role-server.ts';
import { tempDir } from './temp-dir.ts';

export interface KnownMetric {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** Values that a label has without anything having happened. */
  readonly values: ReadonlyMap<string, ReadonlySet<string>>;
}

export type KnownMetrics = ReadonlyMap<string, KnownMetric>;

/** By the names under which they are asked for: a histogram has three. */
export async function knownMetrics(): Promise<KnownMetrics & { texts: string[] }> {
  const dir = tempDir('known-metrics');
  const config = configSchema.parse({ dataDir: join(dir.path, 'data') });
  const logger = createLogger('error', 'test');
  const writer = new DiskLogWriter({
    logDir: join(dir.path, 'worker-log'),
    partition: 0,
    segmentBytes: 65_536,
    clock: systemClock,
  });
  const spans = () => ({ sent: 0, failed: 0, dropped: 0 });
  const counters = new ClickCounters();
  const click = new ClickWorkerMetrics({ counters, writer, workers: 1, spans });
  const ledger = await Ledger.open({ config, clock: systemClock, logger });
  const metrics = createLedgerMetrics(() => ledger, spans);
  const control = await openControl(config, ledger.parts.paths, systemClock, 'a test');
  const webhooks = openLedgerWebhooks({
    ...{ ledger, logger, registry: metrics.registry },
    ...{ store: control.webhooks, leases: control.leases },
  });
  openCatalogSync(ledger.parts, metrics.registry);
  const kafka = kafkaLogOf(writer);
  addKafkaMetrics(click.registry, { writer: kafka, shippers: () => [] }, systemClock);
  const roles = await roleRegistry();
  const known = new Map<string, KnownMetric>();
  await addMetrics(known, click.registry, ['worker']);
  await addMetrics(known, metrics.registry, []);
  await addMetrics(known, roles, []);
  const texts = await Promise.all(
    [click.registry, metrics.registry, roles].map((each) => each.metrics()),
  );
  await webhooks.close();
  await control.close();
  await ledger.close();
  await writer.close();
  dir.remove();
  return Object.assign(known, { texts });
}

/** Never sends anything: no broker is asked before there is a record. */
function kafkaLogOf(spool: DiskLogWriter): KafkaLogWriter {
  const connection = { ...CONNECTION_DEFAULTS, clientId: 'known', brokers: ['localhost:9092'] };
  const cluster = new KafkaCluster(connection, 'clicks');
  const publisher = new Publisher({
    ...{ cluster, clock: systemClock, topic: 'clicks' },
    ...{ compression: 'none', timeoutMs: 1_000 },
  });
  return new KafkaLogWriter({ ...WRITER_DEFAULTS, publisher, spool });
}

/** What counters, archivers and reconcilers have besides the ledger's metrics. */
async function roleRegistry(): Promise<Registry> {
  const registry = new Registry();
  for (const role of ['counter', 'archiver'] as const) {
    addGroupMetrics(registry, role, () => ({ partitions: [10_000], rebalances: 1 }));
  }
  addStoppedPartitions(registry, () => ['offset_out_of_retention']);
  addLeaseMetric(registry, () => true);
  addGapMetric(registry, () => 0);
  addControlMetric(registry, () => true);
  const { role } = configSchema.parse({ role: { port: 0, host: '127.0.0.1' } });
  const server = serveRole({ config: role, registry, waitsFor: () => null });
  await server.close();
  return registry;
}

async function addMetrics(
  known: Map<string, KnownMetric>,
  registry: Registry,
  more: readonly string[],
): Promise<void> {
  for (const { name, type, help, values } of await registry.getMetricsAsJSON()) {
    const declared = registry.getSingleMetric(name) as unknown as { labelNames: string[] };
    const labels = [...declared.labelNames, ...more, ...(known.get(name)?.labels ?? [])];
    const found = new Map<string, Set<string>>();
    for (const { labels: of } of values) {
      for (const [label, value] of Object.entries(of)) {
        found.set(label, (found.get(label) ?? new Set()).add(String(value)));
      }
    }
    const kind = String(type);
    const metric = { name, type: kind, help, labels, values: found };
    if (kind !== 'histogram') known.set(name, metric);
    else {
      known.set(`${name}_bucket`, { ...metric, labels: [...labels, 'le'] });
      for (const part of ['sum', 'count']) known.set(`${name}_${part}`, metric);
    }
  }
}
