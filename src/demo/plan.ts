/**
 * The plan of the demo's traffic: which requests are sent, and what each must be answered.
 *
 * Owns the mix. Pure: the same options give the same plan, so that a run that the judge condemns can
 * be run again. Does not own sending (`drive.ts`) nor what is billed (`judge.ts`).
 */
import type { IngestRow } from '../api/admin-port.ts';
import { Random } from './random.ts';
import {
  PREVIEWERS,
  pickVisitor,
  SPECULATIVE_HEADERS,
  type UserAgents,
  type Visitor,
} from './visitors.ts';

/**
 * `click` a person; `double` the same person once more, a little later; `retry` the same request
 * once more, by a client that lost the answer. These three are one click. `late` is a recorded click
 * that comes through ingest. All others must never be billed.
 */
export const REQUEST_KINDS = [
  'click',
  'double',
  'retry',
  'head',
  'prefetch',
  'preview',
  'forged',
  'html_escaped',
] as const;
export type RequestKind = (typeof REQUEST_KINDS)[number];

/** How the link was made. `other_ad`: signed for `signedAdId`, then the ad was replaced. */
export type LinkForm = 'signed' | 'wrong_secret' | 'other_ad' | 'html_escaped';

export interface PlannedRequest {
  readonly kind: RequestKind;
  readonly impressionId: string;
  readonly adId: string;
  readonly signedAdId: string;
  readonly link: LinkForm;
  readonly method: 'GET' | 'HEAD';
  readonly country: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly expectedStatus: number;
}

export interface LateClick extends Visitor {
  readonly kind: 'late';
  readonly impressionId: string;
  readonly adId: string;
  readonly clickedAtMs: number;
}

export interface TrafficPlan {
  readonly requests: readonly PlannedRequest[];
  /** In the order in which they must be ingested. */
  readonly late: readonly LateClick[];
}

export interface PlanOptions {
  readonly seed: number;
  /** How many impressions are clicked, over HTTP or recorded. */
  readonly clicks: number;
  /** The first one is the hot ad. */
  readonly ads: readonly { readonly adId: string }[];
  readonly hotShare?: number;
  /** The product's clock. */
  readonly nowMs: number;
  readonly userAgents: UserAgents;
}

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
/** What else happens, per clicked impression. */
const SHARES = {
  late: 0.04,
  double: 0.05,
  retry: 0.03,
  head: 0.04,
  prefetch: 0.03,
  preview: 0.03,
  forged: 0.02,
  html_escaped: 0.01,
} as const;
/** Other requests of an impression come within so many clicks of it, before or after. */
const NEARBY = 200;

export function isBillable(kind: RequestKind): boolean {
  return kind === 'click' || kind === 'double' || kind === 'retry';
}

export function planTraffic(options: PlanOptions): TrafficPlan {
  return new Planner(options).plan();
}

class Planner {
  readonly #options: PlanOptions;
  readonly #random: Random;
  readonly #requests: { readonly at: number; readonly request: PlannedRequest }[] = [];
  readonly #late: LateClick[] = [];

  constructor(options: PlanOptions) {
    this.#options = options;
    this.#random = new Random(options.seed);
  }

  plan(): TrafficPlan {
    for (let index = 0; index < this.#options.clicks; index++) {
      const adId = this.#adOf(index);
      if (this.#random.chance(SHARES.late)) this.#addLate(adId);
      else this.#addClick(index, adId);
      this.#addNoise(index, adId);
    }
    this.#requests.sort((a, b) => a.at - b.at);
    return { requests: this.#requests.map(({ request }) => request), late: this.#lateInOrder() };
  }

  /** The hot ad takes its share exactly and evenly, the others share the rest by chance. */
  #adOf(index: number): string {
    const { ads, hotShare = 1 / 3 } = this.#options;
    const isHot = Math.floor((index + 1) * hotShare) > Math.floor(index * hotShare);
    return isHot || ads.length === 1 ? ads[0]!.adId : this.#random.pick(ads.slice(1)).adId;
  }

  #impression(): string {
    return this.#random.uuid(this.#options.nowMs - this.#random.below(5 * MINUTE_MS));
  }

  #visitor(): Visitor {
    return pickVisitor(this.#options.userAgents, this.#random);
  }

