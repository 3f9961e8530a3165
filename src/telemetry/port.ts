/**
 * Traces as the rest of the product sees them: who makes spans calls a tracer, who sends them is an
 * exporter. Adapter: `otlp/`.
 *
 * A tracer never throws, never waits and never does I/O: clicks and counting go on as without it.
 */

export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** One finished piece of work. Times are ms UTC with fractions. */
export interface Span {
  /** 32 hex digits. */
  readonly traceId: string;
  /** 16 hex digits. */
  readonly spanId: string;
  /** Null for the first span of a trace. */
  readonly parentSpanId: string | null;
  readonly name: string;
  readonly kind: 'server' | 'internal' | 'consumer';
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: SpanAttributes;
  /** What went wrong, in a word; null when nothing did. */
  readonly error: string | null;
}

export interface SpanSink {
  add(span: Span): void;
}

export interface SpanExporter {
  /** Rejects when the spans were not taken; ends within a bounded time either way. */
  export(spans: readonly Span[]): Promise<void>;
  close(): Promise<void>;
}

/** What a click's spans say about it: enough to find it, nothing about who clicked. */
export interface TracedClick {
  readonly impressionId: string;
  readonly adId: string;
  readonly advertiserId: string;
  readonly campaignId: string;
  readonly country: string;
  readonly device: string;
  readonly class: string;
}

export interface ClickTracer {
  /**
   * Called once the request is parsed and `clicked_at` is stamped; null for a click that is not
   * sampled. `startedMs` is the request's begin on the monotonic clock.
   */
  begin(impressionId: string, clickedAtMs: number, startedMs: number): ClickTrace | null;
}

export interface ClickTrace {
  /** What was done since the step before. */
  step(name: ClickStep): void;
  /** The click is answered. A trace that never gets here (a refused signature) is forgotten. */
  end(click: TracedClick, error: string | null): void;
}

export type ClickStep = 'verify' | 'find ad' | 'prepare' | 'append';

/** A record that the counter has just given its outcome. */
export interface TracedRecord {
  readonly impressionId: string;
  readonly clickedAtMs: number;
  readonly partition: number;
  readonly offset: number;
  readonly appendedAtMs: number;
  readonly outcome: string;
}

/** Follows the counter of one process from the record to the warehouse. */
export interface CountTracer {
  /** Asked of every record, so it only compares: `hash2` is the last lane of the impression's hash. */
  isSampled(hash2: number): boolean;
  counted(record: TracedRecord): void;
  committing(): void;
  /** Everything counted before `committing` is in force. */
  committed(): void;
  /** The rows of everything that is committed by now are on their way to the warehouse. */
  upserting(): void;
  upserted(isTaken: boolean): void;
}
