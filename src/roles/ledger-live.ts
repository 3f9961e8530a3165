/** Live counts out of the ledger's parts. */
import { LiveHub } from '../api/live.ts';
import type { Logger } from '../platform/logger.ts';
import type { LedgerView } from './ledger-view.ts';
import { wholeWarehouse } from './whole-warehouse.ts';

export function openLiveHub(ledger: LedgerView, logger: Logger): LiveHub {
  const { warehouse, clock } = ledger.parts;
  return new LiveHub({
    warehouse: wholeWarehouse(warehouse, ledger),
    clock,
    finalUntilMs: () => ledger.reconciler.finalUntilMs,
    asOfMs: () => ledger.counter.asOfMs,
    changes: () => ledger.upserts + ledger.publications,
    isRebuilding: () => ledger.isRebuilding,
    log: (error, message) => logger.error({ err: error }, message),
  });
}
