/** What the routes of `admin-routes.ts` take and answer. */
import { z } from 'zod';
import { deadLettersSchema, reconcileSchema, redriveSchema } from './admin-schemas.ts';
import { actionAnswer, instantText, json } from './answers.ts';
import type { Operation } from './operation.ts';

const TAG = 'Administration';
const NDJSON = 'application/x-ndjson';
const ms = z.int().describe('Milliseconds since 1970, UTC.');

const partition = z.object({
  partition: z.int(),
  logFirstOffset: z.int(),
  logEndOffset: z.int(),
  countedOffset: z.int(),
  archivedOffset: z.int(),
  backlog: z.int().describe('Records in the log that are not counted yet.'),
  oldestUncountedAtMs: ms.nullable(),
  watermarkMs: ms.nullable(),
});
const hour = z.looseObject({
  hourMs: ms,
  revision: z.int(),
  counted: z.int(),
  driftMax: z.number(),
  cause: z.string(),
});
const deadLetter = z.object({
  id: z.string(),
  partition: z.int(),
  offset: z.int(),
  appendedAtMs: ms,
  reason: z.string(),
  redrivenAtMs: ms.nullable(),
  sizeBytes: z.int(),
});
const difference = z.looseObject({ archive: z.number(), warehouse: z.number() });

const STATUS: Operation = {
  method: 'GET',
  path: '/v1/admin/status',
  tag: TAG,
  summary: 'Positions, outcomes, backlog, and what needs an operator',
  scope: 'admin',
  answers: [
    {
      status: 200,
      description: 'How the ledger is.',
      content: [
        {
          type: 'application/json',
          schema: z.looseObject({
            version: z.string(),
            nowMs: ms,
            partitions: z.array(partition),
            outcomes: z.record(z.string(), z.int()),
            asOfMs: ms,
            finalUntilMs: ms,
            recentHours: z.array(hour),
            stuck: z
              .object({ hourMs: ms, code: z.string(), reason: z.string() })
              .nullable()
              .describe('Why the next hour does not turn final.'),
            deadLetters: z.record(z.string(), z.int()).describe('Waiting ones, by reason.'),
            problems: z.array(z.string()).describe('Empty when all is well.'),
          }),
        },
      ],
    },
  ],
};

const DEAD_LETTERS: readonly Operation[] = [
  {
    method: 'GET',
    path: '/v1/admin/dead-letters',
    tag: TAG,
    summary: 'Records that could not be counted',
    scope: 'admin',
    query: deadLettersSchema,
    answers: [json(200, 'Dead letters.', { deadLetters: z.array(deadLetter) })],
  },
  {
    method: 'GET',
    path: '/v1/admin/dead-letters/{id}',
    tag: TAG,
    summary: 'One dead letter, with its bytes',
    scope: 'admin',
    answers: [
      json(200, 'The dead letter.', {
        ...deadLetter.shape,
        bytes: z.string().describe('Base64.'),
        event: z.record(z.string(), z.unknown()).nullable().describe('When it can be decoded.'),
      }),
    ],
  },
  {
    method: 'POST',
    path: '/v1/admin/dead-letters/redrive',
    tag: TAG,
    summary: 'Appends dead letters to the log again',
    description: 'Give exactly one of `id`, `reason` and `all`.',
    scope: 'admin',
    action: 'dead-letters.redrive',
    body: [{ type: 'application/json', schema: redriveSchema }],
    answers: [actionAnswer({ redriven: z.int() })],
  },
];

const RECOUNTS: readonly Operation[] = [
  {
    method: 'POST',
    path: '/v1/admin/reconcile',
    tag: TAG,
    summary: 'Recounts what is closed, or one hour',
    scope: 'admin',
    action: 'reconcile',
    body: [{ type: 'application/json', schema: reconcileSchema }],
    answers: [
      actionAnswer({
        hours: z.array(
          z.object({
            hour,
            kind: z.enum(['final', 'restated', 'unchanged']),
            driftAlert: z.boolean(),
          }),
        ),
        finalUntilMs: ms,
      }),
    ],
  },
  {
    method: 'POST',
    path: '/v1/admin/verify',
    tag: TAG,
    summary: 'Recounts every final hour from the archive and compares',
    scope: 'admin',
    action: 'verify',
    answers: [
      actionAnswer({
        hours: z.int(),
        rows: z.int(),
        clicks: z.int(),
        differences: z.array(difference),
        archiveProblems: z.array(z.string()),
      }),
    ],
  },
  {
    method: 'POST',
    path: '/v1/admin/rebuild',
    tag: TAG,
    summary: 'Builds the warehouse again from the archive',
    scope: 'admin',
    action: 'rebuild',
    answers: [actionAnswer({ records: z.int(), hours: z.int(), finalUntilMs: ms })],
  },
];

const UPLOADS: readonly Operation[] = [
  {
    method: 'POST',
    path: '/v1/admin/ingest',
    tag: TAG,
    summary: 'Takes recorded clicks into the log',
    description: 'All lines are checked before the first is logged. The body may be of any length.',
    scope: 'admin',
    action: 'ingest',
    body: [
      {
        type: NDJSON,
        schema: z.strictObject({
          line: z.int().describe('Number of the line, named when it is wrong.'),
          record: z
            .looseObject({
              impression_id: z.string().optional(),
              ad_id: z.string().optional(),
              clicked_at: instantText.optional(),
              country: z.string().optional(),
              device: z.string().optional(),
              ip: z.string().optional(),
              ua: z.string().optional(),
            })
            .describe('A recorded click.'),
          problem: z.string().optional().describe('Why the line could not be read.'),
        }),
      },
    ],
    answers: [actionAnswer({ taken: z.int() })],
  },
  {
    method: 'POST',
    path: '/v1/admin/ads',
    tag: TAG,
    summary: 'Imports ads, all or none',
    description: 'The body may be of any length.',
    scope: 'admin',
    action: 'ads.import',
    body: [
      {
        type: NDJSON,
        schema: z.strictObject({
          ad_id: z.string(),
          advertiser_id: z.string(),
          campaign_id: z.string(),
          target_url: z.string(),
          pass_query: z.boolean().optional(),
        }),
      },
      { type: 'text/csv' },
    ],
    answers: [
      actionAnswer({
        rows: z.int(),
        added: z.int(),
        changed: z.int(),
        unchanged: z.int(),
      }),
    ],
  },
];

export const ADMIN_OPERATIONS: readonly Operation[] = [
  STATUS,
  ...RECOUNTS,
  ...DEAD_LETTERS,
  ...UPLOADS,
];
