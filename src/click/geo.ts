/** Country of an address, from a database file that comes with the packages. No network is used. */
import { createRequire } from 'node:module';
import maxmind from 'maxmind';
import { UNKNOWN_COUNTRY } from '../event/click-event.ts';
import { countryOf } from './countries.ts';

export interface GeoLookup {
  /** Build date of the database as YYYYMMDD, 0 when there is none. Stamped on every click. */
  readonly version: number;
  /** ISO 3166-1 alpha-2 or `ZZ`. Takes a valid IPv4 or IPv6 address as text. */
  country(address: string): string;
}

/** For installations that do without the database: every click is from `ZZ`. */
export const noGeo: GeoLookup = { version: 0, country: () => UNKNOWN_COUNTRY };

const DATABASE = '@ip-location-db/geo-whois-asn-country-mmdb/geo-whois-asn-country.mmdb';

type CountryRecord = { country_code?: string };

/** Reads the whole database into memory (8 MB); a look-up then takes about a microsecond. */
export async function openGeo(
  file: string = createRequire(import.meta.url).resolve(DATABASE),
): Promise<GeoLookup> {
  // The package types its reader by MaxMind's own records; this database has one field of its own.
  const reader = await maxmind.open(file);
  return {
    version: yyyymmdd(reader.metadata.buildEpoch),
    country: (address) => countryOf((reader.get(address) as CountryRecord | null)?.country_code),
  };
}

function yyyymmdd(date: Date): number {
  return date.getUTCFullYear() * 10_000 + (date.getUTCMonth() + 1) * 100 + date.getUTCDate();
}
