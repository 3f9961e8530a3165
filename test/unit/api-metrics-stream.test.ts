import { describe, expect, test } from 'bun:test';
import { StreamPlaces } from '../../src/api/metrics-stream.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import type { MetricsQuery, MetricsRow } from '../../src/warehouse/port.ts';
import { FINAL_MS, jsonOf, setUpApi } from '../support/api.ts';

const PATH = '/v1/ads/metrics?from=2026-03-10&to=2026-03-11';
const ALL = { headers: { Accept: 'application/x-ndjson' } };

const row = (adId: string): MetricsRow => ({
  bucketStart: '2026-03-10T00:00:00+00:00',
  adId,
  campaignId: undefined,
  country: undefined,
  device: undefined,
  clicks: 2,
});

/** A warehouse with so many pages of so many rows each. */
function pagesOf(set: ReturnType<typeof setUpApi>, pages: number, rowsEach = 1) {
  const asked: { after: MetricsQuery['after']; finalUntilMs: number }[] = [];
  set.warehouse.metrics = async ({ after }, finalUntilMs) => {
    asked.push({ after, finalUntilMs });
    const page = asked.length;
    const rows = Array.from({ length: rowsEach }, (_, at) => row(`ad-${page}-${at}`));
    return { rows, next: page < pages ? [String(page)] : undefined };
  };
  return asked;
}

const linesOf = async (answer: Response): Promise<Record<string, unknown>[]> =>
  (await answer.text())
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('all rows of a query in one answer', () => {
  test('it says what it is about, gives every row, and how many there were', async () => {
    const set = setUpApi();
    const asked = pagesOf(set, 3);
    const answer = await set.send(PATH, ALL);
    set.state.finalUntilMs = FINAL_MS + 7_200_000;
    expect(answer.headers.get('Content-Type')).toBe('application/x-ndjson');
    expect(answer.headers.get('X-Final-Until')).toBe('2026-03-10T10:00:00.000Z');
    expect(await linesOf(answer)).toEqual([
      {
        meta: {
          final_until: '2026-03-10T10:00:00.000Z',
          from: '2026-03-10T00:00:00+00:00',
          to: '2026-03-11T00:00:00+00:00',
          interval: '[from,to)',
          timezone: 'UTC',
          granularity: 'day',
          as_of: '2026-03-10T12:34:56.000Z',
        },
      },
      ...[1, 2, 3].map((page) => ({
        bucket_start: '2026-03-10T00:00:00+00:00',
        ad_id: `ad-${page}-0`,
        clicks: 2,
        final: false,
      })),
      { end: { rows: 3 } },
    ]);
    // An hour that turns final meanwhile does not mix two counts of the same clicks.
    expect(asked.map(({ finalUntilMs }) => finalUntilMs)).toEqual([FINAL_MS, FINAL_MS, FINAL_MS]);
    expect(asked.map(({ after }) => after)).toEqual([undefined, ['1'], ['2']]);
  });

  test('without rows it is still whole (G10)', async () => {
    const { send } = setUpApi();
    const lines = await linesOf(await send(PATH, ALL));
    expect(lines).toEqual([{ meta: expect.anything() }, { end: { rows: 0 } }]);
  });

  test('a reader that stands still costs no further page', async () => {
    const set = setUpApi();
    const asked = pagesOf(set, 1_000, 2_500);
    const reader = (await set.send(PATH, ALL)).body!.getReader();
    for (let piece = 0; piece < 3; piece++) await reader.read();
    await Promise.resolve();
    expect(asked.length).toBeLessThanOrEqual(2);
    await reader.cancel();
  });

  test('when the caller goes away no further page is read, and its place is free', async () => {
    const set = setUpApi();
    const asked = pagesOf(set, 1_000_000);
    const bodies = [];
    for (let at = 0; at < 4; at++) bodies.push((await set.send(PATH, ALL)).body!);
    const refused = await set.send(PATH, ALL);
    expect([refused.status, refused.headers.get('Retry-After')]).toEqual([429, '10']);
    expect(await jsonOf(refused)).toMatchObject({ code: 'too_many_streams' });
    for (const body of bodies) await body.cancel();
    const before = asked.length;
    const next = await set.send(PATH, ALL);
    expect(next.status).toBe(200);
    expect(asked.length).toBe(before + 1);
    await next.body!.cancel();
  });

  test('a caller that goes before it reads anything leaves its place free too', async () => {
    const set = setUpApi();
    pagesOf(set, 1_000_000);
    const gone = new AbortController();
    for (let at = 0; at < 4; at++) await set.send(PATH, { ...ALL, signal: gone.signal });
    expect((await set.send(PATH, ALL)).status).toBe(429);
    gone.abort();
    for (let at = 0; at < 4; at++) {
      const late = await set.send(PATH, { ...ALL, signal: AbortSignal.abort() });
      expect(late.status).toBe(200);
    }
    expect((await set.send(PATH, ALL)).status).toBe(200);
  });

  test('answers that end give their places back, failed ones too', async () => {
    const set = setUpApi();
    for (let at = 0; at < 6; at++) await (await set.send(PATH, ALL)).text();
    set.warehouse.failure = new LedgerError('tier_expired', 'Gone.', { hint: 'Ask by day.' });
    for (let at = 0; at < 6; at++) expect((await set.send(PATH, ALL)).status).toBe(400);
  });

  test('what refuses the query is a problem, not a stream', async () => {
    const { send, warehouse } = setUpApi();
    warehouse.failure = new LedgerError('tier_expired', 'Gone.', { hint: 'Ask by day.' });
    const answer = await send(PATH, ALL);
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json');
    expect(await jsonOf(answer)).toMatchObject({ status: 400, code: 'tier_expired' });
  });

  test('a failure on the way is a line of its own, and there is no end', async () => {
    const set = setUpApi();
    let page = 0;
    set.warehouse.metrics = async () => {
      page += 1;
      if (page === 2) throw new Error('secret inside');
      return { rows: [row('a')], next: ['1'] };
    };
    const lines = await linesOf(await set.send(PATH, ALL));
    expect(lines).toHaveLength(3);
    expect(lines[2]).toEqual({
      error: { code: 'internal', message: expect.stringContaining('logged as') },
    });
    expect(JSON.stringify(lines)).not.toContain('secret');
    expect(set.logged).toHaveLength(1);
  });

  test.each([['limit=10'], ['cursor=abc']])('%s is refused: it has no pages', async (more) => {
    const { send } = setUpApi();
    const answer = await send(`${PATH}&${more}`, ALL);
    expect(await jsonOf(answer)).toMatchObject({ status: 400, code: 'parameters_invalid' });
  });
});

test('there are 16 places in all, 4 for a token, and each is given back once', () => {
  const places = new StreamPlaces();
  const frees = Array.from({ length: 16 }, (_, at) => places.take(`t${Math.floor(at / 4)}`));
  expect(() => places.take('t0')).toThrow('most');
  expect(() => places.take('t9')).toThrow('16 streamed answers');
  for (const free of [frees[0]!, frees[0]!, frees[1]!]) free();
  expect(places.taken).toBe(14);
  for (const free of frees) free();
  expect(places.taken).toBe(0);
});
