/** What the routes of disputes are, for the OpenAPI document. */
import { z } from 'zod';
import { jsonContent } from './answers.ts';
import type { Answer, Operation } from './operation.ts';

const TAG = 'Disputes';

const dispute = z.object({
  id: z.string(),
  advertiser_id: z.string(),
  ad_id: z.string(),
  from: z.string().describe('First instant of the range, with the offset of its zone.'),
  to: z.string().describe('End of the range; not part of it.'),
  timezone: z.string(),
  reason: z.string(),
  state: z.enum(['open', 'resolved', 'withdrawn']),
  resolution: z.enum(['upheld', 'rejected']).nullable(),
  opened_at: z.string(),
  closed_at: z.string().nullable(),
  note: z.string().nullable().describe('What was said when it ended; null while it is open.'),
  history: z
    .array(
      z.object({
        step: z.enum(['opened', 'upheld', 'rejected', 'withdrawn']),
        by: z.string().describe('Token id; `operator` where a read token may not know which.'),
        at: z.string(),
        note: z.string(),
        verdicts: z.int().describe('Verdicts that were taken with the step.'),
      }),
    )
    .describe('Every step, with who and when.'),
});
const count = z.int().min(0);
const bundle = z.object({
  final: z.boolean().describe('All hours of the range are final.'),
  final_until: z.string().nullable(),
  rows: z
    .array(z.object({ bucket_start: z.string(), clicks: count, final: z.boolean() }))
    .describe('Clicks of the ad by local hour.'),
  total: count.nullable().describe('Their sum; null when the rows have expired.'),
  hours: z
    .array(z.object({ hour_start: z.string(), revision: z.int(), final_at: z.string() }))
    .describe('The final UTC hours of the range.'),
  restatements: z.array(
    z.object({
      hour_start: z.string(),
      revision: z.int(),
      advertiser_id: z.string(),
      ad_id: z.string(),
      before: count,
      after: count,
      cause: z.string(),
      at: z.string(),
    }),
  ),
  outcomes: z
    .object({ counted: count, duplicate: count, not_billable: count, invalid: count })
    .nullable()
    .describe('Of the archived clicks of the range.'),
  clicks_url: z.string().describe('Every single one of those clicks.'),
  missing: z
    .array(z.object({ part: z.string(), code: z.string(), detail: z.string() }))
    .describe('What could not be had, and why: `rows` or `outcomes`.'),
});
const written = z.string().min(1).max(2_000);
const open = z.object({
  ad_id: z.string(),
  from: z.string(),
  to: z.string().describe('Not part of the range. At most 93 days after `from`.'),
  timezone: z.string().default('UTC'),
  reason: written.describe('What is wrong, in up to 2,000 characters.'),
  advertiser_id: z.string().optional().describe('Needed with an admin token.'),
});
const resolve = z.object({
  resolution: z.enum(['upheld', 'rejected', 'withdrawn']),
  note: written.describe('Why; its advertiser reads it.'),
  verdicts: z
    .array(z.object({ impression_id: z.string(), valid: z.boolean(), reason: z.string().max(200) }))
    .max(10_000)
    .optional()
    .describe('Taken before the dispute is resolved, as by `POST /v1/verdicts`.'),
});
const verdicts = z.object({
  taken: count,
  new: count,
  unchanged: count,
  hours: z.array(z.string()).describe('Final hours that the next reconcile restates.'),
});

const UNKNOWN: Answer = { status: 404, description: '`dispute_unknown`' };
const CLOSED: Answer = { status: 409, description: '`dispute_closed`: it ended in another way' };

const OPEN: Operation = {
  method: 'POST',
  path: '/v1/disputes',
  tag: TAG,
  summary: 'Dispute the clicks of an ad.',
  description: 'The same dispute again, while it is open, opens no second one.',
  scope: 'read',
  body: [
    {
      type: 'application/json',
      schema: open,
      example: {
        ad_id: 'ad-1001',
        from: '2026-03-10',
        to: '2026-03-11',
        timezone: 'Europe/Paris',
        reason: 'Ten times the clicks of any other Tuesday.',
      },
    },
  ],
  answers: [
    { status: 201, description: 'It is open.', ...jsonContent(dispute) },
    { status: 200, description: 'It was open already.', ...jsonContent(dispute) },
    { status: 409, description: '`disputes_too_many`: 1,000 open, or opened in 24 hours' },
  ],
};

export const DISPUTE_OPERATIONS: readonly Operation[] = [
  OPEN,
  {
    method: 'GET',
    path: '/v1/disputes',
    tag: TAG,
    summary: 'Disputes, newest first.',
    scope: 'read',
    query: z.object({
      state: z.enum(['open', 'resolved', 'withdrawn']).optional(),
      ad_id: z.string().optional(),
      advertiser_id: z.string().optional().describe('With an admin token: only this one’s.'),
      limit: z.int().min(1).max(1_000).default(100),
      cursor: z.string().optional().describe('`next_cursor` of the page before.'),
    }),
    answers: [
      {
        status: 200,
        description: 'One page.',
        ...jsonContent(
          z.object({ disputes: z.array(dispute), next_cursor: z.string().nullable() }),
        ),
      },
    ],
  },
  {
    method: 'GET',
    path: '/v1/disputes/{id}',
    tag: TAG,
    summary: 'A dispute with everything that is known of its clicks.',
    scope: 'read',
    answers: [
      { status: 200, description: 'The dispute.', ...jsonContent(dispute.extend({ bundle })) },
      UNKNOWN,
    ],
  },
  {
    method: 'POST',
    path: '/v1/disputes/{id}/resolve',
    tag: TAG,
    summary: 'End a dispute, with verdicts on its clicks or without.',
    description:
      'Verdicts are taken first. An answer that got lost can be asked for again: the same verdicts and the same end change nothing.',
    scope: 'admin',
    action: 'disputes.resolve',
    body: [
      {
        type: 'application/json',
        schema: resolve,
        example: {
          resolution: 'upheld',
          note: 'A crawler of a price comparison site.',
          verdicts: [{ impression_id: 'imp-1', valid: false, reason: 'crawler' }],
        },
      },
    ],
    answers: [
      {
        status: 200,
        description: 'It has ended.',
        ...jsonContent(dispute.extend({ verdicts: verdicts.optional() })),
      },
      UNKNOWN,
      CLOSED,
    ],
  },
  {
    method: 'POST',
    path: '/v1/disputes/{id}/withdraw',
    tag: TAG,
    summary: 'Withdraw one’s own dispute.',
    scope: 'read',
    body: [{ type: 'application/json', schema: z.object({ note: written.optional() }) }],
    answers: [
      { status: 200, description: 'It is withdrawn.', ...jsonContent(dispute) },
      UNKNOWN,
      CLOSED,
    ],
  },
];
