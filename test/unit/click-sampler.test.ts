/** Rates and latencies of the click workers, as a screen shows them. */
import { expect, test } from 'bun:test';
import {
  ClickSampler,
  countersOf,
  quantileMs,
  type WorkerCounters,
} from '../../src/roles/click-sampler.ts';

const counters = (clicks: number): WorkerCounters => ({
  clicks,
  redirects: new Map([
    [0.001, clicks / 2],
    [0.01, clicks],
    [Number.POSITIVE_INFINITY, clicks],
  ]),
});

function sampler(...workers: (WorkerCounters | null)[]) {
  const state = { nowMs: 0, workers, reads: 0 };
  const read = async (index: number) => {
    state.reads += 1;
    return state.workers[index]!;
  };
  return { state, sampler: new ClickSampler(workers.length, read, () => state.nowMs) };
}

test('there is no rate before there are two samples, and none without workers', async () => {
  const one = sampler(counters(7));
  expect(await one.sampler.status()).toEqual({
    workers: 1,
    workersAnswering: 1,
    perSecond: null,
    redirectP50Ms: null,
    redirectP99Ms: null,
  });
  expect(await sampler(null, null).sampler.status()).toBeNull();
});

test('the rate is of the last minute, over all workers that answer', async () => {
  const { state, sampler: clicks } = sampler(counters(1_000), counters(0));
  await clicks.status();
  state.nowMs = 10_000;
  state.workers = [counters(1_200), counters(100)];
  expect(await clicks.status()).toMatchObject({ perSecond: 30, redirectP50Ms: 1 });
  state.nowMs = 120_000;
  state.workers = [counters(1_200), counters(100)];
  await clicks.status();
  state.nowMs = 130_000;
  expect(await clicks.status()).toMatchObject({ perSecond: 0, redirectP99Ms: null });
});

test('a worker that was started again, or joins late, never makes a rate negative or a spike', async () => {
  const { state, sampler: clicks } = sampler(counters(1_000_000), null);
  await clicks.status();
  state.nowMs = 10_000;
  state.workers = [counters(50), counters(2_000_000)];
  expect(await clicks.status()).toMatchObject({ perSecond: 5, workersAnswering: 2 });
  state.nowMs = 20_000;
  state.workers = [counters(100), counters(2_000_030)];
  expect(await clicks.status()).toMatchObject({ perSecond: 8 });
});

test('asking again within a second asks no worker', async () => {
  const { state, sampler: clicks } = sampler(counters(1));
  await Promise.all([clicks.status(), clicks.status()]);
  state.nowMs = 900;
  await clicks.status();
  expect(state.reads).toBe(1);
});

test('a quantile lies inside its bucket, and beyond the last bound at that bound', () => {
  const spread = new Map([
    [0.001, 0],
    [0.002, 100],
    [0.004, 200],
    [Number.POSITIVE_INFINITY, 200],
  ]);
  expect(quantileMs(spread, 0.25)).toBeCloseTo(1.5);
  expect(quantileMs(spread, 0.75)).toBeCloseTo(3);
  expect(
    quantileMs(
      new Map([
        [0.5, 0],
        [Number.POSITIVE_INFINITY, 3],
      ]),
      0.5,
    ),
  ).toBe(500);
  expect(quantileMs(new Map(), 0.5)).toBeNull();
});

test('only billable clicks and the redirect histogram are read out of a worker', () => {
  const value = (labels: Record<string, string>, number: number, metricName?: string) => ({
    value: number,
    labels,
    ...(metricName === undefined ? {} : { metricName }),
  });
  const read = countersOf([
    {
      name: 'clickledger_click_requests_total',
      values: [value({ outcome: 'redirected_click' }, 5), value({ outcome: 'bad_signature' }, 9)],
    },
    {
      name: 'clickledger_click_redirect_seconds',
      values: [
        value({ le: '0.01' }, 4, 'clickledger_click_redirect_seconds_bucket'),
        value({ le: '+Inf' }, 5, 'clickledger_click_redirect_seconds_bucket'),
        value({}, 0.2, 'clickledger_click_redirect_seconds_sum'),
      ],
    },
  ]);
  expect(read.clicks).toBe(5);
  expect([...read.redirects]).toEqual([
    [0.01, 4],
    [Number.POSITIVE_INFINITY, 5],
  ]);
});
