/** Traces of clicks: the same on both sides of the log, and never in the way of clicks or counting. */
import { afterEach, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { RecordSource } from '../../src/counter/record-source.ts';
import { createClickTracer } from '../../src/telemetry/click-tracer.ts';
import { createCountTracer } from '../../src/telemetry/count-tracer.ts';
import { Sampler, spanIdOf, traceIdOf } from '../../src/telemetry/identity.ts';
import { createOtlpExporter, tracesUrl } from '../../src/telemetry/otlp/exporter.ts';
import type { Span, SpanExporter, TracedRecord } from '../../src/telemetry/port.ts';
import { SpanQueue } from '../../src/telemetry/span-queue.ts';
import { click, T0 } from '../support/archive-fixtures.ts';
import { clickPath, HeldLog, NOW_MS, setUpClicks } from '../support/click.ts';
import { MemoryLog } from '../support/memory-log.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../support/otlp-receiver.ts';
import { fcParams } from '../support/seed.ts';

const ALL = new Sampler(1);
const fail = (error: unknown): never => {
  throw error;
};

class Spans {
  readonly spans: Span[] = [];
  add(span: Span): void {
    this.spans.push(span);
  }
  named(name: string): Span[] {
    return this.spans.filter((span) => span.name === name);
  }
}

describe('which clicks are traced', () => {
  const id = fc.stringMatching(/^[A-Za-z0-9._~-]{1,128}$/);

  test('worker and ledger decide alike, from the record alone', async () => {
    await fc.assert(
      fc.asyncProperty(id, fc.double({ min: 0, max: 1, noNaN: true }), async (imp, ratio) => {
        const log = new MemoryLog();
        log.append(0, [click(imp)], T0 + 2_000);
        const source = new RecordSource(60_000);
        const [batch] = await log.read(0, 0, 1 << 20);
        expect(source.read(batch!, 0)).toBeNull();
        expect(source.impressionId(batch!)).toBe(imp);
        const sampler = new Sampler(ratio);
        expect(sampler.takesHash(source.record.hash2)).toBe(sampler.takes(imp));
      }),
      fcParams(),
    );
  });

  test('the ratio is kept, and a smaller one takes a part of what a larger one takes', () => {
    const ids = Array.from({ length: 20_000 }, (_, i) => `imp-${i}`);
    const tenth = new Sampler(0.1);
    const third = new Sampler(0.3);
    const taken = ids.filter((each) => tenth.takes(each));
    expect(taken.length).toBeGreaterThan(1_800);
    expect(taken.length).toBeLessThan(2_200);
    expect(taken.filter((each) => !third.takes(each))).toEqual([]);
    expect(ids.some((each) => new Sampler(0).takes(each))).toBe(false);
    expect(ids.every((each) => ALL.takes(each))).toBe(true);
  });

  test('ids have the form that OTLP asks for and differ by impression, time and name', () => {
    const trace = traceIdOf('imp-1', T0);
    expect(trace).toMatch(/^[0-9a-f]{32}$/);
    expect(spanIdOf(trace, 'click')).toMatch(/^[0-9a-f]{16}$/);
    expect(traceIdOf('imp-1', T0)).toBe(trace);
    expect(new Set([trace, traceIdOf('imp-2', T0), traceIdOf('imp-1', T0 + 1)]).size).toBe(3);
    expect(spanIdOf(trace, 'count')).not.toBe(spanIdOf(trace, 'click'));
  });
});

describe('a click in its worker', () => {
  test('is one span around its steps, which follow each other', async () => {
    const sink = new Spans();
    const tracer = createClickTracer({ sampler: ALL, sink, onBug: fail });
    const { send } = setUpClicks({ tracer });
    expect((await send(clickPath('i1', 'a1'))).status).toBe(302);
    expect(sink.spans.map(({ name }) => name)).toEqual([
      'click',
      'verify',
      'find ad',
      'prepare',
      'append',
    ]);
    const [root, ...steps] = sink.spans as [Span, ...Span[]];
    expect(root.traceId).toBe(traceIdOf('i1', NOW_MS));
    expect(root.parentSpanId).toBeNull();
    expect(root.attributes).toMatchObject({
      'clickledger.impression_id': 'i1',
      'clickledger.ad_id': 'a1',
      'clickledger.country': 'US',
      'clickledger.class': 'click',
    });
    expect(steps.every(({ parentSpanId }) => parentSpanId === root.spanId)).toBe(true);
    expect(steps[0]!.startMs).toBe(root.startMs);
    for (const [i, step] of steps.entries()) {
      expect(step.endMs).toBeGreaterThanOrEqual(step.startMs);
      if (i > 0) expect(step.startMs).toBe(steps[i - 1]!.endMs);
    }
    expect(steps.at(-1)!.endMs).toBe(root.endMs);
    expect(Math.abs(root.startMs - NOW_MS)).toBeLessThan(1_000);
  });

  test('carries no address, user agent or referer', async () => {
    const sink = new Spans();
    const { send } = setUpClicks({
      tracer: createClickTracer({ sampler: ALL, sink, onBug: fail }),
    });
    const headers = { 'user-agent': 'Secret/1.0', referer: 'https://pub.example/private' };
    await send(clickPath('i1', 'a1'), { headers });
    expect(sink.spans.length).toBeGreaterThan(0);
    expect(JSON.stringify(sink.spans)).not.toMatch(/Secret|private|203\.0\.113/);
  });

  test('is not traced without a good signature, or when it is not sampled', async () => {
    const sink = new Spans();
    const { send } = setUpClicks({
      tracer: createClickTracer({ sampler: ALL, sink, onBug: fail }),
    });
    expect((await send(clickPath('i1', 'a1', '', 'wrong'))).status).toBe(403);
    const none = createClickTracer({ sampler: new Sampler(0), sink, onBug: fail });
    expect((await setUpClicks({ tracer: none }).send(clickPath('i1', 'a1'))).status).toBe(302);
    expect(sink.spans).toEqual([]);
  });

  test('that the log refused says so', async () => {
    const sink = new Spans();
    const log = new HeldLog();
    const tracer = createClickTracer({ sampler: ALL, sink, onBug: fail });
    const { send } = setUpClicks({ log, tracer });
    const answer = send(clickPath('i1', 'a1'));
    log.held[0]!(new Error('EIO'));
    expect((await answer).status).toBe(503);
    expect(sink.named('click')[0]!.error).toBe('log_failed');
    expect(sink.named('append')[0]!.error).toBe('log_failed');
    expect(sink.named('verify')[0]!.error).toBeNull();
  });

  test('is redirected and told once when tracing itself is broken, and tracing ends there', async () => {
    const bugs: unknown[] = [];
    const sink = {
      add: () => {
        throw new Error('bug');
      },
    };
    const tracer = createClickTracer({ sampler: ALL, sink, onBug: (bug) => bugs.push(bug) });
    const { send, metrics } = setUpClicks({ tracer });
    expect((await send(clickPath('i1', 'a1'))).status).toBe(302);
    expect((await send(clickPath('i2', 'a1'))).status).toBe(302);
    expect(bugs.length).toBe(1);
    expect(metrics.outcomes.redirected_click).toBe(2);
    expect(metrics.outcomes.internal).toBe(0);
  });
});

describe('a click in the ledger', () => {
  let nowMs = T0;
  afterEach(() => {
    nowMs = T0;
  });
  const record = (impressionId: string, over: Partial<TracedRecord> = {}): TracedRecord => ({
    impressionId,
    clickedAtMs: T0 - 100,
    partition: 1,
    offset: 7,
    appendedAtMs: T0 - 50,
    outcome: 'counted',
    ...over,
  });
  const tracerOn = (sink: Spans, more = {}) =>
    createCountTracer({ sampler: ALL, sink, clock: () => nowMs, onBug: fail, ...more });

  test('is told when it is committed, and its row when the warehouse has it', () => {
    const sink = new Spans();
    const tracer = tracerOn(sink);
    tracer.counted(record('i1'));
    expect(sink.spans).toEqual([]);
    nowMs += 100;
    tracer.committing();
    nowMs += 20;
    tracer.committed();
    const trace = traceIdOf('i1', T0 - 100);
    expect(sink.spans.map(({ name }) => name)).toEqual(['count', 'commit']);
    const [count, commit] = sink.spans as [Span, Span];
    expect(count).toMatchObject({ traceId: trace, parentSpanId: spanIdOf(trace, 'click') });
    expect(count.attributes).toMatchObject({
      'clickledger.partition': 1,
      'clickledger.offset': 7,
      'clickledger.outcome': 'counted',
      'clickledger.log_wait_ms': 50,
    });
    expect(commit.parentSpanId).toBe(count.spanId);
    expect(Math.round(count.endMs - count.startMs)).toBe(120);
    expect(Math.round(commit.endMs - commit.startMs)).toBe(20);
    tracer.upserting();
    nowMs += 500;
    tracer.upserted(true);
    const [upsert] = sink.named('upsert') as [Span];
    expect(upsert).toMatchObject({ traceId: trace, parentSpanId: spanIdOf(trace, 'click') });
    expect(Math.round(upsert.endMs - upsert.startMs)).toBe(500);
  });

  test('waits with its row through an upsert that fails and one that had begun before it', () => {
    const sink = new Spans();
    const tracer = tracerOn(sink);
    const commit = (id: string): void => {
      tracer.counted(record(id));
      tracer.committing();
      tracer.committed();
    };
    commit('i1');
    tracer.upserting();
    commit('i2');
    tracer.upserted(false);
    expect(sink.named('upsert')).toEqual([]);
    tracer.upserting();
    commit('i3');
    tracer.upserted(true);
    expect(sink.named('upsert').map(({ traceId }) => traceId)).toEqual([
      traceIdOf('i1', T0 - 100),
      traceIdOf('i2', T0 - 100),
    ]);
    expect(sink.named('upsert')[0]!.attributes['clickledger.attempts']).toBe(2);
  });

  test('has no row of its own when it is a duplicate', () => {
    const sink = new Spans();
    const tracer = tracerOn(sink);
    tracer.counted(record('i1', { outcome: 'duplicate' }));
    tracer.committing();
    tracer.committed();
    tracer.upserting();
    tracer.upserted(true);
    expect(sink.spans.map(({ name }) => name)).toEqual(['count', 'commit']);
  });

  test('is not told when it is old, nor beyond the bound, which is counted', () => {
    const sink = new Spans();
    let dropped = 0;
    const tracer = tracerOn(sink, { maxRecords: 2, onDropped: () => dropped++ });
    tracer.counted(record('old', { appendedAtMs: T0 - 3_600_001 }));
    for (const id of ['i1', 'i2', 'i3']) tracer.counted(record(id));
    tracer.committing();
    tracer.committed();
    expect(sink.named('count').length).toBe(2);
    expect(dropped).toBe(1);
  });

  test('is counted when tracing is broken', () => {
    const bugs: unknown[] = [];
    const sink = new Spans();
    sink.add = () => fail(new Error('bug'));
    const tracer = tracerOn(sink, { onBug: (bug: unknown) => bugs.push(bug) });
    tracer.counted(record('i1'));
    tracer.committed();
    tracer.committed();
    expect(bugs.length).toBe(1);
    expect(tracer.isSampled(0)).toBe(false);
  });
});

const span = (name: string): Span => ({
  traceId: traceIdOf('i1', T0),
  spanId: spanIdOf(traceIdOf('i1', T0), name),
  parentSpanId: name === 'click' ? null : spanIdOf(traceIdOf('i1', T0), 'click'),
  name,
  kind: 'server',
  startMs: T0 + 0.25,
  endMs: T0 + 1.5,
  attributes: { text: 'x', number: 3 },
  error: name === 'append' ? 'log_failed' : null,
});

describe('the queue', () => {
  const exporterOf = (send: (spans: readonly Span[]) => Promise<void>): SpanExporter => ({
    export: send,
    close: async () => {},
  });

  test('is bounded while an export hangs, counts what it drops, and closes in its time', async () => {
    const queue = new SpanQueue({
      exporter: exporterOf(() => new Promise(() => {})),
      maxSpans: 10,
      batchSpans: 5,
      intervalMs: 1,
    });
    for (let i = 0; i < 100; i++) queue.add(span('click'));
    expect(queue.waiting).toBe(10);
    const startedMs = performance.now();
    await queue.close(50);
    expect(performance.now() - startedMs).toBeLessThan(2_000);
    // Five are with the exporter and neither taken nor refused.
    expect(queue.counts).toEqual({ sent: 0, failed: 0, dropped: 95 });
    queue.add(span('click'));
    expect(queue.counts.dropped).toBe(96);
  });

  test('sends in batches, one at a time, and what waits when it closes', async () => {
    const batches: number[] = [];
    let atOnce = 0;
    const queue = new SpanQueue({
      exporter: exporterOf(async (spans) => {
        expect(++atOnce).toBe(1);
        batches.push(spans.length);
        await Promise.resolve();
        atOnce--;
      }),
      batchSpans: 4,
    });
    for (let i = 0; i < 10; i++) queue.add(span('click'));
    await queue.close(1_000);
    expect(batches).toEqual([4, 4, 2]);
    expect(queue.counts).toEqual({ sent: 10, failed: 0, dropped: 0 });
  });

  test('counts a refused batch as failed, tells of it once a minute and goes on', async () => {
    const failures: number[] = [];
    let calls = 0;
    const queue = new SpanQueue({
      exporter: exporterOf(async () => {
        if (++calls < 3) throw new Error('refused');
      }),
      batchSpans: 1,
      onFailure: (_, spans) => failures.push(spans),
    });
    for (let i = 0; i < 3; i++) queue.add(span('click'));
    await queue.close(1_000);
    expect(queue.counts).toEqual({ sent: 1, failed: 2, dropped: 0 });
    expect(failures).toEqual([1]);
  });
});

describe('the OTLP exporter', () => {
  const open: OtlpReceiver[] = [];
  afterEach(async () => {
    for (const receiver of open.splice(0)) await receiver.stop();
  });
  function receiverAnd(timeoutMs: number) {
    const receiver = startOtlpReceiver();
    open.push(receiver);
    const exporter = createOtlpExporter({
      url: receiver.url,
      timeoutMs,
      serviceName: 'clickledger-click',
      serviceVersion: '1.2.3',
      instanceId: 'click-0',
    });
    return { receiver, exporter };
  }

  test('sends ids, parents, times and attributes as they are', async () => {
    const { receiver, exporter } = receiverAnd(5_000);
    await exporter.export([span('click'), span('append')]);
    const [root, append] = receiver.spans;
    expect(root).toEqual({
      service: 'clickledger-click',
      traceId: traceIdOf('i1', T0),
      spanId: spanIdOf(traceIdOf('i1', T0), 'click'),
      parentSpanId: null,
      name: 'click',
      startMs: T0 + 0.25,
      endMs: T0 + 1.5,
      attributes: { text: 'x', number: 3 },
      error: null,
    });
    expect(append).toMatchObject({ parentSpanId: root!.spanId, error: 'log_failed' });
    await exporter.close();
  });

  test('rejects within its time when the receiver refuses, hangs or is not there', async () => {
    const { receiver, exporter } = receiverAnd(400);
    const refusedWithin = async (): Promise<number> => {
      const startedMs = performance.now();
      expect(
        await exporter.export([span('click')]).then(
          () => 'taken',
          () => 'refused',
        ),
      ).toBe('refused');
      return performance.now() - startedMs;
    };
    receiver.answer = 400;
    expect(await refusedWithin()).toBeLessThan(2_000);
    receiver.answer = 503;
    expect(await refusedWithin()).toBeLessThan(2_000);
    receiver.answer = 'hang';
    expect(await refusedWithin()).toBeLessThan(2_000);
    await receiver.stop();
    expect(await refusedWithin()).toBeLessThan(2_000);
    await exporter.close();
  });

  test('takes the address of the collector with and without the path', () => {
    for (const url of ['http://c:4318', 'http://c:4318/', 'http://c:4318/v1/traces']) {
      expect(tracesUrl(url)).toBe('http://c:4318/v1/traces');
    }
    expect(tracesUrl('https://c/otlp')).toBe('https://c/otlp/v1/traces');
  });
});
