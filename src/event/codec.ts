/**
 * The bytes of a click event, version 1. The log stores them, every reader decodes them.
 *
 *     0      u8   version (1)
 *     1      u8   class   (index into CLICK_CLASSES)
 *     2      u8   source  (index into SOURCES)
 *     3      u8   reserved, 0
 *     4..9   u48  clickedAtMs, little endian
 *     10..13 u32  geoVersion, little endian
 *     14     u8   device  (index into DEVICES)        ┐
 *     15..16      country, two ASCII letters          │ the row key: contiguous, so that the
 *     17     u8 n, advertiserId (n ASCII bytes)       │ counter takes it as one slice
 *            u8 n, campaignId                         │
 *            u8 n, adId                               ┘
 *            u8 n, impressionId
 *            u8 n, ip; u16 n, userAgent (UTF-8); u16 n, referer (UTF-8)
 *
 * Lengths stand before every string, so two different tuples never give the same bytes.
 * An encoder cuts over-long free text at the limit; ids over the limit never get here.
 */
import { assert } from '../platform/errors.ts';
import {
  CLICK_CLASSES,
  type ClickEvent,
  DEVICES,
  MAX_ID_LENGTH,
  MAX_IP_LENGTH,
  MAX_REFERER_LENGTH,
  MAX_USER_AGENT_LENGTH,
  SOURCES,
} from './click-event.ts';

export const EVENT_VERSION = 1;
const ROW_KEY_AT = 14;
const STRINGS_AT = 17;

/** No encoded event is longer than this many bytes (UTF-8 takes up to 3 bytes a UTF-16 unit). */
export const MAX_EVENT_BYTES =
  STRINGS_AT +
  4 * (1 + MAX_ID_LENGTH) +
  1 +
  MAX_IP_LENGTH +
  4 +
  3 * (MAX_USER_AGENT_LENGTH + MAX_REFERER_LENGTH);

/** Writes `event` into `out` at `at`; returns the position after it. `out` needs MAX_EVENT_BYTES left. */
export function encodeEvent(event: ClickEvent, out: Buffer, at: number): number {
  out[at] = EVENT_VERSION;
  out[at + 1] = CLICK_CLASSES.indexOf(event.class);
  out[at + 2] = SOURCES.indexOf(event.source);
  out[at + 3] = 0;
  out.writeUIntLE(event.clickedAtMs, at + 4, 6);
  out.writeUInt32LE(event.geoVersion, at + 10);
  out[at + ROW_KEY_AT] = DEVICES.indexOf(event.device);
  out[at + 15] = event.country.charCodeAt(0);
  out[at + 16] = event.country.charCodeAt(1);
  let end = at + STRINGS_AT;
  end = writeAscii(event.advertiserId, out, end);
  end = writeAscii(event.campaignId, out, end);
  end = writeAscii(event.adId, out, end);
  end = writeAscii(event.impressionId, out, end);
  end = writeAscii(event.ip, out, end);
  end = writeText(event.userAgent, MAX_USER_AGENT_LENGTH, out, end);
  return writeText(event.referer, MAX_REFERER_LENGTH, out, end);
}

function writeAscii(value: string, out: Buffer, at: number): number {
  const length = value.length;
  assert(length <= MAX_ID_LENGTH, 'an id or address reached the codec over its limit');
  out[at] = length;
  out.latin1Write(value, at + 1);
  return at + 1 + length;
}

function writeText(value: string, maxLength: number, out: Buffer, at: number): number {
  const cut = value.length > maxLength ? value.slice(0, maxLength) : value;
  const length = out.utf8Write(cut, at + 2);
  out.writeUInt16LE(length, at);
  return at + 2 + length;
}

/**
 * Where the parts of one encoded event lie. One instance is reused for every record of a scan:
 * counting reads a few numbers and slices and never builds the whole object.
 */
export class EventView {
  version = 0;
  class = 0;
  clickedAtMs = 0;
  rowKeyStart = 0;
  rowKeyEnd = 0;
  impressionStart = 0;
  impressionEnd = 0;

