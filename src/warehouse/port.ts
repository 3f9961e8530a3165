/**
 * The warehouse: counted rows, live and final, and which final attempt of an hour is in force.
 * Adapters: `chdb/` (one machine), `clickhouse/` (a server or cluster); the SQL and the client are one.
 *
 * W1 Live and final rows lie in different tables; the stream writes only live, the recount only final.
 * W2 A live row is the full count under its natural key with a version that rises in its shard: the
 *    highest wins, whoever wrote it and whenever it arrives.
 * W3 Final rows carry the `attempt` that wrote them. They are seen only once `publish` names that
 *    attempt for their hour: a half-written attempt is never visible and is written again under
 *    another number.
 * W4 `publish` is one insert of one block: hour and day become visible together or not at all.
 * W5 Of an hour's publications the highest (revision, attempt) is in force, of a day's the highest
 *    attempt, in whatever order they arrive: one that was overtaken changes nothing when it comes late.
 */
import type { Device } from '../event/click-event.ts';

/** Natural key of a minute row. `minuteMs` is the start of the minute, ms UTC. */
export interface MinuteKey {
  readonly advertiserId: string;
  readonly campaignId: string;
  readonly adId: string;
  readonly minuteMs: number;
  readonly country: string;
  readonly device: Device;
}

export interface LiveRow extends MinuteKey {
  /** The log partition that counted it: one writer per row; readers sum over shards. */
  readonly shard: number;
  /** The full count, never a delta. */
  readonly clicks: number;
}

/** Live rows that carry one version. */
export interface LiveBatch {
  readonly rows: readonly LiveRow[];
  readonly version: number;
}

export interface FinalRow extends MinuteKey {
  readonly clicks: number;
}

/** The published state of one final hour. */
export interface HourState {
  /** Start of the hour, ms UTC. */
  readonly hourMs: number;
  /** 1 for the first final result, one more for each change after it. */
  readonly revision: number;
  /** Which written rows are in force (W3). */
  readonly attempt: number;
  readonly finalAtMs: number;
  /** Why this revision exists: `first`, `late_clicks`, `redrive`, `verdict`, `earlier_hour_changed`. */
  readonly cause: string;
  /** Outcomes of the hour's archived records; they sum to `records`. */
  readonly records: number;
  readonly counted: number;
  readonly duplicate: number;
  readonly notBillable: number;
  readonly invalid: number;
  /** Live clicks of the hour when it was compared. */
  readonly liveClicks: number;
  /** Largest |live − final| / final over advertisers (1 when final is 0 and live is not). */
  readonly driftMax: number;
  /** Digest over the names and checksums of the archive objects that the recount read. */
  readonly inputDigest: string;
}

/** The attempt in force for one UTC day, published when all its 24 hours are final. */
export interface DayState {
  readonly dayMs: number;
  readonly attempt: number;
}

export interface Restatement {
  readonly hourMs: number;
  readonly revision: number;
  readonly advertiserId: string;
  readonly adId: string;
  readonly before: number;
  readonly after: number;
  readonly cause: string;
  readonly atMs: number;
}

export interface DriftRow {
  readonly hourMs: number;
  readonly revision: number;
  readonly advertiserId: string;
  readonly live: number;
  readonly final: number;
}

export interface Publication {
  readonly hour: HourState;
  readonly day: DayState | null;
  readonly drift: readonly DriftRow[];
  readonly restatements: readonly Restatement[];
}

export type Granularity = 'minute' | 'hour' | 'day' | 'total';
export type GroupBy = 'ad' | 'campaign' | 'country' | 'device';

/** By bucket, then groups; or by clicks, rising or (`-`) falling, ties by bucket and groups. */
export type OrderBy = 'bucket' | 'clicks' | '-clicks';

/** Which rows a query is about: every list undefined means "no filter". */
export interface MetricsFilter {
  readonly advertiserId: string;
  readonly adIds: readonly string[] | undefined;
  readonly campaignIds: readonly string[] | undefined;
  readonly countries: readonly string[] | undefined;
  readonly devices: readonly string[] | undefined;
  /** Values that are left out; a filter and its exclusion partition what there is. */
  readonly adIdsNot?: readonly string[] | undefined;
  readonly campaignIdsNot?: readonly string[] | undefined;
  readonly countriesNot?: readonly string[] | undefined;
  readonly devicesNot?: readonly string[] | undefined;
  /** Half-open `[fromMs, toMs)`, whole minutes. */
  readonly fromMs: number;
  readonly toMs: number;
}

/** A validated query. */
export interface MetricsQuery extends MetricsFilter {
  readonly granularity: Granularity;
  /** IANA zone that days (and hours) are cut in. */
  readonly timezone: string;
  readonly groupBy: readonly GroupBy[];
  /** `bucket` when undefined. */
  readonly orderBy?: OrderBy | undefined;
  readonly limit: number;
  /** Position after the last row of the page before; undefined for the first page. */
  readonly after: readonly string[] | undefined;
}

