/**
 * The spans of a click in the ledger: `count` (with `commit` in it) and `upsert`, under the worker's
 * `click`. One tracer lives as long as one counter: what a failed counter had not committed is counted
 * again by the next, and told by that one.
 *
 * R1 `count` is told once its record is committed, `upsert` once the warehouse has taken its row. A
 *    record that is read again gives spans with the same ids (T2).
 * R2 At most `maxRecords` are followed at once; the rest is counted as dropped by `onDropped`.
 * R3 A record that waited longer than `maxAgeMs` is not told: a replay of days must not look like clicks.
 */
import type { Clock } from '../platform/clock.ts';
import { monotonicMs } from '../platform/clock.ts';
import { CLICK_SPAN } from './click-tracer.ts';
import { type Sampler, spanIdOf, traceIdOf } from './identity.ts';
import type { CountTracer, SpanAttributes, SpanSink, TracedRecord } from './port.ts';

export interface CountTracerOptions {
  readonly sampler: Sampler;
  readonly sink: SpanSink;
  readonly clock: Clock;
  readonly onBug: (error: unknown) => void;
  readonly onDropped?: () => void;
  readonly maxRecords?: number;
  readonly maxAgeMs?: number;
}

const HOUR_MS = 3_600_000;
/** The clock counts whole milliseconds; what differs by more is a clock that was set. */
const CLOCK_JUMP_MS = 2;

interface Followed {
  readonly traceId: string;
  /** Starts when the record is counted, and again when it is committed. */
  sinceMs: number;
  readonly hasRow: boolean;
  readonly attributes: SpanAttributes;
}

export function createCountTracer(options: CountTracerOptions): CountTracer {
  const spans = new CountSpans(options);
  let isBroken = false;
  const guarded = (work: () => void): void => {
    if (isBroken) return;
    try {
      work();
    } catch (error) {
      isBroken = true;
      options.onBug(error);
    }
  };
  return {
    isSampled: (hash2) => !isBroken && options.sampler.takesHash(hash2),
    counted: (record) => guarded(() => spans.counted(record)),
    committing: () => guarded(() => spans.committing()),
    committed: () => guarded(() => spans.committed()),
    upserting: () => guarded(() => spans.upserting()),
    upserted: (isTaken) => guarded(() => spans.upserted(isTaken)),
  };
}

class CountSpans {
  readonly #options: CountTracerOptions;
  readonly #maxRecords: number;
  readonly #maxAgeMs: number;
  #counted: Followed[] = [];
  #held: Followed[] = [];
  #upserting: Followed[] = [];
  #commitStartedMs = 0;
  #attempts = 0;
  /** What has to be added to the monotonic clock to get the clock. */
  #offsetMs = 0;

  constructor(options: CountTracerOptions) {
    this.#options = options;
    this.#maxRecords = options.maxRecords ?? 1_024;
    this.#maxAgeMs = options.maxAgeMs ?? HOUR_MS;
  }

  /** The clock, with fractions of a millisecond: most of what is told here is shorter than one. */
  #nowMs(): number {
    const clockMs = this.#options.clock();
    const fineMs = monotonicMs();
    if (Math.abs(clockMs - fineMs - this.#offsetMs) > CLOCK_JUMP_MS) {
      this.#offsetMs = clockMs - fineMs;
    }
    return fineMs + this.#offsetMs;
  }

  counted(record: TracedRecord): void {
    const nowMs = this.#nowMs();
    const waitedMs = nowMs - record.appendedAtMs;
    if (waitedMs > this.#maxAgeMs) return;
    if (this.#counted.length + this.#held.length + this.#upserting.length >= this.#maxRecords) {
      this.#options.onDropped?.();
      return;
    }
    this.#counted.push({
      traceId: traceIdOf(record.impressionId, record.clickedAtMs),
      sinceMs: nowMs,
      hasRow: record.outcome === 'counted',
      attributes: {
        'clickledger.impression_id': record.impressionId,
        'clickledger.partition': record.partition,
        'clickledger.offset': record.offset,
        'clickledger.outcome': record.outcome,
        'clickledger.log_wait_ms': Math.max(0, Math.round(waitedMs)),
      },
    });
  }

  committing(): void {
    this.#commitStartedMs = this.#nowMs();
  }

  committed(): void {
    const nowMs = this.#nowMs();
    for (const each of this.#counted) {
      this.#tell(each, { name: 'count', parent: CLICK_SPAN, kind: 'consumer', endMs: nowMs });
      each.sinceMs = Math.max(each.sinceMs, this.#commitStartedMs);
      this.#tell(each, { name: 'commit', parent: 'count', kind: 'internal', endMs: nowMs });
      each.sinceMs = nowMs;
      if (each.hasRow) this.#held.push(each);
    }
    this.#counted = [];
  }

  upserting(): void {
    this.#upserting = this.#upserting.concat(this.#held);
    this.#held = [];
    this.#attempts += 1;
  }

  upserted(isTaken: boolean): void {
    if (!isTaken) return;
    const endMs = this.#nowMs();
    for (const each of this.#upserting) {
      const attributes = { 'clickledger.attempts': this.#attempts };
      this.#tell(
        { ...each, attributes },
        { name: 'upsert', parent: CLICK_SPAN, kind: 'internal', endMs },
      );
    }
    this.#upserting = [];
    this.#attempts = 0;
  }

  #tell(
    { traceId, sinceMs, attributes }: Followed,
    span: { name: string; parent: string; kind: 'consumer' | 'internal'; endMs: number },
  ): void {
    this.#options.sink.add({
      traceId,
      spanId: spanIdOf(traceId, span.name),
      parentSpanId: spanIdOf(traceId, span.parent),
      name: span.name,
      kind: span.kind,
      startMs: sinceMs,
      endMs: Math.max(sinceMs, span.endMs),
      attributes: span.name === 'commit' ? {} : attributes,
      error: null,
    });
  }
}
