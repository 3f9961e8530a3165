/**
 * Webhooks as routes: register, list, remove, test, and see what was tried. All for admins.
 *
 * Owns no webhook (`../webhooks`). A secret leaves through the answer to its creation and nowhere else.
 */
import { bodyLimit } from 'hono/body-limit';
import { z } from 'zod';
import type { Delivery, StoredDelivery, Webhook } from '../webhooks/port.ts';
import { DELIVERIES_KEPT, WEBHOOK_EVENTS } from '../webhooks/port.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import { noteAct } from './acts.ts';
import { jsonContent } from './answers.ts';
import type { ApiApp } from './app.ts';
import { id } from './metrics-request.ts';
import type { ApiFeature, Operation } from './operation.ts';
import {
  jsonObject,
  listOf,
  oneOf,
  parseParameters,
  rawParameters,
  text,
  wholeNumber,
} from './parameters.ts';
import { Problem } from './problem.ts';

export interface WebhookRouteParts {
  readonly webhooks: Pick<Webhooks, 'create' | 'list' | 'remove' | 'deliveries' | 'test'>;
}

const MAX_BODY_BYTES = 16 * 1024;

const createSchema = z.strictObject({
  url: text('where events are sent').describe('Where events are sent: `https:` or `http:`.'),
  events: listOf(oneOf(WEBHOOK_EVENTS), WEBHOOK_EVENTS.length, 'events').describe(
    'Which events; with `advertiser_id` only `hour.final` and `hour.restated`.',
  ),
  advertiser_id: id
    .optional()
    .describe('Events tell of this advertiser only; left out: of all of them.'),
});
const pageSchema = z.strictObject({
  limit: wholeNumber(1, DELIVERIES_KEPT).default(100).describe('Deliveries of a page.'),
  cursor: wholeNumber(1, Number.MAX_SAFE_INTEGER)
    .optional()
    .describe('`next_cursor` of the page before.'),
});
const noParameters = z.strictObject({});

export function webhooksFeature(parts: WebhookRouteParts): ApiFeature {
  return { operations: OPERATIONS, add: (app) => addRoutes(app, parts) };
}

function addRoutes(app: ApiApp, { webhooks }: WebhookRouteParts): void {
  const limited = bodyLimit({ maxSize: MAX_BODY_BYTES, onError: refuseBody });
  app.post('/v1/admin/webhooks', limited, async (c) => {
    const { url, events, advertiser_id } = parseParameters(createSchema, await jsonObject(c));
    const advertiserId = advertiser_id ?? null;
    const { webhook, secret } = await webhooks.create({ url, events, advertiserId });
    noteAct(c, { target: webhook.id, detail: new URL(webhook.url).host });
    return c.json({ ...webhookJson(webhook), secret }, 201);
  });
  app.get('/v1/admin/webhooks', async (c) => {
    parseParameters(noParameters, await rawParameters(c));
    const listed = (await webhooks.list()).map(({ waiting, oldestAtMs, ...webhook }) => {
      return { ...webhookJson(webhook), waiting, oldest_waiting_at: instant(oldestAtMs) };
    });
    return c.json({ webhooks: listed, next_cursor: null });
  });
  app.delete('/v1/admin/webhooks/:id', async (c) => {
    await webhooks.remove(c.req.param('id'));
    return c.body(null, 204);
  });
  app.get('/v1/admin/webhooks/:id/deliveries', async (c) => {
    const { limit, cursor } = parseParameters(pageSchema, await rawParameters(c));
    const rows = await webhooks.deliveries(c.req.param('id'), {
      limit: limit + 1,
      before: cursor ?? null,
    });
    const page = rows.slice(0, limit);
    const next = rows.length > limit ? String(page.at(-1)!.id) : null;
    return c.json({ deliveries: page.map(storedJson), next_cursor: next });
  });
  app.post('/v1/admin/webhooks/:id/test', limited, async (c) =>
    c.json(deliveryJson(await webhooks.test(c.req.param('id')))),
  );
}

function webhookJson({ id, url, events, advertiserId, createdAtMs }: Webhook): object {
  return { id, url, events, advertiser_id: advertiserId, created_at: instant(createdAtMs) };
}

