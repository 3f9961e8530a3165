/** `GET /v1/live`: counts as server-sent events. */
import { z } from 'zod';
import type { TokenStore } from '../auth/tokens.ts';
import { oneAdvertiserOf } from './auth.ts';
import { type LiveHub, MAX_CONNECTIONS, MAX_CONNECTIONS_PER_TOKEN } from './live.ts';
import { MAX_ADS } from './live-counts.ts';
import { id } from './metrics-request.ts';
import type { ApiFeature, Operation } from './operation.ts';
import { listOf, parseParameters, rawParameters, wholeNumber } from './parameters.ts';

export interface LiveRouteParts {
  readonly hub: LiveHub;
  readonly tokens: Pick<TokenStore, 'authenticate'>;
}

const MAX_AD_IDS = 500;
const MAX_MINUTES = 1_440;

const schema = z.strictObject({
  ad_ids: listOf(id, MAX_AD_IDS, 'ad ids')
    .optional()
    .describe(`Only these, \`a,b,c\`; up to ${MAX_AD_IDS}. All of the advertiser's without it.`),
  minutes: wholeNumber(1, MAX_MINUTES)
    .default(60)
    .describe('Length of the window; its last minute is the one that is running.'),
  advertiser_id: id.optional().describe('Needed with an admin token; otherwise the token decides.'),
});

const HEADERS = {
  'Content-Type': 'text/event-stream',
  // Else nginx would collect events before it passes them on.
  'X-Accel-Buffering': 'no',
};

export function liveFeature({ hub, tokens }: LiveRouteParts): ApiFeature {
  return {
    operations: [LIVE_OPERATION],
    add(app) {
      app.get('/v1/live', async (c) => {
        const params = parseParameters(schema, await rawParameters(c));
        const principal = c.get('principal');
        const advertiserId = oneAdvertiserOf(principal, params.advertiser_id);
        // Nobody would read, or close, the body of an answer to HEAD.
        if (c.req.method === 'HEAD') return c.body(null, 200, HEADERS);
        const token = (c.req.header('Authorization') ?? '').replace(/^Bearer +/i, '').trim();
        const client = hub.watch(
          { advertiserId, adIds: params.ad_ids, minutes: params.minutes },
          {
            tokenId: principal.tokenId,
            isAllowed: async () =>
              (await tokens.authenticate(token))?.tokenId === principal.tokenId,
          },
        );
        c.req.raw.signal.addEventListener('abort', () => client.leave());
        if (c.req.raw.signal.aborted) client.leave();
        return c.body(client.stream, 200, HEADERS);
      });
    },
  };
}

const eventSchema = z.object({
  as_of: z.string().nullable().describe('Up to when clicks are counted in these numbers.'),
  final_until: z.string().nullable(),
  from: z.string(),
  to: z.string().describe('End of the minute that is running.'),
  total: z.int().describe('Clicks from `from` to `to`.'),
  ads: z
    .array(z.object({ ad_id: z.string(), clicks: z.int() }))
    .describe(`Ads with clicks, most first; at most ${MAX_ADS}.`),
  truncated: z.boolean().describe('Whether there are more ads; `total` has them all.'),
});

const LIVE_OPERATION: Operation = {
  method: 'GET',
  path: '/v1/live',
  tag: 'Clicks',
  summary: 'Counts of the last minutes, as they change',
  description:
    'Server-sent events named `counts`: at once, then whenever the numbers changed, at most one a second. A client that reads slowly gets the newest and misses those between. The stream ends after an hour, or when its token does.',
  scope: 'read',
  query: schema,
  answers: [
    {
      status: 200,
      description: 'The stream; `schema` is the data of one `counts` event.',
      content: [{ type: 'text/event-stream', schema: eventSchema }],
    },
    {
      status: 429,
      description: `\`live_streams_of_token\`: the token has ${MAX_CONNECTIONS_PER_TOKEN} streams`,
    },
    {
      status: 503,
      description: `\`live_streams_full\`: there are ${MAX_CONNECTIONS} streams in all`,
    },
  ],
};
