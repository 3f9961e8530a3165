/**
 * Counting: one implementation, used by the stream and by the recount.
 *
 * Pure: no clock, disk, network or randomness. What it holds after a set of records is a function
 * of those records:
 *
 * K1 The counted record of an impression is the one with the earliest `clicked_at`, ties broken by
 *    partition and offset. A record that turns out earlier than the counted one takes its place, and
 *    the row that had counted it gives the click back. So rows do not depend on the order in which
 *    partitions are read, as long as both minutes are open and the records lie within one dedup
 *    window: whoever reads keeps partitions from running further apart than that.
 * K2 A record is late when its minute ended `latenessMs` or more before its own partition's watermark.
 *    It is not counted here and claims nothing; the recount counts it.
 * K3 Only billable records are counted, and only they claim the impression.
 * K4 Every record gets exactly one outcome. When a record takes a counted one's place, the other
 *    becomes the duplicate: the totals by outcome do not depend on order either.
 */
import { type Claim, emptyClaim } from './claim-words.ts';
import { ClaimTable } from './claims.ts';
import type { CountingOptions, CountingRecord, Outcome } from './types.ts';
import { Watermarks } from './watermark.ts';
import { MINUTE_MS, minuteOf, Windows } from './windows.ts';

/** How finely ages are told apart when claims must be forgotten. */
const AGE_BUCKETS = 1_000;

export class Counting {
  readonly options: CountingOptions;
  readonly claims = new ClaimTable();
  readonly windows = new Windows();
  readonly watermarks: Watermarks;
  /** Claims dropped inside the dedup window because `maxClaims` was reached. */
  forgotten = 0;
  /** Called for every claim made or moved, so that the owner can keep it; the object is reused. */
  onClaim: ((claim: Readonly<Claim>) => void) | undefined;
  #maxClaims: number;
  #forgetAbove: number;
  readonly #claim = emptyClaim();

  constructor(options: CountingOptions) {
    this.options = options;
    this.#maxClaims = options.maxClaims;
    this.#forgetAbove = options.maxClaims;
    this.watermarks = new Watermarks(options.watermarkLagMs);
  }

  /** Other tables of the process need more room, or less, than before. */
  boundClaims(maxClaims: number): void {
    this.#maxClaims = maxClaims;
    this.#forgetAbove = maxClaims;
  }

  /** Counts one record and tells where it ended. */
  apply(record: Readonly<CountingRecord>): Outcome {
    const late = this.isLate(record.partition, record.clickedAtMs);
    this.watermarks.observe(record.partition, record.clickedAtMs);
    if (!record.billable) return 'not_billable';
    if (late) return 'late';
    if (!this.claims.find(record.hash0, record.hash1, record.hash2)) {
      this.#count(record, false);
      return 'counted';
    }
    const distanceMs = Math.abs(record.clickedAtMs - this.claims.foundClickedAtMs);
    if (distanceMs >= this.options.dedupWindowMs) {
      this.#count(record, true);
      return 'counted';
    }
    const counted = this.windows.byId(this.claims.foundRowId);
    if (counted !== undefined && this.#isFoundOpen() && this.#isEarlier(record)) {
      this.windows.add(counted, -1);
      this.#count(record, true);
    }
    return 'duplicate';
  }

