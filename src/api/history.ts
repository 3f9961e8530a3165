/**
 * `GET /v1/hours` and `GET /v1/restatements`: how far each hour is, and which final numbers changed.
 *
 * An hour is `open` while it still takes clicks on time, `waiting` until its recount may begin and has
 * its proof, `stuck` when it cannot turn final for a reason, `final` when its numbers are billed.
 */
import type { Context } from 'hono';
import { z } from 'zod';
import { LedgerError } from '../platform/errors.ts';
import type { StuckHour } from '../reconcile/reconciler.ts';
import { DAY_MS, floorTo, formatInZone, HOUR_MS } from '../warehouse/buckets.ts';
import type { DriftRow, HourState, Restatement, Warehouse } from '../warehouse/port.ts';
import type { ApiEnv } from './app.ts';
import { advertiserOf } from './auth.ts';
import { INTERVAL, instantOrNull } from './metrics-format.ts';
import { id, timeZone } from './metrics-request.ts';
import type { Operation } from './operation.ts';
import { listOf, parseParameters, rawParameters, text } from './parameters.ts';
import { Problem } from './problem.ts';
import { parseRange, type Range } from './time.ts';

/** What is known about hours that are not final yet. */
export interface Finality {
  readonly clock: () => number;
  /** How long after its end an hour takes clicks on time, and how long its recount waits after that. */
  readonly latenessMs: number;
  readonly delayMs: number;
  readonly stuck: () => StuckHour | null;
  /** Append time through which every partition is archived without a hole. */
  readonly coveredUntilMs: () => Promise<number>;
  /** Stretches of time in which the stream has lost clicks that the log did not keep long enough. */
  readonly liveGaps?: () => readonly LiveGap[];
}

