/** Records that could not be counted: look at them, and send them through again. */
import { useState } from 'preact/hooks';
import type { DeadLetterView } from '../../api/admin-types.ts';
import { ActionPanel } from '../../components/action-panel.tsx';
import { Button } from '../../components/button.tsx';
import { Badge, Card, Facts, PageHead } from '../../components/card.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { CheckField } from '../../components/field.tsx';
import { Loaded, Note } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { bytes, count, momentText } from '../../format.ts';
import { useApp, useScope } from '../../state/context.ts';
import { useQuery } from '../../state/use-query.ts';

const SHOWN = 500;

export function DeadLettersView() {
  const { api } = useApp();
  const { zone } = useScope();
  const [all, setAll] = useState(false);
  const [open, setOpen] = useState<string>();
  const params = { limit: SHOWN, waiting: all ? 'false' : 'true' };
  const query = useQuery(
    `letters ${all}`,
    (signal) =>
      api.get<{ deadLetters: DeadLetterView[] }>('/v1/admin/dead-letters', { params, signal }),
    { keep: true },
  );
  return (
    <>
      <PageHead
        title="Dead letters"
        about="Records that could not be counted. Redriving appends them to the log again; a click never counts twice."
      />
      <Card
        title="Letters"
        hint={`At most ${count(SHOWN)} are listed.`}
        actions={<CheckField label="Also those redriven" checked={all} onChecked={setAll} />}
      >
        <Loaded query={query}>
          {({ deadLetters }) => (
            <>
              <Table
                caption="Dead letters"
                columns={columnsIn(zone, setOpen)}
                rows={deadLetters}
                keyOf={(letter) => letter.id}
                empty="No dead letters wait."
              />
              {deadLetters.some(({ redrivenAtMs }) => redrivenAtMs === null) && (
                <Redrive
                  action="Redrive all that wait"
                  which={{ all: true }}
                  onDone={query.reload}
                />
              )}
            </>
          )}
        </Loaded>
      </Card>
      {open !== undefined && (
        <Letter id={open} onClose={() => setOpen(undefined)} onRedriven={query.reload} />
      )}
    </>
  );
}

function columnsIn(zone: string, open: (id: string) => void): Column<DeadLetterView>[] {
  return [
    {
      head: 'Record',
      isRowHead: true,
      kind: 'code',
      cell: (letter) => `${letter.partition}:${letter.offset}`,
    },
    { head: 'Reason', cell: (letter) => letter.reason.replaceAll('_', ' ') },
    { head: 'Logged', cell: (letter) => momentText(letter.appendedAtMs, zone) },
    { head: 'Size', kind: 'number', cell: (letter) => bytes(letter.sizeBytes) },
    {
      head: 'State',
      cell: ({ redrivenAtMs }) => (
        <Badge tone={redrivenAtMs === null ? 'warn' : 'quiet'}>
          {redrivenAtMs === null ? 'Waits' : 'Redriven'}
        </Badge>
      ),
    },
    {
      head: 'Look',
      kind: 'action',
      cell: ({ id }) => (
        <Button label={`Show record ${id}`} onClick={() => open(id)}>
          Show
        </Button>
      ),
    },
  ];
}

interface RedriveProps {
  readonly action: string;
  readonly which: { readonly id: string } | { readonly all: true };
  readonly onDone: () => void;
}

function Redrive({ action, which, onDone }: RedriveProps) {
  const { api } = useApp();
  return (
    <ActionPanel
      action={action}
      kind="primary"
      run={async (onProgress) => {
        const send = { body: JSON.stringify(which), type: 'application/json' };
        const path = '/v1/admin/dead-letters/redrive';
        const result = await api.action<{ redriven: number }>(path, send, onProgress);
        onDone();
        return result;
      }}
      result={({ redriven }) => (
        <Note tone="good">{count(redriven)} appended to the log again.</Note>
      )}
    />
  );
}

interface LetterProps {
  readonly id: string;
  readonly onClose: () => void;
  readonly onRedriven: () => void;
}

function Letter({ id, onClose, onRedriven }: LetterProps) {
  const { api } = useApp();
  const { zone } = useScope();
  const path = `/v1/admin/dead-letters/${encodeURIComponent(id)}`;
  const query = useQuery(path, (signal) => api.get<DeadLetterView>(path, { signal }));
  return (
    <Dialog title={`Dead letter ${id}`} onClose={onClose}>
      <div class="dialog-body">
        <Loaded query={query}>
          {(letter) => (
            <>
              <Facts
                facts={[
                  ['Reason', letter.reason],
                  ['Logged', momentText(letter.appendedAtMs, zone)],
                  ['Size', bytes(letter.sizeBytes)],
                ]}
              />
              <h3>{letter.event == null ? 'Bytes, base64' : 'Event'}</h3>
              <pre class="code-block">
                {letter.event == null ? letter.bytes : JSON.stringify(letter.event, null, 2)}
              </pre>
              {letter.redrivenAtMs === null && (
                <Redrive action="Redrive this one" which={{ id }} onDone={onRedriven} />
              )}
            </>
          )}
        </Loaded>
      </div>
    </Dialog>
  );
}
