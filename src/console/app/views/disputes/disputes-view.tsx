/** Clicks that an advertiser says are wrong, and what became of it. */
import { useState } from 'preact/hooks';
import type { Dispute } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { Badge, Card, PageHead, type Tone } from '../../components/card.tsx';
import { SelectField } from '../../components/field.tsx';
import { Loaded } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { capital, momentText } from '../../format.ts';
import { useApp, useNavigation, useScope } from '../../state/context.ts';
import { useQuery } from '../../state/use-query.ts';
import { NewDispute } from './new-dispute.tsx';

const STATES = [
  { value: '', label: 'All' },
  { value: 'open', label: 'Open' },
  { value: 'resolved', label: 'Resolved' },
  { value: 'withdrawn', label: 'Withdrawn' },
];

export function DisputesView() {
  const { api, me, route } = useApp();
  const { zone, advertiserParams, advertiser } = useScope();
  const { setQuery } = useNavigation();
  const [state, setState] = useState('');
  const params = { ...advertiserParams, ...(state === '' ? {} : { state }), limit: 100 };
  const query = useQuery(
    JSON.stringify(params),
    (signal) => api.get<{ disputes: Dispute[] }>('/v1/disputes', { params, signal }),
    { keep: true },
  );
  const isOpening = route.query.open === 'new' && advertiser !== undefined;
  return (
    <>
      <PageHead
        title="Disputes"
        about="Say which clicks of an ad you doubt; the answer comes with the records they were counted from."
        actions={
          advertiser !== undefined && (
            <Button kind="primary" onClick={() => setQuery({ open: 'new' })}>
              Open a dispute
            </Button>
          )
        }
      />
      <Card
        title="Disputes so far"
        actions={<SelectField label="State" value={state} choices={STATES} onValue={setState} />}
      >
        <Loaded query={query}>
          {({ disputes }) => (
            <Table
              caption="Disputes"
              columns={columnsFor(me.scope, zone)}
              rows={disputes}
              keyOf={(dispute) => dispute.id}
              empty={state === '' ? 'No disputes.' : `No ${state} disputes.`}
            />
          )}
        </Loaded>
      </Card>
      {isOpening && <NewDispute onClose={() => setQuery({ open: undefined, ad: undefined })} />}
    </>
  );
}

function columnsFor(scope: 'read' | 'admin', zone: string): Column<Dispute>[] {
  return [
    { head: 'Ad', isRowHead: true, cell: (dispute) => <DisputeLink dispute={dispute} /> },
    ...(scope === 'admin'
      ? [{ head: 'Advertiser', cell: (dispute: Dispute) => dispute.advertiser_id }]
      : []),
    { head: 'State', cell: (dispute) => <DisputeBadge dispute={dispute} /> },
    { head: 'From', cell: (dispute) => momentText(dispute.from, zone) },
    { head: 'To', cell: (dispute) => momentText(dispute.to, zone) },
    { head: 'Reason', cell: (dispute) => <span class="clip">{dispute.reason}</span> },
    { head: 'Opened', cell: (dispute) => momentText(dispute.opened_at, zone) },
  ];
}

function DisputeLink({ dispute }: { dispute: Dispute }) {
  const { href } = useNavigation();
  return <a href={href(`/disputes/${encodeURIComponent(dispute.id)}`)}>{dispute.ad_id}</a>;
}

const TONES: Readonly<Record<string, Tone>> = {
  open: 'warn',
  upheld: 'good',
  rejected: 'bad',
  withdrawn: 'quiet',
};

export function DisputeBadge({ dispute }: { dispute: Dispute }) {
  const state = dispute.resolution ?? dispute.state;
  return <Badge tone={TONES[state] ?? 'quiet'}>{capital(state)}</Badge>;
}
