/** What the numbers are narrowed down to: by value, in the address, as the API's own parameters. */
import type { Params } from '../api/client.ts';
import type { Dimension, TopRow } from '../api/types.ts';
import type { RouteQuery } from './route.ts';

interface DimensionWords {
  readonly label: string;
  readonly plural: string;
  readonly parameter: string;
  readonly valueOf: (row: TopRow) => string;
}

export const DIMENSIONS: Readonly<Record<Dimension, DimensionWords>> = {
  campaign: {
    label: 'Campaign',
    plural: 'Campaigns',
    parameter: 'campaign_ids',
    valueOf: (row) => row.campaign_id ?? '',
  },
  country: {
    label: 'Country',
    plural: 'Countries',
    parameter: 'country',
    valueOf: (row) => row.country ?? '',
  },
  device: {
    label: 'Device',
    plural: 'Devices',
    parameter: 'device',
    valueOf: (row) => row.device ?? '',
  },
  ad: { label: 'Ad', plural: 'Top ads', parameter: 'ad_ids', valueOf: (row) => row.ad_id ?? '' },
};
export const DIMENSION_NAMES = Object.keys(DIMENSIONS) as Dimension[];

export type Filters = Readonly<Record<Dimension, readonly string[]>>;

export function filtersOf(query: RouteQuery): Filters {
  const values = (name: Dimension): string[] => (query[name] ?? '').split(',').filter(Boolean);
  return {
    campaign: values('campaign'),
    country: values('country'),
    device: values('device'),
    ad: values('ad'),
  };
}

export function filterParams(filters: Filters): Params {
  return Object.fromEntries(
    DIMENSION_NAMES.map((name) => [DIMENSIONS[name].parameter, filters[name]]),
  );
}

/** The address with one value added, or taken out when it was there. */
export function toggled(filters: Filters, name: Dimension, value: string): Record<string, string> {
  const before = filters[name];
  const after = before.includes(value)
    ? before.filter((each) => each !== value)
    : [...before, value];
  return { [name]: after.join(',') };
}

export const isFiltered = (filters: Filters): boolean =>
  DIMENSION_NAMES.some((name) => filters[name].length > 0);
