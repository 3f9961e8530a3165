/**
 * Disputes as routes: an advertiser opens, reads and withdraws its own; an operator ends any.
 *
 * Another advertiser's dispute and a missing one give the same answer after the same look-up. No ad is
 * looked up: a dispute about an ad that does not exist, or is another's, shows no clicks.
 */
import type { Context } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { z } from 'zod';
import type { Principal } from '../auth/tokens.ts';
import type { Actor, Dispute, DisputePosition, Disputes } from '../disputes/port.ts';
import { LedgerError } from '../platform/errors.ts';
import { DAY_MS } from '../warehouse/buckets.ts';
import type { ApiApp, ApiEnv } from './app.ts';
import { advertiserOf, oneAdvertiserOf, requireAdmin } from './auth.ts';
import { type BundleParts, bundleOf } from './dispute-bundle.ts';
import { disputeJson } from './dispute-format.ts';
import { DISPUTE_OPERATIONS } from './dispute-operations.ts';
import { id, timeZone } from './metrics-request.ts';
import type { ApiFeature } from './operation.ts';
import {
  jsonObject,
  oneOf,
  parseParameters,
  rawParameters,
  text,
  wholeNumber,
} from './parameters.ts';
import { Problem } from './problem.ts';
import { parseRange } from './time.ts';

export interface DisputeRouteParts extends BundleParts {
  readonly disputes: Disputes;
}

const MAX_BODY_BYTES = 64 * 1024;
const MAX_RESOLVE_BYTES = 8 * 1024 * 1024;
const MAX_TEXT = 2_000;
const MAX_VERDICTS = 10_000;
const MAX_LIST = 1_000;
/** A bundle has a row per hour. */
const MAX_RANGE_DAYS = 93;

/** Text that somebody wrote, as it may be shown again: no control characters but line ends and tabs. */
const writtenText = (what: string) =>
  text(what)
    .trim()
    .min(1, `Missing: ${what}.`)
    .max(MAX_TEXT, `At most ${MAX_TEXT} characters.`)
    .refine((value) => value.isWellFormed() && !/[^\P{Cc}\n\r\t]/u.test(value), {
      error: 'Text without control characters.',
    });

const openSchema = z.strictObject({
  ad_id: id,
  from: text('where the range begins'),
  to: text('where the range ends; not part of it'),
  timezone: timeZone,
  reason: writtenText('what is wrong with the clicks'),
  advertiser_id: id.optional(),
});
const listSchema = z.strictObject({
  state: oneOf(['open', 'resolved', 'withdrawn']).optional(),
  ad_id: id.optional(),
  advertiser_id: id.optional(),
  limit: wholeNumber(1, MAX_LIST).default(100),
  cursor: text('the next_cursor of the page before').optional(),
});
const resolveSchema = z.strictObject({
  resolution: oneOf(['upheld', 'rejected', 'withdrawn']),
  note: writtenText('why it ends so; its advertiser reads it'),
  verdicts: z
    .array(z.record(z.string(), z.unknown()), { error: 'Give a list of verdicts.' })
    .max(MAX_VERDICTS, `At most ${MAX_VERDICTS}; more go to POST /v1/verdicts first.`)
    .default([]),
});
const withdrawSchema = z.strictObject({ note: writtenText('why it is withdrawn').optional() });

export function disputesFeature(parts: DisputeRouteParts): ApiFeature {
  return { operations: DISPUTE_OPERATIONS, add: (app) => addRoutes(app, parts) };
}

function addRoutes(app: ApiApp, parts: DisputeRouteParts): void {
  const limited = (maxSize: number) => bodyLimit({ maxSize, onError: () => refuseBody(maxSize) });
  app.post('/v1/disputes', limited(MAX_BODY_BYTES), (c) => open(parts, c));
  app.get('/v1/disputes', (c) => list(parts, c));
  app.get('/v1/disputes/:id', async (c) => {
    const principal = c.get('principal');
    const dispute = await parts.disputes.find(c.req.param('id'), ownerOf(principal));
    if (dispute === null) throw unknown();
    const bundle = await bundleOf(parts, dispute, principal);
    return c.json({ ...disputeJson(dispute, principal), bundle });
  });
  app.post('/v1/disputes/:id/resolve', requireAdmin, limited(MAX_RESOLVE_BYTES), (c) =>
    resolve(parts, c),
  );
  app.post('/v1/disputes/:id/withdraw', limited(MAX_BODY_BYTES), (c) => withdraw(parts, c));
}

