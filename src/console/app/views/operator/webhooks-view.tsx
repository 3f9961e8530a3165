/** Who is told when hours turn final or change, and whether it got there. */
import { useState } from 'preact/hooks';
import { WEBHOOK_EVENTS, type Webhook, type WebhookDelivery } from '../../api/admin-types.ts';
import { Button } from '../../components/button.tsx';
import { Card, PageHead } from '../../components/card.tsx';
import { Confirm } from '../../components/dialog.tsx';
import { CheckField, Form, TextField } from '../../components/field.tsx';
import { Secret } from '../../components/secret.tsx';
import { ErrorNote, Loaded } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { count, duration } from '../../format.ts';
import { useApp } from '../../state/context.ts';
import { useAct } from '../../state/use-act.ts';
import { useQuery } from '../../state/use-query.ts';
import { Deliveries, OutcomeBadge } from './deliveries.tsx';

type Asking = { readonly what: 'remove' | 'deliveries'; readonly webhook: Webhook };

export function WebhooksView() {
  const { api } = useApp();
  const [asking, setAsking] = useState<Asking>();
  const query = useQuery('webhooks', (signal) =>
    api.get<{ webhooks: Webhook[] }>('/v1/admin/webhooks', { signal }),
  );
  const close = (): void => setAsking(undefined);
  return (
    <>
      <PageHead
        title="Webhooks"
        about="Signed messages to your systems. Each is tried until it is taken."
      />
      <Card title="Add a webhook">
        <NewWebhook onCreated={query.reload} />
      </Card>
      <Card title="Webhooks">
        <Loaded query={query}>
          {({ webhooks }) => (
            <Table
              caption="Webhooks"
              columns={columnsWith(setAsking)}
              rows={webhooks}
              keyOf={(webhook) => webhook.id}
              empty="No webhooks."
            />
          )}
        </Loaded>
      </Card>
      {asking?.what === 'deliveries' && <Deliveries webhook={asking.webhook} onClose={close} />}
      {asking?.what === 'remove' && (
        <Confirm
          title="Remove this webhook?"
          action="Remove"
          danger
          onClose={close}
          onConfirm={async () => {
            await api.remove(`/v1/admin/webhooks/${encodeURIComponent(asking.webhook.id)}`);
            query.reload();
          }}
        >
          <p>Nothing is sent to {asking.webhook.url} any more, also not what waits.</p>
        </Confirm>
      )}
    </>
  );
}

function columnsWith(ask: (asking: Asking) => void): Column<Webhook>[] {
  return [
    {
      head: 'Address',
      isRowHead: true,
      cell: (webhook) => (
        <span class="clip" title={webhook.url}>
          {webhook.url}
        </span>
      ),
    },
    { head: 'Events', cell: (webhook) => <span class="clip">{webhook.events.join(', ')}</span> },
    { head: 'Advertiser', cell: (webhook) => webhook.advertiser_id ?? 'all' },
    { head: 'Waiting', kind: 'number', cell: (webhook) => count(webhook.waiting) },
    {
      head: 'Actions',
      kind: 'action',
      cell: (webhook) => <RowActions webhook={webhook} ask={ask} />,
    },
  ];
}

function RowActions({ webhook, ask }: { webhook: Webhook; ask: (asking: Asking) => void }) {
  const { api } = useApp();
  const act = useAct();
  const [tried, setTried] = useState<WebhookDelivery>();
  const path = `/v1/admin/webhooks/${encodeURIComponent(webhook.id)}/test`;
  const test = (): Promise<void> =>
    act.run(async () => setTried(await api.post<WebhookDelivery>(path, {})));
  return (
    <span class="row-actions">
      <Button busy={act.busy} label={`Test ${webhook.url}`} onClick={() => void test()}>
        Test
      </Button>
      <Button
        label={`Deliveries to ${webhook.url}`}
        onClick={() => ask({ what: 'deliveries', webhook })}
      >
        Deliveries
      </Button>
      <Button label={`Remove ${webhook.url}`} onClick={() => ask({ what: 'remove', webhook })}>
        Remove
      </Button>
      {act.error !== undefined && <ErrorNote error={act.error} />}
      {tried !== undefined && (
        <span role="status" class="cell-note">
          <OutcomeBadge outcome={tried.outcome} />{' '}
          {tried.error ?? `in ${duration(tried.latency_ms)}`}
        </span>
      )}
    </span>
  );
}

function NewWebhook({ onCreated }: { onCreated: () => void }) {
  const { api } = useApp();
  const act = useAct();
  const [url, setUrl] = useState('');
  const [events, setEvents] = useState<readonly string[]>(['hour.final', 'hour.restated']);
  const [advertiser, setAdvertiser] = useState('');
  const [secret, setSecret] = useState<string>();
  const create = (): Promise<void> =>
    act.run(async () => {
      const whose = advertiser.trim() === '' ? {} : { advertiser_id: advertiser.trim() };
      const body = { url: url.trim(), events, ...whose };
      const created = await api.post<{ secret: string }>('/v1/admin/webhooks', body);
      setSecret(created.secret);
      setUrl('');
      onCreated();
    });
  return (
    <>
      <Form label="New webhook" onSubmit={() => void create()}>
        <div class="field-row">
          <TextField label="Address" type="url" value={url} onValue={setUrl} required />
          <TextField label="Advertiser id (optional)" value={advertiser} onValue={setAdvertiser} />
        </div>
        <fieldset class="checks">
          <legend>Events</legend>
          {WEBHOOK_EVENTS.map((name) => (
            <CheckField
              key={name}
              label={name}
              checked={events.includes(name)}
              onChecked={(isOn) =>
                setEvents(isOn ? [...events, name] : events.filter((each) => each !== name))
              }
            />
          ))}
        </fieldset>
        {act.error !== undefined && <ErrorNote error={act.error} />}
        <Button kind="primary" type="submit" busy={act.busy}>
          Add webhook
        </Button>
      </Form>
      {secret !== undefined && <Secret key={secret} label="The webhook's secret." value={secret} />}
    </>
  );
}
