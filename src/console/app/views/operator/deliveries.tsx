import type { Webhook, WebhookDelivery } from '../../api/admin-types.ts';
import { Badge, type Tone } from '../../components/card.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Loaded } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { capital, duration, NONE, secondText } from '../../format.ts';
import { useApp, useScope } from '../../state/context.ts';
import { useQuery } from '../../state/use-query.ts';

const SHOWN = 100;
const TONES: Readonly<Record<WebhookDelivery['outcome'], Tone>> = {
  delivered: 'good',
  failed: 'warn',
  given_up: 'bad',
};

export function OutcomeBadge({ outcome }: { outcome: WebhookDelivery['outcome'] }) {
  return <Badge tone={TONES[outcome]}>{capital(outcome.replaceAll('_', ' '))}</Badge>;
}

export function Deliveries({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const { api } = useApp();
  const { zone } = useScope();
  const path = `/v1/admin/webhooks/${encodeURIComponent(webhook.id)}/deliveries`;
  const query = useQuery(path, (signal) =>
    api.get<{ deliveries: WebhookDelivery[] }>(path, { params: { limit: SHOWN }, signal }),
  );
  const columns: Column<WebhookDelivery>[] = [
    { head: 'At', cell: (each) => secondText(each.at, zone), isRowHead: true },
    { head: 'Event', cell: (each) => each.type },
    { head: 'Attempt', kind: 'number', cell: (each) => each.attempt },
    { head: 'Outcome', cell: (each) => <OutcomeBadge outcome={each.outcome} /> },
    { head: 'Status', kind: 'number', cell: (each) => each.status ?? NONE },
    { head: 'Took', kind: 'number', cell: (each) => duration(each.latency_ms) },
    { head: 'Error', cell: (each) => <span class="clip">{each.error ?? NONE}</span> },
  ];
  return (
    <Dialog title="Deliveries" onClose={onClose}>
      <div class="dialog-body">
        <p class="hint">{webhook.url}, newest first.</p>
        <Loaded query={query}>
          {({ deliveries }) => (
            <Table
              caption="Deliveries"
              columns={columns}
              rows={deliveries}
              keyOf={(each) => `${each.event_id} ${each.attempt} ${each.at}`}
              empty="Nothing was sent yet."
              tall
            />
          )}
        </Loaded>
      </div>
    </Dialog>
  );
}
