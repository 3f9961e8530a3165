/** Reads the text that `/metrics` answers with: enough for gauges and counters. */

export type Samples = ReadonlyMap<string, number>;

/** Sums over labels by metric name: backlog and the like are told per partition. */
export function parseSamples(text: string): Samples {
  const sums = new Map<string, number>();
  for (const line of text.split('\n')) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{.*\})? +(\S+)/.exec(line);
    if (match === null) continue;
    const value = Number(match[2]);
    if (Number.isFinite(value)) sums.set(match[1]!, (sums.get(match[1]!) ?? 0) + value);
  }
  return sums;
}
