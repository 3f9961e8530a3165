/** The running number. It is read out now and then only, and it never moves what is around it. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { Card } from '../../components/card.tsx';
import { count, NONE } from '../../format.ts';
import { useApp, useScope } from '../../state/context.ts';
import { LIVE_MINUTES, type Live, useLive } from '../../state/use-live.ts';

const SPOKEN_EVERY_MS = 15_000;

const WAYS: Readonly<Record<Live['way'], string>> = {
  stream: 'Counting live',
  polling: 'Asked every 5 seconds',
  connecting: 'Connecting…',
  lost: 'No connection; trying again',
};

export function LiveTicker({ ads }: { ads: readonly string[] }) {
  const { api, clock } = useApp();
  const { advertiserParams } = useScope();
  const live = useLive(api, clock, { ...advertiserParams, ad_ids: ads });
  const spoken = useSpoken(live.total);
  const what = ads.length === 0 ? 'All ads' : ads.length === 1 ? ads[0] : `${ads.length} ads`;
  return (
    <Card title={`Last ${LIVE_MINUTES} minutes`}>
      <div class="ticker">
        <span class="ticker-number" data-testid="live-total-hour" aria-hidden="true">
          {live.total === null ? NONE : count(live.total)}
        </span>
        <span class="ticker-what">clicks · {what}</span>
        <span class={`ticker-way ticker-${live.way}`}>{WAYS[live.way]}</span>
        <p class="visually-hidden" aria-live="polite">
          {spoken === null ? '' : `${count(spoken)} clicks in the last ${LIVE_MINUTES} minutes`}
        </p>
        <p class="hint">
          Live numbers show a click within seconds, whatever range is chosen beside. Other filters
          than ads do not apply here.
        </p>
      </div>
    </Card>
  );
}

/** The number as it was at most so long ago: a screen reader must get a word in. */
function useSpoken(total: number | null): number | null {
  const [spoken, setSpoken] = useState<number | null>(null);
  const latest = useRef(total);
  latest.current = total;
  useEffect(() => {
    const timer = setInterval(() => setSpoken(latest.current), SPOKEN_EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  return spoken;
}
