/** What an operator sets off by hand; every one can be repeated without harm. */

import { useState } from 'preact/hooks';
import type { ReconcileOutcome } from '../../../../api/admin-port.ts';
import type { VerifyOutcome } from '../../api/admin-types.ts';
import { ActionPanel } from '../../components/action-panel.tsx';
import { Card, PageHead } from '../../components/card.tsx';
import { TextField } from '../../components/field.tsx';
import { Note } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { count, momentText, percent } from '../../format.ts';
import { useApp, useScope } from '../../state/context.ts';

export function ActionsView() {
  return (
    <>
      <PageHead
        title="Recount and verify"
        about="The ledger does this by itself; here you set it off, and watch."
      />
      <ReconcileCard />
      <VerifyCard />
    </>
  );
}

function ReconcileCard() {
  const { api } = useApp();
  const { zone } = useScope();
  const [hour, setHour] = useState('');
  return (
    <Card
      title="Recount"
      hint="Recounts every hour that is closed, or one hour. Hours whose numbers did not change stay as they are."
    >
      <div class="inline-form">
        <TextField
          label="Hour, UTC (optional)"
          type="datetime-local"
          value={hour}
          onValue={setHour}
        />
        <ActionPanel
          action={hour === '' ? 'Recount closed hours' : 'Recount this hour'}
          kind="primary"
          run={(onProgress) => {
            const body = JSON.stringify(hour === '' ? {} : { hour });
            const send = { body, type: 'application/json' };
            return api.action<ReconcileOutcome>('/v1/admin/reconcile', send, onProgress);
          }}
          result={(outcome) => <Recounted outcome={outcome} zone={zone} />}
        />
      </div>
    </Card>
  );
}

type RecountedHour = ReconcileOutcome['hours'][number];

function Recounted({ outcome, zone }: { outcome: ReconcileOutcome; zone: string }) {
  const { hours, finalUntilMs } = outcome;
  const columns: Column<RecountedHour>[] = [
    { head: 'Hour', cell: ({ hour }) => momentText(hour.hourMs, zone), isRowHead: true },
    { head: 'What came of it', cell: ({ kind }) => kind },
    { head: 'Counted', kind: 'number', cell: ({ hour }) => count(hour.counted) },
    { head: 'Drift', kind: 'number', cell: ({ hour }) => percent(hour.driftMax, 3) },
  ];
  const until =
    finalUntilMs === 0 ? 'nothing is final yet' : `final until ${momentText(finalUntilMs, zone)}`;
  return (
    <>
      <Note tone="good">
        {hours.length === 0 ? 'No hour was due' : `${count(hours.length)} hours recounted`}; {until}
        .
      </Note>
      {hours.length > 0 && (
        <Table
          caption="Recounted hours"
          columns={columns}
          rows={hours}
          keyOf={({ hour }) => String(hour.hourMs)}
        />
      )}
    </>
  );
}

function VerifyCard() {
  const { api } = useApp();
  return (
    <Card
      title="Verify"
      hint="Recounts every final hour from the archive and compares it with what is answered. Changes nothing."
    >
      <ActionPanel
        action="Verify everything"
        kind="primary"
        run={(onProgress) => api.action<VerifyOutcome>('/v1/admin/verify', {}, onProgress)}
        result={(outcome) => <Verified outcome={outcome} />}
      />
    </Card>
  );
}

function Verified({ outcome }: { outcome: VerifyOutcome }) {
  const { hours, rows, clicks, differences, archiveProblems } = outcome;
  const isClean = differences.length === 0 && archiveProblems.length === 0;
  return (
    <>
      <Note tone={isClean ? 'good' : 'warn'}>
        {count(hours)} hours, {count(rows)} rows, {count(clicks)} clicks:{' '}
        {isClean
          ? 'all as in the archive.'
          : `${count(differences.length)} differences, ${count(archiveProblems.length)} problems of the archive.`}
      </Note>
      {!isClean && (
        <ul class="problem-list">
          {archiveProblems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
          {differences.map((difference) => (
            <li key={JSON.stringify(difference)} class="code">
              {JSON.stringify(difference)}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
