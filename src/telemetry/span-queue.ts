/**
 * The spans that wait to be sent: bounded, in batches, one at a time.
 *
 * Q1 At most `maxSpans` wait; what comes beyond is dropped and counted.
 * Q2 A batch that was not taken is counted as failed and not tried again: a trace may be missing, the
 *    process may not fill with them.
 * Q3 Nothing here throws or rejects to those who add.
 * Q4 `close` ends within its time, whatever the receiver does.
 */
import { monotonicMs } from '../platform/clock.ts';
import type { Span, SpanExporter, SpanSink } from './port.ts';

export interface SpanQueueOptions {
  readonly exporter: SpanExporter;
  readonly maxSpans?: number;
  readonly batchSpans?: number;
  readonly intervalMs?: number;
  /** Hears of a failure, at most once a minute. */
  readonly onFailure?: (error: unknown, spans: number) => void;
}

const FAILURE_INTERVAL_MS = 60_000;

export class SpanQueue implements SpanSink {
  readonly counts = { sent: 0, failed: 0, dropped: 0 };
  readonly #exporter: SpanExporter;
  readonly #maxSpans: number;
  readonly #batchSpans: number;
  readonly #intervalMs: number;
  readonly #onFailure: (error: unknown, spans: number) => void;
  #waiting: Span[] = [];
  #timer: ReturnType<typeof setTimeout> | null = null;
  #sending: Promise<void> | null = null;
  #closed = false;
  #failureToldAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: SpanQueueOptions) {
    this.#exporter = options.exporter;
    this.#maxSpans = options.maxSpans ?? 4_096;
    this.#batchSpans = options.batchSpans ?? 512;
    this.#intervalMs = options.intervalMs ?? 1_000;
    this.#onFailure = options.onFailure ?? (() => {});
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  add(span: Span): void {
    if (this.#closed || this.#waiting.length >= this.#maxSpans) {
      this.counts.dropped += 1;
      return;
    }
    this.#waiting.push(span);
    if (this.#timer === null) {
      this.#timer = setTimeout(() => this.#turn(), this.#intervalMs);
      // What still waits must not keep a process alive that is done; `close` sends it.
      this.#timer.unref?.();
    }
  }

  #turn(): void {
    this.#timer = null;
    void this.#drain();
  }

  /** Sends what waits, batch by batch; a second caller joins the first. */
  #drain(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = null;
    });
    return this.#sending;
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, this.#batchSpans);
      this.#waiting = this.#waiting.slice(this.#batchSpans);
      try {
        await this.#exporter.export(batch);
        this.counts.sent += batch.length;
      } catch (error) {
        this.counts.failed += batch.length;
        this.#tellFailure(error, batch.length);
      }
    }
  }

  #tellFailure(error: unknown, spans: number): void {
    const nowMs = monotonicMs();
    if (nowMs - this.#failureToldAtMs < FAILURE_INTERVAL_MS) return;
    this.#failureToldAtMs = nowMs;
    this.#onFailure(error, spans);
  }

  /** Sends what waits, as far as `withinMs` lasts; the rest counts as dropped. */
  async close(withinMs: number): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, withinMs);
    });
    await Promise.race([this.#finish(), late]);
    clearTimeout(timer);
    this.counts.dropped += this.#waiting.length;
    this.#waiting = [];
  }

  async #finish(): Promise<void> {
    await this.#drain();
    try {
      await this.#exporter.close();
    } catch {
      // Nothing waits any more; there is nobody whom it would help to know.
    }
  }
}
