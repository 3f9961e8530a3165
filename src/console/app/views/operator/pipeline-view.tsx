/** The pipeline at a glance: is every click taken, counted, archived and turned final? */
import type { LedgerStatus } from '../../api/admin-types.ts';
import { parseSamples, type Samples } from '../../api/prometheus.ts';
import { DriftBars } from '../../chart/drift-bars.tsx';
import { Card, Facts, PageHead } from '../../components/card.tsx';
import { Empty, Loaded, Note } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { bytes, capital, count, momentText, NONE, percent, timeText } from '../../format.ts';
import { useApp, useNavigation, useScope } from '../../state/context.ts';
import { useQuery } from '../../state/use-query.ts';
import { PipelineStats } from './pipeline-stats.tsx';

const REFRESH_MS = 5_000;
const DRIFT_ALERT = 0.001;

interface Pipeline {
  readonly status: LedgerStatus;
  /** Empty when `/metrics` is kept from this network. */
  readonly samples: Samples;
}

export function PipelineView() {
  const { api } = useApp();
  const query = useQuery(
    'pipeline',
    async (signal): Promise<Pipeline> => {
      const status = await api.get<LedgerStatus>('/v1/admin/status', { signal });
      const text = await api
        .fetch('GET', '/metrics', { signal, accept: 'text/plain' })
        .then((response) => response.text())
        .catch(() => '');
      return { status, samples: parseSamples(text) };
    },
    { everyMs: REFRESH_MS, keep: true },
  );
  return (
    <>
      <PageHead title="Pipeline" about="From the click to the number that is billed." />
      <Loaded query={query} lines={9}>
        {({ status, samples }) => <PipelineBody status={status} samples={samples} />}
      </Loaded>
    </>
  );
}

function PipelineBody({ status, samples }: Pipeline) {
  return (
    <>
      <Problems problems={status.problems} />
      <PipelineStats status={status} samples={samples} />
      <div class="two-columns">
        <Finality status={status} />
        <Drift status={status} />
      </div>
      <Partitions status={status} />
      <div class="two-columns">
        <OutcomesCard status={status} />
        <Waiting status={status} />
      </div>
    </>
  );
}

