/**
 * The judge: what was acknowledged against what was billed, per ad.
 *
 * Pure. It believes neither the stream nor the recount: it starts from the acknowledgements that the
 * sender wrote down and looks for each of them in the archive's own objects.
 *
 *  - sent: distinct billable impressions that were acknowledged, over HTTP or by ingest.
 *  - lost: those that the archive does not hold as a click of that ad, and those that it holds but
 *    the final count left out.
 *  - double: final clicks above the impressions that can be billed. A lost click and a doubled one
 *    of the same ad therefore never hide each other.
 */

/** What the archive holds of one impression. */
export interface ArchivedImpression {
  /** Of its records of class `click`; of any record when there is none. */
  readonly adId: string;
  /** Records of class `click`, however many were logged. */
  readonly clicks: number;
}

export interface Evidence {
  /** The ads of the table, in its order. */
  readonly ads: readonly { readonly adId: string; readonly advertiserId: string }[];
  /** Impression → ad of everything acknowledged over HTTP. */
  readonly acknowledged: ReadonlyMap<string, string>;
  /**
   * Impression → ad of what was sent and never acknowledged. Such a click may be in the log or not;
   * when it is, billing it once is right.
   */
  readonly inDoubt: ReadonlyMap<string, string>;
  /** What ingest has taken. */
  readonly ingested: readonly { readonly impressionId: string; readonly adId: string }[];
  /** Clicks per ad as the metrics API gave them before and after the recount. */
  readonly live: ReadonlyMap<string, number>;
  readonly final: ReadonlyMap<string, number>;
  readonly archive: ReadonlyMap<string, ArchivedImpression>;
}

export interface JudgedAd {
  readonly adId: string;
  /** Empty for an ad that nobody knows. */
  readonly advertiserId: string;
  readonly sent: number;
  readonly live: number;
  readonly final: number;
  readonly lost: number;
  readonly double: number;
}

interface Tally {
  sent: number;
  /** Acknowledged impressions that the archive holds as a click. */
  held: number;
  /** Impressions in doubt that the archive holds as a click. */
  heldInDoubt: number;
}

export function judge(evidence: Evidence): JudgedAd[] {
  const tallies = tally(evidence);
  const advertisers = new Map(evidence.ads.map((ad) => [ad.adId, ad.advertiserId]));
  // An ad that is in none of our files but in the bill must not stay out of the table.
  const adIds = new Set([
    ...advertisers.keys(),
    ...tallies.keys(),
    ...evidence.live.keys(),
    ...evidence.final.keys(),
  ]);
  return [...adIds].map((adId) => {
    const { sent, held, heldInDoubt } = tallies.get(adId) ?? { sent: 0, held: 0, heldInDoubt: 0 };
    const final = evidence.final.get(adId) ?? 0;
    return {
      adId,
      advertiserId: advertisers.get(adId) ?? '',
      sent,
      live: evidence.live.get(adId) ?? 0,
      final,
      lost: sent - held + Math.max(0, held - final),
      double: Math.max(0, final - held - heldInDoubt),
    };
  });
}

function tally({ acknowledged, inDoubt, ingested, archive }: Evidence): Map<string, Tally> {
  const tallies = new Map<string, Tally>();
  const of = (adId: string): Tally => {
    const known = tallies.get(adId);
    if (known !== undefined) return known;
    const made: Tally = { sent: 0, held: 0, heldInDoubt: 0 };
    tallies.set(adId, made);
    return made;
  };
  const isHeld = (impressionId: string, adId: string): boolean => {
    const archived = archive.get(impressionId);
    return archived !== undefined && archived.clicks > 0 && archived.adId === adId;
  };
  const sent = new Map(acknowledged);
  for (const { impressionId, adId } of ingested) sent.set(impressionId, adId);
  for (const [impressionId, adId] of sent) {
    of(adId).sent += 1;
    if (isHeld(impressionId, adId)) of(adId).held += 1;
  }
  for (const [impressionId, adId] of inDoubt) {
    if (!sent.has(impressionId) && isHeld(impressionId, adId)) of(adId).heldInDoubt += 1;
  }
  return tallies;
}

/** True when nothing was lost and nothing is billed twice. */
export function isClean(rows: readonly JudgedAd[]): boolean {
  return rows.every(({ lost, double }) => lost === 0 && double === 0);
}

const NUMBERS = ['sent', 'live', 'final', 'lost', 'double'] as const;

/** The table for people, with the totals in the last line. */
export function formatTable(rows: readonly JudgedAd[]): string {
  const total = (name: (typeof NUMBERS)[number]): number =>
    rows.reduce((sum, row) => sum + row[name], 0);
  const cells = [
    ['advertiser', 'ad', ...NUMBERS],
    ...rows.map((row) => [row.advertiserId, row.adId, ...NUMBERS.map((name) => count(row[name]))]),
    ['total', '', ...NUMBERS.map((name) => count(total(name)))],
  ];
  const widths = cells[0]!.map((_, at) => Math.max(...cells.map((line) => line[at]!.length)));
  const lines = cells.map((line) =>
    line
      .map((cell, at) => (at < 2 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!)))
      .join('  ')
      .trimEnd(),
  );
  const rule = '-'.repeat(Math.max(...lines.map((line) => line.length)));
  return [lines[0], rule, ...lines.slice(1, -1), rule, lines.at(-1)].join('\n');
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}
