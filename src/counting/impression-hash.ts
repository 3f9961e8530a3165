/**
 * A 96-bit hash of an impression id: three lanes of a 32-bit multiply-and-rotate mix (the building
 * block of MurmurHash3), each seeded differently and finished with a full avalanche.
 *
 * 96 bits: among 10^9 impressions of a day, two different ones meet with probability 10^-11. The
 * final numbers are recounted with the same hash, over far fewer pairs at once.
 * Ids are ASCII, so a string's character codes are its bytes: stream and recount hash alike.
 */
export class ImpressionHash {
  hash0 = 0;
  hash1 = 0;
  hash2 = 0;

  ofBytes(bytes: Uint8Array, start: number, end: number): void {
    this.#begin();
    let at = start;
    for (; at + 4 <= end; at += 4) {
      this.#mix(
        bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24),
      );
    }
    let rest = 0;
    for (let shift = 0; at < end; at++, shift += 8) rest |= bytes[at]! << shift;
    this.#finish(rest, end - start);
  }

  ofText(text: string): void {
    this.#begin();
    const end = text.length;
    let at = 0;
    for (; at + 4 <= end; at += 4) {
      this.#mix(
        text.charCodeAt(at) |
          (text.charCodeAt(at + 1) << 8) |
          (text.charCodeAt(at + 2) << 16) |
          (text.charCodeAt(at + 3) << 24),
      );
    }
    let rest = 0;
    for (let shift = 0; at < end; at++, shift += 8) rest |= text.charCodeAt(at) << shift;
    this.#finish(rest, end);
  }

  #begin(): void {
    this.hash0 = 0x3c6ef372;
    this.hash1 = 0x1f83d9ab | 0;
    this.hash2 = 0x5be0cd19 | 0;
  }

  #mix(word: number): void {
    this.hash0 = lane(this.hash0, word, 0xcc9e2d51, 15, 0x1b873593);
    this.hash1 = lane(this.hash1, word, 0x239b961b, 17, 0xab0e9789);
    this.hash2 = lane(this.hash2, word, 0x38b34ae5, 16, 0xa1e38b93);
  }

  #finish(rest: number, length: number): void {
    this.#mix(rest);
    const a = avalanche(this.hash0 ^ length);
    const b = avalanche(this.hash1 ^ length ^ a);
    const c = avalanche(this.hash2 ^ length ^ b);
    this.hash0 = (a + c) >>> 0;
    this.hash1 = (b + a) >>> 0;
    this.hash2 = c >>> 0;
  }
}

function lane(hash: number, word: number, m1: number, rotate: number, m2: number): number {
  let k = Math.imul(word, m1);
  k = (k << rotate) | (k >>> (32 - rotate));
  const mixed = hash ^ Math.imul(k, m2);
  return (Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0x52dce729) | 0;
}

function avalanche(value: number): number {
  let h = value;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return h ^ (h >>> 16);
}
