/** Traces of the running product: one click, two processes, one trace; and nothing of it when it is off. */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { join } from 'node:path';
import { systemClock } from '../../src/platform/clock.ts';
import { spanIdOf } from '../../src/telemetry/identity.ts';
import {
  type OtlpReceiver,
  type ReceivedSpan,
  startOtlpReceiver,
} from '../support/otlp-receiver.ts';
import { cleanUp, eventually, freePort, Product } from '../support/product.ts';
import { tempDir } from '../support/temp-dir.ts';

const BROWSER =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36';
const files = tempDir('telemetry');
let receiver: OtlpReceiver;

beforeAll(() => {
  receiver = startOtlpReceiver();
});
afterAll(async () => {
  await cleanUp();
  await receiver.stop();
  files.remove();
});

async function started(telemetry: Readonly<Record<string, string>>): Promise<Product> {
  const product = await Product.create({ env: telemetry });
  await product.start();
  const ad = { ad_id: 'ad-1', advertiser_id: 'adv-1', campaign_id: 'camp-1' };
  const path = join(files.path, 'ads.ndjson');
  await Bun.write(path, JSON.stringify({ ...ad, target_url: 'https://shop.example/' }));
  await product.do('ads', 'import', path);
  return product;
}

async function visit(product: Product, imp: string): Promise<number> {
  const link = await product.do('sign', '--imp', imp, '--ad', 'ad-1', '--base', product.clickUrl);
  const headers = { 'User-Agent': BROWSER };
  return (await fetch(link.trim(), { redirect: 'manual', headers })).status;
}

async function counted(product: Product): Promise<void> {
  const nowMs = systemClock();
  await eventually('everything is counted', async () => {
    return (await product.admin.status()).asOfMs >= nowMs;
  });
}

test('a click and its count arrive from both processes as one trace, in order', async () => {
  const product = await started({
    CLICKLEDGER_TELEMETRY_OTLP_URL: receiver.url,
    CLICKLEDGER_TELEMETRY_SAMPLE_RATIO: '1',
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20collector-key',
  });
  const beforeMs = systemClock();
  expect(await visit(product, 'imp-1')).toBe(302);
  const of = (imp: string): ReceivedSpan[] => {
    const trace = receiver.spans.find(
      ({ attributes }) => attributes['clickledger.impression_id'] === imp,
    )?.traceId;
    return receiver.spans.filter(({ traceId }) => traceId === trace);
  };
  await eventually('both processes have sent their spans', () => of('imp-1').length === 8);
  const spans = new Map(of('imp-1').map((span) => [span.name, span]));
  expect([...spans.keys()].sort()).toEqual([
    'append',
    'click',
    'commit',
    'count',
    'find ad',
    'prepare',
    'upsert',
    'verify',
  ]);
  const span = (name: string): ReceivedSpan => spans.get(name)!;
  const root = span('click');
  expect(root.parentSpanId).toBeNull();
  for (const name of ['verify', 'find ad', 'prepare', 'append', 'count', 'upsert']) {
    expect(span(name).parentSpanId).toBe(root.spanId);
  }
  expect(span('commit').parentSpanId).toBe(spanIdOf(root.traceId, 'count'));
  for (const name of ['click', 'verify', 'find ad', 'prepare', 'append']) {
    expect(span(name).service).toBe('clickledger-click');
  }
  for (const name of ['count', 'commit', 'upsert']) {
    expect(span(name).service).toBe('clickledger-ledger');
  }
  expect(span('count').attributes).toMatchObject({
    'clickledger.outcome': 'counted',
    'clickledger.partition': 0,
    'clickledger.offset': 0,
  });
  // One machine, two processes: their clocks count whole milliseconds.
  const slackMs = 3;
  expect(root.startMs).toBeGreaterThanOrEqual(beforeMs - slackMs);
  expect(span('count').startMs).toBeGreaterThanOrEqual(span('append').startMs - slackMs);
  expect(span('commit').endMs).toBe(span('count').endMs);
  expect(span('upsert').startMs).toBeGreaterThanOrEqual(span('count').endMs - slackMs);
  expect(span('upsert').endMs).toBeLessThanOrEqual(systemClock() + slackMs);
  expect(receiver.headers[0]?.get('authorization')).toBe('Bearer collector-key');

  // A duplicate is traced as well, since its impression is; stopping sends what still waits.
  expect(await visit(product, 'imp-1')).toBe(302);
  expect(await visit(product, 'imp-2')).toBe(302);
  await counted(product);
  expect(await product.stop()).toBe(0);
  const outcomes = receiver.spans
    .filter(({ name }) => name === 'count')
    .map(({ attributes }) => attributes['clickledger.outcome']);
  expect(outcomes.sort()).toEqual(['counted', 'counted', 'duplicate']);
  expect(of('imp-2').length).toBe(8);
});

test('with no address nothing is sent, whatever the ratio', async () => {
  receiver.spans.length = 0;
  receiver.headers.length = 0;
  const product = await started({ CLICKLEDGER_TELEMETRY_SAMPLE_RATIO: '1' });
  expect(await visit(product, 'imp-off')).toBe(302);
  await counted(product);
  const metrics = await (await fetch(`${product.clickUrl}/metrics`)).text();
  expect(metrics).not.toContain('clickledger_trace_spans_total{');
  expect(await product.stop()).toBe(0);
  expect(receiver.headers).toEqual([]);
});

test('a collector that is not there changes nothing but a counter, and does not hold up a stop', async () => {
  const product = await started({
    CLICKLEDGER_TELEMETRY_OTLP_URL: `http://127.0.0.1:${await freePort()}`,
    CLICKLEDGER_TELEMETRY_SAMPLE_RATIO: '1',
  });
  for (let i = 0; i < 5; i++) expect(await visit(product, `imp-${i}`)).toBe(302);
  await counted(product);
  const failed =
    /clickledger_trace_spans_total\{role="(?:click|ledger)",result="failed"[^}]*\} [1-9]/;
  for (const url of [product.clickUrl, product.apiUrl]) {
    await eventually('failed spans are counted', async () =>
      failed.test(await (await fetch(`${url}/metrics`)).text()),
    );
  }
  expect((await product.admin.status()).outcomes.counted).toBe(5);
  expect((await product.admin.status()).problems).toEqual([]);
  const startedMs = performance.now();
  expect(await product.stop()).toBe(0);
  expect(performance.now() - startedMs).toBeLessThan(20_000);
});
