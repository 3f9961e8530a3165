/** What the routes of `metrics-routes.ts` and `history.ts`, and those that need no token, take and answer. */
import { z } from 'zod';
import { instantText, json, nullableInstant } from './answers.ts';
import { restatementsSchema } from './history.ts';
import { INTERVAL } from './metrics-format.ts';
import { metricsParameters } from './metrics-request.ts';
import { NDJSON } from './metrics-stream.ts';
import type { Answer, Operation } from './operation.ts';

/** The most that a configuration can allow; what is allowed here is in the refusal. */
const WIDEST = { maxRows: 100_000, maxAdIds: 100_000 };

const frame = {
  final_until: nullableInstant.describe('End of the last final hour; null before the first.'),
  from: instantText,
  to: instantText,
  interval: z.literal(INTERVAL),
  timezone: z.string(),
};
const metricsFrame = {
  ...frame,
  granularity: z.enum(['minute', 'hour', 'day', 'total']),
  as_of: nullableInstant.describe('Up to when clicks are counted.'),
};
const row = z.object({
  bucket_start: instantText.optional().describe('Not with `granularity=total`.'),
  ad_id: z.string().optional(),
  campaign_id: z.string().optional(),
  country: z.string().optional().describe('ISO 3166; `ZZ` is unknown.'),
  device: z.string().optional(),
  clicks: z.int(),
  final: z.boolean().describe('Whether the number is the recount’s, and is billed.'),
});
const streamLine = z.union([
  z.object({ meta: z.object(metricsFrame) }).describe('The first line.'),
  row,
  z.object({ end: z.object({ rows: z.int() }) }).describe('The last line of a whole answer.'),
  z
    .object({
      error: z.object({ code: z.string(), message: z.string(), hint: z.string().optional() }),
    })
    .describe('In place of the last line, when the query failed on the way.'),
]);

const METRICS_ANSWERS: readonly Answer[] = [
  {
    status: 200,
    description:
      'A page as JSON or CSV, or all rows as NDJSON. CSV has what JSON says beside the rows in headers: ' +
      '`X-Final-Until`, `X-As-Of`, `X-Interval`, `X-Timezone`, `X-Granularity`, `X-Truncated`, `X-Next-Cursor`.',
    content: [
      {
        type: 'application/json',
        schema: z.object({
          rows: z.array(row),
          ...metricsFrame,
          truncated: z.boolean().describe('Whether there are more rows; then there is a cursor.'),
          next_cursor: z.string().nullable(),
        }),
      },
      { type: 'text/csv' },
      { type: NDJSON, schema: streamLine },
    ],
  },
  {
    status: 400,
    description:
      '`parameters_invalid`, `range_empty`, `range_too_long`, `cursor_invalid`, `tier_expired`, `query_too_large`',
  },
];

const metrics = (method: 'GET' | 'POST'): Operation => ({
  method,
  path: '/v1/ads/metrics',
  tag: 'Clicks',
  summary: method === 'GET' ? 'Clicks by time and group.' : 'The same, for long lists of ids.',
  description:
    'Exact over any range and grouping: the sum over any grouping, granularity or zone is the total over the same range. ' +
    'Rows without clicks are left out unless `fill=zero`.',
  scope: 'read',
  query: metricsParameters(WIDEST),
  answers:
    method === 'GET'
      ? METRICS_ANSWERS
      : [
          ...METRICS_ANSWERS,
          { status: 413, description: '`body_too_large`' },
          { status: 415, description: '`media_type`' },
        ],
});

const RESTATEMENTS: Operation = {
  method: 'GET',
  path: '/v1/restatements',
  tag: 'Final hours',
  summary: 'Every change to a final number.',
  description: 'Of hours that start in the range, of up to 93 days.',
  scope: 'read',
  query: restatementsSchema,
  answers: [
    json(200, 'By hour, revision, advertiser and ad.', {
      restatements: z.array(
        z.object({
          hour_start: instantText,
          revision: z.int(),
          advertiser_id: z.string(),
          ad_id: z.string(),
          before: z.int(),
          after: z.int(),
          cause: z.string(),
          at: instantText,
        }),
      ),
      ...frame,
    }),
    { status: 400, description: '`parameters_invalid`, `range_empty`, `range_too_long`' },
  ],
};

const plain = (path: string, summary: string, ready: string): Operation => ({
  method: 'GET',
  path,
  tag: 'Health',
  summary,
  scope: 'none',
  answers: [{ status: 200, description: ready, content: [{ type: 'text/plain' }] }],
});

const READY: Operation = {
  ...plain('/readyz', 'Whether live numbers are kept up to date.', 'They are.'),
  answers: [
    { status: 200, description: 'They are.', content: [{ type: 'text/plain' }] },
    { status: 503, description: 'What it waits for.', content: [{ type: 'text/plain' }] },
  ],
};

export const CORE_OPERATIONS: readonly Operation[] = [
  metrics('GET'),
  metrics('POST'),
  RESTATEMENTS,
  plain('/healthz', 'Whether the process answers.', 'It does.'),
  READY,
  plain('/metrics', 'Measurements for Prometheus.', 'Prometheus text format.'),
];
