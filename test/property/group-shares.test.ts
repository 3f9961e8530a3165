/** How partitions are shared out among the members of a group: S1 to S3 of the assignor. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { type Claimant, shareOut } from '../../src/log/kafka/group-assignor.ts';
import { fcParams } from '../support/seed.ts';

const claimants = (most: number) =>
  fc.uniqueArray(
    fc.record({
      id: fc.string({ minLength: 1, maxLength: 4 }),
      // Some name partitions that the topic does not have.
      partitions: fc.uniqueArray(fc.integer({ min: 0, max: 40 }), { maxLength: 20 }),
      generation: fc.integer({ min: -1, max: 3 }),
    }),
    { selector: ({ id }) => id, minLength: 1, maxLength: most },
  );
const count = fc.integer({ min: 0, max: 36 });

function ownersOf(shares: ReadonlyMap<string, readonly number[]>): Map<number, string> {
  return new Map([...shares].flatMap(([id, share]) => share.map((each) => [each, id] as const)));
}

/** Who had each partition in the latest generation, found the slow way. */
function hadLast(members: readonly Claimant[], partition: number): string[] {
  const claims = members.filter(({ partitions }) => partitions.includes(partition));
  const latest = Math.max(...claims.map(({ generation }) => generation));
  return claims.filter(({ generation }) => generation === latest).map(({ id }) => id);
}

describe('shares', () => {
  test('hold every partition once, differ by one at the most, and do not depend on who is named first', () => {
    fc.assert(
      fc.property(claimants(9), count, fc.nat(), (members, partitions, turn) => {
        const shares = shareOut(members, partitions);
        const all = [...shares.values()].flat().sort((a, b) => a - b);
        expect(all).toEqual(Array.from({ length: partitions }, (_, i) => i));
        const counts = [...shares.values()].map(({ length }) => length);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
        expect([...shares.keys()].sort()).toEqual(members.map(({ id }) => id).sort());
        const at = turn % members.length;
        const turned = [...members.slice(at), ...members.slice(0, at)].reverse();
        expect(shareOut(turned, partitions)).toEqual(shares);
      }),
      fcParams(500),
    );
  });

  test('move as few partitions as even shares allow', () => {
    fc.assert(
      fc.property(claimants(5), count, (members, partitions) => {
        const owners = ownersOf(shareOut(members, partitions));
        const lasts = Array.from({ length: partitions }, (_, each) => hadLast(members, each));
        // With two claims of one generation either may keep it: told apart by who did.
        const keeping = new Map<string, number>(members.map(({ id }) => [id, 0]));
        let kept = 0;
        lasts.forEach((ids, partition) => {
          const [first] = [...ids].sort();
          if (first !== undefined) keeping.set(first, keeping.get(first)! + 1);
          if (first !== undefined && owners.get(partition) === first) kept++;
        });
        expect(kept).toBe(mostKept([...keeping.values()], partitions));
      }),
      fcParams(500),
    );
  });

  test('that were shared out come out the same again, also when a member has left and is back', () => {
    fc.assert(
      fc.property(claimants(6), count, (members, partitions) => {
        const first = shareOut(members, partitions);
        const claims = [...first].map(([id, share]) => ({ id, partitions: share, generation: 9 }));
        expect(shareOut(claims, partitions)).toEqual(first);
        if (claims.length === 1) return;
        const [gone, ...rest] = claims;
        const without = shareOut(rest, partitions);
        for (const { id, partitions: had } of rest) {
          expect(without.get(id)).toEqual(expect.arrayContaining(had));
        }
        const back = [...without].map(([id, share]) => ({ id, partitions: share, generation: 10 }));
        const again = shareOut([...back, gone!], partitions);
        // Who stayed gives up what it got too much of, and nothing else moves.
        for (const [id, share] of again) {
          if (id !== gone!.id) expect(without.get(id)).toEqual(expect.arrayContaining(share));
        }
      }),
      fcParams(300),
    );
  });
});

/** Tries every way to give the larger shares to some. */
function mostKept(had: readonly number[], partitions: number): number {
  const base = Math.floor(partitions / had.length);
  const larger = partitions % had.length;
  let most = 0;
  for (let chosen = 0; chosen < 1 << had.length; chosen++) {
    const quotas = had.map((_, i) => ((chosen >> i) & 1 ? base + 1 : base));
    if (quotas.reduce((sum, quota) => sum + quota, 0) !== base * had.length + larger) continue;
    most = Math.max(
      most,
      had.reduce((sum, each, i) => sum + Math.min(each, quotas[i]!), 0),
    );
  }
  return most;
}
