/**
 * Encoded row keys by their fields: millions of records of an hour share a few thousand keys, and
 * finding one is a third of the cost of making it.
 */
import type { Device } from '../event/click-event.ts';
import { encodeRowKey } from '../event/codec.ts';

interface Known {
  readonly device: string;
  readonly campaignId: string;
  readonly advertiserId: string;
  readonly rowKey: string;
}

export interface RowKeyFields {
  advertiserId: string;
  campaignId: string;
  adId: string;
  country: string;
  device: string;
}

export class RowKeys {
  /** ad → country → the few combinations of the rest. */
  readonly #known = new Map<string, Map<string, Known[]>>();

  of(fields: Readonly<RowKeyFields>): string {
    let countries = this.#known.get(fields.adId);
    if (countries === undefined) {
      countries = new Map();
      this.#known.set(fields.adId, countries);
    }
    let rest = countries.get(fields.country);
    if (rest === undefined) {
      rest = [];
      countries.set(fields.country, rest);
    }
    for (const known of rest) {
      if (
        known.device === fields.device &&
        known.campaignId === fields.campaignId &&
        known.advertiserId === fields.advertiserId
      ) {
        return known.rowKey;
      }
    }
    const { device, campaignId, advertiserId } = fields;
    const rowKey = encodeRowKey({ ...fields, device: device as Device });
    rest.push({ device, campaignId, advertiserId, rowKey });
    return rowKey;
  }
}
