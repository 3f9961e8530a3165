/** What the routes of `access-routes.ts` take and answer. */
import { z } from 'zod';
import { instantText, json, nextCursor, nullableInstant } from './answers.ts';
import { id } from './metrics-request.ts';
import type { Operation } from './operation.ts';
import { oneOf, text, wholeNumber } from './parameters.ts';

export const newTokenSchema = z.strictObject({
  scope: oneOf(['read', 'admin']).describe(
    '`read`: one advertiser’s numbers. `admin`: everything.',
  ),
  advertiser_id: id.optional().describe('Whose numbers a token of scope `read` reads.'),
  name: text('what the token is for').max(200).optional().describe('What it is for.'),
  expires_at: text('when it ends')
    .nullable()
    .optional()
    .describe('When it ends, ISO 8601; without it the token lives until it is revoked.'),
});
export const newKeySchema = z.strictObject({
  kid: text('the name of the key')
    .optional()
    .describe('Its name in links, 1 to 32 of `A–Z a–z 0–9 . _ ~ -`; one is made up without it.'),
});
export const retireSchema = z.strictObject({
  force: z
    .boolean({ error: 'Give true or false.' })
    .default(false)
    .describe('Retire it even when it is the last active key: every click gets 403 then.'),
});
export const adsSchema = z.strictObject({
  advertiser_id: id.optional().describe('Only this advertiser’s.'),
  after: id.optional().describe('Ads behind this ad id: `next_cursor` of the page before.'),
  limit: wholeNumber(1, 1_000).default(100).describe('Ads of a page.'),
});
export const auditSchema = z.strictObject({
  before: wholeNumber(1, Number.MAX_SAFE_INTEGER)
    .optional()
    .describe('Entries before this one: `next_cursor` of the page before.'),
  limit: wholeNumber(1, 1_000).default(100).describe('Entries of a page.'),
});
const token = z.object({
  id: z.string().describe('Names the token in lists and in the audit log; no secret.'),
  name: z.string(),
  scope: z.enum(['read', 'admin']),
  advertiser_id: z.string().nullable().describe('Null for an admin token.'),
  created_at: instantText,
  expires_at: nullableInstant,
  revoked_at: nullableInstant,
  last_used_at: nullableInstant.describe('To the minute.'),
});
const key = z.object({
  kid: z.string(),
  created_at: instantText,
  retired_at: nullableInstant.describe('A retired key verifies nothing.'),
});
const ad = z.object({
  ad_id: z.string(),
  advertiser_id: z.string(),
  campaign_id: z.string(),
  target_url: z.string(),
  pass_query: z.boolean().describe('Whether other parameters of the click go on to the target.'),
});
const head = z
  .object({ line: z.int(), hash: z.string().describe('SHA-256, hex; stands for all lines.') })
  .describe('The last line. Note it elsewhere: lines that are missing at the end show by it only.');
const entry = z.object({
  id: z.string(),
  at: instantText.describe('When the act began.'),
  actor: z.string().describe('Id of the token, `socket` or `cli`.'),
  action: z.string().describe('E.g. `tokens.create`.'),
  target: z.string(),
  detail: z.string(),
  outcome: z
    .enum(['started', 'ok', 'refused', 'failed'])
    .describe('`started`: it runs, or it was cut off and may have happened.'),
  code: z.string().nullable().describe('Of the refusal or failure.'),
  ended_at: nullableInstant,
});

export const ACCESS_OPERATIONS: readonly Operation[] = [
  {
    method: 'GET',
    path: '/v1/me',
    tag: 'Access',
    summary: 'Who the token is',
    scope: 'read',
    answers: [
      json(200, 'The token that the request carries.', {
        token_id: z.string(),
        scope: z.enum(['read', 'admin']),
        advertiser_id: z.string().nullable(),
        expires_at: nullableInstant,
        version: z.string().describe('Version of the product.'),
      }),
    ],
  },
  {
    method: 'GET',
    path: '/v1/admin/tokens',
    tag: 'Access',
    summary: 'All tokens, newest first, never their text',
    scope: 'admin',
    answers: [json(200, 'All tokens.', { tokens: z.array(token), next_cursor: nextCursor })],
  },
  {
    method: 'POST',
    path: '/v1/admin/tokens',
    tag: 'Access',
    summary: 'Makes a token',
    description: 'Its text is in this answer only.',
    scope: 'admin',
    action: 'tokens.create',
    body: [{ type: 'application/json', schema: newTokenSchema }],
    answers: [json(201, 'The token, with its text.', { ...token.shape, token: z.string() })],
  },
  {
    method: 'DELETE',
    path: '/v1/admin/tokens/{id}',
    tag: 'Access',
    summary: 'Revokes a token from the next request on',
    description: 'Revoking it again changes nothing.',
    scope: 'admin',
    action: 'tokens.revoke',
    answers: [{ status: 204, description: 'It is revoked.' }],
  },
  {
    method: 'GET',
    path: '/v1/admin/keys',
    tag: 'Access',
    summary: 'All signing keys, newest first, never their secrets',
    scope: 'admin',
    answers: [json(200, 'All keys.', { keys: z.array(key), next_cursor: nextCursor })],
  },
  {
    method: 'POST',
    path: '/v1/admin/keys',
    tag: 'Access',
    summary: 'Makes a signing key, which verifies at once',
    description: 'Its secret is in this answer only.',
    scope: 'admin',
    action: 'keys.create',
    body: [{ type: 'application/json', schema: newKeySchema }],
    answers: [json(201, 'The key, with its secret.', { ...key.shape, secret: z.string() })],
  },
  {
    method: 'POST',
    path: '/v1/admin/keys/{kid}/retire',
    tag: 'Access',
    summary: 'Retires a signing key: its links get 403 within a second',
    description: 'There is no way back. The last active key is refused without `force`.',
    scope: 'admin',
    action: 'keys.retire',
    body: [{ type: 'application/json', schema: retireSchema }],
    answers: [json(200, 'The retired key.', key.shape)],
  },
  {
    method: 'GET',
    path: '/v1/admin/ads',
    tag: 'Access',
    summary: 'Ads in the order of their ids',
    scope: 'admin',
    query: adsSchema,
    answers: [json(200, 'A page of ads.', { ads: z.array(ad), next_cursor: nextCursor })],
  },
  {
    method: 'GET',
    path: '/v1/admin/audit',
    tag: 'Access',
    summary: 'What admins did, newest first',
    scope: 'admin',
    query: auditSchema,
    answers: [
      json(200, 'A page of the audit log.', {
        entries: z.array(entry),
        head,
        next_cursor: nextCursor.describe('`before` of the next page.'),
      }),
    ],
  },
  {
    method: 'GET',
    path: '/v1/admin/audit/check',
    tag: 'Access',
    summary: 'Checks every line of the audit log',
    scope: 'admin',
    answers: [
      json(200, 'Whether the chain holds.', {
        head,
        broken: z
          .object({ line: z.int(), reason: z.string() })
          .nullable()
          .describe('The first line that is not what was written there.'),
      }),
    ],
  },
];
