import { useState } from 'preact/hooks';
import type { TokenRow } from '../../api/admin-types.ts';
import { Button } from '../../components/button.tsx';
import { Badge, Card } from '../../components/card.tsx';
import { Confirm } from '../../components/dialog.tsx';
import { Form, SelectField, TextField } from '../../components/field.tsx';
import { Secret } from '../../components/secret.tsx';
import { ErrorNote, Loaded } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { momentOrNone, momentText, NONE } from '../../format.ts';
import { useApp, useScope } from '../../state/context.ts';
import { useAct } from '../../state/use-act.ts';
import { useQuery } from '../../state/use-query.ts';

export function TokensCard() {
  const { api, me } = useApp();
  const { zone } = useScope();
  const [revoking, setRevoking] = useState<TokenRow>();
  const query = useQuery('tokens', (signal) =>
    api.get<{ tokens: TokenRow[] }>('/v1/admin/tokens', { signal }),
  );
  return (
    <Card title="Tokens">
      <NewToken onCreated={query.reload} />
      <Loaded query={query}>
        {({ tokens }) => (
          <Table
            caption="Tokens"
            columns={columnsFor({ own: me.token_id, zone, revoke: setRevoking })}
            rows={tokens}
            keyOf={(token) => token.id}
            empty="No tokens."
          />
        )}
      </Loaded>
      {revoking !== undefined && (
        <Confirm
          title="Revoke this token?"
          action="Revoke"
          danger
          onClose={() => setRevoking(undefined)}
          onConfirm={async () => {
            await api.remove(`/v1/admin/tokens/${encodeURIComponent(revoking.id)}`);
            query.reload();
          }}
        >
          <p>
            <span class="code">{revoking.id}</span> {revoking.name}: whoever uses it is refused from
            the next request on. This cannot be taken back.
          </p>
        </Confirm>
      )}
    </Card>
  );
}

const SCOPES = [
  { value: 'read', label: 'Read one advertiser' },
  { value: 'admin', label: 'Admin: everything' },
];
const EXPIRIES = [
  { value: '', label: 'Never' },
  { value: '1', label: 'In a day' },
  { value: '30', label: 'In 30 days' },
  { value: '365', label: 'In a year' },
];
const DAY_MS = 86_400_000;

function NewToken({ onCreated }: { onCreated: () => void }) {
  const { api, clock } = useApp();
  const scoped = useScope();
  const act = useAct();
  const [scope, setScope] = useState('read');
  const [advertiser, setAdvertiser] = useState(scoped.advertiser ?? '');
  const [name, setName] = useState('');
  const [days, setDays] = useState('');
  const [secret, setSecret] = useState<string>();
  const create = (): Promise<void> =>
    act.run(async () => {
      const expiresMs = days === '' ? undefined : clock() + Number(days) * DAY_MS;
      const { token } = await api.post<{ token: string }>('/v1/admin/tokens', {
        scope,
        ...(scope === 'read' ? { advertiser_id: advertiser.trim() } : {}),
        ...(name.trim() === '' ? {} : { name: name.trim() }),
        ...(expiresMs === undefined ? {} : { expires_at: new Date(expiresMs).toISOString() }),
      });
      setSecret(token);
      setName('');
      onCreated();
    });
  return (
    <>
      <Form class="inline-form" label="New token" onSubmit={() => void create()}>
        <SelectField label="Scope" value={scope} choices={SCOPES} onValue={setScope} />
        {scope === 'read' && (
          <TextField label="Advertiser id" value={advertiser} onValue={setAdvertiser} required />
        )}
        <TextField label="Name (optional)" value={name} onValue={setName} />
        <SelectField label="Expires" value={days} choices={EXPIRIES} onValue={setDays} />
        <Button kind="primary" type="submit" busy={act.busy}>
          Create token
        </Button>
      </Form>
      {act.error !== undefined && <ErrorNote error={act.error} />}
      {secret !== undefined && <Secret key={secret} label="The new token." value={secret} />}
    </>
  );
}

interface ColumnParts {
  /** The token that we are signed in with. */
  readonly own: string;
  readonly zone: string;
  readonly revoke: (token: TokenRow) => void;
}

function columnsFor({ own, zone, revoke }: ColumnParts): Column<TokenRow>[] {
  return [
    { head: 'Id', kind: 'code', cell: (token) => token.id, isRowHead: true },
    { head: 'Name', cell: (token) => (token.name === '' ? NONE : token.name) },
    {
      head: 'May',
      cell: ({ scope, advertiser_id }) =>
        scope === 'admin' ? 'everything' : `read ${advertiser_id}`,
    },
    { head: 'State', cell: (token) => <State token={token} /> },
    { head: 'Created', cell: (token) => momentText(token.created_at, zone) },
    { head: 'Last used', cell: (token) => momentOrNone(token.last_used_at, zone) },
    { head: 'Expires', cell: (token) => momentOrNone(token.expires_at, zone) },
    {
      head: 'Revoke',
      kind: 'action',
      cell: (token) =>
        token.revoked_at === null &&
        (token.id === own ? (
          'This one'
        ) : (
          <Button label={`Revoke token ${token.id}`} onClick={() => revoke(token)}>
            Revoke
          </Button>
        )),
    },
  ];
}

function State({ token }: { token: TokenRow }) {
  const { clock } = useApp();
  if (token.revoked_at !== null) return <Badge tone="quiet">Revoked</Badge>;
  const isOver = token.expires_at !== null && Date.parse(token.expires_at) <= clock();
  return isOver ? <Badge tone="quiet">Expired</Badge> : <Badge tone="good">In force</Badge>;
}
