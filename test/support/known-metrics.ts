/** Every metric that the product exposes, from the real registries of a click worker and a ledger. */
import { join } from 'node:path';
import type { Registry } from 'prom-client';
import { ClickCounters } from '../../src/click/metrics.ts';
import { configSchema } from '../../src/config/schema.ts';
import { DiskLogWriter } from '../../src/log/disk/writer.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { openCatalogSync } from '../../src/roles/catalog-sync.ts';
import { ClickWorkerMetrics } from '../../src/roles/click-metrics.ts';
import { createLedgerMetrics } from '../../src/roles/ledger-metrics.ts';
import { Ledger } from '../../src/roles/ledger-parts.ts';
import { openLedgerWebhooks } from '../../src/roles/ledger-webhooks.ts';
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
  const webhooks = openLedgerWebhooks({ ledger, registry: metrics.registry, logger });
  openCatalogSync(ledger.parts, metrics.registry);
  const known = new Map<string, KnownMetric>();
  await addMetrics(known, click.registry, ['worker']);
  await addMetrics(known, metrics.registry, []);
  const texts = [await click.registry.metrics(), await metrics.registry.metrics()];
  await webhooks.close();
  await ledger.close();
  await writer.close();
  dir.remove();
  return Object.assign(known, { texts });
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
