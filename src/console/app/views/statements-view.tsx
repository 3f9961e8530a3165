/** What is billed for a month: numbers that are final, as files that can be checked. */
import { useState } from 'preact/hooks';
import { saveFrom } from '../api/download.ts';
import type { Statement } from '../api/types.ts';
import { Button } from '../components/button.tsx';
import { Card, PageHead } from '../components/card.tsx';
import { Form, TextField } from '../components/field.tsx';
import { ErrorNote, Loaded, Note } from '../components/states.tsx';
import { type Column, Table } from '../components/table.tsx';
import { ZoneField } from '../components/zone-field.tsx';
import { bytes, count, dateText, momentText, monthText, zoneText } from '../format.ts';
import { useApp, useNavigation, useScope } from '../state/context.ts';
import { localDate, monthStart } from '../state/range.ts';
import { useAct } from '../state/use-act.ts';
import { useQuery } from '../state/use-query.ts';

export function StatementsView() {
  const { api } = useApp();
  const { advertiserParams, advertiser } = useScope();
  const query = useQuery(`statements ${advertiser}`, (signal) =>
    api.get<{ statements: Statement[]; next_cursor: string | null }>('/v1/statements', {
      params: { ...advertiserParams, limit: 1_000 },
      signal,
    }),
  );
  return (
    <>
      <PageHead
        title="Statements"
        about="The final clicks of a month, per ad and day. Only a restatement makes a new version; old ones stay."
      />
      <Card title="Make a statement">
        <MakeStatement onMade={query.reload} />
      </Card>
      <Card title="Statements so far">
        <Loaded query={query}>{({ statements }) => <StatementTable rows={statements} />}</Loaded>
      </Card>
    </>
  );
}

function MakeStatement({ onMade }: { onMade: () => void }) {
  const { api, clock } = useApp();
  const { zone, advertiserParams } = useScope();
  const { setQuery } = useNavigation();
  const act = useAct();
  const [month, setMonth] = useState(() => monthStart(localDate(clock(), zone), -1).slice(0, 7));
  const [made, setMade] = useState<Statement>();
  const make = (): Promise<void> =>
    act.run(async () => {
      setMade(undefined);
      const from = `${month}-01`;
      const period = { from, to: monthStart(from, 1), timezone: zone, ...advertiserParams };
      setMade(await api.post<Statement>('/v1/statements', period));
      onMade();
    });
  return (
    <>
      <Form class="inline-form" label="Make a statement" onSubmit={() => void make()}>
        <TextField label="Month" type="month" value={month} onValue={setMonth} required />
        <ZoneField zone={zone} onZone={(tz) => setQuery({ tz })} />
        <Button kind="primary" type="submit" busy={act.busy}>
          Make statement
        </Button>
      </Form>
      {act.error !== undefined && <ErrorNote error={act.error} />}
      {made !== undefined && (
        <Note tone="good">
          {monthText(made.from)}: {count(made.clicks)} clicks, version {made.version}.
        </Note>
      )}
    </>
  );
}

function StatementTable({ rows }: { rows: readonly Statement[] }) {
  const newest = [...rows].sort((a, b) => b.from.localeCompare(a.from));
  return (
    <Table
      caption="Statements"
      columns={COLUMNS}
      rows={newest}
      keyOf={(row) => `${row.id} ${row.version}`}
      empty="No statement was made yet."
      emptyHint="A month can be stated when its last hour is final."
    />
  );
}

/** The day before the end: people read a period with its last day in it. */
function periodText({ from, to, timezone }: Statement): string {
  const last = new Date(Date.parse(to) - 1).toISOString();
  return `${dateText(from, timezone)} – ${dateText(last, timezone)}`;
}

const COLUMNS: readonly Column<Statement>[] = [
  { head: 'Period', cell: periodText, isRowHead: true },
  { head: 'Time zone', cell: (row) => zoneText(row.timezone) },
  { head: 'Version', kind: 'number', cell: (row) => row.version },
  { head: 'Clicks', kind: 'number', cell: (row) => count(row.clicks) },
  { head: 'Rows', kind: 'number', cell: (row) => count(row.rows) },
  { head: 'Made', cell: (row) => momentText(row.created_at, row.timezone) },
  { head: 'Files', cell: (row) => <Files statement={row} /> },
];

function Files({ statement }: { statement: Statement }) {
  const { api } = useApp();
  const act = useAct();
  const save = (kind: 'csv' | 'parquet'): Promise<void> =>
    act.run(() =>
      saveFrom(api, statement.files[kind].url, `${statement.id}-v${statement.version}.${kind}`),
    );
  return (
    <span class="row-actions">
      {(['csv', 'parquet'] as const).map((kind) => (
        <Button key={kind} busy={act.busy} onClick={() => void save(kind)}>
          {kind === 'csv' ? 'CSV' : 'Parquet'}{' '}
          <small>{bytes(statement.files[kind].size_bytes)}</small>
          <span class="visually-hidden"> of {periodText(statement)}</span>
        </Button>
      ))}
      {act.error !== undefined && <ErrorNote error={act.error} />}
    </span>
  );
}
