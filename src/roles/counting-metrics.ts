/** Prometheus metrics of a process that counts, whether all partitions or some. */
import { Counter, type Registry } from 'prom-client';
import type { Outcome } from '../counting/types.ts';
import { gaugesIn } from './gauge.ts';

export interface Counts {
  readonly heldRows: number;
  outcomes(): Readonly<Record<Outcome, number>>;
  memory(): { claims: number; claimBytes: number; openRows: number; forgotten: number };
}

export function addCountingMetrics(registry: Registry, counts: () => Counts): void {
  new Counter({
    name: 'clickledger_outcomes_total',
    help: 'Logged records by outcome.',
    labelNames: ['outcome'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [outcome, count] of Object.entries(counts().outcomes())) {
        this.inc({ outcome }, count);
      }
    },
  });
  const gauge = gaugesIn(registry);
  const memory = () => counts().memory();
  gauge('held_rows', 'Changed rows that the warehouse has not taken yet.', () => counts().heldRows);
  gauge('claims', 'Impressions remembered for dedup.', () => memory().claims);
  gauge('claim_memory_bytes', 'Memory of the remembered impressions.', () => memory().claimBytes);
  gauge(
    'claims_forgotten',
    'Impressions forgotten inside the dedup window for lack of room.',
    () => memory().forgotten,
  );
  gauge('open_rows', 'Minute rows held open for counting.', () => memory().openRows);
}
