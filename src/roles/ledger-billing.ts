/** What an invoice rests on and is argued about with: statements and disputes, as parts of the API. */
import type { LedgerAdmin } from '../api/admin-port.ts';
import { disputesFeature } from '../api/dispute-routes.ts';
import type { ApiFeature } from '../api/operation.ts';
import { statementsFeature } from '../api/statement-routes.ts';
import type { Leases } from '../control/port.ts';
import { createDisputes } from '../disputes/disputes.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import { type ClaimStatement, openStatements } from '../statements/statements.ts';
import type { LedgerView } from './ledger-view.ts';
import type { Control } from './open-control.ts';
import { wholeWarehouse } from './whole-warehouse.ts';

export interface BillingParts {
  readonly ledger: LedgerView;
  readonly admin: LedgerAdmin;
  readonly control: Pick<Control, 'disputes' | 'leases'>;
  readonly logger: Logger;
}

export function billingOf({ ledger, admin, control, logger }: BillingParts): ApiFeature[] {
  const { store, clock } = ledger.parts;
  const warehouse = wholeWarehouse(ledger.parts.warehouse, ledger);
  const finalUntilMs = (): number => ledger.reconciler.finalUntilMs;
  const isMoving = (fromMs: number, toMs: number): boolean =>
    ledger.reconciler.isChanging(fromMs, toMs);
  return [
    statementsFeature({
      statements: openStatements({
        ...{ store, warehouse, finalUntilMs, clock, isMoving },
        claim: claimOf(control.leases),
      }),
      log: (error, message) => logger.error({ err: error }, message),
    }),
    disputesFeature({
      warehouse,
      finalUntilMs,
      outcomes: (which) => ledger.evidence.outcomes(which),
      disputes: createDisputes(
        control.disputes,
        (verdicts) =>
          admin.verdicts(
            verdicts.map((record, index) => ({ line: index + 1, record })),
            () => undefined,
          ),
        (id) => control.leases.tryTake(`dispute/${id}`, 'ends a dispute'),
      ),
    }),
  ];
}

/** Several processes may be asked for one statement at once. */
function claimOf(leases: Leases): ClaimStatement {
  return async (id, build) => {
    const lease = await leases.tryTake(`statement/${id}`, 'making it');
    if (lease === null) {
      throw new LedgerError('statements_busy', 'the statement is being made already', {
        kind: 'retry',
        hint: 'Ask again when it is done.',
      });
    }
    try {
      return await build(() => lease.assertHeld());
    } finally {
      await lease.release();
    }
  };
}
