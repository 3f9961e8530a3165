/** Prometheus metrics of the Kafka log: what a click worker publishes, and what is shipped from spools. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { SpoolShipper } from '../log/kafka/shipper.ts';
import type { Clock } from '../platform/clock.ts';
import type { KafkaClickLog } from './kafka-log.ts';

type Shippers = () => readonly SpoolShipper[];

export function addKafkaMetrics(
  registry: Registry,
  { writer, shippers }: Pick<KafkaClickLog, 'writer' | 'shippers'>,
  clock: Clock,
): void {
  const registers = [registry];
  addRecordCounts(registry, () => ({
    published: writer.counts.published,
    spooled: writer.counts.spooled,
    failed: writer.counts.failed,
    shipped: shippedBy(shippers()),
  }));
  new Counter({
    name: 'clickledger_kafka_expired_records_total',
    help: 'Clicks that Kafka did not acknowledge before the deadline.',
    registers,
    collect() {
      this.reset();
      this.inc(writer.counts.expired);
    },
  });
  new Gauge({
    name: 'clickledger_kafka_breaker_open_workers',
    help: 'Click workers that send clicks to the spool at once, because a broker has failed.',
    registers,
    collect() {
      this.set(writer.breakerState === 'closed' ? 0 : 1);
    },
  });
  addSpoolMetrics(registry, shippers, clock);
}

/** What a process has that only ships. */
export function addShipperMetrics(registry: Registry, shippers: Shippers, clock: Clock): void {
  addRecordCounts(registry, () => ({ shipped: shippedBy(shippers()) }));
  addSpoolMetrics(registry, shippers, clock);
}

const shippedBy = (shippers: readonly SpoolShipper[]): number =>
  shippers.reduce((sum, { shipped }) => sum + shipped, 0);

function addRecordCounts(registry: Registry, counts: () => Record<string, number>): void {
  new Counter({
    name: 'clickledger_kafka_records_total',
    help: 'Clicks by what became of them: published, spooled, shipped from the spool, failed.',
    labelNames: ['outcome'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [outcome, count] of Object.entries(counts())) this.inc({ outcome }, count);
    },
  });
}

function addSpoolMetrics(registry: Registry, shippers: Shippers, clock: Clock): void {
  const registers = [registry];
  new Gauge({
    name: 'clickledger_spool_backlog_records',
    help: 'Spooled clicks that are not in the topic yet.',
    registers,
    async collect() {
      const backlogs = await Promise.all(shippers().map((each) => each.backlogRecords()));
      this.set(backlogs.reduce((sum, records) => sum + records, 0));
    },
  });
  new Gauge({
    name: 'clickledger_spool_oldest_seconds',
    help: 'Age of the oldest spooled click that is not in the topic yet; 0: there is none.',
    registers,
    aggregator: 'max',
    collect() {
      const oldest = shippers().flatMap(({ oldestAppendedAtMs }) => oldestAppendedAtMs ?? []);
      this.set(oldest.length === 0 ? 0 : Math.max(0, clock() - Math.min(...oldest)) / 1000);
    },
  });
}
