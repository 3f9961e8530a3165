/**
 * How fast clicks come in and how long redirects take, asked of the click workers over their sockets.
 *
 * Owns: the last minute of samples, in memory. It is for a screen that somebody looks at; alerts belong
 * to whoever scrapes `/metrics`. Workers are processes of their own: one that does not answer in time
 * is left out, and none of this may hold up or fail a status.
 *
 * S1 Rates are differences of one worker's own counters. A worker that was started again counts from
 *    its start, so a rate is never negative and never the sum of all that it ever took.
 */
import { join } from 'node:path';
import type { ClickStatus } from '../api/admin-port.ts';
import { monotonicMs } from '../platform/clock.ts';

export interface WorkerCounters {
  readonly clicks: number;
  /** Redirects that took at most so long, by bound in seconds; they add up along the bounds. */
  readonly redirects: ReadonlyMap<number, number>;
}

interface Sample {
  readonly atMs: number;
  /** By worker. */
  readonly workers: ReadonlyMap<number, WorkerCounters>;
}

export type ReadWorker = (index: number) => Promise<WorkerCounters | null>;

const WINDOW_MS = 60_000;
const STEP_MS = 1_000;
const TIMEOUT_MS = 500;
const MAX_ANSWER_BYTES = 1 << 20;

export class ClickSampler {
  readonly #workers: number;
  readonly #read: ReadWorker;
  readonly #nowMs: () => number;
  #samples: Sample[] = [];
  #asking: Promise<void> | null = null;

  constructor(workers: number, read: ReadWorker, nowMs: () => number = monotonicMs) {
    this.#workers = workers;
    this.#read = read;
    this.#nowMs = nowMs;
  }

  /** Null when no worker answers. */
  async status(): Promise<ClickStatus | null> {
    this.#asking ??= this.#sample().finally(() => {
      this.#asking = null;
    });
    await this.#asking;
    const newest = this.#samples.at(-1)!;
    if (newest.workers.size === 0) return null;
    return {
      workers: this.#workers,
      workersAnswering: newest.workers.size,
      ...this.#rates(newest),
    };
  }

  async #sample(): Promise<void> {
    const nowMs = this.#nowMs();
    const last = this.#samples.at(-1);
    if (last !== undefined && nowMs - last.atMs < STEP_MS) return;
    const indexes = Array.from({ length: this.#workers }, (_, index) => index);
    const answers = await Promise.all(indexes.map((index) => this.#read(index).catch(() => null)));
    const workers = new Map<number, WorkerCounters>();
    for (const [index, answer] of answers.entries())
      if (answer !== null) workers.set(index, answer);
    const kept = this.#samples.filter(({ atMs }) => nowMs - atMs <= WINDOW_MS);
    this.#samples = [...kept, { atMs: nowMs, workers }];
  }

  #rates(newest: Sample): Pick<ClickStatus, 'perSecond' | 'redirectP50Ms' | 'redirectP99Ms'> {
    let perSecond: number | null = null;
    const redirects = new Map<number, number>();
    for (const [index, now] of newest.workers) {
      // A worker that did not answer at first is measured from its own first answer on.
      const oldest = this.#samples.find(({ workers }) => workers.has(index))!;
      if (oldest === newest) continue;
      const before = sinceStart(oldest.workers.get(index)!, now);
      const lengthMs = newest.atMs - oldest.atMs;
      perSecond = (perSecond ?? 0) + ((now.clicks - before.clicks) * 1_000) / lengthMs;
      for (const [bound, total] of now.redirects) {
        const more = total - (before.redirects.get(bound) ?? 0);
        redirects.set(bound, (redirects.get(bound) ?? 0) + more);
      }
    }
    return {
      perSecond,
      redirectP50Ms: quantileMs(redirects, 0.5),
      redirectP99Ms: quantileMs(redirects, 0.99),
    };
  }
}

const NOTHING: WorkerCounters = { clicks: 0, redirects: new Map() };

const sinceStart = (before: WorkerCounters, now: WorkerCounters): WorkerCounters =>
  before.clicks > now.clicks ? NOTHING : before;

/** The bound below which that share of redirects was, with even steps inside a bucket; null without any. */
export function quantileMs(redirects: ReadonlyMap<number, number>, share: number): number | null {
  const bounds = [...redirects].sort(([a], [b]) => a - b);
  const all = bounds.at(-1)?.[1] ?? 0;
  if (all === 0) return null;
  const wanted = share * all;
  let [lower, below] = [0, 0];
  for (const [bound, total] of bounds) {
    if (total >= wanted && total > below) {
      if (!Number.isFinite(bound)) return lower * 1_000;
      return (lower + ((bound - lower) * (wanted - below)) / (total - below)) * 1_000;
    }
    [lower, below] = [bound, total];
  }
  return lower * 1_000;
}

/** Over the socket that workers tell each other their metrics on: no port has to be known or open. */
export function workerReader(runDir: string): ReadWorker {
  return async (index) => {
    const response = await fetch('http://worker/', {
      unix: join(runDir, `click-${index}.sock`),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await response.text();
    if (text.length > MAX_ANSWER_BYTES) return null;
    return countersOf(JSON.parse(text) as readonly Metric[]);
  };
}

interface Metric {
  readonly name: string;
  readonly values: readonly {
    readonly value: number;
    readonly metricName?: string;
    readonly labels: Readonly<Record<string, string | number>>;
  }[];
}

export function countersOf(metrics: readonly Metric[]): WorkerCounters {
  const valuesOf = (name: string) => metrics.find((metric) => metric.name === name)?.values ?? [];
  const clicks = valuesOf('clickledger_click_requests_total')
    .filter(({ labels }) => labels.outcome === 'redirected_click')
    .reduce((sum, { value }) => sum + value, 0);
  const redirects = new Map<number, number>();
  for (const { metricName, labels, value } of valuesOf('clickledger_click_redirect_seconds')) {
    if (metricName?.endsWith('_bucket') !== true) continue;
    const bound = labels.le === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels.le);
    redirects.set(bound, value);
  }
  return { clicks, redirects };
}