function storedJson(delivery: StoredDelivery): object {
  return { id: String(delivery.id), ...deliveryJson(delivery) };
}

function deliveryJson(delivery: Delivery): object {
  const { eventId, type, attempt, atMs, latencyMs, status, outcome, error } = delivery;
  return {
    event_id: eventId,
    type,
    attempt,
    at: instant(atMs),
    latency_ms: latencyMs,
    status,
    outcome,
    error,
  };
}

function instant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}

function refuseBody(): never {
  throw new Problem(413, 'body_too_large', `A body has at most ${MAX_BODY_BYTES} bytes here.`);
}

const TAG = 'Webhooks';
const UNKNOWN = { status: 404, description: '`webhook_unknown`' };

const webhookShape = {
  id: z.string(),
  url: z.string(),
  events: z.array(z.enum(WEBHOOK_EVENTS)),
  advertiser_id: z.string().nullable(),
  created_at: z.string(),
};
const deliveryShape = {
  event_id: z.string().describe('The same for every attempt of one event.'),
  type: z.string(),
  attempt: z.int().describe('1 for the first.'),
  at: z.string(),
  latency_ms: z.int(),
  status: z.int().nullable().describe('HTTP status; null when there was no answer.'),
  outcome: z.enum(['delivered', 'failed', 'given_up']).describe('`failed`: it is tried again.'),
  error: z.string().nullable(),
};
const json = (shape: z.ZodRawShape) => jsonContent(z.object(shape));

const OPERATIONS: readonly Operation[] = [
  {
    method: 'POST',
    path: '/v1/admin/webhooks',
    tag: TAG,
    summary: 'Register a webhook',
    description:
      'Events from now on are sent to its URL, signed with `secret`, which this answer alone holds.',
    scope: 'admin',
    action: 'webhooks.create',
    body: [
      {
        type: 'application/json',
        schema: createSchema,
        example: { url: 'https://billing.example/hooks', events: ['hour.final', 'hour.restated'] },
      },
    ],
    answers: [
      {
        status: 201,
        description: 'Registered.',
        ...json({ ...webhookShape, secret: z.string().describe('Signs what is sent.') }),
      },
      { status: 400, description: '`webhook_url_invalid`, `webhook_events_invalid`' },
      { status: 409, description: '`webhooks_full`' },
    ],
  },
  {
    method: 'GET',
    path: '/v1/admin/webhooks',
    tag: TAG,
    summary: 'All webhooks, with what waits for each',
    scope: 'admin',
    answers: [
      {
        status: 200,
        description: 'Oldest first.',
        ...json({
          webhooks: z.array(
            z.object({
              ...webhookShape,
              waiting: z.int().describe('Events that are not delivered yet.'),
              oldest_waiting_at: z.string().nullable(),
            }),
          ),
          next_cursor: z.null(),
        }),
      },
    ],
  },
  {
    method: 'DELETE',
    path: '/v1/admin/webhooks/{id}',
    tag: TAG,
    summary: 'Remove a webhook, and all that waits for it',
    scope: 'admin',
    action: 'webhooks.remove',
    answers: [{ status: 204, description: 'It is gone.' }, UNKNOWN],
  },
  {
    method: 'GET',
    path: '/v1/admin/webhooks/{id}/deliveries',
    tag: TAG,
    summary: `The last ${DELIVERIES_KEPT} attempts of a webhook`,
    scope: 'admin',
    query: pageSchema,
    answers: [
      {
        status: 200,
        description: 'Newest first.',
        ...json({
          deliveries: z.array(z.object({ id: z.string(), ...deliveryShape })),
          next_cursor: z.string().nullable(),
        }),
      },
      UNKNOWN,
    ],
  },
  {
    method: 'POST',
    path: '/v1/admin/webhooks/{id}/test',
    tag: TAG,
    summary: 'Send a `webhook.test` event now',
    description: 'Answers when the receiver has, or has not in time. It is not tried again.',
    scope: 'admin',
    action: 'webhooks.test',
    answers: [
      { status: 200, description: 'What came of it.', ...json(deliveryShape) },
      UNKNOWN,
      { status: 503, description: '`webhook_test_running`: one at a time' },
    ],
  },
];
