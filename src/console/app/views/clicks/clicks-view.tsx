/** The advertiser's numbers: how many, when, and where they came from. */
import { useState } from 'preact/hooks';
import type { Params } from '../../api/client.ts';
import { ApiError } from '../../api/problem.ts';
import { Button } from '../../components/button.tsx';
import { PageHead } from '../../components/card.tsx';
import { ErrorNote } from '../../components/states.tsx';
import { useApp, useScope } from '../../state/context.ts';
import { DIMENSION_NAMES, filterParams, filtersOf } from '../../state/filters.ts';
import { granularityOf, isTimeZone, spanOf } from '../../state/range.ts';
import { useTick } from '../../state/use-tick.ts';
import { Breakdown } from './breakdown.tsx';
import { CsvDialog } from './csv-dialog.tsx';
import { FilterChips } from './filter-chips.tsx';
import { LiveTicker } from './live-ticker.tsx';
import { RangeBar } from './range-bar.tsx';
import { Timeline } from './timeline.tsx';

const REFRESH_MS = 10_000;

export function ClicksView() {
  const { route } = useApp();
  const { zone, advertiserParams } = useScope();
  const nowMs = useTick(REFRESH_MS);
  const [isSaving, setSaving] = useState(false);
  if (!isTimeZone(zone)) return <UnknownZone zone={zone} />;
  const filters = filtersOf(route.query);
  // Every part of the page asks about the very same range, so that its numbers add up.
  const params: Params = {
    ...spanOf(route.query, nowMs, zone),
    timezone: zone,
    ...filterParams(filters),
    ...advertiserParams,
  };
  const granularity = granularityOf(route.query);
  return (
    <>
      <PageHead
        title="Clicks"
        about="Each impression counts once. Final numbers are what is billed; live ones may still move."
        actions={<Button onClick={() => setSaving(true)}>Download CSV</Button>}
      />
      <RangeBar />
      <FilterChips filters={filters} />
      <div class="overview">
        <Timeline params={params} granularity={granularity} round={nowMs} />
        <LiveTicker ads={filters.ad} />
      </div>
      <div class="breakdowns">
        {DIMENSION_NAMES.map((dimension) => (
          <Breakdown
            key={dimension}
            dimension={dimension}
            params={params}
            filters={filters}
            round={nowMs}
          />
        ))}
      </div>
      {isSaving && (
        <CsvDialog params={params} granularity={granularity} onClose={() => setSaving(false)} />
      )}
    </>
  );
}

function UnknownZone({ zone }: { zone: string }) {
  const error = new ApiError(
    0,
    'timezone_unknown',
    `This browser knows no time zone "${zone}".`,
    'Choose another one below.',
  );
  return (
    <>
      <PageHead title="Clicks" />
      <ErrorNote error={error} />
      <RangeBar />
    </>
  );
}
