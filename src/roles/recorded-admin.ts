/**
 * The admin actions of a command that opened the ledger for itself, each with its lines in the audit
 * log. Over the socket of a running ledger, the ledger writes them.
 */
import type { LedgerAdmin } from '../api/admin-port.ts';
import type { AuditLog } from '../auth/audit-log.ts';
import { recordAct } from '../auth/record-act.ts';

export function recordedAdmin(admin: LedgerAdmin, audit: AuditLog): LedgerAdmin {
  const act = <T>(action: string, target: string, run: () => Promise<T>): Promise<T> =>
    recordAct(audit, { actor: 'cli', action, target }, run);
  return {
    ...admin,
    reconcile: (options, progress) =>
      act('reconcile', instantOf(options.hourMs ?? options.untilMs), () =>
        admin.reconcile(options, progress),
      ),
    ingest: (rows, progress) => act('ingest', '', () => admin.ingest(rows, progress)),
    verdicts: (rows, progress) => act('verdicts.give', '', () => admin.verdicts(rows, progress)),
    redrive: (which) =>
      act('dead-letters.redrive', which.id ?? which.reason ?? 'all', () => admin.redrive(which)),
    verify: (progress) => act('verify', '', () => admin.verify(progress)),
    rebuild: (progress) => act('rebuild', '', () => admin.rebuild(progress)),
  };
}

function instantOf(ms: number | undefined): string {
  return ms === undefined ? '' : new Date(ms).toISOString();
}
