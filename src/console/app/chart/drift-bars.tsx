/** Live against final, hour by hour, as small bars; the numbers are in a table beside them. */
import { percent } from '../format.ts';

export interface DriftHour {
  readonly hourMs: number;
  readonly drift: number;
}

const WIDTH = 480;
const HEIGHT = 96;

interface DriftBarsProps {
  readonly hours: readonly DriftHour[];
  readonly hourText: (ms: number) => string;
}

export function DriftBars({ hours, hourText }: DriftBarsProps) {
  const most = Math.max(0.001, ...hours.map(({ drift }) => drift));
  const step = WIDTH / Math.max(1, hours.length);
  const worst = hours.reduce((max, hour) => Math.max(max, hour.drift), 0);
  return (
    <svg
      class="drift-bars"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`Drift of the last ${hours.length} final hours; at most ${percent(worst, 3)}`}
    >
      {hours.map(({ hourMs, drift }, index) => {
        const height = Math.max(2, (drift / most) * (HEIGHT - 4));
        return (
          <rect
            key={hourMs}
            x={index * step + step * 0.12}
            y={HEIGHT - height}
            width={step * 0.76}
            height={height}
            class={drift > 0.001 ? 'bar-warn' : 'bar-good'}
          >
            <title>{`${hourText(hourMs)}: ${percent(drift, 3)}`}</title>
          </rect>
        );
      })}
    </svg>
  );
}
