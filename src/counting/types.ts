/** The words counting speaks. `counting/` imports nothing else of the project. */

/** Where every logged record ends. In the stream `invalid` does not occur: verdicts act at the recount. */
export const OUTCOMES = [
  'counted',
  'duplicate',
  'late',
  'invalid',
  'not_billable',
  'dead_letter',
] as const;
export type Outcome = (typeof OUTCOMES)[number];
/** Records by where they ended. */
export type OutcomeTotals = Record<Outcome, number>;

export function noOutcomes(): OutcomeTotals {
  return Object.fromEntries(OUTCOMES.map((outcome) => [outcome, 0])) as OutcomeTotals;
}

/**
 * One record as counting sees it. Reused by the caller for every record: counting copies what it
 * keeps, and never holds on to the object.
 */
export interface CountingRecord {
  /** Log partition and offset: names the record and breaks ties. */
  partition: number;
  offset: number;
  /** The shard its row belongs to: the partition in the stream, 0 in the recount. */
  shard: number;
  clickedAtMs: number;
  /** Whether its class can be billed. */
  billable: boolean;
  /** 96-bit hash of the impression id. */
  hash0: number;
  hash1: number;
  hash2: number;
  /** Advertiser, campaign, ad, country and device, encoded; equal keys are the same row. */
  rowKey: string;
}

/** A record to be filled and reused. */
export function emptyRecord(): CountingRecord {
  return {
    partition: 0,
    offset: 0,
    shard: 0,
    clickedAtMs: 0,
    billable: false,
    hash0: 0,
    hash1: 0,
    hash2: 0,
    rowKey: '',
  };
}

/** A minute row being counted. */
export interface OpenRow {
  /** Rises with every row ever opened; a claim names its row by it. */
  readonly id: number;
  readonly shard: number;
  /** Start of the minute, ms UTC. */
  readonly minuteMs: number;
  readonly rowKey: string;
  /** The full count. */
  clicks: number;
  /** Whether it waits to be handed over as changed. */
  isChanged: boolean;
}

export interface CountingOptions {
  /** A later record of an impression within this time is a duplicate; Infinity in the recount. */
  readonly dedupWindowMs: number;
  readonly watermarkLagMs: number;
  /** How long after its end a minute takes clicks; Infinity in the recount. */
  readonly latenessMs: number;
  /** Most claims held; beyond it the oldest are forgotten and counted in `forgotten`. */
  readonly maxClaims: number;
}
