/** Local buckets found minute by minute with `Intl`: slow, obvious, and not what the product uses. */
const MINUTE_MS = 60_000;

export interface LocalMinute {
  readonly hourStartMs: number;
  readonly dayStartMs: number;
}

export class LocalTime {
  readonly #format: Intl.DateTimeFormat;

  constructor(zone: string) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      timeZoneName: 'longOffset',
    });
  }

  offsetMs(atMs: number): number {
    const match = /GMT(?:([+-])(\d\d):(\d\d))?/.exec(this.#format.format(atMs))!;
    if (match[1] === undefined) return 0;
    const minutes = Number(match[2]) * 60 + Number(match[3]);
    return (match[1] === '-' ? -minutes : minutes) * MINUTE_MS;
  }

  /** `2026-03-29T03:00:00+02:00` */
  label(atMs: number): string {
    const offsetMs = this.offsetMs(atMs);
    const local = new Date(atMs + offsetMs).toISOString().slice(0, 19);
    const clock = new Date(Math.abs(offsetMs)).toISOString().slice(11, 16);
    return `${local}${offsetMs < 0 ? '-' : '+'}${clock}`;
  }

  /** For every minute of `[fromMs, toMs)`: where its local hour and its local day begin. */
  minutes(fromMs: number, toMs: number): Map<number, LocalMinute> {
    const found = new Map<number, LocalMinute>();
    let hour = { name: '', startMs: 0 };
    let day = { name: '', startMs: 0 };
    // Two days earlier, so that the first minutes asked for know their day's beginning.
    for (let ms = fromMs - 2 * 86_400_000; ms < toMs; ms += MINUTE_MS) {
      const label = this.label(ms);
      const hourName = label.slice(0, 13) + label.slice(19);
      const dayName = label.slice(0, 10);
      if (hourName !== hour.name) hour = { name: hourName, startMs: ms };
      if (dayName !== day.name) day = { name: dayName, startMs: ms };
      if (ms >= fromMs) found.set(ms, { hourStartMs: hour.startMs, dayStartMs: day.startMs });
    }
    return found;
  }
}
