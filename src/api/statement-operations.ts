/** What the routes of statements are, for the OpenAPI document. */
import { z } from 'zod';
import { jsonContent } from './answers.ts';
import type { Answer, Operation } from './operation.ts';

const TAG = 'Statements';

const file = z.object({
  url: z.string().describe('Where it is fetched.'),
  sha256: z.string().describe('SHA-256 of its bytes, hex.'),
  size_bytes: z.int(),
});
const statement = z.object({
  id: z.string().describe('A function of advertiser, period and time zone.'),
  version: z.int().describe('Rises when a restatement changed the numbers.'),
  supersedes: z.int().nullable().describe('The version before; null for the first.'),
  latest_version: z.int(),
  advertiser_id: z.string(),
  from: z.string().describe('First instant of the period, with the offset of its zone.'),
  to: z.string().describe('End of the period; not part of it.'),
  timezone: z.string(),
  final_until: z.string().nullable().describe('End of the last final hour when it was made.'),
  rows: z.int().describe('Rows of each file, without the header.'),
  clicks: z.int().describe('Sum of their clicks.'),
  created_at: z.string(),
  files: z.object({ csv: file, parquet: file }),
});
const create = z.object({
  from: z.string().describe('First day: a date, or an instant that is a midnight of the zone.'),
  to: z.string().describe('Day after the last. At most 400 days after `from`.'),
  timezone: z.string().default('UTC').describe('IANA zone that days are cut in.'),
  advertiser_id: z.string().optional().describe('Needed with an admin token.'),
});
const version = z.object({
  version: z.int().min(1).optional().describe('Left out: the latest.'),
});

const UNKNOWN: Answer = { status: 404, description: '`statement_unknown`' };
const DAMAGED: Answer = {
  status: 500,
  description: '`statement_damaged`: the stored bytes are not those that were written',
};

const fileOf = (kind: 'csv' | 'parquet', type: string): Operation => ({
  method: 'GET',
  path: `/v1/statements/{id}/${kind}`,
  tag: TAG,
  summary: `The rows of a statement as ${kind === 'csv' ? 'CSV' : 'Parquet'}.`,
  description:
    '`ETag` and `Repr-Digest` carry the SHA-256; the bytes are checked before they go out.',
  scope: 'read',
  query: version,
  answers: [
    { status: 200, description: 'The file.', content: [{ type }] },
    { status: 304, description: '`If-None-Match` names the file’s ETag.' },
    UNKNOWN,
    DAMAGED,
  ],
});

export const STATEMENT_OPERATIONS: readonly Operation[] = [
  {
    method: 'POST',
    path: '/v1/statements',
    tag: TAG,
    summary: 'Make the statement of a closed period, or get the one that is there.',
    description:
      'Asking again gives the same id and, while the numbers are the same, the same version with the same bytes.',
    scope: 'read',
    body: [
      {
        type: 'application/json',
        schema: create,
        example: { from: '2026-03-01', to: '2026-04-01', timezone: 'Europe/Paris' },
      },
    ],
    answers: [
      { status: 201, description: 'A new version.', ...jsonContent(statement) },
      {
        status: 200,
        description: 'The latest version; its numbers are still so.',
        ...jsonContent(statement),
      },
      {
        status: 400,
        description: '`period_invalid`: an edge is no local midnight, or more than 400 days',
      },
      {
        status: 409,
        description:
          '`period_not_final`, `statement_too_large` (more than 1,000,000 rows), `statements_too_many`',
      },
      { status: 503, description: '`statements_busy`, `period_moving`: ask again' },
    ],
  },
  {
    method: 'GET',
    path: '/v1/statements',
    tag: TAG,
    summary: 'The statements that there are, latest version of each, by advertiser and period.',
    scope: 'read',
    query: z.object({
      advertiser_id: z.string().optional().describe('With an admin token: only this one’s.'),
      limit: z.int().min(1).max(1_000).default(100),
      cursor: z.string().optional().describe('`next_cursor` of the page before.'),
    }),
    answers: [
      {
        status: 200,
        description: 'One page.',
        ...jsonContent(
          z.object({ statements: z.array(statement), next_cursor: z.string().nullable() }),
        ),
      },
    ],
  },
  {
    method: 'GET',
    path: '/v1/statements/{id}',
    tag: TAG,
    summary: 'One version of a statement.',
    scope: 'read',
    query: version,
    answers: [
      {
        status: 200,
        description: 'The version that was asked for.',
        ...jsonContent(statement),
      },
      UNKNOWN,
    ],
  },
  fileOf('csv', 'text/csv'),
  fileOf('parquet', 'application/vnd.apache.parquet'),
];
