// Proves INV-7 of SPEC.md.
/** The bytes of an event: what goes in comes out, and no bytes make a reader throw. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import {
  CLICK_CLASSES,
  type ClickEvent,
  DEVICES,
  MAX_REFERER_LENGTH,
  MAX_USER_AGENT_LENGTH,
  SOURCES,
} from '../../src/event/click-event.ts';
import {
  decodeEvent,
  decodeRowKey,
  EVENT_VERSION,
  EventView,
  encodeEvent,
  encodeRowKey,
  MAX_EVENT_BYTES,
  type RowKey,
} from '../../src/event/codec.ts';
import { fcParams } from '../support/seed.ts';

const ID_CHARACTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-';
const id = fc.oneof(
  fc.string({ unit: fc.constantFrom(...ID_CHARACTERS), minLength: 1, maxLength: 128 }),
  fc.constantFrom('a', 'x'.repeat(128)),
);
const letter = fc.constantFrom(...'ABCDEFGHIJKLMNOPQRSTUVWXYZ');
/** Any UTF-16, lone surrogates too, around the limit and far beyond it. */
const freeText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 600, size: 'max' })
    .map((units) => String.fromCharCode(...units)),
  fc
    .tuple(
      fc.integer({ min: 505, max: 520 }),
      fc.constantFrom('a', 'é', '€', '😀', '\ud83d', '\ude00'),
    )
    .map(([length, filler]) => 'x'.repeat(length % 3) + filler.repeat(length)),
);

const event: fc.Arbitrary<ClickEvent> = fc.record({
  impressionId: id,
  adId: id,
  advertiserId: id,
  campaignId: id,
  clickedAtMs: fc.integer({ min: 0, max: 2 ** 48 - 1 }),
  country: fc.tuple(letter, letter).map(([a, b]) => a + b),
  device: fc.constantFrom(...DEVICES),
  class: fc.constantFrom(...CLICK_CLASSES),
  source: fc.constantFrom(...SOURCES),
  geoVersion: fc.integer({ min: 0, max: 0xffff_ffff }),
  ip: fc.string({ unit: fc.constantFrom(...'0123456789abcdef:.'), maxLength: 45 }),
  userAgent: freeText,
  referer: freeText,
});

const encode = (one: ClickEvent): Buffer => {
  const out = Buffer.alloc(MAX_EVENT_BYTES + 64, 0xee);
  return out.subarray(0, encodeEvent(one, out, 0));
};

/** What UTF-8 can hold of a text that is cut at `limit` UTF-16 units. */
const stored = (text: string, limit: number): string =>
  new TextDecoder('utf-8', { ignoreBOM: true }).decode(
    new TextEncoder().encode(text.slice(0, limit)),
  );

