/**
 * From one row of recorded clicks to the event that is logged, or everything that is wrong with it.
 *
 * The same checks as a click over HTTP, except for the signature: whoever may ingest is trusted with
 * what was clicked, not with what exists. Advertiser and campaign come from the catalog alone.
 */
import type { AdLookup } from '../ads/port.ts';
import { parseAddress, withoutPort } from '../click/address.ts';
import { Agents } from '../click/agent.ts';
import { classify } from '../click/classify.ts';
import { countryOf } from '../click/countries.ts';
import type { GeoLookup } from '../click/geo.ts';
import { placeOfAddress } from '../click/place.ts';
import type { Config } from '../config/schema.ts';
import {
  type ClickEvent,
  DEVICES,
  type Device,
  isId,
  UNKNOWN_COUNTRY,
} from '../event/click-event.ts';
import type { Clock } from '../platform/clock.ts';
import { type Columns, columnProblem, quoted } from '../platform/row-types.ts';
import { readClickedAt } from './clicked-at.ts';

export const INGEST_COLUMNS: Columns = {
  required: ['impression_id', 'ad_id', 'clicked_at'],
  optional: ['country', 'device', 'ip', 'ua'],
};

export interface RecordedClickOptions {
  readonly ads: Pick<AdLookup, 'find'>;
  readonly geo: GeoLookup;
  readonly clock: Clock;
  readonly config: {
    /** `counting.maxSkewMs` */
    readonly maxSkewMs: number;
    readonly storeAddress: Config['click']['storeAddress'];
  };
}

export type CheckedRow =
  | { readonly ok: true; readonly event: ClickEvent }
  | { readonly ok: false; readonly reason: string };

type RowRecord = Readonly<Record<string, unknown>>;
type Place = Pick<ClickEvent, 'country' | 'geoVersion' | 'ip'>;

/** A recorded click carries no request headers that could tell its purpose. */
const NO_HEADERS = new Headers();
const NOWHERE: Place = { country: UNKNOWN_COUNTRY, geoVersion: 0, ip: '' };

export class RecordedClicks {
  readonly #options: RecordedClickOptions;
  readonly #agents = new Agents();

  constructor(options: RecordedClickOptions) {
    this.#options = options;
  }

  check(record: RowRecord): CheckedRow {
    const columns = columnProblem(Object.keys(record), INGEST_COLUMNS);
    if (columns !== null) return { ok: false, reason: columns };
    const problems: string[] = [];
    const impressionId = readId(record, 'impression_id', problems);
    const adId = readId(record, 'ad_id', problems);
    const ad = adId === '' ? null : this.#options.ads.find(adId);
    if (ad === null && adId !== '') problems.push(`ad_id ${quoted(adId)} is not in the catalog`);
    const { clock, config } = this.#options;
    const clickedAt = readClickedAt(record.clicked_at, clock(), config.maxSkewMs);
    if (!clickedAt.ok) problems.push(clickedAt.reason);
    const place = this.#place(record, problems);
    const userAgent = readText(record, 'ua', problems);
    const agent = this.#agents.of(userAgent);
    const device = readDevice(record, problems) ?? agent.device;
    if (problems.length > 0 || ad === null || !clickedAt.ok) {
      return { ok: false, reason: problems.join('; ') };
    }
    return {
      ok: true,
      event: {
        impressionId,
        adId: ad.adId,
        advertiserId: ad.advertiserId,
        campaignId: ad.campaignId,
        clickedAtMs: clickedAt.ms,
        ...place,
        device,
        class: classify('GET', NO_HEADERS, agent.isPreview),
        source: 'ingest',
        userAgent,
        referer: '',
      },
    };
  }

  /** A country that is given counts, known or not; only without one is the address asked. */
  #place(record: RowRecord, problems: string[]): Place {
    const { geo, config } = this.#options;
    const given = readText(record, 'country', problems);
    const ip = readText(record, 'ip', problems);
    const address = ip === '' ? null : parseAddress(withoutPort(ip.trim()));
    if (address === null && ip !== '') problems.push(`ip ${quoted(ip)} is not an IP address`);
    const place = address === null ? NOWHERE : placeOfAddress(address, geo, config.storeAddress);
    return given === '' ? place : { country: countryOf(given), geoVersion: 0, ip: place.ip };
  }
}

function readId(record: RowRecord, name: string, problems: string[]): string {
  const value = record[name];
  if (typeof value === 'string' && isId(value)) return value;
  problems.push(`${name} ${shown(value)} is not 1 to 128 of A–Z a–z 0–9 . _ ~ -`);
  return '';
}

/** Empty when it is not given; CSV has no other way to say so. */
function readText(record: RowRecord, name: string, problems: string[]): string {
  const value = record[name];
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  problems.push(`${name} ${shown(value)} is not text`);
  return '';
}

function readDevice(record: RowRecord, problems: string[]): Device | null {
  const text = readText(record, 'device', problems);
  if (text === '') return null;
  const device = DEVICES.find((each) => each === text.trim().toLowerCase());
  if (device === undefined) problems.push(`device ${quoted(text)} is not ${DEVICES.join(', ')}`);
  return device ?? null;
}

function shown(value: unknown): string {
  return typeof value === 'string' ? quoted(value) : quoted(JSON.stringify(value) ?? 'nothing');
}
