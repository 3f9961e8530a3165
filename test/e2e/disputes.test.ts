/** Disputes from request to answer, with the real warehouse and the real store. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { join } from 'node:path';
import type { ClickOutcomes } from '../../src/api/dispute-bundle.ts';
import { disputesFeature } from '../../src/api/dispute-routes.ts';
import { createDisputes } from '../../src/disputes/disputes.ts';
import type { DisputeStore, GivenVerdict } from '../../src/disputes/port.ts';
import { openDisputes } from '../../src/disputes/sqlite/store.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { Warehouse } from '../../src/warehouse/port.ts';
import { jsonOf, setUpApi } from '../support/api.ts';
import { FinalHours, finalRow } from '../support/final-hours.ts';
import { tempDir } from '../support/temp-dir.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** So long that the engine, which goes by the machine's clock, drops nothing; our clock moves on. */
const TTL_DAYS = 20_000;
const FROM = Date.UTC(2026, 2, 9, 23);
const folder = tempDir('disputes-api');
const OUTCOMES = { counted: 5, duplicate: 2, not_billable: 1, invalid: 3 };
const DAY = {
  ad_id: 'ad-1',
  from: '2026-03-10',
  to: '2026-03-11',
  timezone: 'Europe/Paris',
  reason: 'Too many clicks.',
};
let nowMs = FROM + 48 * HOUR_MS;
let warehouse: Warehouse;
let hours: FinalHours;
let store: DisputeStore;
let round = 0;

beforeAll(async () => {
  warehouse = await openChdbWarehouse({
    path: join(folder.path, 'warehouse'),
    minuteTtlDays: TTL_DAYS,
    hourTtlDays: 0,
    clock: () => nowMs,
  });
});
beforeEach(async () => {
  await warehouse.reset();
  hours = new FinalHours(warehouse);
  nowMs = FROM + 48 * HOUR_MS;
  store = openDisputes({ path: join(folder.path, `${round++}.sqlite`), clock: () => nowMs });
});
afterAll(async () => {
  await warehouse.close();
  folder.remove();
});

type Outcomes = (which: object) => Promise<ClickOutcomes>;

function setUp({ outcomes = async () => OUTCOMES }: { outcomes?: Outcomes | undefined } = {}) {
  const verdicts: GivenVerdict[] = [];
  const take = async (rows: readonly GivenVerdict[]) => {
    verdicts.push(...rows);
    return { taken: rows.length, new: rows.length, unchanged: 0, hours: [] };
  };
  const finalUntilMs = () => hours.finalUntilMs;
  const disputes = createDisputes(store, take);
  const api = setUpApi({
    warehouse,
    finalUntilMs,
    features: [disputesFeature({ warehouse, finalUntilMs, disputes, outcomes })],
  });
  const post = (path: string, body: object, token = 'reader'): Promise<Response> =>
    api.send(path, { method: 'POST', body: JSON.stringify(body) }, token);
  const idOf = async (over: object = {}, token = 'reader'): Promise<string> =>
    String((await jsonOf(post('/v1/disputes', { ...DAY, ...over }, token))).id);
  return { ...api, post, idOf, verdicts };
}

