/** Colours for what is drawn and not styled: the style sheet's own, read when a chart is made. */

export interface PlotColours {
  readonly final: string;
  readonly live: string;
  readonly liveGround: string;
  readonly ground: string;
  readonly ink: string;
  readonly muted: string;
  readonly grid: string;
}

export function coloursNow(): PlotColours {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    final: colour('final'),
    live: colour('live'),
    liveGround: colour('live-ground'),
    ground: colour('surface'),
    ink: colour('ink'),
    muted: colour('muted'),
    grid: colour('line'),
  };
}

const STRIPE = 6;
const made = new Map<string, CanvasPattern | string>();

/** Diagonal stripes; the plain colour where a browser draws no patterns. */
export function hatch(colour: string, ground: string): CanvasPattern | string {
  const key = `${colour} ${ground} ${devicePixelRatio}`;
  const known = made.get(key);
  if (known !== undefined) return known;
  const size = STRIPE * devicePixelRatio;
  const tile = document.createElement('canvas');
  tile.width = size;
  tile.height = size;
  const ctx = tile.getContext('2d');
  if (ctx === null) return colour;
  ctx.fillStyle = ground;
  ctx.fillRect(0, 0, size, size);
  ctx.strokeStyle = colour;
  ctx.lineWidth = size / 2.6;
  ctx.lineCap = 'square';
  ctx.beginPath();
  for (const shift of [-size, 0, size]) {
    ctx.moveTo(shift, size);
    ctx.lineTo(shift + size, 0);
  }
  ctx.stroke();
  const pattern = ctx.createPattern(tile, 'repeat') ?? colour;
  made.set(key, pattern);
  return pattern;
}
