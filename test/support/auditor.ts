/**
 * The auditor: a slow, obvious second opinion on what is counted.
 *
 * Shares no code with `src/counting` and knows no hashes, slots, batches or crash points: it looks at
 * whole logs, sorts, and says what the rows and the outcomes must be. What stream and recount have in
 * common can be wrong in both; the auditor is what can disagree with them.
 *
 * Predicts a partition's lateness from its own log order, and dedup from the times alone. So it holds
 * for any order of reading partitions, as long as records of one impression that meet out of order
 * lie within the dedup window and their minutes are open.
 */
export interface AuditRecord {
  readonly partition: number;
  readonly offset: number;
  readonly impressionId: string;
  readonly clickedAtMs: number;
  readonly class: 'click' | 'head' | 'prefetch' | 'preview';
  /** Advertiser, campaign, ad, country and device, in any form that differs when one of them does. */
  readonly rowKey: string;
}

export interface AuditRules {
  readonly dedupWindowMs: number;
  readonly latenessMs: number;
  readonly watermarkLagMs: number;
  /** The stream keeps a row per partition (`partition`), the recount one for all (`none`). */
  readonly shards: 'partition' | 'none';
  /** Impressions that a verdict calls invalid: their click does not count, and uses them up. */
  readonly invalid?: ReadonlySet<string>;
}

export interface AuditOutcomes {
  counted: number;
  duplicate: number;
  late: number;
  not_billable: number;
  /** Only where verdicts were given. */
  invalid?: number;
}

export interface Audit {
  /** Clicks by `auditRowName`; rows without clicks are left out. */
  readonly rows: Map<string, number>;
  readonly outcomes: AuditOutcomes;
}

export function auditRowName(shard: number, minuteMs: number, rowKey: string): string {
  return JSON.stringify([shard, new Date(minuteMs).toISOString(), rowKey]);
}

/** `logs` holds each partition's records in log order. */
export function audit(logs: readonly (readonly AuditRecord[])[], rules: AuditRules): Audit {
  const outcomes: AuditOutcomes = { counted: 0, duplicate: 0, late: 0, not_billable: 0 };
  const candidates: AuditRecord[] = [];
  for (const log of logs) {
    let newestMs = Number.NEGATIVE_INFINITY;
    for (const record of log) {
      if (record.class !== 'click') outcomes.not_billable++;
      else if (isLate(record, newestMs, rules)) outcomes.late++;
      else candidates.push(record);
      newestMs = Math.max(newestMs, record.clickedAtMs);
    }
  }
  candidates.sort(
    (a, b) => a.clickedAtMs - b.clickedAtMs || a.partition - b.partition || a.offset - b.offset,
  );
  const rows = new Map<string, number>();
  const countedAtMs = new Map<string, number>();
  for (const record of candidates) {
    const earlierMs = countedAtMs.get(record.impressionId);
    if (earlierMs !== undefined && record.clickedAtMs - earlierMs < rules.dedupWindowMs) {
      outcomes.duplicate++;
      continue;
    }
    countedAtMs.set(record.impressionId, record.clickedAtMs);
    if (rules.invalid?.has(record.impressionId)) {
      outcomes.invalid = (outcomes.invalid ?? 0) + 1;
      continue;
    }
    outcomes.counted++;
    const shard = rules.shards === 'partition' ? record.partition : 0;
    const name = auditRowName(shard, startOfMinute(record.clickedAtMs), record.rowKey);
    rows.set(name, (rows.get(name) ?? 0) + 1);
  }
  return { rows, outcomes };
}

/** A minute is closed once the partition's newest time, minus the lag, reaches its end plus lateness. */
function isLate(record: AuditRecord, newestMs: number, rules: AuditRules): boolean {
  const minuteEndMs = startOfMinute(record.clickedAtMs) + 60_000;
  return newestMs - rules.watermarkLagMs >= minuteEndMs + rules.latenessMs;
}

function startOfMinute(timeMs: number): number {
  const date = new Date(timeMs);
  date.setUTCSeconds(0, 0);
  return date.getTime();
}
