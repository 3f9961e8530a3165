/** Every change to a number that was final: before, after, and why. */
import { useState } from 'preact/hooks';
import type { Restatement } from '../api/types.ts';
import { Card, PageHead } from '../components/card.tsx';
import { Loaded } from '../components/states.tsx';
import { type Column, Table } from '../components/table.tsx';
import { count, momentText, NONE } from '../format.ts';
import { useApp, useScope } from '../state/context.ts';
import { spanOf } from '../state/range.ts';
import { useQuery } from '../state/use-query.ts';
import { RangeBar } from './clicks/range-bar.tsx';

export function RestatementsView() {
  const { api, clock, route } = useApp();
  const { zone, advertiserParams } = useScope();
  const [nowMs] = useState(clock);
  const params = { ...spanOf(route.query, nowMs, zone), timezone: zone, ...advertiserParams };
  const query = useQuery(
    JSON.stringify(params),
    (signal) => api.get<{ restatements: Restatement[] }>('/v1/restatements', { params, signal }),
    { keep: true },
  );
  return (
    <>
      <PageHead
        title="Restatements"
        about="A final number changes only through an entry in this list."
      />
      <RangeBar isCut={false} />
      <Card title="Changes to final numbers">
        <Loaded query={query}>
          {({ restatements }) => <RestatementTable rows={restatements} zone={zone} />}
        </Loaded>
      </Card>
    </>
  );
}

interface RestatementTableProps {
  readonly rows: readonly Restatement[];
  readonly zone: string;
}

export function RestatementTable({ rows, zone }: RestatementTableProps) {
  const columns: Column<Restatement>[] = [
    { head: 'Hour', cell: (row) => momentText(row.hour_start, zone), isRowHead: true },
    { head: 'Ad', kind: 'code', cell: (row) => row.ad_id ?? NONE },
    { head: 'Before', kind: 'number', cell: (row) => count(row.before) },
    { head: 'After', kind: 'number', cell: (row) => count(row.after) },
    { head: 'Change', kind: 'number', cell: (row) => signed(row.after - row.before) },
    { head: 'Cause', cell: (row) => row.cause.replaceAll('_', ' ') },
    { head: 'Revision', kind: 'number', cell: (row) => row.revision },
    { head: 'Restated at', cell: (row) => momentText(row.at, zone) },
  ];
  return (
    <Table
      caption="Restatements"
      columns={columns}
      rows={rows}
      keyOf={(row) =>
        `${row.hour_start} ${row.revision} ${row.advertiser_id ?? ''} ${row.ad_id ?? ''}`
      }
      empty="No final number of these hours was changed."
    />
  );
}

/** A minus as wide as a plus. */
const signed = (value: number): string => (value < 0 ? `−${count(-value)}` : `+${count(value)}`);
