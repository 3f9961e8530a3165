/**
 * What is shown beside a dispute: everything that the ledger knows of the ad's clicks in its range.
 *
 * The parts are read at the time of asking. One that can not be had any more (rows that have expired,
 * a damaged object, too many clicks to read) is left out and named in `missing`: an old dispute stays
 * readable.
 */
import type { Principal } from '../auth/tokens.ts';
import type { Dispute } from '../disputes/port.ts';
import { LedgerError } from '../platform/errors.ts';
import { bucketsOf, floorTo, formatInZone, HOUR_MS } from '../warehouse/buckets.ts';
import type { Warehouse } from '../warehouse/port.ts';
import { instantOrNull } from './metrics-format.ts';

export interface ClickOutcomes {
  readonly counted: number;
  readonly duplicate: number;
  readonly not_billable: number;
  readonly invalid: number;
}

export interface BundleParts {
  readonly warehouse: Pick<Warehouse, 'metrics' | 'hours' | 'restatements'>;
  readonly finalUntilMs: () => number;
  /** Outcomes of the ad's archived clicks in a range. */
  readonly outcomes?: (which: {
    readonly advertiserId: string;
    readonly adId: string;
    readonly fromMs: number;
    readonly toMs: number;
  }) => Promise<ClickOutcomes>;
}

interface Missing {
  readonly part: 'rows' | 'outcomes';
  readonly code: string;
  readonly detail: string;
}

/** More than the hours of the longest range, which half hours at both ends can make one more. */
const MAX_ROWS = 10_000;
/** Raw clicks of everybody in the range's final hours: they are all read, in a few seconds. */
const MAX_READ_RECORDS = 5_000_000;

export async function bundleOf(
  parts: BundleParts,
  dispute: Dispute,
  reader: Principal,
): Promise<object> {
  const { warehouse } = parts;
  const { advertiserId, adId, fromMs, toMs } = dispute;
  const missing: Missing[] = [];
  const orMissing = async <T>(part: Missing['part'], read: () => Promise<T>): Promise<T | null> => {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof LedgerError) || error.kind === 'retry') throw error;
      missing.push({ part, code: error.code, detail: error.message });
      return null;
    }
  };
  const finalUntilMs = parts.finalUntilMs();
  const rows = await orMissing('rows', () => hourRows(parts, dispute, finalUntilMs));
  const firstHourMs = floorTo(fromMs, HOUR_MS);
  const hours = await warehouse.hours(firstHourMs, toMs);
  const records = hours.reduce((sum, hour) => sum + hour.records, 0);
  const { outcomes } = parts;
  const counts =
    outcomes === undefined
      ? null
      : await orMissing('outcomes', async () => {
          requireReadable(records, reader);
          return outcomes({ advertiserId, adId, fromMs, toMs });
        });
  const restatements = await warehouse.restatements(firstHourMs, toMs, advertiserId);
  return {
    final: toMs <= finalUntilMs,
    final_until: instantOrNull(finalUntilMs),
    rows: rows ?? [],
    total: rows?.reduce((sum, { clicks }) => sum + clicks, 0) ?? null,
    hours: hours.map(({ hourMs, revision, finalAtMs }) => ({
      hour_start: instantOrNull(hourMs),
      revision,
      final_at: instantOrNull(finalAtMs),
    })),
    restatements: restatements
      .filter((row) => row.adId === adId)
      .map(({ hourMs, revision, before, after, cause, atMs }) => ({
        hour_start: instantOrNull(hourMs),
        revision,
        advertiser_id: advertiserId,
        ad_id: adId,
        before,
        after,
        cause,
        at: instantOrNull(atMs),
      })),
    outcomes: counts,
    clicks_url: clicksUrl(dispute, reader),
    missing,
  };
}

/** How many clicks everybody has is the operator's to know. */
function requireReadable(records: number, { scope }: Principal): void {
  if (records <= MAX_READ_RECORDS) return;
  const many = scope === 'admin' ? `${records} archived clicks, more` : 'more archived clicks';
  throw new LedgerError(
    'outcomes_too_many',
    `The hours of the range have ${many} than are read at once; clicks_url has them page by page.`,
  );
}

interface HourRow {
  readonly bucket_start: string;
  readonly clicks: number;
  readonly final: boolean;
}

/** By local hour, as the metrics API has them; an hour is final as far as the range holds it. */
async function hourRows(
  { warehouse }: BundleParts,
  { advertiserId, adId, fromMs, toMs, timezone }: Dispute,
  finalUntilMs: number,
): Promise<HourRow[]> {
  const query = {
    advertiserId,
    adIds: [adId],
    campaignIds: undefined,
    countries: undefined,
    devices: undefined,
    fromMs,
    toMs,
    granularity: 'hour',
    timezone,
    groupBy: [],
    limit: MAX_ROWS,
    after: undefined,
  } as const;
  const { rows } = await warehouse.metrics(query, finalUntilMs);
  const buckets = bucketsOf('hour', timezone, fromMs, toMs);
  const ends = new Map<string, number>();
  for (let index = 0; index < buckets.count; index++) {
    ends.set(formatInZone(buckets.startMs(index), timezone), buckets.startMs(index + 1));
  }
  return rows.map(({ bucketStart, clicks }) => {
    const endMs = Math.min(toMs, ends.get(bucketStart!) ?? toMs);
    return { bucket_start: bucketStart!, clicks, final: endMs <= finalUntilMs };
  });
}

function clicksUrl(dispute: Dispute, reader: Principal): string {
  const query = new URLSearchParams({
    from: new Date(dispute.fromMs).toISOString(),
    to: new Date(dispute.toMs).toISOString(),
    timezone: dispute.timezone,
    ...(reader.scope === 'admin' ? { advertiser_id: dispute.advertiserId } : {}),
  });
  return `/v1/ads/${encodeURIComponent(dispute.adId)}/clicks?${query}`;
}