describe('an advertiser', () => {
  test('opens a dispute, sees it beside the numbers, and withdraws it', async () => {
    await hours.publishAll(FROM - HOUR_MS, FROM + 3 * HOUR_MS, [
      finalRow(FROM - 60_000, { clicks: 50 }),
      finalRow(FROM, { clicks: 3 }),
      finalRow(FROM + HOUR_MS, { clicks: 4, country: 'US' }),
      finalRow(FROM + HOUR_MS, { clicks: 90, adId: 'ad-2' }),
    ]);
    await hours.publish(
      FROM,
      [finalRow(FROM, { clicks: 2 })],
      [
        { before: 3, after: 2 },
        { adId: 'ad-2', before: 1, after: 0 },
        { advertiserId: 'adv-2', before: 8, after: 9 },
      ],
    );
    await warehouse.upsertLive([{ ...finalRow(FROM + 3 * HOUR_MS), shard: 0, clicks: 7 }], 1);
    const { post, send } = setUp();
    const answer = await post('/v1/disputes', DAY);
    expect(answer.status).toBe(201);
    const opened = await jsonOf(answer);
    const path = `/v1/disputes/${opened.id}`;
    expect(answer.headers.get('Location')).toBe(path);
    expect(opened).toEqual({
      ...DAY,
      id: expect.stringMatching(/^dp_[A-Za-z0-9_-]{22}$/),
      advertiser_id: 'adv-1',
      from: '2026-03-10T00:00:00+01:00',
      to: '2026-03-11T00:00:00+01:00',
      state: 'open',
      resolution: null,
      opened_at: new Date(nowMs).toISOString(),
      closed_at: null,
      note: null,
      history: [{ step: 'opened', by: 't1', at: opened.opened_at, note: DAY.reason, verdicts: 0 }],
    });
    const row = (hour: number, clicks: number, final: boolean) => ({
      bucket_start: `2026-03-10T0${hour}:00:00+01:00`,
      clicks,
      final,
    });
    const { bundle, ...same } = await jsonOf(send(path));
    expect(same).toEqual(opened);
    expect(bundle).toMatchObject({
      final: false,
      final_until: '2026-03-10T02:00:00.000Z',
      rows: [row(0, 2, true), row(1, 4, true), row(3, 7, false)],
      total: 13,
      restatements: [{ hour_start: '2026-03-09T23:00:00.000Z', revision: 2, before: 3, after: 2 }],
      outcomes: OUTCOMES,
      missing: [],
      clicks_url:
        '/v1/ads/ad-1/clicks?from=2026-03-09T23%3A00%3A00.000Z&to=2026-03-10T23%3A00%3A00.000Z&timezone=Europe%2FParis',
    });
    const { hours: revisions } = bundle as { hours: { revision: number }[] };
    expect(revisions.map(({ revision }) => revision)).toEqual([2, 1, 1]);

    nowMs += 1_000;
    const withdrawn = await jsonOf(post(`${path}/withdraw`, {}));
    expect(withdrawn).toMatchObject({ state: 'withdrawn', resolution: null });
    expect((await post(`${path}/withdraw`, {})).status).toBe(200);
    expect((await post(`${path}/withdraw`, { note: 'other' })).status).toBe(409);
  });

  test('learns how it ended and why, not which operator it was', async () => {
    const { post, send, idOf, verdicts } = setUp();
    const path = `/v1/disputes/${await idOf()}`;
    const given = [{ impression_id: 'i-1', valid: false, reason: 'crawler' }];
    const body = { resolution: 'upheld', note: 'It was a crawler.', verdicts: given };
    expect((await post(`${path}/resolve`, body)).status).toBe(403);
    const answer = await jsonOf(post(`${path}/resolve`, body, 'admin'));
    expect(answer).toMatchObject({ state: 'resolved', resolution: 'upheld' });
    expect(answer.verdicts).toEqual({ taken: 1, new: 1, unchanged: 0, hours: [] });
    expect(verdicts).toEqual(given);
    const historyFor = async (token: string) =>
      (await jsonOf(send(path, {}, token))).history as { by: string }[];
    expect((await historyFor('reader'))[1]).toMatchObject({
      step: 'upheld',
      by: 'operator',
      note: 'It was a crawler.',
      verdicts: 1,
    });
    expect((await historyFor('admin')).map(({ by }) => by)).toEqual(['t1', 't2']);
    expect((await post(`${path}/withdraw`, {})).status).toBe(409);
    expect((await post(`${path}/resolve`, body, 'admin')).status).toBe(200);
    expect(verdicts.length).toBe(1);
  });

  test('gets the same answer for another’s dispute and for none, byte for byte', async () => {
    const { post, send, idOf } = setUp();
    const other = await idOf({ advertiser_id: 'adv-2' }, 'admin');
    const answersTo = async (id: string) => {
      const answers = [
        await send(`/v1/disputes/${id}`),
        await post(`/v1/disputes/${id}/withdraw`, {}),
      ];
      return Promise.all(answers.map(async (each) => [each.status, await each.text()]));
    };
    const missing = await answersTo(`dp_${'x'.repeat(22)}`);
    expect(await answersTo(other)).toEqual(missing);
    expect(missing[0]).toEqual([404, expect.stringContaining('dispute_unknown')]);
    expect((await post('/v1/disputes', { ...DAY, advertiser_id: 'adv-2' })).status).toBe(403);
    expect((await send('/v1/disputes?advertiser_id=adv-2')).status).toBe(403);
    expect((await jsonOf(send('/v1/disputes'))).disputes).toEqual([]);
    expect((await jsonOf(send(`/v1/disputes/${other}`, {}, 'admin'))).advertiser_id).toBe('adv-2');
  });

  test('can dispute an ad that is not there: nothing tells whether somebody has it', async () => {
    await hours.publish(FROM, [finalRow(FROM, { advertiserId: 'adv-2', adId: 'theirs' })]);
    const { send, idOf } = setUp({ outcomes: async () => ({ ...OUTCOMES, counted: 0 }) });
    const bundleOf = async (adId: string) => {
      const body = await jsonOf(send(`/v1/disputes/${await idOf({ ad_id: adId })}`));
      return JSON.stringify(body.bundle).replaceAll(adId, '?');
    };
    expect(await bundleOf('theirs')).toBe(await bundleOf('nobodys'));
  });

  test('lists its disputes by state, newest first, page by page', async () => {
    const { post, send, idOf } = setUp();
    const ids: string[] = [];
    for (const reason of ['a', 'b', 'c']) {
      nowMs += 1;
      ids.unshift(await idOf({ reason }));
      await idOf({ reason, advertiser_id: 'adv-2' }, 'admin');
    }
    await post(`/v1/disputes/${ids[1]}/withdraw`, { note: 'settled' });
    const list = async (query: string, token = 'reader') => {
      const body = await jsonOf(send(`/v1/disputes?${query}`, {}, token));
      const found = (body.disputes as { id: string }[]).map(({ id }) => id);
      return { found, next: body.next_cursor };
    };
    const first = await list('limit=2');
    expect(first.found).toEqual(ids.slice(0, 2));
    expect(await list(`limit=2&cursor=${first.next}`)).toEqual({ found: ids.slice(2), next: null });
    expect((await list('state=open')).found).toEqual([ids[0]!, ids[2]!]);
    expect((await list('state=withdrawn')).found).toEqual([ids[1]!]);
    expect((await list('', 'admin')).found.length).toBe(6);
    expect((await list('advertiser_id=adv-2', 'admin')).found.length).toBe(3);
  });
});

