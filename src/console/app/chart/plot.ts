/**
 * The chart of clicks over time on a canvas.
 *
 * Final and live are told apart three ways: solid against hatched bars, a shaded ground, and a labelled
 * line where final ends. Colour is only one of them.
 */
import uPlot from 'uplot';
import type { MetricsRow } from '../api/types.ts';
import { axisCount, dateText, timeText } from '../format.ts';
import type { Granularity } from '../state/range.ts';
import { coloursNow, hatch, type PlotColours } from './colours.ts';

export interface PlotInput {
  readonly rows: readonly MetricsRow[];
  readonly fromMs: number;
  readonly toMs: number;
  readonly finalUntilMs: number | null;
  readonly granularity: Granularity;
  readonly zone: string;
}

export const PLOT_HEIGHT = 280;
const WHOLE_STEPS = [1, 2, 5].flatMap((step) =>
  Array.from({ length: 12 }, (_, power) => step * 10 ** power),
);
WHOLE_STEPS.sort((a, b) => a - b);
const LABEL_GAP = 6;

/** No bar for nothing: its outline would look like a few clicks. */
export function plotData(input: PlotInput): uPlot.AlignedData {
  const times = input.rows.map((row) => Date.parse(row.bucket_start) / 1000);
  const final = input.rows.map((row) => (row.final ? barOf(row) : null));
  const live = input.rows.map((row) => (row.final ? null : barOf(row)));
  return [times, final, live];
}

const barOf = ({ clicks }: MetricsRow): number | null => (clicks === 0 ? null : clicks);

/** `input` is asked anew at every drawing: numbers change, the chart stays. */
export function plotOptions(
  input: () => PlotInput,
  width: number,
  onPoint: (index: number | null) => void,
): uPlot.Options {
  const colours = coloursNow();
  const bars = uPlot.paths.bars!({ size: [0.82, 56, 1], align: 1 });
  const axis = {
    stroke: colours.muted,
    grid: { stroke: colours.grid, width: 1 },
    ticks: { show: false },
    font: '12px system-ui, sans-serif',
  };
  return {
    width,
    height: PLOT_HEIGHT,
    legend: { show: false },
    padding: [18, 24, 0, 0],
    cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), input().zone),
    scales: {
      x: { time: true, range: () => edges(input()) },
      y: { range: (_plot, _min, max) => [0, Math.max(4, (max ?? 0) * 1.08)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 34,
        space: 76,
        values: (_plot, times) => timeLabels(times, input()),
      },
      { ...axis, size: 52, incrs: WHOLE_STEPS, values: (_plot, values) => values.map(axisCount) },
    ],
    series: [
      {},
      {
        label: 'Final',
        paths: bars,
        stroke: colours.final,
        fill: colours.final,
        width: 0,
        points: { show: false },
      },
      {
        label: 'Live',
        paths: bars,
        stroke: colours.live,
        fill: () => hatch(colours.live, colours.ground),
        width: 1,
        points: { show: false },
      },
    ],
    hooks: {
      drawClear: [(plot) => shadeLive(plot, input(), colours)],
      draw: [(plot) => drawFinalLine(plot, input(), colours)],
      setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)],
    },
  };
}

/** A range whose bucket began before it still shows the whole bar. */
function edges({ rows, fromMs, toMs }: PlotInput): [number, number] {
  const first = rows[0];
  const startMs = first === undefined ? fromMs : Math.min(fromMs, Date.parse(first.bucket_start));
  return [startMs / 1000, toMs / 1000];
}

function timeLabels(times: readonly number[], { zone, granularity }: PlotInput): string[] {
  let before = '';
  return times.map((time) => {
    const date = dateText(time * 1000, zone).replace(/ \d{4}$/, '');
    const isNewDay = date !== before;
    before = date;
    if (granularity === 'day') return date;
    return isNewDay && timeText(time * 1000, zone) === '00:00' ? date : timeText(time * 1000, zone);
  });
}

/** Where final ends, in pixels of the canvas; undefined when that is not inside the chart. */
function finalEdge(plot: uPlot, { finalUntilMs }: PlotInput): number | undefined {
  if (finalUntilMs === null) return undefined;
  const x = plot.valToPos(finalUntilMs / 1000, 'x', true);
  const { left, width } = plot.bbox;
  return x > left && x < left + width ? x : undefined;
}

function shadeLive(plot: uPlot, input: PlotInput, colours: PlotColours): void {
  const { left, top, width, height } = plot.bbox;
  const allFinal = input.finalUntilMs !== null && input.finalUntilMs >= input.toMs;
  if (allFinal) return;
  const start = finalEdge(plot, input) ?? left;
  plot.ctx.save();
  plot.ctx.fillStyle = colours.liveGround;
  plot.ctx.fillRect(start, top, left + width - start, height);
  plot.ctx.restore();
}

function drawFinalLine(plot: uPlot, input: PlotInput, colours: PlotColours): void {
  const x = finalEdge(plot, input);
  if (x === undefined || input.finalUntilMs === null) return;
  const { ctx } = plot;
  const { left, top, height } = plot.bbox;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = colours.ink;
  ctx.lineWidth = 1.5 * ratio;
  ctx.setLineDash([5 * ratio, 4 * ratio]);
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x, top + height);
  ctx.stroke();
  ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
  ctx.fillStyle = colours.ink;
  const label = `final until ${timeText(input.finalUntilMs, input.zone)}`;
  const fitsLeft = x - left > ctx.measureText(label).width + LABEL_GAP * ratio;
  ctx.textAlign = fitsLeft ? 'right' : 'left';
  ctx.textBaseline = 'bottom';
  ctx.fillText(label, fitsLeft ? x - LABEL_GAP * ratio : x + LABEL_GAP * ratio, top - 2 * ratio);
  ctx.restore();
}
