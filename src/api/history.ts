/** `GET /v1/hours` and `GET /v1/restatements`: which numbers are final, and which final ones changed. */
import type { Context } from 'hono';
import { z } from 'zod';
import { DAY_MS, formatInZone } from '../warehouse/buckets.ts';
import type { HourState, Restatement, Warehouse } from '../warehouse/port.ts';
import type { ApiEnv } from './app.ts';
import { advertiserOf } from './auth.ts';
import { INTERVAL, instantOrNull } from './metrics-format.ts';
import { id, timeZone } from './metrics-request.ts';
import { parseParameters, rawParameters, text } from './parameters.ts';
import { Problem } from './problem.ts';
import { parseRange, type Range } from './time.ts';

export interface HistoryParts {
  readonly warehouse: Pick<Warehouse, 'hours' | 'restatements'>;
  readonly finalUntilMs: () => number;
}

/** These answers have no pages, so the range is what bounds them. */
const MAX_RANGE_DAYS = 93;

const schema = z.strictObject({
  advertiser_id: id.optional(),
  from: text('where the range begins'),
  to: text('where the range ends; not part of it'),
  timezone: timeZone,
});

interface HistoryRequest extends Range {
  readonly timezone: string;
  readonly advertiserId: string | undefined;
}

export async function answerHours(parts: HistoryParts, c: Context<ApiEnv>): Promise<Response> {
  const request = await historyRequest(c);
  const hours = await parts.warehouse.hours(request.fromMs, request.toMs);
  // Records and drift of an hour are sums over all advertisers.
  const shown = c.get('principal').scope === 'admin' ? wholeHour : ownHour;
  return c.json({ hours: hours.map(shown), ...frame(parts, request) });
}

export async function answerRestatements(
  parts: HistoryParts,
  c: Context<ApiEnv>,
): Promise<Response> {
  const request = await historyRequest(c);
  const { fromMs, toMs, advertiserId } = request;
  const restatements = await parts.warehouse.restatements(fromMs, toMs, advertiserId);
  return c.json({ restatements: restatements.map(restatement), ...frame(parts, request) });
}

async function historyRequest(c: Context<ApiEnv>): Promise<HistoryRequest> {
  const params = parseParameters(schema, await rawParameters(c));
  const range = parseRange(params.from, params.to, params.timezone);
  if (range.toMs - range.fromMs > MAX_RANGE_DAYS * DAY_MS) {
    throw new Problem(400, 'range_too_long', `A range has at most ${MAX_RANGE_DAYS} days here.`, {
      hint: 'Ask in several ranges: [a, b) and [b, c) add up exactly.',
    });
  }
  const advertiserId = advertiserOf(c.get('principal'), params.advertiser_id);
  return { ...range, timezone: params.timezone, advertiserId };
}

function frame(parts: HistoryParts, { fromMs, toMs, timezone }: HistoryRequest): object {
  return {
    final_until: instantOrNull(parts.finalUntilMs()),
    from: formatInZone(fromMs, timezone),
    to: formatInZone(toMs, timezone),
    interval: INTERVAL,
    timezone,
  };
}

function ownHour(hour: HourState): object {
  return {
    hour_start: instantOrNull(hour.hourMs),
    revision: hour.revision,
    final_at: instantOrNull(hour.finalAtMs),
  };
}

function wholeHour(hour: HourState): object {
  return {
    ...ownHour(hour),
    cause: hour.cause,
    records: hour.records,
    counted: hour.counted,
    duplicate: hour.duplicate,
    not_billable: hour.notBillable,
    invalid: hour.invalid,
    live_clicks: hour.liveClicks,
    drift_max: hour.driftMax,
    input_digest: hour.inputDigest,
  };
}

function restatement(row: Restatement): object {
  return {
    hour_start: instantOrNull(row.hourMs),
    revision: row.revision,
    advertiser_id: row.advertiserId,
    ad_id: row.adId,
    before: row.before,
    after: row.after,
    cause: row.cause,
    at: instantOrNull(row.atMs),
  };
}
