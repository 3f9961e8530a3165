import type { LedgerStatus } from '../../api/admin-types.ts';
import type { Samples } from '../../api/prometheus.ts';
import { Stat, Stats } from '../../components/card.tsx';
import { count, decimal, duration, NONE } from '../../format.ts';

const SLOW_MS = 100;
const OLD_MS = 10_000;
const LAGGING_MS = 5 * 60_000;

type Tone = 'good' | 'warn' | 'bad' | undefined;
const above = (value: number, limit: number): Tone => (value > limit ? 'warn' : undefined);

export function PipelineStats({ status, samples }: { status: LedgerStatus; samples: Samples }) {
  return (
    <Stats>
      <ClickStats status={status} />
      <BacklogStats status={status} />
      <LagStat status={status} samples={samples} />
      <LiveStat status={status} />
    </Stats>
  );
}

/** What the click workers say; they are processes of their own and may not answer. */
function ClickStats({ status }: { status: LedgerStatus }) {
  const { clicks } = status;
  if (clicks === null) {
    return <Stat label="Clicks taken" value={NONE} note="no click worker answers" tone="bad" />;
  }
  const { perSecond, redirectP50Ms, redirectP99Ms, workersAnswering, workers } = clicks;
  const who = `${workersAnswering} of ${workers} workers answer`;
  return (
    <>
      <Stat
        label="Clicks taken"
        value={perSecond === null ? NONE : `${decimal(perSecond)}/s`}
        note={perSecond === null ? 'measuring…' : who}
        tone={workersAnswering < workers ? 'bad' : undefined}
      />
      <Stat
        label="Redirect, p50"
        value={redirectP50Ms === null ? NONE : duration(redirectP50Ms)}
        note="disk wait included"
      />
      <Stat
        label="Redirect, p99"
        value={redirectP99Ms === null ? NONE : duration(redirectP99Ms)}
        note={redirectP99Ms === null ? 'no clicks of late' : 'of the last minute'}
        tone={redirectP99Ms === null ? undefined : above(redirectP99Ms, SLOW_MS)}
      />
    </>
  );
}

function BacklogStats({ status }: { status: LedgerStatus }) {
  const backlog = status.partitions.reduce((sum, each) => sum + each.backlog, 0);
  const ages = status.partitions.flatMap(({ oldestUncountedAtMs }) =>
    oldestUncountedAtMs === null ? [] : [Math.max(0, status.nowMs - oldestUncountedAtMs)],
  );
  const oldestMs = Math.max(0, ...ages);
  return (
    <Stat
      label="Backlog"
      value={count(backlog)}
      note={backlog === 0 ? 'everything is counted' : `oldest record ${duration(oldestMs)}`}
      tone={above(oldestMs, OLD_MS)}
    />
  );
}

/** The ledger's own gauge knows idle partitions; without it the slowest watermark is what there is. */
function LagStat({ status, samples }: { status: LedgerStatus; samples: Samples }) {
  const gauge = samples.get('clickledger_watermark_lag_seconds');
  const marks = status.partitions.flatMap(({ watermarkMs }) => watermarkMs ?? []);
  const slowest = marks.length === 0 ? null : status.nowMs - Math.min(...marks);
  const lagMs = gauge === undefined ? slowest : gauge * 1000;
  return (
    <Stat
      label="Watermark lag"
      value={lagMs === null ? NONE : duration(lagMs)}
      note={lagMs === 0 ? 'all partitions idle' : 'behind in event time'}
      tone={lagMs === null ? undefined : above(lagMs, LAGGING_MS)}
    />
  );
}

function LiveStat({ status }: { status: LedgerStatus }) {
  const ageMs = status.asOfMs === 0 ? null : Math.max(0, status.nowMs - status.asOfMs);
  return (
    <Stat
      label="Live numbers"
      value={ageMs === null ? NONE : duration(ageMs)}
      note={ageMs === null ? 'not counting yet' : 'behind the log at most'}
      tone={ageMs === null ? 'bad' : above(ageMs, OLD_MS)}
    />
  );
}
