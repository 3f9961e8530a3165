/** The parts that metrics are made of: latencies in plain fields, one look per scrape, ages of records. */
import { afterEach, expect, test } from 'bun:test';
import fc from 'fast-check';
import { Histogram, Registry } from 'prom-client';
import { LatencyCounts } from '../../src/platform/latency-counts.ts';
import { addLatencyMetric } from '../../src/roles/latency-metrics.ts';
import { appendedAtMsOf } from '../../src/roles/log-age.ts';
import { perScrape } from '../../src/roles/per-scrape.ts';
import { createCountTracer } from '../../src/telemetry/count-tracer.ts';
import { Sampler, traceIdOf } from '../../src/telemetry/identity.ts';
import type { Span } from '../../src/telemetry/port.ts';
import { LedgerFiles, LiveRows } from '../crash/ledger-world.ts';
import { click, clicks, T0 } from '../support/archive-fixtures.ts';
import { MemoryLog } from '../support/memory-log.ts';
import { fcParams } from '../support/seed.ts';

const open: LedgerFiles[] = [];
afterEach(async () => {
  for (const files of open.splice(0)) await files.dispose();
});

const BOUNDS_MS = [1, 10, 100];

test('latencies counted in plain fields give the histogram that the library would', async () => {
  const value = fc.oneof(
    fc.constantFrom(...BOUNDS_MS),
    fc.double({ min: 0, max: 500, noNaN: true }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(value), async (values) => {
      const own = new Registry();
      const counts = new LatencyCounts(BOUNDS_MS);
      addLatencyMetric({ name: 'x_seconds', help: 'h', registry: own, counts });
      const theirs = new Registry();
      const buckets = BOUNDS_MS.map((each) => each / 1_000);
      const histogram = new Histogram({
        name: 'x_seconds',
        help: 'h',
        buckets,
        registers: [theirs],
      });
      for (const each of values) {
        counts.observe(each);
        histogram.observe(each / 1_000);
      }
      const lines = async (registry: Registry): Promise<string[]> =>
        (await registry.metrics()).split('\n').filter((line) => !line.startsWith('x_seconds_sum'));
      expect(await lines(own)).toEqual(await lines(theirs));
      const sum = values.reduce((total, each) => total + each, 0) / 1_000;
      expect(counts.sumMs / 1_000).toBeCloseTo(sum, 9);
    }),
    fcParams(100),
  );
});

test('metrics of one scrape share one look, the next scrape looks again, also after a failure', async () => {
  let looks = 0;
  const look = perScrape(async () => {
    if (++looks === 2) throw new Error('gone');
    return looks;
  });
  expect(await Promise.all([look(), look()])).toEqual([1, 1]);
  expect((await Promise.allSettled([look(), look()])).map(({ status }) => status)).toEqual([
    'rejected',
    'rejected',
  ]);
  expect(await look()).toBe(3);
});

test('the age of an unread record is known, also when retention has removed it or nothing waits', async () => {
  const log = new MemoryLog();
  log.append(0, clicks(2), T0 + 10);
  log.append(0, clicks(2, 2), T0 + 20);
  const ageAt = async (offset: number) => appendedAtMsOf(log, await log.range(0), offset);
  expect([await ageAt(0), await ageAt(2), await ageAt(4)]).toEqual([T0 + 10, T0 + 20, null]);
  log.removeBefore(0, 2);
  expect(await ageAt(0)).toBe(T0 + 20);
});

test('the counter tells a traced click when it is committed and when its row is taken, not before', async () => {
  const files = new LedgerFiles(T0 + 5_000);
  open.push(files);
  const spans: Span[] = [];
  const tracer = createCountTracer({
    sampler: new Sampler(1),
    sink: { add: (span) => spans.push(span) },
    clock: files.clock,
    onBug: (error) => {
      throw error;
    },
  });
  const live = new LiveRows();
  live.failure = new Error('the warehouse is away');
  const counter = await files.openCounter(live, { over: { tracer, commitRecords: 1_000 } });
  await files.append(0, [
    click('imp-1'),
    click('imp-2'),
    click('imp-1', { clickedAtMs: T0 + 2_000 }),
  ]);
  await expect(counter.catchUp()).rejects.toThrow('the warehouse is away');
  const names = (): string[] => spans.map(({ name }) => name);
  expect(names()).toEqual(['count', 'commit', 'count', 'commit', 'count', 'commit']);
  const outcomes = spans.map(({ attributes }) => attributes['clickledger.outcome']);
  expect(outcomes.filter(Boolean)).toEqual(['counted', 'counted', 'duplicate']);
  live.failure = null;
  await counter.catchUp();
  const upserts = spans.filter(({ name }) => name === 'upsert');
  expect(upserts.map(({ traceId }) => traceId)).toEqual([
    traceIdOf('imp-1', T0 + 1_000),
    traceIdOf('imp-2', T0 + 1_000),
  ]);
  await counter.close();
});
