/** Prometheus metrics of roles that share their work with others: partitions, leases, the common database. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { GroupStatus } from '../log/group.ts';
import { gaugesIn } from './gauge.ts';

const GROUP_METRICS = {
  counter: {
    partitions: 'clickledger_counter_partitions',
    rebalances: 'clickledger_counter_rebalances_total',
  },
  archiver: {
    partitions: 'clickledger_archiver_partitions',
    rebalances: 'clickledger_archiver_rebalances_total',
  },
} as const;

/** What a member of a group has of it. */
export function addGroupMetrics(
  registry: Registry,
  role: keyof typeof GROUP_METRICS,
  status: () => Pick<GroupStatus, 'partitions' | 'rebalances'>,
): void {
  const registers = [registry];
  new Gauge({
    name: GROUP_METRICS[role].partitions,
    help: `Partitions of the log that this ${role} has; all of them together have each once.`,
    registers,
    collect() {
      this.set(status().partitions.length);
    },
  });
  new Counter({
    name: GROUP_METRICS[role].rebalances,
    help: `How often partitions were shared out among the ${role}s, as this one has seen it.`,
    registers,
    collect() {
      this.reset();
      this.inc(status().rebalances);
    },
  });
}

export function addReadyMetric(registry: Registry, waitsFor: () => string | null): void {
  gaugesIn(registry)('role_ready', '1 while the role does its work, 0 while it waits.', () =>
    waitsFor() === null ? 1 : 0,
  );
}

/** Partitions of this counter that wait for somebody, each by the code of its problem. */
export function addStoppedPartitions(registry: Registry, codes: () => Iterable<string>): void {
  new Gauge({
    name: 'clickledger_counter_stopped_partitions',
    help: 'Partitions of this counter that are not counted until somebody acts, by the reason.',
    labelNames: ['code'],
    registers: [registry],
    collect() {
      this.reset();
      for (const code of codes()) this.inc({ code });
    },
  });
}

export function addLeaseMetric(registry: Registry, isHeld: () => boolean): void {
  const gauge = gaugesIn(registry);
  gauge(
    'reconciler_lease_held',
    '1 while this reconciler has the lease to recount hours; it has none while nothing is due.',
    () => (isHeld() ? 1 : 0),
  );
}

/** Stretches of time whose clicks the live numbers miss, until their hours are final. */
export function addGapMetric(registry: Registry, gaps: () => number): void {
  const gauge = gaugesIn(registry);
  gauge(
    'live_gaps',
    'Stretches that counters have passed over by permission: live numbers miss their clicks, final ones do not.',
    gaps,
  );
}

/** Whether the database that the roles share has answered this process lately. */
export function addControlMetric(registry: Registry, isUp: () => boolean): void {
  const gauge = gaugesIn(registry);
  gauge('control_up', '1 while the database that the roles share answers.', () => (isUp() ? 1 : 0));
}
