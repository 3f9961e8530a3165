import { useState } from 'preact/hooks';
import type { KeyRow } from '../../api/admin-types.ts';
import { Button } from '../../components/button.tsx';
import { Badge, Card } from '../../components/card.tsx';
import { Confirm } from '../../components/dialog.tsx';
import { CheckField, Form, TextField } from '../../components/field.tsx';
import { Secret } from '../../components/secret.tsx';
import { ErrorNote, Loaded } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { momentOrNone, momentText } from '../../format.ts';
import { useApp, useScope } from '../../state/context.ts';
import { useAct } from '../../state/use-act.ts';
import { useQuery } from '../../state/use-query.ts';

export function KeysCard() {
  const { api } = useApp();
  const { zone } = useScope();
  const [retiring, setRetiring] = useState<KeyRow>();
  const query = useQuery('keys', (signal) =>
    api.get<{ keys: KeyRow[] }>('/v1/admin/keys', { signal }),
  );
  return (
    <Card
      title="Signing keys"
      hint="Several are valid at once, so that ad servers can change over without a gap."
    >
      <NewKey onCreated={query.reload} />
      <Loaded query={query}>
        {({ keys }) => (
          <Table
            caption="Signing keys"
            columns={columnsFor(zone, setRetiring)}
            rows={keys}
            keyOf={(key) => key.kid}
            empty="No keys: no link can be signed."
          />
        )}
      </Loaded>
      {retiring !== undefined && (
        <RetireKey
          kid={retiring.kid}
          onDone={query.reload}
          onClose={() => setRetiring(undefined)}
        />
      )}
    </Card>
  );
}

function columnsFor(zone: string, retire: (key: KeyRow) => void): Column<KeyRow>[] {
  return [
    { head: 'Key id', kind: 'code', cell: (key) => key.kid, isRowHead: true },
    {
      head: 'State',
      cell: ({ retired_at }) => (
        <Badge tone={retired_at === null ? 'good' : 'quiet'}>
          {retired_at === null ? 'Active' : 'Retired'}
        </Badge>
      ),
    },
    { head: 'Created', cell: (key) => momentText(key.created_at, zone) },
    { head: 'Retired', cell: (key) => momentOrNone(key.retired_at, zone) },
    {
      head: 'Retire',
      kind: 'action',
      cell: (key) =>
        key.retired_at === null && (
          <Button label={`Retire key ${key.kid}`} onClick={() => retire(key)}>
            Retire
          </Button>
        ),
    },
  ];
}

function NewKey({ onCreated }: { onCreated: () => void }) {
  const { api } = useApp();
  const act = useAct();
  const [kid, setKid] = useState('');
  const [secret, setSecret] = useState<string>();
  const create = (): Promise<void> =>
    act.run(async () => {
      const body = kid.trim() === '' ? {} : { kid: kid.trim() };
      const created = await api.post<{ secret: string }>('/v1/admin/keys', body);
      setSecret(created.secret);
      setKid('');
      onCreated();
    });
  return (
    <>
      <Form class="inline-form" label="New key" onSubmit={() => void create()}>
        <TextField label="Key id (optional)" value={kid} onValue={setKid} />
        <Button kind="primary" type="submit" busy={act.busy}>
          Create key
        </Button>
      </Form>
      {act.error !== undefined && <ErrorNote error={act.error} />}
      {secret !== undefined && <Secret key={secret} label="The new key's secret." value={secret} />}
    </>
  );
}

interface RetireProps {
  readonly kid: string;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function RetireKey({ kid, onDone, onClose }: RetireProps) {
  const { api } = useApp();
  const [force, setForce] = useState(false);
  return (
    <Confirm
      title="Retire this key?"
      action="Retire"
      danger
      onClose={onClose}
      onConfirm={async () => {
        const path = `/v1/admin/keys/${encodeURIComponent(kid)}/retire`;
        await api.post(path, force ? { force: true } : {});
        onDone();
      }}
    >
      <p>
        Links signed with <span class="code">{kid}</span> are refused from now on, also those on
        pages that people have open. This cannot be taken back.
      </p>
      <CheckField
        label="Also when it is the last active key"
        checked={force}
        onChecked={setForce}
      />
    </Confirm>
  );
}
