/**
 * `GET /v1/ads/{ad_id}/clicks`: the raw archived clicks of an ad as evidence.
 *
 * No catalog is asked: another's ad and a missing ad have no clicks, and take the same work.
 */
import type { Context } from 'hono';
import { z } from 'zod';
import { quoted } from '../platform/row-types.ts';
import type {
  Evidence,
  EvidenceClick,
  EvidencePosition,
  EvidenceQuery,
} from '../reconcile/evidence.ts';
import { DAY_MS, formatInZone } from '../warehouse/buckets.ts';
import { instantText, json, nextCursor, nullableInstant } from './answers.ts';
import type { ApiEnv } from './app.ts';
import { advertiserOf } from './auth.ts';
import { decodeClicksCursor, encodeClicksCursor } from './clicks-cursor.ts';
import { INTERVAL, instantOrNull } from './metrics-format.ts';
import { id, timeZone } from './metrics-request.ts';
import type { ApiFeature, Operation } from './operation.ts';
import { parseParameters, rawParameters, text, wholeNumber } from './parameters.ts';
import { Problem, parameterProblem } from './problem.ts';
import { parseRange } from './time.ts';

export interface ClicksParts {
  readonly evidence: Pick<Evidence, 'clicks'>;
  readonly finalUntilMs: () => number;
  /** Append time up to which the archive has every click; null when it cannot be told just now. */
  readonly archivedUntilMs: () => Promise<number | null>;
}

const MAX_RANGE_DAYS = 93;
const MAX_LIMIT = 1_000;

const schema = z.strictObject({
  from: text('where the range begins').describe('Start of the range, by `clicked_at`.'),
  to: text('where the range ends; not part of it').describe('End of the range; not part of it.'),
  timezone: timeZone.describe('IANA zone in which times without an offset are read.'),
  advertiser_id: id.optional().describe('With an admin token: only clicks of this advertiser.'),
  limit: wholeNumber(1, MAX_LIMIT).default(100).describe('Most clicks of a page.'),
  cursor: text('the next_cursor of the page before')
    .optional()
    .describe('The `next_cursor` of the page before.'),
});

const place = z.object({ partition: z.int(), offset: z.int() });
const click = z.object({
  impression_id: z.string(),
  clicked_at: instantText,
  ad_id: z.string(),
  campaign_id: z.string(),
  country: z.string(),
  device: z.string(),
  class: z.string().describe('`click` is billed; `head`, `prefetch` and `preview` are not.'),
  outcome: z.enum(['counted', 'duplicate', 'not_billable', 'invalid']),
  source: z.string(),
  ip: z.string().describe('As stored: whole, truncated, or empty.'),
  user_agent: z.string(),
  referer: z.string(),
  final: z.boolean().describe('Whether the outcome is that of the final number.'),
  evidence: z
    .object({ object: z.string(), ...place.shape, appended_at: instantText })
    .describe('Where the record lies in the archive and in the log.'),
  duplicate_of: place
    .nullable()
    .describe('The record that counts instead; null also when that lies in an earlier hour.'),
  verdict: z.object({ valid: z.boolean(), reason: z.string(), at: instantText }).nullable(),
});

const OPERATION: Operation = {
  method: 'GET',
  path: '/v1/ads/{ad_id}/clicks',
  tag: 'Evidence',
  summary: 'The raw clicks of an ad, each with its outcome and where it lies.',
  description:
    'Ordered by hour, partition and offset. A page may hold fewer clicks than its limit, or none: go on until `next_cursor` is null. ' +
    'In final hours as many clicks are `counted` as the final rows have.',
  scope: 'read',
  query: schema,
  answers: [
    json(200, 'A page of clicks.', {
      clicks: z.array(click),
      archived_until: nullableInstant.describe('Clicks logged before it are in the archive.'),
      final_until: nullableInstant,
      from: instantText,
      to: instantText,
      interval: z.literal(INTERVAL),
      timezone: z.string(),
      next_cursor: nextCursor,
    }),
  ],
};

export function clicksFeature(parts: ClicksParts): ApiFeature {
  return {
    operations: [OPERATION],
    add(app) {
      app.get('/v1/ads/:ad_id/clicks', async (c) => {
        const { query, timezone } = await queryOf(c);
        const page = await parts.evidence.clicks(query);
        return c.json({
          clicks: page.clicks.map(shown),
          archived_until: instantOrNull((await parts.archivedUntilMs()) ?? 0),
          final_until: instantOrNull(parts.finalUntilMs()),
          from: formatInZone(query.fromMs, timezone),
          to: formatInZone(query.toMs, timezone),
          interval: INTERVAL,
          timezone,
          next_cursor: page.next === null ? null : encodeClicksCursor(query, page.next),
        });
      });
    },
  };
}

async function queryOf(
  c: Context<ApiEnv, '/v1/ads/:ad_id/clicks'>,
): Promise<{ query: EvidenceQuery; timezone: string }> {
  const adId = id.safeParse(c.req.param('ad_id'));
  if (!adId.success) {
    const message = `${quoted(c.req.param('ad_id'))} is no id of an ad.`;
    throw parameterProblem([{ parameter: 'ad_id', message }]);
  }
  const params = parseParameters(schema, await rawParameters(c));
  const range = parseRange(params.from, params.to, params.timezone);
  if (range.toMs - range.fromMs > MAX_RANGE_DAYS * DAY_MS) {
    throw new Problem(400, 'range_too_long', `A range has at most ${MAX_RANGE_DAYS} days here.`, {
      hint: 'Ask in several ranges: [a, b) and [b, c) add up exactly.',
    });
  }
  const advertiserId = advertiserOf(c.get('principal'), params.advertiser_id);
  const wanted = { adId: adId.data, advertiserId, ...range };
  const after: EvidencePosition | undefined =
    params.cursor === undefined ? undefined : decodeClicksCursor(wanted, params.cursor);
  return { query: { ...wanted, limit: params.limit, after }, timezone: params.timezone };
}

function shown(each: EvidenceClick): object {
  const { verdict } = each;
  return {
    impression_id: each.impressionId,
    clicked_at: iso(each.clickedAtMs),
    ad_id: each.adId,
    campaign_id: each.campaignId,
    country: each.country,
    device: each.device,
    class: each.class,
    outcome: each.outcome,
    source: each.source,
    ip: each.ip,
    user_agent: each.userAgent,
    referer: each.referer,
    final: each.isFinal,
    evidence: {
      object: each.object,
      partition: each.partition,
      offset: each.offset,
      appended_at: iso(each.appendedAtMs),
    },
    duplicate_of: each.duplicateOf,
    verdict:
      verdict === null
        ? null
        : { valid: verdict.valid, reason: verdict.reason, at: iso(verdict.atMs) },
  };
}

function iso(timeMs: number): string {
  return new Date(timeMs).toISOString();
}
