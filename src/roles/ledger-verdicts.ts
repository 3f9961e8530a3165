/** Verdicts and evidence in the ledger process: when verdicts may be taken, what the API shows. */
import type { ClicksParts } from '../api/clicks-routes.ts';
import { LedgerError } from '../platform/errors.ts';
import { TakeVerdicts } from '../reconcile/take-verdicts.ts';
import type { Verdicts } from '../verdicts/port.ts';
import type { LedgerView } from './ledger-view.ts';

export function takeVerdicts(ledger: LedgerView): Verdicts {
  const { verdicts, clock, config } = ledger.parts;
  return new TakeVerdicts({
    verdicts,
    clock,
    reachMs: config.reconcile.verdictReachMs,
    whenWhole: (work) =>
      ledger.alone(() => {
        if (!ledger.isRebuilding) return work(ledger.reconciler);
        throw new LedgerError('rebuilding', 'the warehouse is being built again', {
          kind: 'retry',
          hint: 'Give the verdicts again when "clickledger rebuild" has come to its end.',
        });
      }),
  });
}

export function clicksParts(ledger: LedgerView): ClicksParts {
  return {
    evidence: ledger.evidence,
    finalUntilMs: () => ledger.reconciler.finalUntilMs,
    async archivedUntilMs() {
      try {
        return await ledger.parts.archiver.coveredUntilMs();
      } catch (error) {
        // What stops the archive is told by `status`; the clicks that it has can still be shown.
        if (error instanceof LedgerError) return null;
        throw error;
      }
    },
  };
}
