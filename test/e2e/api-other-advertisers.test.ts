/**
 * Another advertiser's ad and an ad that does not exist are the same to a read token: the same bytes,
 * and the same work. The API is the whole one, so a new route that looks an ad up fails here.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test';
import type { Operation } from '../../src/api/operation.ts';
import { openWholeApi } from '../support/whole-api.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** As long as the other: the length of an id is the caller's own. */
const THEIRS = 'ad-2000';
const NOBODYS = 'ad-9999';

let api: Awaited<ReturnType<typeof openWholeApi>>;
let reader: string;
let range: string;
const lookUps: string[] = [];

beforeAll(async () => {
  api = await openWholeApi();
  reader = (await api.tokens.create({ scope: 'read', advertiserId: 'adv-1' })).token;
  const { catalog, warehouse, clock } = api.ledger.parts;
  const ad = (adId: string, advertiserId: string) => ({
    adId,
    advertiserId,
    campaignId: 'c-1',
    targetUrl: 'https://shop.example/',
    passQuery: false,
  });
  await catalog.putAll([ad('ad-1000', 'adv-1'), ad(THEIRS, 'adv-2')]);
  const hourMs = Math.floor(clock() / HOUR_MS) * HOUR_MS - 24 * HOUR_MS;
  const row = (adId: string, advertiserId: string) => ({
    advertiserId,
    campaignId: 'c-1',
    adId,
    minuteMs: hourMs + MINUTE_MS,
    country: 'DE',
    device: 'mobile' as const,
    shard: 0,
    clicks: 5,
  });
  await warehouse.upsertLive([row('ad-1000', 'adv-1'), row(THEIRS, 'adv-2')], 1);
  const iso = (ms: number): string => new Date(ms).toISOString();
  range = `from=${iso(hourMs)}&to=${iso(hourMs + HOUR_MS)}`;
  const find = catalog.find.bind(catalog);
  catalog.find = (adId) => {
    lookUps.push(adId);
    return find(adId);
  };
}, 60_000);
afterAll(() => api.close());

/** Every route that a read token can name an ad to; `null`: it names none. */
const ROUTES: Readonly<Record<string, ((adId: string) => [string, object?]) | null>> = {
  'GET /v1/ads/metrics': (adId) => [`/v1/ads/metrics?${range}&ad_ids=${adId}`],
  'POST /v1/ads/metrics': (adId) => [
    '/v1/ads/metrics',
    { ad_ids: [adId], ...Object.fromEntries(new URLSearchParams(range)) },
  ],
  'GET /v1/ads/top': (adId) => [`/v1/ads/top?${range}&by=ad&ad_ids=${adId}`],
  'GET /v1/ads/{ad_id}/clicks': (adId) => [`/v1/ads/${adId}/clicks?${range}`],
  'GET /v1/restatements': (adId) => [`/v1/restatements?${range}&ad_id=${adId}`],
  'GET /v1/disputes': (adId) => [`/v1/disputes?ad_id=${adId}`],
  'POST /v1/disputes': (adId) => [
    '/v1/disputes',
    { ad_id: adId, reason: 'too many', ...Object.fromEntries(new URLSearchParams(range)) },
  ],
  'GET /v1/live': (adId) => [`/v1/live?ad_ids=${adId}`],
  'GET /v1/disputes/{id}': null,
  'POST /v1/disputes/{id}/withdraw': null,
  'GET /v1/hours': null,
  'GET /v1/me': null,
  'POST /v1/statements': null,
  'GET /v1/statements': null,
  'GET /v1/statements/{id}': null,
  'GET /v1/statements/{id}/csv': null,
  'GET /v1/statements/{id}/parquet': null,
};

const named = Object.entries(ROUTES).flatMap(([route, of]) => (of === null ? [] : [{ route, of }]));

async function answer(route: string, adId: string): Promise<string> {
  const [path, body] = ROUTES[route]!(adId);
  const init =
    body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } };
  const response = await api.send(path, reader, { method: route.split(' ')[0]!, ...init });
  const headers = [...response.headers]
    .filter(([name]) => !name.startsWith('ratelimit-'))
    .map(([name, value]) => `${name}: ${value}`);
  const text = `${response.status}\n${headers.join('\n')}\n\n${await bodyOf(response)}`;
  return text
    .replaceAll(adId, '<ad>')
    .replaceAll(/"(as_of|archived_until|opened_at|at|from|to)":"[^"]*"/g, '"$1":"<time>"')
    .replaceAll(/dp_[\w-]{22}/g, '<id>');
}

/** The whole body; of a stream that does not end, its first piece. */
async function bodyOf(response: Response): Promise<string> {
  if (!response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
    return response.text();
  }
  const reading = response.body!.getReader();
  const { value } = await reading.read();
  await reading.cancel();
  return new TextDecoder().decode(value);
}

test('every route that a read token may call is looked at here', () => {
  const readable = api.operations
    .filter((each: Operation) => each.scope === 'read')
    .map(({ method, path }) => `${method} ${path}`);
  expect(Object.keys(ROUTES).toSorted()).toEqual(readable.toSorted());
});

test('the own ad has clicks, so that a route that mixed ads up would show them', async () => {
  expect(await answer('GET /v1/ads/metrics', 'ad-1000')).toContain('"clicks":5');
});

test.each(named)('$route gives the same bytes for another’s ad as for none', async ({ route }) => {
  lookUps.length = 0;
  const theirs = await answer(route, THEIRS);
  expect(theirs).toMatch(/^20[01]\n/);
  expect(await answer(route, NOBODYS)).toBe(theirs);
  expect(lookUps).toEqual([]);
});

test('naming the other advertiser is refused alike, whether there is one or not', async () => {
  const of = async (advertiserId: string): Promise<string> => {
    const path = `/v1/ads/metrics?${range}&advertiser_id=${advertiserId}`;
    const response = await api.send(path, reader);
    return `${response.status} ${await response.text()}`;
  };
  expect(await of('adv-2')).toStartWith('403 ');
  expect(await of('adv-9')).toBe(await of('adv-2'));
});
