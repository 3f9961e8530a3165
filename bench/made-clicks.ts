/** Made clicks with what clicks have in the wild: real user agents by their frequency, a few ads that get most. */
import { Random } from '../src/demo/random.ts';
import { loadUserAgents } from '../src/demo/visitors.ts';
import { type ClickEvent, DEVICES } from '../src/event/click-event.ts';
import { EventView, encodeEvent, MAX_EVENT_BYTES } from '../src/event/codec.ts';
import type { KeyedRecord } from '../src/log/kafka/record-batch.ts';
import { adId } from './traffic.ts';

export interface MadeClicksPlan {
  readonly ads: number;
  /** Time of the first click. */
  readonly firstMs: number;
  /** Clicks of each millisecond. */
  readonly perMs: number;
  /** Share of the clicks that are the one before once more. */
  readonly repeatShare?: number;
  readonly seed?: number;
}

const REFERERS = 2_000;
const REFERER_SHARE = 0.6;
const COUNTRIES = ['US', 'DE', 'GB', 'FR', 'IN', 'BR', 'JP', 'ZZ'];

export class MadeClicks {
  readonly #plan: MadeClicksPlan;
  readonly #random: Random;
  readonly #agents = loadUserAgents();
  readonly #bytes = Buffer.alloc(MAX_EVENT_BYTES);
  readonly #view = new EventView();
  #made = 0;
  #last: ClickEvent | null = null;

  constructor(plan: MadeClicksPlan) {
    this.#plan = plan;
    this.#random = new Random(plan.seed ?? 7);
  }

  next(): ClickEvent {
    const { ads, firstMs, perMs, repeatShare = 0 } = this.#plan;
    const clickedAtMs = firstMs + Math.floor(this.#made++ / perMs);
    const random = this.#random;
    if (repeatShare > 0 && this.#last !== null && random.chance(repeatShare)) {
      return { ...this.#last, clickedAtMs };
    }
    // A few ads get most of the clicks.
    const ad = Math.floor(random.fraction() ** 3 * ads);
    const page = random.below(REFERERS);
    this.#last = {
      impressionId: random.uuid(clickedAtMs),
      adId: adId(ad),
      advertiserId: `adv-${ad % 1_000}`,
      campaignId: `camp-${ad % 5_000}`,
      clickedAtMs,
      country: random.pick(COUNTRIES),
      device: random.pick(DEVICES),
      class: 'click',
      source: 'http',
      geoVersion: 20_260_617,
      ip: `${1 + random.below(223)}.${random.below(256)}.${random.below(256)}.0`,
      userAgent: this.#userAgent(),
      referer: random.chance(REFERER_SHARE)
        ? `https://news-${page % 300}.example.com/article/${page}?utm=abc`
        : '',
    };
    return this.#last;
  }

  /** By bisection: millions are made. */
  #userAgent(): string {
    const { texts, sums } = this.#agents;
    const point = this.#random.fraction() * sums.at(-1)!;
    let from = 0;
    let to = sums.length - 1;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (sums[middle]! > point) to = middle;
      else from = middle + 1;
    }
    return texts[from]!;
  }

  /** As it goes into the log. */
  nextRecord(): KeyedRecord {
    return this.recordOf(this.next());
  }

  recordOf(click: ClickEvent): KeyedRecord {
    const end = encodeEvent(click, this.#bytes, 0);
    const bytes = Buffer.from(this.#bytes.subarray(0, end));
    this.#view.read(bytes, 0, end);
    return { bytes, keyStart: this.#view.impressionStart, keyEnd: this.#view.impressionEnd };
  }
}
