/** Who did what: every change that an operator made, as it was noted at the time. */
import type { AuditEntry } from '../../api/admin-types.ts';
import { Badge, Card, PageHead } from '../../components/card.tsx';
import { Pager } from '../../components/pager.tsx';
import { Loaded } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { usePages } from '../../components/use-pages.ts';
import { NONE, secondText } from '../../format.ts';
import { useApp, useScope } from '../../state/context.ts';
import { useQuery } from '../../state/use-query.ts';

const PAGE_ROWS = 100;

export function AuditView() {
  const { api } = useApp();
  const { zone } = useScope();
  const pages = usePages('audit');
  const params = { limit: PAGE_ROWS, before: pages.cursor };
  const query = useQuery(
    JSON.stringify(params),
    (signal) =>
      api.get<{ entries: AuditEntry[]; next_cursor?: string | null }>('/v1/admin/audit', {
        params,
        signal,
      }),
    { keep: true },
  );
  return (
    <>
      <PageHead
        title="Audit log"
        about="Every change by an operator, newest first. Nothing leaves this list."
      />
      <Card title="Entries">
        <Loaded query={query} lines={8}>
          {({ entries, next_cursor = null }) => (
            <>
              <Table
                caption="Audit log"
                columns={columnsIn(zone)}
                rows={entries}
                keyOf={(entry) => entry.id}
                empty="Nothing was changed yet."
              />
              <Pager
                page={pages.page}
                hasNext={next_cursor !== null}
                onPrevious={pages.previous}
                onNext={() => pages.next(next_cursor)}
              />
            </>
          )}
        </Loaded>
      </Card>
    </>
  );
}

const orNone = (text: string | null): string => (text === null || text === '' ? NONE : text);

function columnsIn(zone: string): Column<AuditEntry>[] {
  return [
    { head: 'At', cell: (entry) => secondText(entry.at, zone), isRowHead: true },
    { head: 'Who', kind: 'code', cell: (entry) => entry.actor },
    { head: 'Action', cell: (entry) => entry.action },
    { head: 'On', kind: 'code', cell: (entry) => orNone(entry.target) },
    { head: 'Detail', cell: (entry) => <span class="clip">{orNone(entry.detail)}</span> },
    { head: 'Outcome', cell: (entry) => <Outcome entry={entry} /> },
  ];
}

function Outcome({ entry }: { entry: AuditEntry }) {
  const isGood = entry.outcome === 'ok';
  return (
    <>
      <Badge tone={isGood ? 'good' : 'warn'}>{entry.outcome}</Badge>
      {entry.code !== null && <span class="cell-note">{entry.code}</span>}
    </>
  );
}
