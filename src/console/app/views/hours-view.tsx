/** Hour by hour: what is final, what is not yet, and why. */
import { useState } from 'preact/hooks';
import type { Hour } from '../api/types.ts';
import { Badge, Card, PageHead, type Tone } from '../components/card.tsx';
import { Loaded } from '../components/states.tsx';
import { type Column, Table } from '../components/table.tsx';
import { capital, count, momentOrNone, momentText, NONE, percent } from '../format.ts';
import { useApp, useScope } from '../state/context.ts';
import { spanOf } from '../state/range.ts';
import { useQuery } from '../state/use-query.ts';
import { RangeBar } from './clicks/range-bar.tsx';

type State = NonNullable<Hour['state']>;

const TONES: Readonly<Record<State, Tone>> = {
  final: 'good',
  waiting: 'quiet',
  open: 'quiet',
  stuck: 'bad',
};
const MEANINGS: Readonly<Record<State, string>> = {
  final: 'Recounted from the archive; this is what is billed.',
  waiting: 'Over; clicks that come late are waited for.',
  open: 'Still running, or not begun.',
  stuck: 'Should be final and is not.',
};

export function HoursView() {
  const { api, clock, me, route } = useApp();
  const { zone, advertiserParams } = useScope();
  const [nowMs] = useState(clock);
  const params = { ...spanOf(route.query, nowMs, zone), timezone: zone, ...advertiserParams };
  const query = useQuery(
    JSON.stringify(params),
    (signal) => api.get<{ hours: Hour[] }>('/v1/hours', { params, signal }),
    { keep: true },
  );
  return (
    <>
      <PageHead
        title="Hours"
        about="An hour turns final when the archive provably holds all of it and its raw clicks are counted again."
      />
      <RangeBar isCut={false} />
      <Card title="Hours of this range" hint="Newest first.">
        <Loaded query={query} lines={8}>
          {({ hours }) => (
            <Table
              caption="Hours"
              columns={columnsFor(me.scope, zone)}
              rows={[...hours].reverse()}
              keyOf={(hour) => hour.hour_start}
              empty="No hours in this range."
            />
          )}
        </Loaded>
      </Card>
    </>
  );
}

function columnsFor(scope: 'read' | 'admin', zone: string): Column<Hour>[] {
  const own: Column<Hour>[] = [
    { head: 'Hour', cell: (hour) => momentText(hour.hour_start, zone), isRowHead: true },
    { head: 'State', cell: (hour) => <StateCell hour={hour} /> },
    { head: 'Final since', cell: (hour) => momentOrNone(hour.final_at, zone) },
    { head: 'Revision', kind: 'number', cell: (hour) => hour.revision ?? NONE },
  ];
  return scope === 'admin' ? [...own, ...ADMIN_COLUMNS] : [...own, ...READER_COLUMNS];
}

const number = (value: number | null | undefined): string =>
  value === null || value === undefined ? NONE : count(value);

const READER_COLUMNS: readonly Column<Hour>[] = [
  { head: 'Live', kind: 'number', cell: (hour) => number(hour.drift?.live) },
  { head: 'Final', kind: 'number', cell: (hour) => number(hour.drift?.final) },
];

const ADMIN_COLUMNS: readonly Column<Hour>[] = [
  { head: 'Records', kind: 'number', cell: (hour) => number(hour.records) },
  { head: 'Counted', kind: 'number', cell: (hour) => number(hour.counted) },
  { head: 'Live', kind: 'number', cell: (hour) => number(hour.live_clicks) },
  { head: 'Drift', kind: 'number', cell: (hour) => percent(hour.drift_max ?? null, 3) },
];

function StateCell({ hour }: { hour: Hour }) {
  const state = hour.state ?? (hour.revision === null ? 'waiting' : 'final');
  const reason = hour.reason ?? undefined;
  return (
    <span title={MEANINGS[state]}>
      <Badge tone={TONES[state]}>{capital(state)}</Badge>
      {reason !== undefined && <span class="cell-note">{reason}</span>}
    </span>
  );
}
