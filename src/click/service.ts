/**
 * The click service: parse → verify → look up → class, country, device → log → 302.
 *
 * Owns the flow of one request and the clicks that wait for the disk. Does not own any rule of its
 * parts, nor the server's life: `drain` only tells when nothing waits any more.
 *
 * S1 A 302 is sent only after the log called `done` without an error (or, under
 *    `onLogFailure: 'redirect'`, after it refused, and then it counts as given away).
 * S2 Nothing is logged and nothing redirects without a good signature, a known ad and a good target.
 *    The target is the catalog's; the request can add to its query at most, if the ad allows it.
 * S3 The response is built before the append, so nothing can fail after the log has taken the click.
 * S4 Whatever goes wrong, the answer is a page with a reason and a counter, never a 500.
 * S5 At most `maxPending` clicks wait; beyond that the log counts as unavailable.
 *
 * On the good path there is no async function, no `URL` and no expression over the whole URL: the
 * server spends about 20 µs on a request, and what is added here must stay well below that.
 */
import type { Ad, AdLookup } from '../ads/port.ts';
import type { Config } from '../config/schema.ts';
import type { ClickEvent } from '../event/click-event.ts';
import { encodeEvent, MAX_EVENT_BYTES } from '../event/codec.ts';
import type { ClickLogWriter } from '../log/port.ts';
import { type Clock, monotonicMs } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { ClickTrace, ClickTracer } from '../telemetry/port.ts';
import { Agents, deviceByHints } from './agent.ts';
import { classify } from './classify.ts';
import type { GeoLookup } from './geo.ts';
import { KeyRing } from './key-ring.ts';
import { type ClickMetrics, type ClickReason, REDIRECTED } from './metrics.ts';
import type { OpsFetch } from './ops.ts';
import { type RefusalReason, redirect, refusal } from './pages.ts';
import { type PeerSource, Places } from './place.ts';
import {
  type ClickParams,
  isClickPath,
  otherParts,
  parseClick,
  pathOf,
  pathStart,
} from './request.ts';
import { Targets } from './targets.ts';

export interface ClickServiceOptions {
  readonly config: Config['click'];
  readonly ads: AdLookup;
  readonly log: ClickLogWriter;
  readonly geo: GeoLookup;
  readonly clock: Clock;
  readonly metrics: ClickMetrics;
  /** Traces sampled clicks; null or left out: none. */
  readonly tracer?: ClickTracer | null;
  /** Answers paths other than the click's; null or left out: 404. */
  readonly opsFetch?: OpsFetch;
  /** Hears of errors that nobody expected; the request itself got 503 and counts as `internal`. */
  readonly onInternalError?: (error: unknown) => void;
}

export interface ClickService {
  fetch(req: Request, server: PeerSource): Response | Promise<Response>;
  /** Resolves when no click waits for the log. Stop taking requests first. */
  drain(): Promise<void>;
}

export function createClickService(options: ClickServiceOptions): ClickService {
  const flow = new ClickFlow(options);
  return { fetch: (req, server) => flow.fetch(req, server), drain: () => flow.drain() };
}

/** A click on its way through the log: what is known of it, and what it gets when it is durable. */
interface Taken {
  readonly event: ClickEvent;
  readonly response: Response;
  readonly startedMs: number;
  readonly trace: ClickTrace | null;
}

class ClickFlow {
  readonly #options: ClickServiceOptions;
  readonly #tracer: ClickTracer | null;
  readonly #keys: KeyRing;
  readonly #targets = new Targets();
  readonly #places: Places;
  readonly #agents = new Agents();
  /** Every event is encoded here; the log copies it before `append` returns. */
  readonly #buffer = Buffer.alloc(MAX_EVENT_BYTES);
  #pending = 0;
  #drained: (() => void)[] = [];

  constructor(options: ClickServiceOptions) {
    this.#options = options;
    this.#tracer = options.tracer ?? null;
    this.#keys = new KeyRing(options.ads);
    this.#places = new Places(options);
  }

  fetch(req: Request, server: PeerSource): Response | Promise<Response> {
    try {
      return this.#answer(req, server);
    } catch (error) {
      return this.#internal(error, req.method === 'HEAD');
    }
  }

