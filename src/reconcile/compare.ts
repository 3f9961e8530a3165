/** Live against final, and final against the revision before it. */
import type { DriftRow, FinalRow, Restatement } from '../warehouse/port.ts';
import { compareRows } from './recount.ts';

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

/**
 * One restatement per ad whose rows differ between two revisions. The first of them is given by the
 * rows of the published one and the restatements that lead from there to it. `before` and `after` are
 * equal when the ad's clicks only moved between minutes, countries or devices.
 */
export function restate(
  why: Pick<Restatement, 'hourMs' | 'revision' | 'cause' | 'atMs'>,
  before: { readonly rows: readonly FinalRow[]; readonly restatements: readonly Restatement[] },
  after: readonly FinalRow[],
): Restatement[] {
  const was = rowsByAd(before.rows);
  for (const { advertiserId, adId, after: clicks } of before.restatements) {
    was.set(JSON.stringify([advertiserId, adId]), { clicks, rows: null });
  }
  const is = rowsByAd(after);
  const keys = [...new Set([...was.keys(), ...is.keys()])].sort();
  return keys.flatMap((key) => {
    const [advertiserId, adId] = JSON.parse(key) as [string, string];
    const [old, now] = [was.get(key) ?? NOTHING, is.get(key) ?? NOTHING];
    const same = old.clicks === now.clicks && (old.rows === null || old.rows === now.rows);
    return same ? [] : [{ ...why, advertiserId, adId, before: old.clicks, after: now.clicks }];
  });
}

interface AdRows {
  readonly clicks: number;
  /** Every row as text, in the order of `compareRows`; null when only the sum is known. */
  readonly rows: string | null;
}

const NOTHING: AdRows = { clicks: 0, rows: '' };

function rowsByAd(rows: readonly FinalRow[]): Map<string, AdRows> {
  const ads = new Map<string, AdRows>();
  for (const row of [...rows].sort(compareRows)) {
    const key = JSON.stringify([row.advertiserId, row.adId]);
    const { campaignId, minuteMs, country, device, clicks } = row;
    const before = ads.get(key) ?? NOTHING;
    const line = JSON.stringify([campaignId, minuteMs, country, device, clicks]);
    ads.set(key, { clicks: before.clicks + clicks, rows: `${before.rows}${line}` });
  }
  return ads;
}
