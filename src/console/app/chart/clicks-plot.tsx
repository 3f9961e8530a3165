/** Keeps one uPlot in its place: made once, fed with new numbers, as wide as there is room. */
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { THEME_EVENT } from '../state/theme.ts';
import { PLOT_HEIGHT, type PlotInput, plotData, plotOptions } from './plot.ts';

interface ClicksPlotProps {
  readonly input: PlotInput;
  readonly label: string;
  readonly onPoint: (index: number | null) => void;
}

export function ClicksPlot({ input, label, onPoint }: ClicksPlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(input);
  const point = useRef(onPoint);
  latest.current = input;
  point.current = onPoint;

  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const make = (): void => {
      plot.current?.destroy();
      const options = plotOptions(
        () => latest.current,
        element.clientWidth,
        (index) => point.current(index),
      );
      plot.current = new uPlot(options, plotData(latest.current), element);
    };
    make();
    const resized = new ResizeObserver(() => {
      plot.current?.setSize({ width: element.clientWidth, height: PLOT_HEIGHT });
    });
    resized.observe(element);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    document.addEventListener(THEME_EVENT, make);
    dark.addEventListener('change', make);
    return () => {
      resized.disconnect();
      document.removeEventListener(THEME_EVENT, make);
      dark.removeEventListener('change', make);
      plot.current?.destroy();
      plot.current = null;
    };
  }, []);

  useEffect(() => plot.current?.setData(plotData(input)), [input]);

  return <div ref={place} class="plot" role="img" aria-label={label} />;
}
