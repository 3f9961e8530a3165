/** `GET /v1/ads/top` */
import { z } from 'zod';
import { instantText, json, nullableInstant } from './answers.ts';
import { INTERVAL } from './metrics-format.ts';
import type { ApiFeature, Operation } from './operation.ts';
import { rawParameters } from './parameters.ts';
import { answerTop, type TopParts, topParameters, topRequestParser } from './top.ts';

export interface TopFeatureParts extends TopParts {
  readonly config: { readonly maxAdIds: number };
}

const row = z.object({
  rank: z.int().describe('From 1 on, without gaps: equal clicks are ordered by id.'),
  ad_id: z.string().optional(),
  campaign_id: z.string().optional(),
  country: z.string().optional(),
  device: z.string().optional(),
  clicks: z.int(),
  share: z.number().nullable().describe('Part of `total`; null when that is 0.'),
});

const operation = (maxAdIds: number): Operation => ({
  method: 'GET',
  path: '/v1/ads/top',
  tag: 'Clicks',
  summary: 'The ads, campaigns, countries or devices with the most clicks.',
  description: 'Exact, over a range of any length. Has the same numbers as `/v1/ads/metrics`.',
  scope: 'read',
  query: topParameters(maxAdIds),
  answers: [
    json(200, 'Most clicks first; only what has clicks.', {
      rows: z.array(row),
      total: z.int().describe('All clicks of the range and filters, also beyond `limit`.'),
      by: z.enum(['ad', 'campaign', 'country', 'device']),
      final: z.boolean().describe('Whether the range ends by `final_until`.'),
      final_until: nullableInstant,
      from: instantText,
      to: instantText,
      interval: z.literal(INTERVAL),
      timezone: z.string(),
      as_of: nullableInstant,
    }),
    {
      status: 400,
      description: '`parameters_invalid`, `range_empty`, `tier_expired`, `query_too_large`',
    },
  ],
});

export function topFeature(parts: TopFeatureParts): ApiFeature {
  const { maxAdIds } = parts.config;
  const parse = topRequestParser(maxAdIds);
  return {
    operations: [operation(maxAdIds)],
    add(app) {
      app.get('/v1/ads/top', async (c) => {
        const request = parse(await rawParameters(c), c.get('principal'));
        return c.json(await answerTop(parts, request));
      });
    },
  };
}