export interface MetricsRow {
  /** ISO 8601 with offset; undefined for `total`. */
  readonly bucketStart: string | undefined;
  readonly adId: string | undefined;
  readonly campaignId: string | undefined;
  readonly country: string | undefined;
  readonly device: string | undefined;
  readonly clicks: number;
}

export interface MetricsPage {
  readonly rows: readonly MetricsRow[];
  readonly next: readonly string[] | undefined;
}

/** A sum that is kept beside the rows of an hour or day and is not their sum. */
export interface RollupDifference {
  readonly advertiserId: string;
  /** Empty where the roll-up sums over them. */
  readonly campaignId: string;
  readonly adId: string;
  readonly country: string;
  readonly device: string;
  readonly rows: number;
  readonly rollup: number;
}

export interface TopQuery extends MetricsFilter {
  readonly by: GroupBy;
  readonly limit: number;
}

export interface Top {
  /** Most clicks first, ties by value; only values with clicks. */
  readonly rows: readonly { readonly value: string; readonly clicks: number }[];
  /** Clicks of all values, also of those beyond the limit, from the same moment. */
  readonly total: number;
}

export interface Warehouse {
  /** Creates or migrates the tables; safe to repeat. */
  migrate(): Promise<void>;
  /** Upserts full counts (W2). `version` must rise with every call. */
  upsertLive(rows: readonly LiveRow[], version: number): Promise<void>;
  /**
   * Upserts the full counts of many shards at once: few large inserts, since each insert is a part that
   * the engine must merge. The versions of a shard must rise from call to call; up to 2^53 they are exact.
   */
  upsertLiveBatches(batches: readonly LiveBatch[]): Promise<void>;
  /** The highest version that any live row carries, or any of one shard; 0 when there is none. */
  maxLiveVersion(shard?: number): Promise<number>;
  /** Live clicks per advertiser of the hour `[hourMs, hourMs + 1 h)`. */
  liveTotals(hourMs: number): Promise<Map<string, number>>;
  /**
   * A number no earlier attempt for this hour or day has used, failed attempts included. Of what the
   * tables know as the highest number, `reserve` makes one that no other process is given; without it
   * only this process may ask.
   */
  nextAttempt(
    tier: 'hour' | 'day',
    startMs: number,
    reserve?: (highest: number) => Promise<number>,
  ): Promise<number>;
  /** Writes the minute and hour rows of one attempt (W3); rows all lie in the hour. */
  writeFinalHour(hourMs: number, attempt: number, rows: readonly FinalRow[]): Promise<void>;
  /**
   * Writes a day's rows by summing, per key, the hour rows whose attempts are given for each of its
   * 24 hours (an hour with no entry had no clicks).
   */
  writeFinalDay(
    dayMs: number,
    attempt: number,
    hourAttempts: ReadonlyMap<number, number>,
  ): Promise<void>;
  /** Writes a day's rows as they are given, for days whose hour rows may have expired. */
  writeDayRows(dayMs: number, attempt: number, rows: readonly FinalRow[]): Promise<void>;
  /** Throws LedgerError `publication_overtaken` when a later one is known here already (W5). */
  publish(publication: Publication): Promise<void>;
  /** Published hours in `[fromMs, toMs)`, latest revision each, ascending. */
  hours(fromMs: number, toMs: number): Promise<HourState[]>;
  /** Published days in `[fromMs, toMs)`, latest attempt each, ascending. */
  days(fromMs: number, toMs: number): Promise<DayState[]>;
  restatements(
    fromMs: number,
    toMs: number,
    advertiserId: string | undefined,
  ): Promise<Restatement[]>;
  /** Drift rows of published revisions of hours in `[fromMs, toMs)`, by hour, revision, advertiser. */
  drift(fromMs: number, toMs: number, advertiserId: string | undefined): Promise<DriftRow[]>;
  /** Final minute rows in force for an hour, summed per key, in key order. */
  finalRows(hourMs: number): Promise<FinalRow[]>;
  /** Rows in force of one hour or UTC day of that tier, in key order; `minuteMs` is its start. */
  tierRows(tier: 'hour' | 'day', startMs: number): Promise<FinalRow[]>;
  /** Roll-ups in force that differ from the rows in force of that hour or UTC day; there are none. */
  rollupDifferences(tier: 'hour' | 'day', startMs: number): Promise<RollupDifference[]>;
  /** Live rows of `[fromMs, toMs)`, latest version each, shards summed, in key order. */
  liveRows(fromMs: number, toMs: number): Promise<FinalRow[]>;
  /** Answers a query: final rows for hours before `finalUntilMs`, live rows after it. */
  metrics(query: MetricsQuery, finalUntilMs: number): Promise<MetricsPage>;
  /** The values with the most clicks, out of the same rows as `metrics`. */
  top(query: TopQuery, finalUntilMs: number): Promise<Top>;
  /**
   * Reads again which attempts are in force, also after a `reset` elsewhere; for a process that is not
   * the only one to publish. Costs one small read while nothing has changed.
   */
  refresh(): Promise<void>;
  /** Removes every row and state (for `rebuild`). */
  reset(): Promise<void>;
  close(): Promise<void>;
}