describe('what cannot be had', () => {
  test('is named, and the dispute stays readable', async () => {
    await hours.publish(FROM, [finalRow(FROM + 7 * 60_000, { clicks: 3 })]);
    const damaged = () => Promise.reject(new LedgerError('object_damaged', 'an object'));
    const { send, idOf } = setUp({ outcomes: damaged });
    const id = await idOf({ from: '2026-03-10T00:07', to: '2026-03-10T00:08' });
    const before = await jsonOf(send(`/v1/disputes/${id}`));
    expect(before.bundle).toMatchObject({
      total: 3,
      outcomes: null,
      missing: [{ part: 'outcomes', code: 'object_damaged' }],
    });
    nowMs += (TTL_DAYS + 3) * DAY_MS;
    expect((await jsonOf(send(`/v1/disputes/${id}`))).bundle).toMatchObject({
      rows: [],
      total: null,
      missing: [{ part: 'rows', code: 'tier_expired' }, { part: 'outcomes' }],
    });
  });

  test('for the moment only is asked for again', async () => {
    const busy = () => Promise.reject(new LedgerError('evidence_busy', 'wait', { kind: 'retry' }));
    const { send, idOf } = setUp({ outcomes: busy });
    const answer = await send(`/v1/disputes/${await idOf()}`);
    expect([answer.status, (await jsonOf(answer)).code]).toEqual([503, 'evidence_busy']);
  });
});

describe('what is refused', () => {
  test('a dispute with wrong parts says which', async () => {
    const { post } = setUp();
    const codes: [object, number, string][] = [
      [{ reason: '' }, 400, 'parameters_invalid'],
      [{ reason: ' \n ' }, 400, 'parameters_invalid'],
      [{ reason: 'x'.repeat(2_001) }, 400, 'parameters_invalid'],
      [{ reason: 'a\u0000b' }, 400, 'parameters_invalid'],
      [{ reason: 'a\u001b[2J' }, 400, 'parameters_invalid'],
      [{ reason: '\ud800' }, 400, 'parameters_invalid'],
      [{ ad_id: 'no id' }, 400, 'parameters_invalid'],
      [{ state: 'resolved' }, 400, 'parameters_invalid'],
      [{ to: '2026-03-10' }, 400, 'range_empty'],
      [{ to: '2026-06-12' }, 400, 'range_too_long'],
      [{ reason: 'x'.repeat(100_000) }, 413, 'body_too_large'],
    ];
    for (const [over, status, code] of codes) {
      const answer = await post('/v1/disputes', { ...DAY, ...over });
      expect([over, answer.status, (await jsonOf(answer)).code]).toEqual([over, status, code]);
    }
    expect((await post('/v1/disputes', DAY, 'admin')).status).toBe(400);
    const reason = `${'ü'.repeat(1_998)}\n–`;
    expect((await post('/v1/disputes', { ...DAY, reason })).status).toBe(201);
  });

  test('an end with wrong parts ends nothing and takes no verdict', async () => {
    const { post, send, idOf, verdicts } = setUp();
    const path = `/v1/disputes/${await idOf()}`;
    const verdict = { impression_id: 'i', valid: false, reason: '' };
    for (const body of [
      { resolution: 'upheld' },
      { resolution: 'maybe', note: 'x' },
      { resolution: 'withdrawn', note: 'x', verdicts: [verdict] },
      { resolution: 'upheld', note: 'x', verdicts: ['i'] },
      { resolution: 'upheld', note: 'x', verdicts: Array(10_001).fill(verdict) },
    ]) {
      expect((await post(`${path}/resolve`, body, 'admin')).status).toBe(400);
    }
    expect((await jsonOf(send(path))).state).toBe('open');
    expect(verdicts).toEqual([]);
    for (const cursor of ['x', Buffer.from('["a"]').toString('base64url'), '']) {
      expect((await send(`/v1/disputes?cursor=${cursor}`)).status).toBe(400);
    }
  });
});