async function open(parts: DisputeRouteParts, c: Context<ApiEnv>): Promise<Response> {
  const params = parseParameters(openSchema, await jsonObject(c));
  const principal = c.get('principal');
  const range = parseRange(params.from, params.to, params.timezone);
  if (range.toMs - range.fromMs > MAX_RANGE_DAYS * DAY_MS) {
    throw new Problem(400, 'range_too_long', `A dispute covers at most ${MAX_RANGE_DAYS} days.`, {
      hint: 'Open several: ranges that touch, [a, b) and [b, c), leave nothing out.',
    });
  }
  const subject = {
    advertiserId: oneAdvertiserOf(principal, params.advertiser_id),
    adId: params.ad_id,
    ...range,
    timezone: params.timezone,
    reason: params.reason,
  };
  const { dispute, created } = await parts.disputes.open(subject, actorOf(principal));
  const body = disputeJson(dispute, principal);
  return created
    ? c.json(body, 201, { Location: `/v1/disputes/${dispute.id}` })
    : c.json(body, 200);
}

async function list(parts: DisputeRouteParts, c: Context<ApiEnv>): Promise<Response> {
  const params = parseParameters(listSchema, await rawParameters(c));
  const principal = c.get('principal');
  const { limit } = params;
  const found = await parts.disputes.list({
    advertiserId: advertiserOf(principal, params.advertiser_id),
    adId: params.ad_id,
    state: params.state,
    before: params.cursor === undefined ? undefined : decodeCursor(params.cursor),
    limit: limit + 1,
  });
  const page = found.slice(0, limit);
  return c.json({
    disputes: page.map((dispute) => disputeJson(dispute, principal)),
    next_cursor: found.length > limit ? encodeCursor(page.at(-1)!) : null,
  });
}

async function resolve(parts: DisputeRouteParts, c: Context<ApiEnv>): Promise<Response> {
  const { resolution, note, verdicts } = parseParameters(resolveSchema, await jsonObject(c));
  if (resolution === 'withdrawn' && verdicts.length > 0) {
    throw new Problem(400, 'parameters_invalid', 'Verdicts go with upheld or rejected.');
  }
  const how =
    resolution === 'withdrawn'
      ? ({ state: 'withdrawn', resolution: null } as const)
      : ({ state: 'resolved', resolution } as const);
  return ended(parts, c, { ...how, note, verdicts });
}

async function withdraw(parts: DisputeRouteParts, c: Context<ApiEnv>): Promise<Response> {
  const { note = '' } = parseParameters(withdrawSchema, await jsonObject(c));
  return ended(parts, c, { state: 'withdrawn', resolution: null, note, verdicts: [] });
}

async function ended(
  { disputes }: DisputeRouteParts,
  c: Context<ApiEnv>,
  how: Parameters<Disputes['end']>[1],
): Promise<Response> {
  const principal = c.get('principal');
  const which = { id: c.req.param('id') ?? '', advertiserId: ownerOf(principal) };
  const result = await disputes.end(which, how, actorOf(principal));
  if (result === null) throw unknown();
  const { dispute, verdicts } = result;
  return c.json({ ...disputeJson(dispute, principal), ...(verdicts === null ? {} : { verdicts }) });
}

function ownerOf(principal: Principal): string | undefined {
  return principal.scope === 'admin' ? undefined : principal.advertiserId;
}

function actorOf({ tokenId, scope }: Principal): Actor {
  return { tokenId, scope };
}

function unknown(): Problem {
  return new Problem(404, 'dispute_unknown', 'There is no such dispute.');
}

function encodeCursor({ id, opened }: Dispute): string {
  return Buffer.from(JSON.stringify([opened.atMs, id])).toString('base64url');
}

function decodeCursor(cursor: string): DisputePosition {
  const position = z.tuple([z.int(), z.string().regex(/^dp_[\w-]{1,37}$/)]);
  try {
    const decoded: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
    const [openedAtMs, id] = position.parse(decoded);
    return { openedAtMs, id };
  } catch (cause) {
    throw new LedgerError('cursor_invalid', 'The cursor is damaged.', {
      hint: 'Send it as it was given.',
      cause,
    });
  }
}

function refuseBody(maxBytes: number): never {
  throw new Problem(413, 'body_too_large', `A body has at most ${maxBytes} bytes here.`);
}
