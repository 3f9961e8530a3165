/** Clicks over time: the total, the chart, and the same numbers as a table. */
import { useMemo, useState } from 'preact/hooks';
import { allRows } from '../../api/all-rows.ts';
import type { ApiClient, Params } from '../../api/client.ts';
import type { MetricsAnswer, MetricsRow } from '../../api/types.ts';
import { ClicksPlot } from '../../chart/clicks-plot.tsx';
import type { PlotInput } from '../../chart/plot.ts';
import { Badge, Card } from '../../components/card.tsx';
import { Empty, Loaded } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { bucketText, count, momentText, NONE, zoneText } from '../../format.ts';
import { useApp } from '../../state/context.ts';
import type { Granularity } from '../../state/range.ts';
import { useQuery } from '../../state/use-query.ts';

interface TimelineProps {
  readonly params: Params;
  readonly granularity: Granularity;
  /** Asks again when it changes. */
  readonly round: number;
}

interface TimelineData {
  readonly answer: MetricsAnswer;
  readonly total: number;
  readonly final: number;
}

export function Timeline({ params, granularity, round }: TimelineProps) {
  const { api } = useApp();
  const key = JSON.stringify([params, granularity, round]);
  const query = useQuery(key, (signal) => load(api, { ...params, granularity }, signal), {
    keep: true,
  });
  return (
    <Card title="Clicks over time" hint={rangeText(query.data)}>
      <Loaded query={query} lines={9}>
        {(data) => <TimelineBody data={data} />}
      </Loaded>
    </Card>
  );
}

/** A place is kept for it, so that nothing moves when it comes. */
function rangeText(data: TimelineData | undefined): string {
  if (data === undefined) return ' ';
  const { from, to, timezone } = data.answer;
  return `${momentText(from, timezone)} to ${momentText(to, timezone)} · ${zoneText(timezone)}`;
}

async function load(api: ApiClient, params: Params, signal: AbortSignal): Promise<TimelineData> {
  const series = { ...params, group_by: 'none', fill: 'zero' };
  const answer = await allRows(api, series, signal);
  const total = sum(answer.rows);
  return { answer, total, final: await finalPart(api, { answer, total, params }, signal) };
}

/** A bucket that is final in part counts with that part. */
async function finalPart(
  api: ApiClient,
  known: { answer: MetricsAnswer; total: number; params: Params },
  signal: AbortSignal,
): Promise<number> {
  const { answer, total, params } = known;
  const { final_until } = answer;
  if (final_until === null || Date.parse(final_until) <= Date.parse(answer.from)) return 0;
  if (Date.parse(final_until) >= Date.parse(answer.to)) return total;
  if (answer.granularity !== 'day') return sum(answer.rows.filter((row) => row.final));
  const until = { ...params, to: final_until, granularity: 'total', group_by: 'none' };
  return sum((await allRows(api, until, signal)).rows);
}

const sum = (rows: readonly MetricsRow[]): number =>
  rows.reduce((before, row) => before + row.clicks, 0);

function TimelineBody({ data }: { data: TimelineData }) {
  const { answer, total } = data;
  const [point, setPoint] = useState<number | null>(null);
  const input = useMemo(() => plotInput(answer), [answer]);
  const { zone } = input;
  const row = point === null ? undefined : answer.rows[point];
  return (
    <>
      <div class="timeline-head">
        <p class="headline">
          <span class="headline-number" data-testid="range-total">
            {count(total)}
          </span>{' '}
          {total === 1 ? 'click' : 'clicks'}
        </p>
        <Legend data={data} zone={zone} />
      </div>
      <p class="readout" aria-hidden="true">
        {row === undefined ? ' ' : readout(row, input)}
      </p>
      <ClicksPlot input={input} label={chartLabel(data, zone)} onPoint={setPoint} />
      {total === 0 && <Empty title="No clicks in this range." />}
      {answer.next_cursor !== null && <p class="hint">The chart is cut: choose larger buckets.</p>}
      <NumbersTable input={input} />
    </>
  );
}

function plotInput(answer: MetricsAnswer): PlotInput {
  const { granularity } = answer;
  return {
    rows: answer.rows,
    fromMs: Date.parse(answer.from),
    toMs: Date.parse(answer.to),
    finalUntilMs: answer.final_until === null ? null : Date.parse(answer.final_until),
    granularity: granularity === 'total' ? 'day' : granularity,
    zone: answer.timezone,
  };
}

function readout(row: MetricsRow, { granularity, zone }: PlotInput): string {
  const state = row.final ? 'final' : 'live';
  return `${bucketText(row.bucket_start, granularity, zone)} · ${count(row.clicks)} · ${state}`;
}

function chartLabel({ answer, total, final }: TimelineData, zone: string): string {
  const until =
    answer.final_until === null
      ? 'nothing is final yet'
      : `final until ${momentText(answer.final_until, zone)}`;
  return `Clicks by ${answer.granularity}: ${count(total)} in all, ${count(final)} of them final; ${until}. The table below has the numbers.`;
}

function Legend({ data, zone }: { data: TimelineData; zone: string }) {
  const { answer, total, final } = data;
  const { final_until } = answer;
  return (
    <dl class="legend">
      <div>
        <dt>
          <span class="swatch swatch-final" aria-hidden="true" />
          Final
        </dt>
        <dd data-testid="final-total">{count(final)}</dd>
      </div>
      <div>
        <dt>
          <span class="swatch swatch-live" aria-hidden="true" />
          Live, may still move
        </dt>
        <dd data-testid="live-total">{count(total - final)}</dd>
      </div>
      <div>
        <dt>Final until</dt>
        <dd>{final_until === null ? NONE : momentText(final_until, zone)}</dd>
      </div>
    </dl>
  );
}

/** Only made when it is opened: a day has 1,440 minutes. */
function NumbersTable({ input }: { input: PlotInput }) {
  const [isOpen, setOpen] = useState(false);
  const columns: Column<MetricsRow>[] = [
    {
      head: capitalBucket(input.granularity),
      cell: (row) => bucketText(row.bucket_start, input.granularity, input.zone),
      isRowHead: true,
    },
    { head: 'Clicks', kind: 'number', cell: (row) => count(row.clicks) },
    {
      head: 'State',
      cell: (row) => (
        <Badge tone={row.final ? 'good' : 'quiet'}>{row.final ? 'Final' : 'Live'}</Badge>
      ),
    },
  ];
  return (
    <details class="disclosure" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Numbers as a table</summary>
      {isOpen && (
        <Table
          caption="Clicks over time"
          columns={columns}
          rows={input.rows}
          keyOf={(row) => row.bucket_start}
          tall
        />
      )}
    </details>
  );
}

const capitalBucket = (granularity: Granularity): string =>
  ({ minute: 'Minute', hour: 'Hour', day: 'Day' })[granularity];
