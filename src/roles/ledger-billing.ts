/** What an invoice rests on and is argued about with: statements and disputes, as parts of the API. */
import type { LedgerAdmin } from '../api/admin-port.ts';
import { disputesFeature } from '../api/dispute-routes.ts';
import type { ApiFeature } from '../api/operation.ts';
import { statementsFeature } from '../api/statement-routes.ts';
import { createDisputes } from '../disputes/disputes.ts';
import type { DisputeStore } from '../disputes/port.ts';
import type { Logger } from '../platform/logger.ts';
import { openStatements } from '../statements/statements.ts';
import type { Ledger } from './ledger-parts.ts';
import { wholeWarehouse } from './whole-warehouse.ts';

export interface BillingParts {
  readonly ledger: Ledger;
  readonly admin: LedgerAdmin;
  readonly disputes: DisputeStore;
  readonly logger: Logger;
}

export function billingOf({ ledger, admin, disputes, logger }: BillingParts): ApiFeature[] {
  const { store, clock } = ledger.parts;
  const warehouse = wholeWarehouse(ledger.parts.warehouse, ledger);
  const finalUntilMs = (): number => ledger.reconciler.finalUntilMs;
  const isMoving = (fromMs: number, toMs: number): boolean =>
    ledger.reconciler.isChanging(fromMs, toMs);
  return [
    statementsFeature({
      statements: openStatements({ store, warehouse, finalUntilMs, clock, isMoving }),
      log: (error, message) => logger.error({ err: error }, message),
    }),
    disputesFeature({
      warehouse,
      finalUntilMs,
      outcomes: (which) => ledger.evidence.outcomes(which),
      disputes: createDisputes(disputes, (verdicts) =>
        admin.verdicts(
          verdicts.map((record, index) => ({ line: index + 1, record })),
          () => undefined,
        ),
      ),
    }),
  ];
}