  /** Reads the counted part of the event in `bytes[start, end)`; false when it cannot be an event. */
  read(bytes: Buffer, start: number, end: number): boolean {
    if (end - start < STRINGS_AT) return false;
    this.version = bytes[start]!;
    this.class = bytes[start + 1]!;
    if (this.version !== EVENT_VERSION) return true;
    if (this.class >= CLICK_CLASSES.length || bytes[start + ROW_KEY_AT]! >= DEVICES.length)
      return false;
    if (bytes[start + 2]! >= SOURCES.length) return false;
    this.clickedAtMs = bytes.readUIntLE(start + 4, 6);
    this.rowKeyStart = start + ROW_KEY_AT;
    let at = start + STRINGS_AT;
    for (let field = 0; field < 3; field++) {
      at = skipId(bytes, at, end);
      if (at < 0) return false;
    }
    this.rowKeyEnd = at;
    this.impressionStart = at + 1;
    at = skipId(bytes, at, end);
    if (at < 0) return false;
    this.impressionEnd = at;
    return skipRest(bytes, at, end) === end;
  }
}

function skipId(bytes: Buffer, at: number, end: number): number {
  if (at >= end) return -1;
  const length = bytes[at]!;
  const next = at + 1 + length;
  return length === 0 || length > MAX_ID_LENGTH || next > end ? -1 : next;
}

function skipRest(bytes: Buffer, at: number, end: number): number {
  if (at >= end) return -1;
  let next = at + 1 + bytes[at]!;
  for (let field = 0; field < 2; field++) {
    if (next + 2 > end) return -1;
    next += 2 + bytes.readUInt16LE(next);
  }
  return next;
}

/** Decodes a whole event, or returns null when the bytes are not a version 1 event. */
export function decodeEvent(bytes: Buffer, start: number, end: number): ClickEvent | null {
  const view = new EventView();
  if (!view.read(bytes, start, end) || view.version !== EVENT_VERSION) return null;
  let at = start + STRINGS_AT;
  const ascii = (): string => {
    const from = at + 1;
    at = from + bytes[at]!;
    return bytes.latin1Slice(from, at);
  };
  const text = (): string => {
    const from = at + 2;
    at = from + bytes.readUInt16LE(at);
    return bytes.utf8Slice(from, at);
  };
  const advertiserId = ascii();
  const campaignId = ascii();
  const adId = ascii();
  const impressionId = ascii();
  const ip = ascii();
  return {
    impressionId,
    adId,
    advertiserId,
    campaignId,
    clickedAtMs: view.clickedAtMs,
    country: bytes.latin1Slice(start + 15, start + 17),
    device: DEVICES[bytes[start + ROW_KEY_AT]!]!,
    class: CLICK_CLASSES[view.class]!,
    source: SOURCES[bytes[start + 2]!]!,
    geoVersion: bytes.readUInt32LE(start + 10),
    ip,
    userAgent: text(),
    referer: text(),
  };
}

/** The part of a minute row's key that does not depend on time. */
export interface RowKey {
  readonly advertiserId: string;
  readonly campaignId: string;
  readonly adId: string;
  readonly country: string;
  readonly device: ClickEvent['device'];
}

/** The row key as the counter slices it out of an encoded event: one character per byte. */
export function encodeRowKey(key: RowKey): string {
  const device = String.fromCharCode(DEVICES.indexOf(key.device));
  const id = (value: string): string => String.fromCharCode(value.length) + value;
  return device + key.country + id(key.advertiserId) + id(key.campaignId) + id(key.adId);
}

export function decodeRowKey(encoded: string): RowKey {
  let at = 3;
  const id = (): string => {
    const from = at + 1;
    at = from + encoded.charCodeAt(at);
    return encoded.slice(from, at);
  };
  return {
    device: DEVICES[encoded.charCodeAt(0)]!,
    country: encoded.slice(1, 3),
    advertiserId: id(),
    campaignId: id(),
    adId: id(),
  };
}
