/**
 * Clicks on the product while it is killed, frozen and restarted, with a note of every impression that
 * was acknowledged. What a test of the whole product judges by.
 */
import { DEMO_ADS } from '../../src/demo/ads.ts';
import { ConnectionLost, HttpConnection } from '../../src/demo/connection.ts';
import { isBillable, type PlannedRequest, planTraffic } from '../../src/demo/plan.ts';
import { loadUserAgents } from '../../src/demo/visitors.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { signedLink } from '../../src/signing/signature.ts';

export interface LoadTarget {
  /** Machines that take clicks. A request whose machine is gone goes to the next one. */
  readonly clickUrls: readonly string[];
  readonly key: { readonly kid: string; readonly secret: string };
}

export interface LoadOptions {
  readonly connections?: number;
  /** Between two requests of a connection: the tests share their machine. */
  readonly pauseMs?: number;
  /** Impressions that are clicked at the most. */
  readonly clicks?: number;
  /** Share of the first ad. */
  readonly hotShare?: number;
}

/** How long a request is sent again before it is given up. */
const PATIENCE_MS = 60_000;
const RESEND_AFTER_MS = 20;

/**
 * Clicks, doubles on other connections, HEADs, previews and forged links, until `stop`. A request
 * whose answer was lost is sent again until it is answered, as a browser's user does.
 */
export class Load {
  /** Impression → ad of every billable request that was answered with a redirect. */
  readonly acknowledged = new Map<string, string>();
  /** Impression → ad of billable requests that were sent and are not acknowledged (yet). */
  readonly inDoubt = new Map<string, string>();
  /** Answers that no request of the kind may get. */
  readonly unexpected: string[] = [];
  /** How long each answer took, in the order of the answers; lost ones are not in it. */
  readonly answeredMs: number[] = [];
  resent = 0;
  readonly #target: LoadTarget;
  readonly #pauseMs: number;
  readonly #requests: readonly PlannedRequest[];
  #next = 0;
  #stopped = false;
  readonly #connections: Promise<void>[];

  constructor(target: LoadTarget, seed: number, options: LoadOptions = {}) {
    const { connections = 8, pauseMs = 8, clicks = 40_000, ...more } = options;
    this.#target = target;
    this.#pauseMs = pauseMs;
    const userAgents = loadUserAgents();
    const nowMs = systemClock();
    const plan = { seed, clicks, userAgents, ads: DEMO_ADS, nowMs, ...more };
    this.#requests = planTraffic(plan).requests;
    this.#connections = Array.from({ length: connections }, (_, i) => this.#work(i));
  }

  /** Waits until all that was planned is answered. */
  async end(): Promise<void> {
    await Promise.all(this.#connections);
  }

  /** Finishes what is under way; every request that was begun has its answer then. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.end();
  }

  async #work(at: number): Promise<void> {
    const line = new Line(this.#target.clickUrls, at);
    try {
      while (!this.#stopped && this.#next < this.#requests.length) {
        await this.#send(line, this.#requests[this.#next++]!);
        await Bun.sleep(this.#pauseMs);
      }
    } finally {
      line.close();
    }
  }

  async #send(line: Line, request: PlannedRequest): Promise<void> {
    const { kind, impressionId, adId, expectedStatus } = request;
    const target = this.#targetOf(request);
    const untilMs = performance.now() + PATIENCE_MS;
    for (;;) {
      if (isBillable(kind) && !this.acknowledged.has(impressionId)) {
        this.inDoubt.set(impressionId, adId);
      }
      const sentMs = performance.now();
      try {
        const { status } = await line.connection.send(request.method, target, request.headers);
        this.answeredMs.push(performance.now() - sentMs);
        // A worker that stops answers 503 to what it can no longer take.
        if (status !== 503) return this.#note(request, status);
      } catch (error) {
        if (!(error instanceof ConnectionLost)) throw error;
        line.toNext();
      }
      if (performance.now() > untilMs) {
        this.unexpected.push(`${kind} on ${impressionId} had no answer, not ${expectedStatus}`);
        return;
      }
      this.resent++;
      await Bun.sleep(RESEND_AFTER_MS);
    }
  }

  #note({ kind, impressionId, adId, expectedStatus }: PlannedRequest, status: number): void {
    if (status !== expectedStatus) {
      this.unexpected.push(`${kind} on ${impressionId}: ${status}, not ${expectedStatus}`);
    }
    if (!isBillable(kind) || status !== 302) return;
    this.acknowledged.set(impressionId, adId);
    this.inDoubt.delete(impressionId);
  }

  #targetOf(request: PlannedRequest): string {
    const base = 'http://localhost';
    const { kid, secret } = this.#target.key;
    const wrong = request.link === 'wrong_secret' ? '-not' : '';
    const parts = { imp: request.impressionId, ad: request.signedAdId, kid };
    const target = signedLink({ base, ...parts, secret: `${secret}${wrong}` }).slice(base.length);
    if (request.link === 'html_escaped') return target.replaceAll('&', '&amp;');
    if (request.link !== 'other_ad') return target;
    return target.replace(`&ad=${request.signedAdId}&`, `&ad=${request.adId}&`);
  }
}

/** One connection at a time, to one machine after the other, as a balancer gives them out. */
class Line {
  readonly #urls: readonly string[];
  #at: number;
  connection: HttpConnection;

  constructor(urls: readonly string[], at: number) {
    this.#urls = urls;
    this.#at = at;
    this.connection = this.#connect();
  }

  toNext(): void {
    this.#at++;
    this.connection.close();
    this.connection = this.#connect();
  }

  close(): void {
    this.connection.close();
  }

  #connect(): HttpConnection {
    return new HttpConnection(new URL(this.#urls[this.#at % this.#urls.length]!));
  }
}

/** The value that so much of the numbers is not above; 0 of none. */
export function quantile(numbers: readonly number[], share: number): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