  /** A click, what follows it, and what came before it on the same impression. */
  #addClick(index: number, adId: string): void {
    const impressionId = this.#impression();
    const visitor = this.#visitor();
    const random = this.#random;
    this.#add(index, 'click', { impressionId, adId, visitor });
    if (random.chance(SHARES.double)) {
      // Some second clicks come from elsewhere: a mail gateway, a phone that changed its network.
      const again = random.chance(0.25) ? this.#visitor() : visitor;
      this.#add(this.#after(index), 'double', { impressionId, adId, visitor: again });
    }
    if (random.chance(SHARES.retry)) {
      this.#add(this.#after(index), 'retry', { impressionId, adId, visitor });
    }
    for (const kind of ['head', 'prefetch', 'preview'] as const) {
      if (!random.chance(SHARES[kind] / 2)) continue;
      const before = index - random.below(NEARBY);
      this.#add(before, kind, { impressionId, adId, visitor: this.#visitorOf(kind, visitor) });
    }
    if (random.chance(SHARES.late / 4)) this.#addLate(adId, impressionId);
  }

  /** Requests on impressions that nobody clicks: none of them may show up in any number. */
  #addNoise(index: number, adId: string): void {
    for (const kind of ['head', 'prefetch', 'preview'] as const) {
      if (!this.#random.chance(SHARES[kind] / 2)) continue;
      const visitor = this.#visitorOf(kind, this.#visitor());
      this.#add(index, kind, { impressionId: this.#impression(), adId, visitor });
    }
    for (const kind of ['forged', 'html_escaped'] as const) {
      if (!this.#random.chance(SHARES[kind])) continue;
      const visitor = this.#visitor();
      this.#add(index, kind, { impressionId: this.#impression(), adId, visitor });
    }
  }

  #after(index: number): number {
    return index + this.#random.below(NEARBY);
  }

  #visitorOf(kind: RequestKind, visitor: Visitor): Visitor {
    return kind === 'preview' ? { ...visitor, userAgent: this.#random.pick(PREVIEWERS) } : visitor;
  }

  #add(
    at: number,
    kind: RequestKind,
    what: { impressionId: string; adId: string; visitor: Visitor },
  ): void {
    const { impressionId, adId, visitor } = what;
    const link = this.#linkOf(kind);
    const request: PlannedRequest = {
      kind,
      impressionId,
      adId,
      signedAdId: link === 'other_ad' ? this.#otherAd(adId) : adId,
      link,
      method: kind === 'head' ? 'HEAD' : 'GET',
      country: visitor.country,
      headers: {
        'User-Agent': visitor.userAgent,
        'X-Forwarded-For': this.#forwardedFor(visitor.address),
        ...(kind === 'prefetch' ? this.#random.pick(SPECULATIVE_HEADERS) : undefined),
      },
      expectedStatus: kind === 'forged' ? 403 : kind === 'html_escaped' ? 400 : 302,
    };
    this.#requests.push({ at, request });
  }

  #linkOf(kind: RequestKind): LinkForm {
    if (kind === 'html_escaped') return 'html_escaped';
    if (kind !== 'forged') return 'signed';
    const canSwap = this.#options.ads.length > 1;
    return canSwap && this.#random.chance(0.5) ? 'other_ad' : 'wrong_secret';
  }

  #otherAd(adId: string): string {
    return this.#random.pick(this.#options.ads.filter((ad) => ad.adId !== adId)).adId;
  }

  /** Only the entry that the trusted proxy appended may be believed; what stands left of it is not. */
  #forwardedFor(address: string): string {
    return this.#random.chance(0.1) ? `8.8.8.8, ${address}` : address;
  }

  #addLate(adId: string, impressionId = this.#impression()): void {
    const hourMs = Math.floor(this.#options.nowMs / HOUR_MS) * HOUR_MS;
    // Two full hours, without their last 10 minutes: late by more than the stream waits.
    const clickedAtMs = hourMs - 10 * MINUTE_MS - this.#random.below(2 * HOUR_MS - 10 * MINUTE_MS);
    const click: LateClick = { kind: 'late', impressionId, adId, clickedAtMs, ...this.#visitor() };
    this.#late.push(click);
    if (this.#random.chance(SHARES.double)) {
      this.#late.push({ ...click, clickedAtMs: clickedAtMs + this.#random.below(MINUTE_MS) });
    }
  }

  /**
   * The first is moved to the end of the last full hour: it takes the watermark of the log partition
   * there, and everything after it is more than 6 minutes behind.
   */
  #lateInOrder(): LateClick[] {
    const hourMs = Math.floor(this.#options.nowMs / HOUR_MS) * HOUR_MS;
    const [first, ...rest] = this.#late;
    return first === undefined ? [] : [{ ...first, clickedAtMs: hourMs - 1 }, ...rest];
  }
}

/** The late clicks as rows of a file. */
export async function* lateRows(late: readonly LateClick[]): AsyncGenerator<IngestRow> {
  for (const [index, click] of late.entries()) {
    yield {
      line: index + 1,
      record: {
        impression_id: click.impressionId,
        ad_id: click.adId,
        clicked_at: new Date(click.clickedAtMs).toISOString(),
        ip: click.address,
        ua: click.userAgent,
      },
    };
  }
}
