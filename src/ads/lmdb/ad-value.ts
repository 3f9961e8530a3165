/**
 * The bytes of an ad in the store, version 1. The ad id is the key and not repeated.
 *
 *     0   u8   version (1)
 *     1   u8   flags: bit 0 = passQuery
 *     2   u8 n, advertiserId (n ASCII bytes)
 *         u8 n, campaignId
 *         the rest: targetUrl, UTF-8
 *
 * Reading it is two small slices and one string: no JSON on the click path.
 */
import { MAX_ID_LENGTH } from '../../event/click-event.ts';
import { assert } from '../../platform/errors.ts';
import type { Ad } from '../port.ts';

const VERSION = 1;
const PASS_QUERY = 1;
const STRINGS_AT = 2;

export function encodeAd(ad: Ad): Buffer {
  const { advertiserId, campaignId, targetUrl } = ad;
  assert(advertiserId.length <= MAX_ID_LENGTH, 'an advertiser id over its limit reached the store');
  assert(campaignId.length <= MAX_ID_LENGTH, 'a campaign id over its limit reached the store');
  const fixed = STRINGS_AT + 2 + advertiserId.length + campaignId.length;
  const out = Buffer.allocUnsafe(fixed + Buffer.byteLength(targetUrl));
  out[0] = VERSION;
  out[1] = ad.passQuery ? PASS_QUERY : 0;
  let at = STRINGS_AT;
  for (const id of [advertiserId, campaignId]) {
    out[at] = id.length;
    out.latin1Write(id, at + 1);
    at += 1 + id.length;
  }
  out.utf8Write(targetUrl, at);
  return out;
}

/** Where an encoded ad lies in a buffer that may hold more. */
export interface AdBytes {
  readonly bytes: Buffer;
  readonly start: number;
  readonly end: number;
}

/** Reads an ad; the store reuses the buffer, so nothing of it may be kept. */
export function decodeAd(adId: string, { bytes, start, end }: AdBytes): Ad {
  assert(bytes[start] === VERSION, `ad ${adId} is stored in an unknown version ${bytes[start]}`);
  const advertiserAt = start + STRINGS_AT + 1;
  const campaignAt = advertiserAt + bytes[advertiserAt - 1]! + 1;
  const targetAt = campaignAt + bytes[campaignAt - 1]!;
  assert(targetAt <= end, `ad ${adId} is stored with impossible lengths`);
  return {
    adId,
    advertiserId: bytes.latin1Slice(advertiserAt, campaignAt - 1),
    campaignId: bytes.latin1Slice(campaignAt, targetAt),
    targetUrl: bytes.utf8Slice(targetAt, end),
    passQuery: (bytes[start + 1]! & PASS_QUERY) !== 0,
  };
}
