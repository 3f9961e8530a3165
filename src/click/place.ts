/**
 * Where a click came from: which address is the client's, what of it is stored, which country.
 *
 * Owns the rule of trust: nothing that a client can write itself is believed. By default the peer's
 * address counts and `X-Forwarded-For` is ignored; with N trusted proxies the Nth entry from the
 * right is the one that the outermost trusted proxy saw.
 *
 * P1 One click gets one country and one geo version, from the same look-up (never half of each).
 * P2 The country is `ZZ` or an assigned code; a click without a country is never given a real one.
 */
import type { Config } from '../config/schema.ts';
import { UNKNOWN_COUNTRY } from '../event/click-event.ts';
import { type Address, parseAddress, withoutPort } from './address.ts';
import { BoundedCache } from './bounded-cache.ts';
import { countryOf } from './countries.ts';
import type { GeoLookup } from './geo.ts';
import type { ClickMetrics } from './metrics.ts';

/** The part of `Bun.Server` that is needed here. */
export interface PeerSource {
  requestIP(req: Request): { readonly address: string } | null;
}

export interface Place {
  readonly country: string;
  readonly geoVersion: number;
  /** What is stored of the address: whole, truncated or empty. */
  readonly ip: string;
}

interface KnownAddress extends Place {
  readonly isPrivate: boolean;
}

export interface PlaceOptions {
  readonly config: Pick<
    Config['click'],
    'trustedProxies' | 'countryHeader' | 'addressHeader' | 'storeAddress'
  >;
  readonly geo: GeoLookup;
  readonly metrics: ClickMetrics;
}

const CACHED_ADDRESSES = 20_000;
const NOWHERE: Place = { country: UNKNOWN_COUNTRY, geoVersion: 0, ip: '' };

export class Places {
  readonly #config: PlaceOptions['config'];
  readonly #geo: GeoLookup;
  readonly #metrics: ClickMetrics;
  readonly #known = new BoundedCache<KnownAddress>(CACHED_ADDRESSES);
  readonly #needsAddress: boolean;

  constructor({ config, geo, metrics }: PlaceOptions) {
    this.#config = config;
    this.#geo = geo;
    this.#metrics = metrics;
    // Asking for the peer costs more than a whole signature check.
    this.#needsAddress = config.storeAddress !== 'none' || config.countryHeader === '';
  }

  of(req: Request, server: PeerSource): Place {
    const known = this.#needsAddress ? this.#address(req, server) : null;
    if (known !== null) this.#metrics.address(known.isPrivate);
    const header = this.#config.countryHeader;
    if (header === '') return known ?? NOWHERE;
    return { country: countryOf(req.headers.get(header)), geoVersion: 0, ip: known?.ip ?? '' };
  }

  #address(req: Request, server: PeerSource): KnownAddress | null {
    const { addressHeader, trustedProxies } = this.#config;
    if (addressHeader !== '' || trustedProxies > 0) {
      const named =
        addressHeader !== ''
          ? req.headers.get(addressHeader)
          : nthFromRight(req.headers.get('x-forwarded-for'), trustedProxies);
      const forwarded = named === null ? null : this.#lookUp(withoutPort(named.trim()));
      if (forwarded !== null) return forwarded;
      this.#metrics.forwardedInvalid();
    }
    const peer = server.requestIP(req);
    return peer === null ? null : this.#lookUp(peer.address);
  }

  #lookUp(raw: string): KnownAddress | null {
    const cached = this.#known.get(raw);
    // A reloaded geo database must not leave clicks with the old country and the new version (P1).
    if (cached !== undefined && cached.geoVersion === this.#geo.version) return cached;
    const address = parseAddress(raw);
    if (address === null) return null;
    const place = placeOfAddress(address, this.#geo, this.#config.storeAddress);
    const known: KnownAddress = { ...place, isPrivate: address.isPrivate };
    this.#known.set(raw, known);
    return known;
  }
}

/** What is stamped on a click from this address; recorded clicks (`ingest/`) take the same way. */
export function placeOfAddress(
  address: Address,
  geo: GeoLookup,
  storeAddress: PlaceOptions['config']['storeAddress'],
): Place {
  return {
    country: address.isPrivate ? UNKNOWN_COUNTRY : countryOf(geo.country(address.text)),
    geoVersion: geo.version,
    ip: storedPart(address, storeAddress),
  };
}

function storedPart(
  address: Address,
  storeAddress: PlaceOptions['config']['storeAddress'],
): string {
  switch (storeAddress) {
    case 'whole':
      return address.text;
    case 'truncated':
      return address.truncated;
    case 'none':
      return '';
  }
}

/**
 * The Nth entry from the right of a list (several headers arrive joined by commas). Empty entries do
 * not count: a proxy never appends one, and a client's own are left of everything trusted.
 */
export function nthFromRight(list: string | null, n: number): string | null {
  if (list === null) return null;
  let end = list.length;
  let seen = 0;
  while (end >= 0) {
    const comma = end === 0 ? -1 : list.lastIndexOf(',', end - 1);
    const item = list.slice(comma + 1, end).trim();
    if (item !== '') seen += 1;
    if (seen === n) return item;
    end = comma;
  }
  return null;
}
