/** Puts a reconciler together from the parts of a ledger, and what it shares with others. */
import { join } from 'node:path';
import type { Leases, SharedState } from '../control/port.ts';
import { HourIndexes } from '../reconcile/hour-index.ts';
import { PendingHours } from '../reconcile/pending-hours.ts';
import { Reconciler, type ReconcilerOptions } from '../reconcile/reconciler.ts';
import { TakenBackFiles } from '../reconcile/taken-back.ts';
import { SearchedVerdicts } from '../reconcile/verdict-search.ts';
import type { LedgerParts } from './ledger-parts.ts';
import { keptFrom } from './warehouse-ttl.ts';

export type ReconcilerWork = Required<
  Pick<ReconcilerOptions, 'onHour' | 'settle' | 'coveredUntilMs' | 'refresh'>
> & {
  readonly leases: Leases;
  readonly state: SharedState;
};

export function newReconciler(
  { config, paths, store, manifest, warehouse, clock, verdicts }: LedgerParts,
  work: ReconcilerWork,
): Reconciler {
  const { verdictReachMs, delayMs, lookbackMs, driftAlert } = config.reconcile;
  return new Reconciler({
    ...{ store, manifest, warehouse, clock, verdicts },
    ...{ verdictReachMs, delayMs, lookbackMs, driftAlert },
    latenessMs: config.counting.latenessMs,
    indexes: new HourIndexes(paths.recountIndex),
    takenBack: new TakenBackFiles(join(paths.recountIndex, 'taken-back')),
    pending: new PendingHours(work.state),
    searched: new SearchedVerdicts(work.state),
    keptFrom: () => keptFrom(clock()),
    ...work,
  });
}
