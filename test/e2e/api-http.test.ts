// Proves INV-5, INV-8 of SPEC.md.
/**
 * The API behind a real socket, with the real warehouse and token store. What it answers is compared
 * with a slow plain model that shares no code with the product.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { createApi } from '../../src/api/api.ts';
import { topFeature } from '../../src/api/top-routes.ts';
import { requestLimits } from '../../src/auth/limits.ts';
import { openTokenStore } from '../../src/auth/sqlite/tokens.ts';
import type { TokenStore } from '../../src/auth/tokens.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { LiveRow, MetricsQuery, MetricsRow, Warehouse } from '../../src/warehouse/port.ts';
import { WarehouseModel } from '../conformance/warehouse-model.ts';
import {
  build,
  hourState,
  type Question,
  question,
  WORLD_HOURS,
  world,
} from '../conformance/warehouse-world.ts';
import { FakeAdmin, jsonOf, READY_OPS, testFinality } from '../support/api.ts';
import { testAudit } from '../support/audit.ts';
import { rawRequest } from '../support/raw-http.ts';
import { fcParams } from '../support/seed.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const MAX_ROWS = 10_000;
const MAX_AD_IDS = 10_000;
const folder = tempDir('api-http');
const tokenOf = new Map<string, string>();
const errors: unknown[] = [];
let finalUntilMs = 0;
let warehouse: Warehouse;
let tokens: TokenStore;
let server: Bun.Server<undefined>;

beforeAll(async () => {
  warehouse = await openChdbWarehouse({
    path: `${folder.path}/warehouse`,
    minuteTtlDays: 0,
    hourTtlDays: 0,
  });
  tokens = openTokenStore({ path: `${folder.path}/tokens.db`, clock: systemClock });
  const api = createApi({
    config: { maxRows: MAX_ROWS, maxAdIds: MAX_AD_IDS },
    tokens,
    limits: requestLimits(0, systemClock),
    audit: testAudit(),
    warehouse,
    finalUntilMs: () => finalUntilMs,
    finality: testFinality({ clock: systemClock }),
    asOfMs: systemClock,
    features: [
      topFeature({
        warehouse,
        config: { maxAdIds: MAX_AD_IDS },
        finalUntilMs: () => finalUntilMs,
        asOfMs: systemClock,
      }),
    ],
    admin: new FakeAdmin(),
    ops: READY_OPS,
    log: (error) => errors.push(error),
  });
  server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: (req) => api.fetch(req) });
});
beforeEach(async () => {
  await warehouse.reset();
  finalUntilMs = 0;
});
afterAll(async () => {
  await server.stop(true);
  await tokens.close();
  await warehouse.close();
  folder.remove();
  expect(errors).toEqual([]);
});

async function ask(advertiserId: string, path: string, init: RequestInit = {}): Promise<Response> {
  let token = tokenOf.get(advertiserId);
  if (token === undefined) {
    token = (await tokens.create({ scope: 'read', advertiserId })).token;
    tokenOf.set(advertiserId, token);
  }
  const headers = new Headers(init.headers);
  headers.set('Authorization', `Bearer ${token}`);
  return fetch(new URL(path, server.url), { ...init, headers });
}

interface Body {
  readonly rows: readonly (Record<string, unknown> & { clicks: number })[];
  readonly next_cursor: string | null;
  readonly truncated: boolean;
  readonly final_until: string | null;
}

async function askAll(
  advertiserId: string,
  params: Record<string, unknown>,
  init: RequestInit = {},
) {
  const rows: Body['rows'][number][] = [];
  let cursor: string | undefined;
  do {
    const answer = await ask(advertiserId, '/v1/ads/metrics', {
      ...init,
      method: 'POST',
      body: JSON.stringify({ ...params, cursor }),
      headers: { 'Content-Type': 'application/json' },
    });
    const body = (await answer.json()) as Body;
    expect([answer.status, body]).toEqual([200, body]);
    expect(body.truncated).toBe(body.next_cursor !== null);
    rows.push(...body.rows);
    cursor = body.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return rows;
}

function paramsOf(query: MetricsQuery): Record<string, unknown> {
  return {
    ad_ids: query.adIds,
    campaign_ids: query.campaignIds,
    country: query.countries,
    device: query.devices,
    ad_ids_not: query.adIdsNot,
    campaign_ids_not: query.campaignIdsNot,
    country_not: query.countriesNot,
    device_not: query.devicesNot,
    order_by: query.orderBy,
    from: new Date(query.fromMs).toISOString(),
    to: new Date(query.toMs).toISOString(),
    granularity: query.granularity,
    timezone: query.timezone,
    group_by: query.groupBy.length === 0 ? 'none' : query.groupBy,
  };
}

/** In the words of the API; `final` is told from the local clock of the bucket alone. */
function expectedRow(row: MetricsRow): Record<string, unknown> {
  const { bucketStart, adId, campaignId, country, device, clicks } = row;
  const all = {
    bucket_start: bucketStart,
    ad_id: adId,
    campaign_id: campaignId,
    country,
    device,
    clicks,
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

const withoutFinal = ({ final: _, ...row }: Record<string, unknown>): Record<string, unknown> =>
  row;
const sum = (rows: readonly { clicks: number }[]): number =>
  rows.reduce((clicks, row) => clicks + row.clicks, 0);

test(
  'every grouping, page size and format adds up to the same total, as the model has it (H8)',
  async () => {
    await fc.assert(
      fc.asyncProperty(world, fc.infiniteStream(fc.nat()), async (spec, seeds) => {
        await warehouse.reset();
        const model = new WarehouseModel(spec.baseMs, spec.baseMs + WORLD_HOURS * HOUR_MS);
        await build(spec, warehouse, model);
        const seed = seeds.next().value;
        for (const one of fc.sample(question(spec.baseMs), { numRuns: 20, seed })) {
          await checkQuestion(model, one);
        }
      }),
      { ...fcParams(1), endOnFailure: true },
    );
  },
  { timeout: 120_000 },
);

async function checkQuestion(model: WarehouseModel, one: Question): Promise<void> {
  const { query, pageLimit } = one;
  finalUntilMs = one.finalUntilMs;
  const label = JSON.stringify({ ...query, finalUntilMs, pageLimit });
  const expected = model.metrics(query, finalUntilMs).rows;
  const params = paramsOf(query);
  const limit = Math.max(pageLimit, Math.ceil(expected.length / 4));
  const rows = await askAll(query.advertiserId, { ...params, limit });
  expect({ label, rows: rows.map(withoutFinal) }).toEqual({
    label,
    rows: expected.map(expectedRow),
  });

  const total = {
    ...params,
    granularity: 'total',
    group_by: 'none',
    fill: 'zero',
    order_by: 'bucket',
  };
  expect({ label, total: sum(await askAll(query.advertiserId, total)) }).toEqual({
    label,
    total: sum(rows),
  });
  const middleMs = Math.floor((query.fromMs + query.toMs) / 2 / 60_000) * 60_000;
  if (middleMs > query.fromMs) {
    const middle = new Date(middleMs).toISOString();
    const before = await askAll(query.advertiserId, { ...total, to: middle });
    const after = await askAll(query.advertiserId, { ...total, from: middle });
    expect({ label, halves: sum(before) + sum(after) }).toEqual({ label, halves: sum(rows) });
  }
  const inFormat = async (accept: string): Promise<string[]> => {
    const answer = await ask(query.advertiserId, '/v1/ads/metrics', {
      method: 'POST',
      body: JSON.stringify(params),
      headers: { 'Content-Type': 'application/json', Accept: accept },
    });
    return (await answer.text()).trimEnd().split(/\r?\n/);
  };
  const [header, ...lines] = await inFormat('text/csv');
  const names = header!.split(',');
  const cells = (row: Record<string, unknown>): string => names.map((name) => row[name]).join(',');
  expect({ label, csv: lines }).toEqual({ label, csv: rows.map(cells) });

  const all = (await inFormat('application/x-ndjson')).map((line) => JSON.parse(line));
  const meta = { meta: expect.objectContaining({ granularity: query.granularity }) };
  expect({ label, all }).toEqual({ label, all: [meta, ...rows, { end: { rows: rows.length } }] });
  await checkTop(one, { label, params, sum: sum(rows), model });
}

/** Any ranking of a query's clicks is that of the model, and adds up to the same total. */
async function checkTop(
  { query, pageLimit }: Question,
  known: {
    readonly label: string;
    readonly params: Record<string, unknown>;
    readonly sum: number;
    readonly model: WarehouseModel;
  },
): Promise<void> {
  const by = (['ad', 'campaign', 'country', 'device'] as const)[pageLimit % 4]!;
  const { granularity: _, group_by: __, order_by: ___, ...filters } = known.params;
  const search = new URLSearchParams({ by, limit: String(pageLimit) });
  for (const [name, value] of Object.entries(filters)) {
    if (value !== undefined) search.set(name, String(value));
  }
  const body = await jsonOf(ask(query.advertiserId, `/v1/ads/top?${search}`));
  const top = known.model.top({ ...query, by, limit: pageLimit }, finalUntilMs);
  const column = { ad: 'ad_id', campaign: 'campaign_id', country: 'country', device: 'device' }[by];
  expect({ label: known.label, rows: body.rows, total: body.total }).toEqual({
    label: known.label,
    rows: top.rows.map(({ value, clicks }, at) => ({
      rank: at + 1,
      [column]: value,
      clicks,
      share: clicks / known.sum,
    })),
    total: known.sum,
  });
}

const BASE_MS = Date.UTC(2026, 2, 10);
const DAY = 'from=2026-03-10&to=2026-03-11';
const live = (adId: string, over: Partial<LiveRow> = {}): LiveRow => ({
  advertiserId: 'adv-1',
  campaignId: 'c1',
  adId,
  minuteMs: BASE_MS,
  country: 'DE',
  device: 'mobile',
  shard: 0,
  clicks: 1,
  ...over,
});

test('final and live rows are told apart, and pages keep the first page’s final_until', async () => {
  const { clicks: _, shard: __, ...key } = live('a');
  const rows = [0, 1, 2, 3].map((hour) => ({ ...key, minuteMs: BASE_MS + hour * HOUR_MS }));
  await warehouse.upsertLive(
    rows.map((row) => ({ ...row, clicks: 10, shard: 0 })),
    1,
  );
  const publish = async (hourMs: number): Promise<void> => {
    await warehouse.writeFinalHour(hourMs, 1, [{ ...key, minuteMs: hourMs, clicks: 7 }]);
    const hour = hourState(hourMs, 1, 1);
    await warehouse.publish({ hour, day: null, drift: [], restatements: [] });
    finalUntilMs = hourMs + HOUR_MS;
  };
  await publish(BASE_MS);
  await publish(BASE_MS + HOUR_MS);
  const path = `/v1/ads/metrics?${DAY}&granularity=hour&limit=3`;
  const first = (await (await ask('adv-1', path)).json()) as Body;
  expect(first.rows.map(({ clicks, final }) => [clicks, final])).toEqual([
    [7, true],
    [7, true],
    [10, false],
  ]);
  await publish(BASE_MS + 2 * HOUR_MS);
  await publish(BASE_MS + 3 * HOUR_MS);
  const second = await ask('adv-1', `${path}&cursor=${first.next_cursor}`);
  expect(await jsonOf(second)).toMatchObject({
    rows: [{ clicks: 10, final: false }],
    final_until: first.final_until,
    truncated: false,
  });
  const hours = await jsonOf(ask('adv-1', `/v1/hours?${DAY}`));
  const states = (hours.hours as { state: string }[]).map(({ state }) => state);
  expect(states).toEqual([...Array(4).fill('final'), ...Array(20).fill('waiting')]);
});

describe('who may see what', () => {
  beforeEach(() => warehouse.upsertLive([live('a'), live('b', { advertiserId: 'adv-2' })], 1));

  test('another’s ad and a missing ad give the same answer, byte for byte', async () => {
    const answerFor = async (adId: string): Promise<string> => {
      const path = `/v1/ads/metrics?${DAY}&ad_ids=${adId}&fill=zero`;
      const text = await (await ask('adv-1', path)).text();
      return text.replaceAll(`"${adId}"`, '"?"').replace(/"as_of":"[^"]*"/, '');
    };
    expect(await answerFor('b')).toBe(await answerFor('missing'));
    expect(await answerFor('a')).toContain('"clicks":1');
  });

  test('a revoked token is out at the next request', async () => {
    const { token, id } = await tokens.create({ scope: 'read', advertiserId: 'adv-1' });
    const status = async (): Promise<number> => {
      const headers = { Authorization: `Bearer ${token}` };
      return (await fetch(new URL(`/v1/ads/metrics?${DAY}`, server.url), { headers })).status;
    };
    expect(await status()).toBe(200);
    await tokens.revoke(id);
    expect(await status()).toBe(401);
  });
});

describe('many ids and rows', () => {
  const ids = Array.from({ length: MAX_ROWS + 1 }, (_, at) => `ad-${String(at).padStart(6, '0')}`);
  beforeEach(() =>
    warehouse.upsertLive(
      ids.map((id) => live(id)),
      1,
    ),
  );

  test('10,001 rows come in two pages and say so, in CSV too (H14)', async () => {
    const path = `/v1/ads/metrics?${DAY}`;
    const first = (await (await ask('adv-1', path)).json()) as Body;
    expect([first.rows.length, first.truncated]).toEqual([MAX_ROWS, true]);
    const init = { headers: { Accept: 'text/csv' } };
    const csv = await ask('adv-1', path, init);
    expect((await csv.text()).split('\r\n')).toHaveLength(1 + MAX_ROWS + 1);
    const link = /^<(.*)>; rel="next"$/.exec(csv.headers.get('Link')!)![1]!;
    const rest = await ask('adv-1', link, init);
    expect((await rest.text()).split('\r\n')[1]).toContain(ids.at(-1)!);
    expect(rest.headers.get('X-Truncated')).toBe('false');
  });

  test('long lists of ids go by POST; above the cap the answer names it (H11)', async () => {
    const listed = (count: number) => ({
      from: '2026-03-10',
      to: '2026-03-11',
      group_by: 'none',
      ad_ids: [...ids.slice(0, count), ...ids.slice(0, 10)],
    });
    for (const count of [250, 5_000, MAX_AD_IDS]) {
      expect([count, sum(await askAll('adv-1', listed(count)))]).toEqual([count, count]);
    }
    const form = new URLSearchParams({
      ...listed(0),
      ad_ids: ids.slice(0, 5_000).join(','),
    });
    const answer = await ask('adv-1', '/v1/ads/metrics', { method: 'POST', body: form });
    expect(sum(((await answer.json()) as Body).rows)).toBe(5_000);
    const many = Array.from({ length: 100_000 }, (_, at) => `x${at}`);
    const tooMany = await ask('adv-1', '/v1/ads/metrics', {
      method: 'POST',
      body: JSON.stringify({ ...listed(0), ad_ids: many }),
      headers: { 'Content-Type': 'application/json' },
    });
    expect([tooMany.status, (await jsonOf(tooMany)).detail]).toEqual([
      400,
      expect.stringContaining('100000 ad ids, at most 10000'),
    ]);
    const inUrl = `/v1/ads/metrics?${DAY}&group_by=none&ad_ids=`;
    const fits = await ask('adv-1', inUrl + ids.slice(0, 1_400).join(','));
    expect(sum(((await fits.json()) as Body).rows)).toBe(1_400);
    expect((await ask('adv-1', inUrl + ids.slice(0, 5_000).join(','))).status).toBe(431);
  });
});

test('no parameter makes it answer 500', async () => {
  await warehouse.upsertLive([live('a')], 1);
  const values = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 20 }),
    fc.constantFrom('2026-03-10', '2026-03-11', 'UTC', 'a', 'ad', 'none', 'zero', '-1', '1e9', '%'),
  );
  const names = fc.constantFrom(
    ...['ad_ids', 'campaign_ids', 'country', 'device', 'from', 'to', 'granularity', 'group_by'],
    ...['timezone', 'fill', 'limit', 'cursor', 'advertiser_id', '__proto__', ''],
  );
  await fc.assert(
    fc.asyncProperty(fc.dictionary(names, values), fc.boolean(), async (params, byPost) => {
      const all = { from: '2026-03-10', to: '2026-03-11', ...params };
      const answer = byPost
        ? await ask('adv-1', '/v1/ads/metrics', {
            method: 'POST',
            body: JSON.stringify(all),
            headers: { 'Content-Type': 'application/json' },
          })
        : await ask('adv-1', `/v1/ads/metrics?${new URLSearchParams(all)}`);
      await answer.text();
      expect([params, [200, 400, 403].includes(answer.status)]).toEqual([params, true]);
    }),
    fcParams(150),
  );
});

test('bytes that are no UTF-8 and no percent-encoding are refused, not fatal', async () => {
  const { token } = await tokens.create({ scope: 'read', advertiserId: 'adv-1' });
  const headers = [`Authorization: Bearer ${token}`];
  for (const query of ['ad_ids=%ff%fe', 'ad_ids=%', '%00=%00', 'from=%E0%A4%A']) {
    const answer = await rawRequest(server.port!, `/v1/ads/metrics?${DAY}&${query}`, { headers });
    expect([query, answer.status]).toEqual([query, 400]);
    expect(answer.body).toContain('parameters_invalid');
  }
});
