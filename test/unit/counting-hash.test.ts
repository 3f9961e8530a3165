// Proves INV-2 of SPEC.md.
/** The hash that stands for an impression: the same for text and bytes, and without collisions. */
import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { ImpressionHash } from '../../src/counting/impression-hash.ts';
import { fcParams } from '../support/seed.ts';

const ID_CHARACTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-';
const COUNT = 1_000_000;

/** UUIDv7s of one millisecond and one counter: only their last 12 digits differ. */
const uuidV7 = (i: number): string => `01954f2a-7c00-7000-8000-${i.toString(16).padStart(12, '0')}`;
/** UUIDv7s of consecutive milliseconds with the same random part. */
const uuidV7ByTime = (i: number): string => {
  const time = (0x01954f2a7c00 + i).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7abc-9def-0123456789ab`;
};

interface Lanes {
  readonly lanes: readonly [Uint32Array, Uint32Array, Uint32Array];
}

function hashAll(id: (i: number) => string): Lanes {
  const hash = new ImpressionHash();
  const lanes = [0, 1, 2].map(() => new Uint32Array(COUNT)) as unknown as Lanes['lanes'];
  for (let i = 0; i < COUNT; i++) {
    hash.ofText(id(i));
    lanes[0][i] = hash.hash0;
    lanes[1][i] = hash.hash1;
    lanes[2][i] = hash.hash2;
  }
  return { lanes };
}

/** How many values of one lane, or of 53 bits out of two lanes, occur more than once. */
function collisions(first: Uint32Array, second?: Uint32Array): number {
  const both = new Float64Array(first.length);
  for (let i = 0; i < first.length; i++) {
    both[i] = first[i]! * 2 ** 21 + (second === undefined ? 0 : second[i]! >>> 11);
  }
  both.sort();
  let found = 0;
  for (let i = 1; i < both.length; i++) if (both[i] === both[i - 1]) found++;
  return found;
}

describe('the impression hash', () => {
  test('is the same for an id as text and as bytes anywhere in a buffer', () => {
    const id = fc.string({ unit: fc.constantFrom(...ID_CHARACTERS), minLength: 1, maxLength: 128 });
    fc.assert(
      fc.property(id, fc.nat(9), (text, at) => {
        const bytes = Buffer.alloc(at + text.length + 9, 0xff);
        bytes.latin1Write(text, at);
        const [ofText, ofBytes] = [new ImpressionHash(), new ImpressionHash()];
        ofText.ofText(text);
        ofBytes.ofBytes(bytes, at, at + text.length);
        expect({ ...ofBytes }).toEqual({ ...ofText });
        for (const lane of Object.values({ ...ofText })) {
          expect(Number.isInteger(lane) && lane >= 0 && lane <= 0xffff_ffff).toBe(true);
        }
      }),
      fcParams(1_000),
    );
  });

  for (const [label, id] of [
    ['sequential ids', (i: number) => `imp-${i}`],
    ['UUIDv7s with one prefix', uuidV7],
    ['UUIDv7s of consecutive milliseconds', uuidV7ByTime],
  ] as const) {
    test(`tells a million ${label} apart, with lanes that are as good as random`, () => {
      const { lanes } = hashAll(id);
      // 53 bits: a million random values collide with a probability of 1 in 18,000.
      expect(collisions(lanes[0], lanes[1])).toBe(0);
      expect(collisions(lanes[1], lanes[2])).toBe(0);
      expect(collisions(lanes[0], lanes[2])).toBe(0);
      // One lane of 32 bits: n²/2 / 2^32 = 116 are expected, ± 11 each.
      for (const lane of lanes) {
        const found = collisions(lane);
        expect(found).toBeGreaterThan(50);
        expect(found).toBeLessThan(190);
        expectBalancedBits(lane);
      }
      expectUnrelated(lanes[0], lanes[1]);
      expectUnrelated(lanes[1], lanes[2]);
      expectUnrelated(lanes[0], lanes[2]);
    });
  }

  test('changes about half of its 96 bits when one character of the id changes', () => {
    const [a, b] = [new ImpressionHash(), new ImpressionHash()];
    for (const length of [1, 3, 4, 5, 36, 128]) {
      let changed = 0;
      let pairs = 0;
      for (let at = 0; at < length; at++) {
        const text = 'x'.repeat(length);
        a.ofText(text);
        b.ofText(`${text.slice(0, at)}y${text.slice(at + 1)}`);
        changed += bits(a.hash0 ^ b.hash0) + bits(a.hash1 ^ b.hash1) + bits(a.hash2 ^ b.hash2);
        pairs++;
      }
      expect(changed / pairs).toBeGreaterThan(30);
      expect(changed / pairs).toBeLessThan(66);
    }
  });
});

function bits(value: number): number {
  let count = 0;
  for (let rest = value >>> 0; rest !== 0; rest &= rest - 1) count++;
  return count;
}

const SAMPLE_STEP = 4;
const SAMPLES = COUNT / SAMPLE_STEP;
/** Six standard deviations of the count of heads in that many throws. */
const TOLERANCE = 3 * Math.sqrt(SAMPLES);

/** Each bit is set in half of the values. */
function expectBalancedBits(lane: Uint32Array): void {
  for (let bit = 0; bit < 32; bit++) {
    let ones = 0;
    for (let i = 0; i < COUNT; i += SAMPLE_STEP) ones += (lane[i]! >>> bit) & 1;
    expect(Math.abs(ones - SAMPLES / 2)).toBeLessThan(TOLERANCE);
  }
}

/** Any bit of one lane says nothing about the same bit of another. */
function expectUnrelated(first: Uint32Array, second: Uint32Array): void {
  for (let bit = 0; bit < 32; bit++) {
    let equal = 0;
    for (let i = 0; i < COUNT; i += SAMPLE_STEP) equal += (~(first[i]! ^ second[i]!) >>> bit) & 1;
    expect(Math.abs(equal - SAMPLES / 2)).toBeLessThan(TOLERANCE);
  }
}