  /** A closed row never changes again, so that it can be dropped: the recount will move the click (K1). */
  #isFoundOpen(): boolean {
    return !this.isLate(this.claims.foundPartition, this.claims.foundClickedAtMs);
  }

  /** K2. The minute `[m, m + 60 s)` is open until the watermark reaches its end plus the lateness. */
  isLate(partition: number, clickedAtMs: number): boolean {
    const closesAtMs = minuteOf(clickedAtMs) + MINUTE_MS + this.options.latenessMs;
    return closesAtMs <= this.watermarks.of(partition);
  }

  /** Minutes of the partition's shard that end at or before this are closed. */
  closedUntilMs(partition: number): number {
    return this.watermarks.of(partition) - this.options.latenessMs;
  }

  #isEarlier(record: Readonly<CountingRecord>): boolean {
    const byTime = record.clickedAtMs - this.claims.foundClickedAtMs;
    if (byTime !== 0) return byTime < 0;
    const byPartition = record.partition - this.claims.foundPartition;
    if (byPartition !== 0) return byPartition < 0;
    // Low halves, compared with wrap-around: records of one window lie less than 2^31 apart.
    return ((record.offset - this.claims.foundOffsetLow) | 0) < 0;
  }

  #count(record: Readonly<CountingRecord>, replace: boolean): void {
    const row = this.windows.row(record.shard, minuteOf(record.clickedAtMs), record.rowKey);
    this.windows.add(row, 1);
    const claim = this.#claim;
    claim.hash0 = record.hash0;
    claim.hash1 = record.hash1;
    claim.hash2 = record.hash2;
    claim.clickedAtMs = record.clickedAtMs;
    claim.partition = record.partition;
    claim.offsetLow = record.offset >>> 0;
    claim.rowId = row.id;
    if (replace) {
      this.claims.replaceFound(claim);
    } else {
      this.#insert(claim);
      if (this.claims.size > this.#forgetAbove) this.#forgetOldest();
    }
    this.onClaim?.(claim);
  }

  /**
   * Puts a kept claim back, for a state that is being loaded in the order it was kept. Forgets none:
   * ages mean nothing before the watermarks are loaded too.
   */
  restoreClaim(claim: Readonly<Claim>): void {
    if (this.claims.find(claim.hash0, claim.hash1, claim.hash2)) {
      this.claims.replaceFound(claim);
    } else {
      this.#insert(claim);
    }
  }

  /**
   * The time up to which the partition's claims cannot make any record of it a duplicate. A record that
   * is not late may lie as far behind the watermark as the oldest open minute, so the window ends that
   * much earlier.
   */
  readonly keepClaimsAfterMs = (partition: number): number =>
    this.closedUntilMs(partition) - MINUTE_MS - this.options.dedupWindowMs;

  #insert(claim: Readonly<Claim>): void {
    this.claims.addMissing(claim);
    if (this.claims.needsRoom) this.claims.makeRoom(this.keepClaimsAfterMs);
  }

  /** C1: the bound on memory is kept by giving up the oldest tenth of the claims, and said so. */
  #forgetOldest(): void {
    this.claims.sweep(this.keepClaimsAfterMs);
    const before = this.claims.size;
    const excess = before - Math.floor(this.#maxClaims * 0.9);
    if (excess > 0) {
      const keepMs = this.#ageOfOldest(excess);
      this.claims.sweep((partition) => this.watermarks.of(partition) - keepMs);
    }
    this.forgotten += before - this.claims.size;
    // Claims of one moment cannot be told apart by age: do not try again at every insert.
    this.#forgetAbove = Math.max(this.#maxClaims, this.claims.size * 1.1);
  }

  #ageMs(clickedAtMs: number, partition: number): number {
    return this.watermarks.of(partition) - clickedAtMs;
  }

  /** The age from which on there are about `count` claims, by a histogram; never the newest ones. */
  #ageOfOldest(count: number): number {
    let newest = Number.POSITIVE_INFINITY;
    let oldest = Number.NEGATIVE_INFINITY;
    this.claims.forEach(({ clickedAtMs, partition }) => {
      const ageMs = this.#ageMs(clickedAtMs, partition);
      newest = Math.min(newest, ageMs);
      oldest = Math.max(oldest, ageMs);
    });
    const buckets = new Float64Array(AGE_BUCKETS);
    const widthMs = (oldest - newest + 1) / AGE_BUCKETS;
    this.claims.forEach(({ clickedAtMs, partition }) => {
      buckets[Math.floor((this.#ageMs(clickedAtMs, partition) - newest) / widthMs)]!++;
    });
    let bucket = AGE_BUCKETS;
    for (let found = 0; bucket > 1 && found < count; ) found += buckets[--bucket]!;
    return newest + bucket * widthMs;
  }
}
