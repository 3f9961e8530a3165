/** Kafka's varints: seven bits a byte, the sign folded into the lowest bit (zigzag). */

/** Values here are lengths and counts: within 31 bits. */
const zigzag = (value: number): number => ((value << 1) ^ (value >> 31)) >>> 0;

export function varintBytes(value: number): number {
  let rest = zigzag(value);
  let size = 1;
  while (rest >= 0x80) {
    rest >>>= 7;
    size++;
  }
  return size;
}

/** Returns the position after it. */
export function writeVarint(out: Buffer, value: number, at: number): number {
  let rest = zigzag(value);
  let end = at;
  while (rest >= 0x80) {
    out[end++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  out[end++] = rest;
  return end;
}

/** Reads on from `at`. Beyond the end it reads zeros: whoever reads checks against the end. */
export class VarintReader {
  at = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  read(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.#bytes[this.at++] ?? 0;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return (value >>> 1) ^ -(value & 1);
  }

  /** Passes over one of up to ten bytes: timestamps may be longer than what `read` takes. */
  skip(): void {
    for (let i = 0; i < 10; i++) if ((this.#bytes[this.at++] ?? 0) < 0x80) return;
  }
}
