/** The parameters that say which clicks a query is about; the same in every query over counts. */
import { z } from 'zod';
import type { Principal } from '../auth/tokens.ts';
import { DEVICES, isCountry, isId } from '../event/click-event.ts';
import { quoted } from '../platform/row-types.ts';
import type { MetricsFilter } from '../warehouse/port.ts';
import { oneAdvertiserOf } from './auth.ts';
import { listOf, oneOf, text } from './parameters.ts';
import { isTimeZone } from './time.ts';

const MAX_COUNTRIES = 26 * 26;

export const id = z.string({ error: 'Ids are texts.' }).refine(isId, {
  error: ({ input }) => `${quoted(String(input))} is no id: 1 to 128 of A–Z a–z 0–9 . _ ~ -`,
});

export const timeZone = text('an IANA time zone')
  .refine(isTimeZone, {
    error: ({ input }) =>
      `There is no time zone ${quoted(String(input))}; use a name like Europe/Berlin.`,
  })
  .default('UTC')
  .describe('IANA zone in which hours and days are cut and times without an offset are read.');

const country = z
  .string({ error: 'Countries are texts.' })
  .transform((value) => value.toUpperCase())
  .refine(isCountry, {
    error: ({ input }) =>
      `${quoted(String(input))} is no country: two letters as in ISO 3166, or ZZ.`,
  });

export const rangeShape = () => ({
  from: text('where the range begins').describe(
    'Where the range begins: ISO 8601, or a date for its first instant. Whole minutes.',
  ),
  to: text('where the range ends; not part of it').describe(
    'Where the range ends; not part of it. A date is its first instant here too.',
  ),
  timezone: timeZone,
});

export const filterShape = (maxAdIds: number) => ({
  advertiser_id: id.optional().describe('Needed with an admin token; otherwise the token decides.'),
  ad_ids: listOf(id, maxAdIds, 'ad ids').optional().describe('Only these ads.'),
  ad_ids_not: listOf(id, maxAdIds, 'ad ids').optional().describe('All ads but these.'),
  campaign_ids: listOf(id, maxAdIds, 'campaign ids').optional().describe('Only these campaigns.'),
  campaign_ids_not: listOf(id, maxAdIds, 'campaign ids')
    .optional()
    .describe('All campaigns but these.'),
  country: listOf(country, MAX_COUNTRIES, 'countries')
    .optional()
    .describe('Only these countries, ISO 3166; `ZZ` is unknown.'),
  country_not: listOf(country, MAX_COUNTRIES, 'countries')
    .optional()
    .describe('All countries but these.'),
  device: listOf(oneOf(DEVICES), DEVICES.length, 'devices')
    .optional()
    .describe('Only these devices.'),
  device_not: listOf(oneOf(DEVICES), DEVICES.length, 'devices')
    .optional()
    .describe('All devices but these.'),
});

interface FilterParameters {
  readonly advertiser_id?: string | undefined;
  readonly ad_ids?: readonly string[] | undefined;
  readonly ad_ids_not?: readonly string[] | undefined;
  readonly campaign_ids?: readonly string[] | undefined;
  readonly campaign_ids_not?: readonly string[] | undefined;
  readonly country?: readonly string[] | undefined;
  readonly country_not?: readonly string[] | undefined;
  readonly device?: readonly string[] | undefined;
  readonly device_not?: readonly string[] | undefined;
}

export function filterOf(
  params: FilterParameters,
  principal: Principal,
): Omit<MetricsFilter, 'fromMs' | 'toMs'> {
  return {
    advertiserId: oneAdvertiserOf(principal, params.advertiser_id),
    adIds: params.ad_ids,
    campaignIds: params.campaign_ids,
    countries: params.country,
    devices: params.device,
    adIdsNot: params.ad_ids_not,
    campaignIdsNot: params.campaign_ids_not,
    countriesNot: params.country_not,
    devicesNot: params.device_not,
  };
}
