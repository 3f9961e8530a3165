/**
 * The reconciler role: turns hours final, an hour at a time, in turns with others of its kind; and sends
 * webhooks, one process at a time. What it keeps on its disk can be derived again from the archive.
 */
import { writeCheckpoint } from '../archive/checkpoint-writer.ts';
import type { Config } from '../config/schema.ts';
import { addRoleLedgerMetrics } from './ledger-metrics.ts';
import { openLedgerWebhooks } from './ledger-webhooks.ts';
import { logHour } from './log-hour.ts';
import { Loop } from './loop.ts';
import { RoleLedger } from './role-ledger.ts';
import { addControlMetric, addGapMetric, addLeaseMetric } from './role-metrics.ts';
import { openShared, type RoleContext, type RoleWork, runRole } from './run-role.ts';

const CHECKPOINT_MS = 600_000;

export function runReconciler(config: Config, stop: AbortSignal): Promise<void> {
  return runRole(config, { role: 'reconciler' }, stop, openReconcilerRole);
}

async function openReconcilerRole(context: RoleContext): Promise<RoleWork> {
  const { config, registry, logger } = context;
  const control = await openShared(context);
  const ledger = await RoleLedger.open(context, control, (result) => {
    metrics.hour(result);
    logHour(result, logger);
  });
  // Not before: a role that still waits has metrics too.
  const metrics = addRoleLedgerMetrics(registry, () => ledger);
  const webhooks = openLedgerWebhooks({
    ...{ ledger, registry, logger },
    ...{ store: control.webhooks, leases: control.leases },
  });
  let problem: Error | null = null;
  const end = new AbortController();
  const { signal } = end;
  const loops = [
    new Loop('reconciler', config.reconcile.intervalMs, async () => {
      try {
        await ledger.requireNoMove();
        await ledger.takeUpRebuild();
        await ledger.reconciler.reconcile({ signal });
        problem = null;
      } finally {
        await ledger.tellStuck();
      }
    }),
    // So that a start need not read every entry since the first click.
    new Loop('checkpoint', CHECKPOINT_MS, async () => {
      const { store, manifest } = ledger.parts;
      await writeCheckpoint(store, manifest);
    }),
  ];
  addControlMetric(registry, () => ledger.controlProblem === null);
  addGapMetric(registry, () => ledger.liveGaps.length);
  addLeaseMetric(registry, () => ledger.reconciler.hasTurn);
  ledger.start();
  for (const loop of loops) {
    loop.start((error) => {
      if (loop.name === 'reconciler') problem = error as Error;
      logger.error({ err: error, loop: loop.name }, `${loop.name} failed`);
    });
  }
  webhooks.start();
  return {
    waitsFor: () => (ledger.lookProblem ?? problem)?.message ?? null,
    async drain() {
      end.abort();
      await Promise.all([...loops.map((loop) => loop.stop()), webhooks.close()]);
    },
    close: () => ledger.close(),
  };
}
