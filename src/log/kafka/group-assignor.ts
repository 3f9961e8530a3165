/**
 * Shares out partitions among the members of a group. Pure: the same members give the same shares.
 *
 * S1 Every partition has exactly one member.
 * S2 Shares differ by one partition at the most.
 * S3 Among all shares with S1 and S2, the fewest partitions move: what a member had, and what its disk
 *    therefore knows, stays with it as far as its share goes.
 */
export interface Claimant {
  readonly id: string;
  /** What it had last, … */
  readonly partitions: readonly number[];
  /** … and in which generation of the group: of two that claim one partition the later had it last. */
  readonly generation: number;
}

/** Partitions `[0, partitions)` by member, ascending. */
export function shareOut(
  members: readonly Claimant[],
  partitions: number,
): ReadonlyMap<string, number[]> {
  const sorted = [...members].sort((a, b) => (a.id < b.id ? -1 : 1));
  const lastOwners = lastOwnersOf(sorted, partitions);
  const shares = new Map<string, number[]>(sorted.map(({ id }) => [id, []]));
  lastOwners.forEach((owner, partition) => {
    if (owner !== null) shares.get(owner)!.push(partition);
  });
  const quotas = quotasOf(shares, partitions);
  const free = lastOwners.flatMap((owner, partition) => (owner === null ? [partition] : []));
  for (const [id, share] of shares) free.push(...share.splice(quotas.get(id)!));
  free.sort((a, b) => a - b);
  for (const [id, share] of shares) {
    share.push(...free.splice(0, quotas.get(id)! - share.length));
    share.sort((a, b) => a - b);
  }
  return shares;
}

/** Who had each partition last; null: nobody who is still here. */
function lastOwnersOf(members: readonly Claimant[], partitions: number): (string | null)[] {
  const owners = new Array<string | null>(partitions).fill(null);
  const generations = new Array<number>(partitions).fill(Number.NEGATIVE_INFINITY);
  for (const { id, partitions: claimed, generation } of members) {
    for (const partition of claimed) {
      if (owners[partition] === undefined || generation <= generations[partition]!) continue;
      owners[partition] = id;
      generations[partition] = generation;
    }
  }
  return owners;
}

/** S2, S3: where shares cannot be equal, those who have the most get the one more. */
function quotasOf(
  shares: ReadonlyMap<string, readonly number[]>,
  partitions: number,
): Map<string, number> {
  const base = Math.floor(partitions / shares.size);
  const larger = partitions % shares.size;
  // The sort keeps the order of ids where counts are equal.
  const byCount = [...shares].sort(([, a], [, b]) => b.length - a.length);
  return new Map(byCount.map(([id], i) => [id, i < larger ? base + 1 : base]));
}
