import { describe, expect, test } from 'bun:test';
import {
  type ArchivedImpression,
  type Evidence,
  formatTable,
  isClean,
  judge,
} from '../../src/demo/judge.ts';

const ADS = [
  { adId: 'a1', advertiserId: 'adv-1' },
  { adId: 'a2', advertiserId: 'adv-2' },
];

const held = (adId: string, clicks = 1): ArchivedImpression => ({ adId, clicks });

/** Two clicks on each ad over HTTP and one by ingest on a1, all in order; a test breaks one thing. */
function evidence(over: Partial<Evidence> = {}): Evidence {
  return {
    ads: ADS,
    acknowledged: new Map([
      ['i1', 'a1'],
      ['i2', 'a1'],
      ['i3', 'a2'],
      ['i4', 'a2'],
    ]),
    inDoubt: new Map(),
    ingested: [
      { impressionId: 'i5', adId: 'a1' },
      { impressionId: 'i5', adId: 'a1' },
    ],
    live: new Map([
      ['a1', 2],
      ['a2', 2],
    ]),
    final: new Map([
      ['a1', 3],
      ['a2', 2],
    ]),
    archive: new Map([
      ['i1', held('a1')],
      ['i2', held('a1', 3)],
      ['i3', held('a2')],
      ['i4', held('a2')],
      ['i5', held('a1', 2)],
      ['i9', held('a2', 0)],
    ]),
    ...over,
  };
}

const without = <Value>(map: ReadonlyMap<string, Value>, key: string): Map<string, Value> =>
  new Map([...map].filter(([each]) => each !== key));
const withOne = <Value>(map: ReadonlyMap<string, Value>, key: string, value: Value) =>
  new Map([...map, [key, value]]);

const faults = (given: Evidence): string[] =>
  judge(given).flatMap(({ adId, lost, double }) => [
    ...(lost > 0 ? [`${adId} lost ${lost}`] : []),
    ...(double > 0 ? [`${adId} double ${double}`] : []),
  ]);

describe('the judge', () => {
  test('finds nothing when every acknowledged impression is archived and billed once', () => {
    const rows = judge(evidence());
    expect(isClean(rows)).toBe(true);
    expect(rows).toEqual([
      { adId: 'a1', advertiserId: 'adv-1', sent: 3, live: 2, final: 3, lost: 0, double: 0 },
      { adId: 'a2', advertiserId: 'adv-2', sent: 2, live: 2, final: 2, lost: 0, double: 0 },
    ]);
  });

  test('finds a click that was acknowledged and is not in the archive', () => {
    const base = evidence();
    const lost = { archive: without(base.archive, 'i3'), final: withOne(base.final, 'a2', 1) };
    expect(faults(evidence(lost))).toEqual(['a2 lost 1']);
    expect(isClean(judge(evidence(lost)))).toBe(false);
  });

  test('finds an ingested click that is not in the archive', () => {
    const base = evidence();
    const lost = { archive: without(base.archive, 'i5'), final: withOne(base.final, 'a1', 2) };
    expect(faults(evidence(lost))).toEqual(['a1 lost 1']);
  });

  test('finds a click that the archive holds in a class that is not billed', () => {
    const base = evidence();
    const wrong = { archive: withOne(base.archive, 'i3', held('a2', 0)) };
    expect(faults(evidence({ ...wrong, final: withOne(base.final, 'a2', 1) }))).toEqual([
      'a2 lost 1',
    ]);
  });

  test('finds a click that is archived and that the final count left out', () => {
    expect(faults(evidence({ final: withOne(evidence().final, 'a2', 1) }))).toEqual(['a2 lost 1']);
    expect(faults(evidence({ final: new Map() }))).toEqual(['a1 lost 3', 'a2 lost 2']);
  });

  test('finds a click that was billed twice', () => {
    expect(faults(evidence({ final: withOne(evidence().final, 'a1', 4) }))).toEqual([
      'a1 double 1',
    ]);
  });

  test('finds a lost and a doubled click that hide each other in the sum', () => {
    expect(faults(evidence({ archive: without(evidence().archive, 'i1') }))).toEqual([
      'a1 lost 1',
      'a1 double 1',
    ]);
  });

  test('finds a click that was billed to the wrong ad', () => {
    const base = evidence();
    const moved = {
      archive: withOne(base.archive, 'i1', held('a2')),
      final: new Map([
        ['a1', 2],
        ['a2', 3],
      ]),
    };
    expect(faults(evidence(moved))).toEqual(['a1 lost 1', 'a2 double 1']);
  });

  test('shows an ad that is billed and that nobody knows', () => {
    const rows = judge(evidence({ final: withOne(evidence().final, 'ghost', 1) }));
    expect(rows.at(-1)).toMatchObject({ adId: 'ghost', advertiserId: '', sent: 0, double: 1 });
  });

  test('lets a click in doubt be billed once when the archive holds it, and never twice', () => {
    const base = evidence();
    const inDoubt = new Map([['i7', 'a1']]);
    const archive = withOne(base.archive, 'i7', held('a1'));
    const final = (clicks: number) => withOne(base.final, 'a1', clicks);
    expect(faults(evidence({ inDoubt }))).toEqual([]);
    expect(faults(evidence({ inDoubt, final: final(4) }))).toEqual(['a1 double 1']);
    expect(faults(evidence({ inDoubt, archive, final: final(4) }))).toEqual([]);
    expect(faults(evidence({ inDoubt, archive, final: final(5) }))).toEqual(['a1 double 1']);
  });

  test('prints a table with totals', () => {
    const rows = judge(evidence({ live: new Map([['a1', 12_345]]) }));
    expect(formatTable(rows).split('\n')).toEqual([
      'advertiser  ad  sent    live  final  lost  double',
      '-------------------------------------------------',
      'adv-1       a1     3  12,345      3     0       0',
      'adv-2       a2     2       0      2     0       0',
      '-------------------------------------------------',
      'total              5  12,345      5     0       0',
    ]);
  });
});
