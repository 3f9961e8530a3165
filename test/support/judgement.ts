/** Loads against what was billed for them, with the archive's own objects as the witness. */
import type { ObjectStore } from '../../src/archive/port.ts';
import { DEMO_ADS } from '../../src/demo/ads.ts';
import { readArchiveImpressions } from '../../src/demo/archive-impressions.ts';
import { isClean, judge } from '../../src/demo/judge.ts';
import { type AnswerRow, clicksPerAd } from './answers.ts';
import type { Load } from './load.ts';

export interface Judgement {
  readonly clean: boolean;
  readonly lost: number;
  readonly double: number;
}

/** What a judgement must be. */
export const EXACT: Judgement = { clean: true, lost: 0, double: 0 };

export async function judgeLoads(
  store: ObjectStore,
  loads: readonly Pick<Load, 'acknowledged' | 'inDoubt'>[],
  numbers: { readonly live: readonly AnswerRow[]; readonly final: readonly AnswerRow[] },
): Promise<Judgement> {
  const rows = judge({
    ads: DEMO_ADS,
    acknowledged: new Map(loads.flatMap((load) => [...load.acknowledged])),
    inDoubt: new Map(loads.flatMap((load) => [...load.inDoubt])),
    ingested: [],
    live: clicksPerAd(numbers.live),
    final: clicksPerAd(numbers.final),
    archive: await readArchiveImpressions(store),
  });
  const sum = (name: 'lost' | 'double') => rows.reduce((total, row) => total + row[name], 0);
  return { clean: isClean(rows), lost: sum('lost'), double: sum('double') };
}