/** Half-open, ms UTC. */
export interface LiveGap {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface HistoryParts {
  readonly warehouse: Pick<Warehouse, 'hours' | 'restatements' | 'drift'>;
  readonly finalUntilMs: () => number;
  readonly finality: Finality;
}

/** These answers have no pages, so the range is what bounds them. */
const MAX_RANGE_DAYS = 93;
const MAX_AD_IDS = 1_000;

const hoursSchema = z.strictObject({
  advertiser_id: id
    .optional()
    .describe('With an admin token: adds the drift of this advertiser to each hour.'),
  from: text('where the range begins').describe('Where the range begins.'),
  to: text('where the range ends; not part of it').describe(
    `Where it ends; not part of it. At most ${MAX_RANGE_DAYS} days.`,
  ),
  timezone: timeZone.describe('IANA zone of times without an offset.'),
});
export const restatementsSchema = z.strictObject({
  ...hoursSchema.shape,
  ad_id: listOf(id, MAX_AD_IDS, 'ad ids').optional(),
});

interface HistoryRequest extends Range {
  readonly timezone: string;
  readonly advertiserId: string | undefined;
}

export async function answerHours(parts: HistoryParts, c: Context<ApiEnv>): Promise<Response> {
  const params = parseParameters(hoursSchema, await rawParameters(c));
  const request = historyRequest(c, params);
  const isAdmin = c.get('principal').scope === 'admin';
  const context = await hoursContext(parts, request, isAdmin);
  const hours: object[] = [];
  for (let ms = firstHour(request.fromMs); ms < request.toMs; ms += HOUR_MS) {
    hours.push(hourRow(parts.finality, context, ms));
  }
  return c.json({ hours, ...frame(context.finalUntilMs, request) });
}

interface HoursContext {
  readonly finalUntilMs: number;
  readonly nowMs: number;
  readonly states: ReadonlyMap<number, HourState>;
  readonly stuck: StuckHour | null;
  /** Null when nobody can tell, or is told. */
  readonly coveredUntilMs: number | null;
  /** Rows of one advertiser, by hour and revision; null when none is asked for. */
  readonly drift: ReadonlyMap<string, DriftRow> | null;
  readonly isAdmin: boolean;
}

async function hoursContext(
  { warehouse, finalUntilMs, finality }: HistoryParts,
  { fromMs, toMs, advertiserId }: HistoryRequest,
  isAdmin: boolean,
): Promise<HoursContext> {
  const coveredUntilMs = isAdmin ? await coverage(finality) : null;
  const drift =
    advertiserId === undefined ? null : await warehouse.drift(fromMs, toMs, advertiserId);
  const states = await warehouse.hours(fromMs, toMs);
  return {
    finalUntilMs: finalUntilMs(),
    nowMs: finality.clock(),
    states: new Map(states.map((state) => [state.hourMs, state])),
    stuck: finality.stuck(),
    coveredUntilMs,
    drift: drift && new Map(drift.map((row) => [`${row.hourMs}/${row.revision}`, row])),
    isAdmin,
  };
}

/** What keeps it from being told is what keeps hours from turning final: `stuck` says it. */
async function coverage({ coveredUntilMs }: Finality): Promise<number | null> {
  try {
    return await coveredUntilMs();
  } catch (error) {
    if (!(error instanceof LedgerError)) throw error;
    return null;
  }
}

function firstHour(fromMs: number): number {
  const startMs = floorTo(fromMs, HOUR_MS);
  return startMs < fromMs ? startMs + HOUR_MS : startMs;
}

/** An hour before the first click has no state and is final all the same: nothing is counted in it. */
function hourRow(finality: Finality, context: HoursContext, hourMs: number): object {
  const { states, drift, isAdmin } = context;
  const hour = states.get(hourMs);
  const state = hourMs < context.finalUntilMs ? 'final' : pendingState(finality, context, hourMs);
  const own = drift?.get(`${hourMs}/${hour?.revision}`);
  const dueAtMs = hourMs + HOUR_MS + finality.latenessMs + finality.delayMs;
  return {
    hour_start: instantOrNull(hourMs),
    state,
    revision: hour?.revision ?? null,
    final_at: instantOrNull(hour?.finalAtMs ?? 0),
    due_at: state === 'final' ? null : instantOrNull(dueAtMs),
    ...(state !== 'final' && isIncomplete(finality, hourMs) ? { live_incomplete: true } : {}),
    ...(drift === null ? {} : { drift: own ? { live: own.live, final: own.final } : null }),
    ...(isAdmin ? operatorPart(context, hourMs, state) : {}),
  };
}

/** Its live numbers lack clicks; the archive has them, and the recount will count them. */
function isIncomplete({ liveGaps }: Finality, hourMs: number): boolean {
  const gaps = liveGaps?.() ?? [];
  return gaps.some(({ fromMs, toMs }) => fromMs < hourMs + HOUR_MS && toMs > hourMs);
}

function pendingState(
  { latenessMs }: Finality,
  { nowMs, stuck }: HoursContext,
  hourMs: number,
): 'open' | 'waiting' | 'stuck' {
  if (stuck?.hourMs === hourMs) return 'stuck';
  return nowMs < hourMs + HOUR_MS + latenessMs ? 'open' : 'waiting';
}

/** Records and drift of an hour are sums over all advertisers. */
function operatorPart(context: HoursContext, hourMs: number, state: string): object {
  const { states, stuck, coveredUntilMs } = context;
  const hour = states.get(hourMs);
  return {
    cause: hour?.cause ?? null,
    records: hour?.records ?? null,
    counted: hour?.counted ?? null,
    duplicate: hour?.duplicate ?? null,
    not_billable: hour?.notBillable ?? null,
    invalid: hour?.invalid ?? null,
    live_clicks: hour?.liveClicks ?? null,
    drift_max: hour?.driftMax ?? null,
    input_digest: hour?.inputDigest ?? null,
    coverage: state === 'final' ? null : { covered_until: instantOrNull(coveredUntilMs ?? 0) },
    // A final hour can have one too: a change to it that cannot be taken up.
    reason: stuck?.hourMs === hourMs ? `${stuck.code}: ${stuck.reason}` : null,
  };
}

export async function answerRestatements(
  parts: HistoryParts,
  c: Context<ApiEnv>,
): Promise<Response> {
  const params = parseParameters(restatementsSchema, await rawParameters(c));
  const request = historyRequest(c, params);
  const { fromMs, toMs, advertiserId } = request;
  const rows = await parts.warehouse.restatements(fromMs, toMs, advertiserId);
  const ads = params.ad_id === undefined ? null : new Set(params.ad_id);
  const restatements = rows.filter(({ adId }) => ads === null || ads.has(adId)).map(restatement);
  return c.json({ restatements, ...frame(parts.finalUntilMs(), request) });
}

function historyRequest(c: Context<ApiEnv>, params: z.infer<typeof hoursSchema>): HistoryRequest {
  const range = parseRange(params.from, params.to, params.timezone);
  if (range.toMs - range.fromMs > MAX_RANGE_DAYS * DAY_MS) {
    throw new Problem(400, 'range_too_long', `A range has at most ${MAX_RANGE_DAYS} days here.`, {
      hint: 'Ask in several ranges: [a, b) and [b, c) add up exactly.',
    });
  }
  const advertiserId = advertiserOf(c.get('principal'), params.advertiser_id);
  return { ...range, timezone: params.timezone, advertiserId };
}

function frame(finalUntilMs: number, { fromMs, toMs, timezone }: HistoryRequest): object {
  return {
    final_until: instantOrNull(finalUntilMs),
    from: formatInZone(fromMs, timezone),
    to: formatInZone(toMs, timezone),
    interval: INTERVAL,
    timezone,
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

const instant = z.string().nullable();
const count = z.int().nullable();

export const HOURS_OPERATION: Operation = {
  method: 'GET',
  path: '/v1/hours',
  tag: 'Final hours',
  summary: 'Every UTC hour that starts in the range, and how far it is',
  description:
    '`open`: it still takes clicks on time. `waiting`: closed; its delay runs, or the archive does not cover it yet. `stuck`: it cannot turn final for a reason. `final`: its numbers are billed.',
  scope: 'read',
  query: hoursSchema,
  answers: [
    {
      status: 200,
      description: 'The hours, ascending.',
      content: [
        {
          type: 'application/json',
          schema: z.object({
            hours: z.array(
              z.object({
                hour_start: z.string(),
                state: z.enum(['open', 'waiting', 'stuck', 'final']),
                revision: count.describe('Null until final, and where nothing was logged.'),
                final_at: instant.describe('When that revision was made.'),
                due_at: instant.describe('When it turns final at the earliest; null when it is.'),
                live_incomplete: z
                  .literal(true)
                  .optional()
                  .describe('Its live numbers lack clicks that only the recount will count.'),
                drift: z
                  .object({ live: z.int(), final: z.int() })
                  .nullable()
                  .optional()
                  .describe('Of the token’s advertiser, when that revision was made.'),
                cause: z.string().nullable().optional().describe('From here on: admin tokens.'),
                records: count.optional(),
                counted: count.optional(),
                duplicate: count.optional(),
                not_billable: count.optional(),
                invalid: count.optional(),
                live_clicks: count.optional(),
                drift_max: z.number().nullable().optional(),
                input_digest: z.string().nullable().optional(),
                coverage: z
                  .object({ covered_until: instant })
                  .nullable()
                  .optional()
                  .describe('Up to when the log is archived without a hole; null when final.'),
                reason: z.string().nullable().optional().describe('Why it is stuck.'),
              }),
            ),
            final_until: instant,
            from: z.string(),
            to: z.string(),
            interval: z.literal('[from,to)'),
            timezone: z.string(),
          }),
        },
      ],
    },
    { status: 400, description: '`parameters_invalid`, `range_empty`, `range_too_long`' },
    { status: 403, description: '`advertiser_forbidden`' },
  ],
};
