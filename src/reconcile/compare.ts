/** Live against final, and final against the revision before it. */
import type { DriftRow, FinalRow, Restatement } from '../warehouse/port.ts';

export interface Comparison {
  readonly drift: DriftRow[];
  /** Largest share over advertisers. */
  readonly driftMax: number;
  readonly liveClicks: number;
}

/** Compares the stream's clicks per advertiser with the recount's. */
export function compareWithLive(
  hourMs: number,
  revision: number,
  live: ReadonlyMap<string, number>,
  final: ReadonlyMap<string, number>,
): Comparison {
  const advertisers = [...new Set([...live.keys(), ...final.keys()])].sort();
  const drift = advertisers.map((advertiserId) => ({
    hourMs,
    revision,
    advertiserId,
    live: live.get(advertiserId) ?? 0,
    final: final.get(advertiserId) ?? 0,
  }));
  return {
    drift,
    driftMax: Math.max(0, ...drift.map(driftShare)),
    liveClicks: drift.reduce((sum, row) => sum + row.live, 0),
  };
}

/** |live − final| / final; 1 when there is live without final. */
export function driftShare(row: Pick<DriftRow, 'live' | 'final'>): number {
  if (row.live === row.final) return 0;
  return row.final === 0 ? 1 : Math.abs(row.live - row.final) / row.final;
}

/** One restatement per ad whose clicks in the hour differ between two revisions. */
export function restate(
  why: Pick<Restatement, 'hourMs' | 'revision' | 'cause' | 'atMs'>,
  before: readonly FinalRow[],
  after: readonly FinalRow[],
): Restatement[] {
  const was = clicksByAd(before);
  const is = clicksByAd(after);
  const keys = [...new Set([...was.keys(), ...is.keys()])].sort();
  return keys.flatMap((key) => {
    const [advertiserId, adId] = JSON.parse(key) as [string, string];
    const change = { before: was.get(key) ?? 0, after: is.get(key) ?? 0 };
    return change.before === change.after ? [] : [{ ...why, advertiserId, adId, ...change }];
  });
}

function clicksByAd(rows: readonly FinalRow[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (const row of rows) {
    const key = JSON.stringify([row.advertiserId, row.adId]);
    sums.set(key, (sums.get(key) ?? 0) + row.clicks);
  }
  return sums;
}