function Problems({ problems }: { problems: readonly string[] }) {
  if (problems.length === 0) return <Note tone="good">All is well.</Note>;
  return (
    <div class="note note-bad" role="alert">
      <div>
        <strong>
          {problems.length === 1 ? 'One thing needs' : `${problems.length} things need`} you.
        </strong>
        <ul>
          {problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      </div>
    </div>
  );
}

function Finality({ status }: { status: LedgerStatus }) {
  const { zone } = useScope();
  const { href } = useNavigation();
  const { stuck, finalUntilMs } = status;
  return (
    <Card
      title="Finality"
      actions={
        <a class="button button-plain" href={href('/hours')}>
          All hours
        </a>
      }
    >
      <p class="big-line">
        {finalUntilMs === 0 ? (
          'Nothing is final yet.'
        ) : (
          <>
            Final until <strong>{momentText(finalUntilMs, zone)}</strong>
          </>
        )}
      </p>
      {stuck === null ? (
        <FinalityFacts status={status} />
      ) : (
        <div class="note note-bad">
          <div>
            <strong>The hour of {momentText(stuck.hourMs, zone)} is stuck.</strong>
            <p>
              {stuck.reason} <span class="code">{stuck.code}</span>
            </p>
          </div>
        </div>
      )}
    </Card>
  );
}

function FinalityFacts({ status }: { status: LedgerStatus }) {
  const { zone } = useScope();
  const { recentHours, asOfMs } = status;
  const restated = recentHours.filter(({ revision }) => revision > 1).length;
  const newest = recentHours[0];
  return (
    <Facts
      facts={[
        ['Counted up to', asOfMs === 0 ? NONE : momentText(asOfMs, zone)],
        ['Last turned final', newest === undefined ? NONE : momentText(newest.finalAtMs, zone)],
        ['Restated', `${count(restated)} of the last ${count(recentHours.length)} hours`],
      ]}
    />
  );
}

function Drift({ status }: { status: LedgerStatus }) {
  const { zone } = useScope();
  const hours = [...status.recentHours].reverse();
  const worst = hours.filter(({ driftMax }) => driftMax > DRIFT_ALERT).length;
  const hint =
    worst === 0
      ? 'Largest difference of an advertiser, live against final.'
      : `${worst} of ${hours.length} hours above ${percent(DRIFT_ALERT)}.`;
  const columns: Column<LedgerStatus['recentHours'][number]>[] = [
    { head: 'Hour', cell: (hour) => momentText(hour.hourMs, zone), isRowHead: true },
    { head: 'Drift', kind: 'number', cell: (hour) => percent(hour.driftMax, 3) },
    { head: 'Live', kind: 'number', cell: (hour) => count(hour.liveClicks) },
    { head: 'Counted', kind: 'number', cell: (hour) => count(hour.counted) },
  ];
  return (
    <Card title="Live to final drift by hour" hint={hint}>
      {hours.length === 0 ? (
        <Empty title="No final hour yet." />
      ) : (
        <>
          <DriftBars
            hours={hours.map(({ hourMs, driftMax }) => ({ hourMs, drift: driftMax }))}
            hourText={(ms) => momentText(ms, zone)}
          />
          <p class="axis-ends" aria-hidden="true">
            <span>{timeText(hours[0]!.hourMs, zone)}</span>
            <span>{timeText(hours.at(-1)!.hourMs, zone)}</span>
          </p>
          <details class="disclosure">
            <summary>Numbers as a table</summary>
            <Table
              caption="Drift by hour"
              columns={columns}
              rows={status.recentHours}
              keyOf={(hour) => String(hour.hourMs)}
              tall
            />
          </details>
        </>
      )}
    </Card>
  );
}

type Partition = LedgerStatus['partitions'][number];

const PARTITIONS: readonly Column<Partition>[] = [
  { head: 'Partition', cell: (each) => each.partition, isRowHead: true },
  { head: 'Records', kind: 'number', cell: (each) => count(each.logEndOffset) },
  { head: 'Counted to', kind: 'number', cell: (each) => count(each.countedOffset) },
  { head: 'Archived to', kind: 'number', cell: (each) => count(each.archivedOffset) },
  { head: 'Backlog', kind: 'number', cell: (each) => count(each.backlog) },
];

function Partitions({ status }: { status: LedgerStatus }) {
  return (
    <Card
      title="Click log"
      hint="One partition for each click worker; the last is the ledger's own."
    >
      <Table
        caption="Partitions of the click log"
        columns={PARTITIONS}
        rows={status.partitions}
        keyOf={(each) => String(each.partition)}
        empty="No partition yet: no click worker has run."
      />
    </Card>
  );
}

function OutcomesCard({ status }: { status: LedgerStatus }) {
  const rows = Object.entries(status.outcomes);
  const columns: Column<[string, number]>[] = [
    { head: 'Outcome', cell: ([name]) => capital(name.replaceAll('_', ' ')), isRowHead: true },
    { head: 'Records', kind: 'number', cell: ([, records]) => count(records) },
  ];
  return (
    <Card title="Outcomes" hint="Every logged record has exactly one.">
      <Table caption="Records by outcome" columns={columns} rows={rows} keyOf={([name]) => name} />
    </Card>
  );
}

function Waiting({ status }: { status: LedgerStatus }) {
  const { href } = useNavigation();
  const reasons = Object.entries(status.deadLetters);
  const columns: Column<[string, number]>[] = [
    { head: 'Reason', cell: ([reason]) => reason.replaceAll('_', ' '), isRowHead: true },
    { head: 'Records', kind: 'number', cell: ([, records]) => count(records) },
  ];
  return (
    <Card
      title="Dead letters"
      hint="Records that could not be counted and wait for somebody to look."
      actions={
        <a class="button button-plain" href={href('/dead-letters')}>
          Look
        </a>
      }
    >
      <Table
        caption="Dead letters by reason"
        columns={columns}
        rows={reasons}
        keyOf={([reason]) => reason}
        empty="None."
      />
      <p class="hint">
        Spool: not used on one machine. Ledger memory {bytes(status.rssBytes)}; version{' '}
        {status.version}.
      </p>
    </Card>
  );
}