  drain(): Promise<void> {
    if (this.#pending === 0) return Promise.resolve();
    return new Promise((resolve) => this.#drained.push(resolve));
  }

  #answer(req: Request, server: PeerSource): Response | Promise<Response> {
    const startedMs = monotonicMs();
    const url = req.url;
    const pathAt = pathStart(url);
    if (!isClickPath(url, pathAt)) return this.#notAClick(req, pathOf(url, pathAt));
    const method = req.method;
    const isHead = method === 'HEAD';
    if (!isHead && method !== 'GET') return this.#refuse('method', isHead);
    if (url.length - pathAt > this.#options.config.maxUrlBytes) {
      return this.#refuse('url_too_long', isHead);
    }
    const params = parseClick(url, pathAt);
    if (typeof params === 'string') return this.#refuse(params, isHead);
    const clickedAtMs = this.#options.clock();
    const { imp, ad: adId, sig, kid } = params;
    const trace = this.#tracer?.begin(imp, clickedAtMs, startedMs) ?? null;
    if (!this.#keys.verifier().verify(imp, adId, sig, kid)) {
      return this.#refuse('bad_signature', isHead);
    }
    trace?.step('verify');
    const ad = this.#options.ads.find(adId);
    if (ad === null) return this.#refuse('unknown_ad', isHead);
    trace?.step('find ad');
    const fill = this.#targets.of(ad.targetUrl);
    if (fill === null) return this.#refuse('bad_target', isHead);
    const event = this.#event(req, server, params, ad, clickedAtMs);
    const location = fill(event, ad.passQuery ? otherParts(url, pathAt) : []);
    const response = redirect(location);
    trace?.step('prepare');
    return this.#log({ event, response, startedMs, trace });
  }

  #event(
    req: Request,
    server: PeerSource,
    params: ClickParams,
    ad: Ad,
    clickedAtMs: number,
  ): ClickEvent {
    const headers = req.headers;
    const userAgent = headers.get('user-agent') ?? '';
    const agent = this.#agents.of(userAgent);
    const hinted = deviceByHints(
      headers.get('sec-ch-ua-mobile'),
      headers.get('sec-ch-ua-platform'),
    );
    const place = this.#places.of(req, server);
    return {
      impressionId: params.imp,
      adId: ad.adId,
      advertiserId: ad.advertiserId,
      campaignId: ad.campaignId,
      clickedAtMs,
      country: place.country,
      device: hinted ?? agent.device,
      class: classify(req.method, headers, agent.isPreview),
      source: 'http',
      geoVersion: place.geoVersion,
      ip: place.ip,
      userAgent,
      referer: headers.get('referer') ?? '',
    };
  }

  #log(taken: Taken): Response | Promise<Response> {
    if (this.#pending >= this.#options.config.maxPending) {
      return this.#logRefused('log_unavailable', taken);
    }
    const length = encodeEvent(taken.event, this.#buffer, 0);
    return new Promise((resolve) => {
      // A log that calls back twice, or calls back and throws, must not answer or count twice.
      let isOpen = true;
      this.#pending += 1;
      try {
        this.#options.log.append(this.#buffer, length, (error) => {
          if (!isOpen) return;
          isOpen = false;
          this.#settle(resolve, this.#afterLog(error, taken));
        });
      } catch (error) {
        if (!isOpen) return;
        isOpen = false;
        this.#settle(
          resolve,
          isLogRefusal(error)
            ? this.#logRefused('log_unavailable', taken)
            : this.#internal(error, taken.event.class === 'head'),
        );
      }
    });
  }

  #afterLog(error: Error | null, taken: Taken): Response {
    if (error !== null) return this.#logRefused('log_failed', taken);
    const { metrics } = this.#options;
    metrics.outcome(REDIRECTED[taken.event.class]);
    metrics.redirected(monotonicMs() - taken.startedMs);
    taken.trace?.end(taken.event, null);
    return taken.response;
  }

  #settle(resolve: (answer: Response) => void, answer: Response): void {
    resolve(answer);
    this.#pending -= 1;
    if (this.#pending === 0 && this.#drained.length > 0) this.#tellDrained();
  }

  /** Nothing is durable: refuse, or redirect all the same if the configuration gives clicks away. */
  #logRefused(reason: 'log_unavailable' | 'log_failed', taken: Taken): Response {
    taken.trace?.end(taken.event, reason);
    if (this.#options.config.onLogFailure === 'refuse') {
      return this.#refuse(reason, taken.event.class === 'head');
    }
    this.#options.metrics.outcome('given_away');
    return taken.response;
  }

  #notAClick(req: Request, path: string): Response | Promise<Response> {
    return this.#options.opsFetch?.(req, path) ?? this.#refuse('not_found', req.method === 'HEAD');
  }

  #refuse(reason: RefusalReason & ClickReason, isHead: boolean): Response {
    this.#options.metrics.outcome(reason);
    return refusal(reason, isHead);
  }

  #internal(error: unknown, isHead: boolean): Response {
    this.#options.onInternalError?.(error);
    return this.#refuse('internal', isHead);
  }

  #tellDrained(): void {
    const waiting = this.#drained;
    this.#drained = [];
    for (const resolve of waiting) resolve();
  }
}

/** The log said that it took nothing and why; anything else it throws is a bug. */
function isLogRefusal(error: unknown): boolean {
  return (
    error instanceof LedgerError &&
    (error.code === 'log_unavailable' || error.code === 'log_full_queue')
  );
}
