/** The answers of the API that the console reads, as `docs/api.md` describes them. */

export interface Me {
  readonly token_id: string;
  readonly scope: 'read' | 'admin';
  readonly advertiser_id: string | null;
  readonly expires_at: string | null;
  readonly version: string;
}

/** What answers about a range have in common. */
export interface RangeFrame {
  readonly from: string;
  readonly to: string;
  readonly timezone: string;
  readonly final_until: string | null;
  readonly as_of: string;
}

export interface MetricsRow {
  readonly bucket_start: string;
  readonly clicks: number;
  readonly final: boolean;
}

export interface MetricsAnswer extends RangeFrame {
  readonly granularity: 'minute' | 'hour' | 'day' | 'total';
  readonly rows: readonly MetricsRow[];
  readonly next_cursor: string | null;
}

export type Dimension = 'campaign' | 'country' | 'device' | 'ad';

export interface TopRow {
  readonly rank: number;
  readonly ad_id?: string;
  readonly campaign_id?: string;
  readonly country?: string;
  readonly device?: string;
  readonly clicks: number;
  readonly share: number | null;
}

export interface TopAnswer extends RangeFrame {
  readonly rows: readonly TopRow[];
  readonly total: number;
  readonly final: boolean;
}

export type Outcome = 'counted' | 'duplicate' | 'not_billable' | 'invalid';

export interface RawClick {
  readonly impression_id: string;
  readonly clicked_at: string;
  readonly country: string;
  readonly device: string;
  readonly class: string;
  readonly outcome: Outcome;
  readonly ip: string | null;
  readonly user_agent: string | null;
  readonly referer: string | null;
  readonly final: boolean;
  readonly evidence: {
    readonly object: string;
    readonly partition: number;
    readonly offset: number;
    readonly appended_at: string;
  };
  readonly duplicate_of: { readonly partition: number; readonly offset: number } | null;
  readonly verdict: {
    readonly valid: boolean;
    readonly reason: string;
    readonly at: string;
  } | null;
}

export interface RawClicksAnswer extends Omit<RangeFrame, 'as_of'> {
  readonly clicks: readonly RawClick[];
  readonly archived_until: string | null;
  readonly next_cursor: string | null;
}

export interface Hour {
  readonly hour_start: string;
  readonly state?: 'final' | 'waiting' | 'open' | 'stuck';
  readonly revision: number | null;
  readonly final_at: string | null;
  readonly records?: number | null;
  readonly counted?: number | null;
  readonly live_clicks?: number | null;
  readonly drift_max?: number | null;
  readonly cause?: string | null;
  readonly reason?: string | null;
  /** Of the own advertiser; null for an hour that is not final, or without clicks. */
  readonly drift?: { readonly live: number; readonly final: number } | null;
}

export interface Restatement {
  readonly hour_start: string;
  readonly revision: number;
  /** Left out where it is clear. */
  readonly advertiser_id?: string;
  readonly ad_id?: string;
  readonly before: number;
  readonly after: number;
  readonly cause: string;
  readonly at: string;
}

export interface Dispute {
  readonly id: string;
  readonly state: 'open' | 'resolved' | 'withdrawn';
  readonly advertiser_id: string;
  readonly ad_id: string;
  readonly from: string;
  readonly to: string;
  readonly timezone: string;
  readonly reason: string;
  readonly opened_at: string;
  readonly closed_at: string | null;
  readonly resolution: 'upheld' | 'rejected' | null;
  readonly history: readonly DisputeStep[];
}

export interface DisputeStep {
  readonly step: string;
  readonly by: string;
  readonly at: string;
  readonly note: string;
  readonly verdicts: number;
}

/** A part that cannot be had any more is null, and named in `missing`. */
export interface DisputeBundle {
  readonly final: boolean;
  readonly rows: readonly MetricsRow[] | null;
  readonly total: number | null;
  readonly restatements: readonly Restatement[];
  readonly outcomes: Readonly<Record<Outcome, number>> | null;
  readonly missing: readonly { readonly part: string; readonly detail: string }[];
}

export interface StatementFile {
  readonly url: string;
  readonly sha256: string;
  readonly size_bytes: number;
}

export interface Statement {
  readonly id: string;
  readonly version: number;
  readonly latest_version: number;
  readonly supersedes: number | null;
  readonly advertiser_id: string;
  readonly from: string;
  readonly to: string;
  readonly timezone: string;
  readonly rows: number;
  readonly clicks: number;
  readonly created_at: string;
  readonly files: { readonly csv: StatementFile; readonly parquet: StatementFile };
}
