/**
 * The spans of one click in its worker: `click` around `verify`, `find ad`, `prepare`, `append`.
 *
 * Spans are made when the click is answered, out of times that were noted on the way. A bug in here
 * ends tracing, and nothing else: it runs inside the log's callback, where an error would take other
 * clicks along.
 */
import { monotonicMs } from '../platform/clock.ts';
import { type Sampler, spanIdOf, traceIdOf } from './identity.ts';
import type { ClickStep, ClickTrace, ClickTracer, Span, SpanSink, TracedClick } from './port.ts';

export const CLICK_SPAN = 'click';

export interface ClickSpansOptions {
  readonly sampler: Sampler;
  readonly sink: SpanSink;
  readonly onBug: (error: unknown) => void;
}

export function createClickTracer(options: ClickSpansOptions): ClickTracer {
  let isBroken = false;
  const stop = (error: unknown): void => {
    if (isBroken) return;
    isBroken = true;
    options.onBug(error);
  };
  return {
    begin(impressionId, clickedAtMs, startedMs) {
      if (isBroken || !options.sampler.takes(impressionId)) return null;
      return new ClickSpans(options.sink, { clickedAtMs, startedMs }, stop);
    },
  };
}

interface Begin {
  readonly clickedAtMs: number;
  readonly startedMs: number;
}

class ClickSpans implements ClickTrace {
  readonly #sink: SpanSink;
  readonly #begin: Begin;
  readonly #stop: (error: unknown) => void;
  /** What has to be added to the monotonic clock to get the click's. */
  readonly #offsetMs: number;
  readonly #steps: { readonly name: ClickStep; readonly endMs: number }[] = [];

  constructor(sink: SpanSink, begin: Begin, stop: (error: unknown) => void) {
    this.#sink = sink;
    this.#begin = begin;
    this.#stop = stop;
    this.#offsetMs = begin.clickedAtMs - monotonicMs();
  }

  step(name: ClickStep): void {
    this.#steps.push({ name, endMs: monotonicMs() });
  }

  end(click: TracedClick, error: string | null): void {
    try {
      this.#tell(click, error);
    } catch (bug) {
      this.#stop(bug);
    }
  }

  #tell(click: TracedClick, error: string | null): void {
    this.step('append');
    const { clickedAtMs, startedMs } = this.#begin;
    const traceId = traceIdOf(click.impressionId, clickedAtMs);
    const span = (name: string, fromMs: number, untilMs: number): Span => ({
      traceId,
      spanId: spanIdOf(traceId, name),
      parentSpanId: name === CLICK_SPAN ? null : spanIdOf(traceId, CLICK_SPAN),
      name,
      kind: name === CLICK_SPAN ? 'server' : 'internal',
      startMs: fromMs + this.#offsetMs,
      endMs: untilMs + this.#offsetMs,
      attributes: name === CLICK_SPAN ? attributesOf(click) : {},
      error: name === CLICK_SPAN || name === 'append' ? error : null,
    });
    this.#sink.add(span(CLICK_SPAN, startedMs, this.#steps.at(-1)!.endMs));
    let fromMs = startedMs;
    for (const { name, endMs } of this.#steps) {
      this.#sink.add(span(name, fromMs, endMs));
      fromMs = endMs;
    }
  }
}

function attributesOf(click: TracedClick): Span['attributes'] {
  return {
    'clickledger.impression_id': click.impressionId,
    'clickledger.ad_id': click.adId,
    'clickledger.advertiser_id': click.advertiserId,
    'clickledger.campaign_id': click.campaignId,
    'clickledger.country': click.country,
    'clickledger.device': click.device,
    'clickledger.class': click.class,
  };
}
