/** Signed click requests with fresh impression ids, as raw HTTP. */
import { writeFileSync } from 'node:fs';
import { sign } from '../src/signing/signature.ts';

export interface SignedTraffic {
  readonly secret: string;
  readonly kid: string;
  /** Ads are `ad-0000000` … up to this many. */
  readonly ads: number;
  /** Share of all clicks that go to the first ad. */
  readonly hotShare: number;
  readonly seed: number;
  /** How many requests are made before the run; 0 makes each when it is sent. */
  readonly prepared: number;
  /** Where the number of requests per ad is written when the run ends. */
  readonly reportPath?: string;
}

const USER_AGENTS = [
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1',
  'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15',
  'Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile Safari/537.36',
];

export const adId = (index: number): string => `ad-${String(index).padStart(7, '0')}`;

/** A small seeded generator (mulberry32): the same seed gives the same traffic. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export class ImpressionSource {
  readonly #traffic: SignedTraffic;
  readonly #port: number;
  readonly #random: () => number;
  readonly #prepared: Buffer[] = [];
  readonly #perAd = new Map<string, number>();
  #made = 0;
  #given = 0;

  constructor(traffic: SignedTraffic, port: number) {
    this.#traffic = traffic;
    this.#port = port;
    this.#random = random(traffic.seed);
    for (let i = 0; i < traffic.prepared; i++) this.#prepared.push(this.#make());
  }

  next(): Buffer {
    const prepared = this.#prepared.length;
    return prepared > 0 ? this.#prepared[this.#given++ % prepared]! : this.#make();
  }

  #make(): Buffer {
    const { secret, kid, ads, hotShare, seed } = this.#traffic;
    const ad = adId(this.#random() < hotShare ? 0 : Math.floor(this.#random() * ads));
    // Time-ordered like a UUIDv7, unique by seed and number.
    const number = String(this.#made++).padStart(12, '0');
    const imp = `0198a6d2-${seed.toString(16).padStart(4, '0')}-7000-8000-${number}`;
    this.#perAd.set(ad, (this.#perAd.get(ad) ?? 0) + 1);
    const agent = USER_AGENTS[this.#made % USER_AGENTS.length];
    const target = `/v1/c?imp=${imp}&ad=${ad}&sig=${sign(secret, imp, ad)}&kid=${kid}`;
    return Buffer.from(
      `GET ${target} HTTP/1.1\r\nHost: localhost:${this.#port}\r\nUser-Agent: ${agent}\r\nAccept: text/html\r\n\r\n`,
    );
  }

  save(): void {
    const { reportPath } = this.#traffic;
    if (reportPath !== undefined) {
      writeFileSync(reportPath, JSON.stringify(Object.fromEntries(this.#perAd)));
    }
  }
}
