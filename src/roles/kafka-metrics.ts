/** Prometheus metrics of a click worker's Kafka log. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../platform/clock.ts';
import type { KafkaClickLog } from './kafka-log.ts';

export function addKafkaMetrics(
  registry: Registry,
  { writer, shippers }: Pick<KafkaClickLog, 'writer' | 'shippers'>,
  clock: Clock,
): void {
  const registers = [registry];
  new Counter({
    name: 'clickledger_kafka_records_total',
    help: 'Clicks by what became of them: published, spooled, shipped from the spool, failed.',
    labelNames: ['outcome'],
    registers,
    collect() {
      this.reset();
      this.inc({ outcome: 'published' }, writer.counts.published);
      this.inc({ outcome: 'spooled' }, writer.counts.spooled);
      this.inc({ outcome: 'failed' }, writer.counts.failed);
      this.inc(
        { outcome: 'shipped' },
        shippers.reduce((sum, { shipped }) => sum + shipped, 0),
      );
    },
  });
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
  new Gauge({
    name: 'clickledger_spool_backlog_records',
    help: 'Spooled clicks that are not in the topic yet.',
    registers,
    async collect() {
      const backlogs = await Promise.all(shippers.map((each) => each.backlogRecords()));
      this.set(backlogs.reduce((sum, records) => sum + records, 0));
    },
  });
  new Gauge({
    name: 'clickledger_spool_oldest_seconds',
    help: 'Age of the oldest spooled click that is not in the topic yet; 0: there is none.',
    registers,
    aggregator: 'max',
    collect() {
      const oldest = shippers.flatMap(({ oldestAppendedAtMs }) => oldestAppendedAtMs ?? []);
      this.set(oldest.length === 0 ? 0 : Math.max(0, clock() - Math.min(...oldest)) / 1000);
    },
  });
}
