/** One dispute with its bundle: everything that the number in question is made of. */
import { useState } from 'preact/hooks';
import type { Dispute, DisputeBundle, MetricsRow, Outcome } from '../../api/types.ts';
import { Button } from '../../components/button.tsx';
import { Badge, Card, Facts, PageHead, Stat, Stats } from '../../components/card.tsx';
import { Confirm } from '../../components/dialog.tsx';
import { Loaded, Note } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { capital, count, momentOrNone, momentText, NONE, zoneText } from '../../format.ts';
import { useApp, useNavigation } from '../../state/context.ts';
import { CUSTOM } from '../../state/range.ts';
import { useQuery } from '../../state/use-query.ts';
import { outcomeText } from '../evidence-view.tsx';
import { RestatementTable } from '../restatements-view.tsx';
import { DisputeBadge } from './disputes-view.tsx';
import { ResolveDispute } from './resolve-dispute.tsx';

type FullDispute = Dispute & { readonly bundle: DisputeBundle };

export function DisputeView() {
  const { api, route } = useApp();
  const id = route.path.split('/')[2] ?? '';
  const path = `/v1/disputes/${id}`;
  const query = useQuery(path, (signal) => api.get<FullDispute>(path, { signal }));
  return (
    <>
      <BackLink />
      <Loaded query={query} lines={8}>
        {(dispute) => <DisputeBody dispute={dispute} path={path} onChanged={query.reload} />}
      </Loaded>
    </>
  );
}

function BackLink() {
  const { href } = useNavigation();
  return (
    <a class="back" href={href('/disputes')}>
      ← All disputes
    </a>
  );
}

interface BodyProps {
  readonly dispute: FullDispute;
  readonly path: string;
  readonly onChanged: () => void;
}

function DisputeBody({ dispute, path, onChanged }: BodyProps) {
  const { bundle, timezone } = dispute;
  return (
    <>
      <PageHead
        title={`Dispute about ${dispute.ad_id}`}
        about={
          <>
            <DisputeBadge dispute={dispute} /> {momentText(dispute.from, timezone)} to{' '}
            {momentText(dispute.to, timezone)} · {zoneText(timezone)}
          </>
        }
        actions={<DisputeActions dispute={dispute} path={path} onChanged={onChanged} />}
      />
      <Card title="What is in dispute">
        <Facts
          facts={[
            ['Advertiser', dispute.advertiser_id],
            ['Reason', dispute.reason],
            ['Opened', momentText(dispute.opened_at, timezone)],
            ['Closed', momentOrNone(dispute.closed_at, timezone)],
          ]}
        />
        <History dispute={dispute} />
      </Card>
      <Card
        title="Clicks in question"
        hint={
          bundle.final
            ? 'All of them are final.'
            : 'Some of them are live and may still move until their hours are final.'
        }
        actions={<EvidenceLink dispute={dispute} />}
      >
        <Outcomes bundle={bundle} />
        {bundle.missing.map(({ part, detail }) => (
          <Note key={part} tone="warn">
            The {part} cannot be shown: {detail}
          </Note>
        ))}
        <Table
          caption="Clicks by hour"
          columns={hourColumns(timezone)}
          rows={bundle.rows ?? []}
          keyOf={(row) => row.bucket_start}
          empty="No clicks of this ad in this range."
        />
      </Card>
      <Card title="Restatements of these hours">
        <RestatementTable
          rows={bundle.restatements.map((row) => ({ ...row, ad_id: dispute.ad_id }))}
          zone={timezone}
        />
      </Card>
    </>
  );
}

function History({ dispute }: { dispute: FullDispute }) {
  const steps = dispute.history.filter(({ step }) => step !== 'opened');
  if (steps.length === 0) return null;
  return (
    <ol class="history">
      {steps.map(({ step, by, at, note, verdicts }) => (
        <li key={`${step} ${at}`}>
          <strong>{capital(step)}</strong> by {by}, {momentText(at, dispute.timezone)}
          {verdicts > 0 && `, with ${count(verdicts)} verdicts`}
          {note !== '' && <p>{note}</p>}
        </li>
      ))}
    </ol>
  );
}

function Outcomes({ bundle }: { bundle: DisputeBundle }) {
  return (
    <Stats>
      <Stat
        label="Clicks"
        value={bundle.total === null ? NONE : count(bundle.total)}
        note={bundle.final ? 'all final' : 'not all final yet'}
      />
      {Object.entries(bundle.outcomes ?? {}).map(([outcome, clicks]) => (
        <Stat
          key={outcome}
          label={outcomeText(outcome as Outcome)}
          value={count(clicks)}
          note="archived records"
        />
      ))}
    </Stats>
  );
}

function hourColumns(zone: string): Column<MetricsRow>[] {
  return [
    { head: 'Hour', cell: (row) => momentText(row.bucket_start, zone), isRowHead: true },
    { head: 'Clicks', kind: 'number', cell: (row) => count(row.clicks) },
    {
      head: 'State',
      cell: (row) => (
        <Badge tone={row.final ? 'good' : 'quiet'}>{row.final ? 'Final' : 'Live'}</Badge>
      ),
    },
  ];
}

/** The custom range takes local times without their offset. */
const localText = (instant: string): string => instant.slice(0, 16);

function EvidenceLink({ dispute }: { dispute: FullDispute }) {
  const { me } = useApp();
  const { href } = useNavigation();
  const range = { range: CUSTOM, from: localText(dispute.from), to: localText(dispute.to) };
  const query = {
    ...range,
    ad: dispute.ad_id,
    tz: dispute.timezone,
    adv: me.scope === 'admin' ? dispute.advertiser_id : undefined,
  };
  return (
    <a class="button button-plain" href={href('/evidence', query)}>
      Raw clicks
    </a>
  );
}

function DisputeActions({ dispute, path, onChanged }: BodyProps) {
  const { api, me } = useApp();
  const [asking, setAsking] = useState<'withdraw' | 'resolve'>();
  const close = (): void => setAsking(undefined);
  if (dispute.state !== 'open') return null;
  const isAdmin = me.scope === 'admin';
  return (
    <>
      {isAdmin ? (
        <Button kind="primary" onClick={() => setAsking('resolve')}>
          Resolve
        </Button>
      ) : (
        <Button onClick={() => setAsking('withdraw')}>Withdraw</Button>
      )}
      {asking === 'resolve' && <ResolveDispute path={path} onDone={onChanged} onClose={close} />}
      {asking === 'withdraw' && (
        <Confirm
          title="Withdraw this dispute?"
          action="Withdraw"
          onClose={close}
          onConfirm={async () => {
            await api.post(`${path}/withdraw`, {});
            onChanged();
          }}
        >
          <p>It stays in the list as withdrawn. You can open another one.</p>
        </Confirm>
      )}
    </>
  );
}