describe('an encoded event', () => {
  test('decodes to what was encoded, free text cut at its limit, and never exceeds MAX_EVENT_BYTES', () => {
    fc.assert(
      fc.property(event, fc.nat(20), (one, at) => {
        const out = Buffer.alloc(at + MAX_EVENT_BYTES, 0xee);
        const end = encodeEvent(one, out, at);
        expect(end - at).toBeLessThanOrEqual(MAX_EVENT_BYTES);
        const decoded = decodeEvent(out, at, end)!;
        expect(decoded).toEqual({
          ...one,
          userAgent: stored(one.userAgent, MAX_USER_AGENT_LENGTH),
          referer: stored(one.referer, MAX_REFERER_LENGTH),
        });
        // What was decoded is a valid event itself and keeps its bytes.
        expect(encode(decoded).equals(out.subarray(at, end))).toBe(true);
      }),
      fcParams(500),
    );
  });

  test('of the longest fields in three-byte characters is exactly MAX_EVENT_BYTES long', () => {
    const long = 'x'.repeat(128);
    const bytes = encode({
      impressionId: long,
      adId: long,
      advertiserId: long,
      campaignId: long,
      clickedAtMs: 1,
      country: 'ZZ',
      device: 'other',
      class: 'preview',
      source: 'ingest',
      geoVersion: 0xffff_ffff,
      ip: '1'.repeat(45),
      userAgent: '€'.repeat(600),
      referer: '\ud83d'.repeat(600),
    });
    expect(bytes.length).toBe(MAX_EVENT_BYTES);
  });

  test('holds the row key as the slice that encodeRowKey gives, for every device', () => {
    fc.assert(
      fc.property(event, fc.constantFrom(...DEVICES), (one, device) => {
        const bytes = encode({ ...one, device });
        const view = new EventView();
        expect(view.read(bytes, 0, bytes.length)).toBe(true);
        const slice = bytes.latin1Slice(view.rowKeyStart, view.rowKeyEnd);
        const { advertiserId, campaignId, adId, country } = one;
        const key: RowKey = { advertiserId, campaignId, adId, country, device };
        expect(slice).toBe(encodeRowKey(key));
        expect(decodeRowKey(slice)).toEqual(key);
        expect(bytes.latin1Slice(view.impressionStart, view.impressionEnd)).toBe(one.impressionId);
        expect(view.clickedAtMs).toBe(one.clickedAtMs);
        expect(CLICK_CLASSES[view.class]).toBe(one.class);
      }),
      fcParams(),
    );
  });

  test('gives different row keys to tuples whose fields only join to the same text', () => {
    const short = fc.string({ unit: fc.constantFrom('a', '-', '.'), minLength: 1, maxLength: 3 });
    const key = fc.record<RowKey>({
      advertiserId: short,
      campaignId: short,
      adId: short,
      country: fc.constantFrom('DE', 'ED'),
      device: fc.constantFrom('desktop', 'mobile'),
    });
    fc.assert(
      fc.property(key, key, (a, b) => {
        const same = (Object.keys(a) as (keyof RowKey)[]).every((field) => a[field] === b[field]);
        expect(encodeRowKey(a) === encodeRowKey(b)).toBe(same);
      }),
      fcParams(2_000),
    );
    const base: RowKey = {
      advertiserId: 'a',
      campaignId: 'b-c',
      adId: 'd',
      country: 'DE',
      device: 'desktop',
    };
    const other = { ...base, advertiserId: 'a-b', campaignId: 'c' };
    expect(encodeRowKey(base)).not.toBe(encodeRowKey(other));
  });
});

describe('bytes that may be anything', () => {
  /** Random bytes, real events with a few bytes changed, and real events cut or prolonged. */
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 80 }).map((raw) => Buffer.from(raw)),
    fc
      .tuple(event, fc.array(fc.tuple(fc.nat(700), fc.nat(255)), { maxLength: 4 }))
      .map(([one, changes]) => {
        const out = Buffer.from(encode(one));
        for (const [at, value] of changes) out[at % out.length] = value;
        return out;
      }),
    fc.tuple(event, fc.nat(4_000)).map(([one, length]) => {
      const out = encode(one);
      return Buffer.concat([out, Buffer.alloc(9)]).subarray(0, length % (out.length + 9));
    }),
  );

  test('are read or refused without throwing, and both readers agree', () => {
    fc.assert(
      fc.property(bytes, fc.nat(5), (raw, pad) => {
        const whole = Buffer.concat([Buffer.alloc(pad, 1), raw, Buffer.alloc(pad, 1)]);
        const view = new EventView();
        const readable = view.read(whole, pad, pad + raw.length);
        const decoded = decodeEvent(whole, pad, pad + raw.length);
        expect(decoded !== null).toBe(readable && view.version === EVENT_VERSION);
        if (decoded === null) return;
        expect(whole.latin1Slice(view.impressionStart, view.impressionEnd)).toBe(
          decoded.impressionId,
        );
        expect(whole.latin1Slice(view.rowKeyStart, view.rowKeyEnd)).toBe(encodeRowKey(decoded));
        expect(view.impressionEnd).toBeLessThanOrEqual(pad + raw.length);
      }),
      fcParams(2_000),
    );
  });

  test('of a later version are told apart from bytes that are no event', () => {
    fc.assert(
      fc.property(event, fc.integer({ min: 2, max: 255 }), (one, version) => {
        const raw = Buffer.from(encode(one));
        raw[0] = version;
        const view = new EventView();
        expect(view.read(raw, 0, raw.length)).toBe(true);
        expect(view.version).toBe(version);
        expect(decodeEvent(raw, 0, raw.length)).toBeNull();
      }),
      fcParams(50),
    );
  });

  test('with one byte missing or one too many are refused at every length', () => {
    fc.assert(
      fc.property(event, (one) => {
        const raw = Buffer.concat([encode(one), Buffer.alloc(1)]);
        const view = new EventView();
        for (let length = 0; length <= raw.length; length++) {
          expect(view.read(raw, 0, length)).toBe(length === raw.length - 1);
        }
      }),
      fcParams(20),
    );
  });
});
