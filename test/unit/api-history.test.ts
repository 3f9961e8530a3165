// Proves INV-9 of SPEC.md.
/** `GET /v1/hours` and `GET /v1/restatements`: how far each hour is, and who sees what of it. */
import { describe, expect, test } from 'bun:test';
import { LedgerError } from '../../src/platform/errors.ts';
import type { HourState } from '../../src/warehouse/port.ts';
import { FINAL_MS, jsonOf, NOON_MS, setUpApi, testFinality } from '../support/api.ts';

const HOUR_MS = 3_600_000;
const iso = (ms: number): string => new Date(ms).toISOString();
const range = (fromMs: number, toMs: number): string => `from=${iso(fromMs)}&to=${iso(toMs)}`;
const DAY = 'from=2026-03-10&to=2026-03-11';

const finalHour = (hourMs: number, over: Partial<HourState> = {}): HourState => ({
  hourMs,
  revision: 2,
  attempt: 3,
  finalAtMs: FINAL_MS,
  cause: 'verdict',
  records: 12,
  counted: 9,
  duplicate: 1,
  notBillable: 0,
  invalid: 2,
  liveClicks: 10,
  driftMax: 0.1,
  inputDigest: 'ab',
  ...over,
});

async function hoursOf(
  api: ReturnType<typeof setUpApi>,
  query: string,
  token = 'reader',
): Promise<Record<string, unknown>[]> {
  const body = await jsonOf(api.send(`/v1/hours?${query}`, {}, token));
  return body.hours as Record<string, unknown>[];
}

describe('hours', () => {
  test('are all of the range, each with how far it is', async () => {
    const api = setUpApi();
    api.warehouse.hourStates = [finalHour(FINAL_MS - HOUR_MS)];
    const hours = await hoursOf(api, range(FINAL_MS - 2 * HOUR_MS, FINAL_MS + 4 * HOUR_MS));
    // Final up to 10:00; it is 12:34, lateness half an hour: 11:00 closed at 12:30, 12:00 is running.
    expect(hours.map(({ hour_start, state, revision }) => [hour_start, state, revision])).toEqual([
      ['2026-03-10T08:00:00.000Z', 'final', null],
      ['2026-03-10T09:00:00.000Z', 'final', 2],
      ['2026-03-10T10:00:00.000Z', 'waiting', null],
      ['2026-03-10T11:00:00.000Z', 'waiting', null],
      ['2026-03-10T12:00:00.000Z', 'open', null],
      ['2026-03-10T13:00:00.000Z', 'open', null],
    ]);
    expect(hours[1]).toEqual({
      hour_start: '2026-03-10T09:00:00.000Z',
      state: 'final',
      revision: 2,
      final_at: '2026-03-10T10:00:00.000Z',
      due_at: null,
      drift: null,
    });
    expect(hours[2]!.due_at).toBe('2026-03-10T12:30:00.000Z');
  });

  test('begin at the first that starts in the range, in zones off the hour too', async () => {
    const api = setUpApi();
    const query = 'from=2026-03-10&to=2026-03-11&timezone=Asia/Kolkata';
    const hours = await hoursOf(api, query);
    expect([hours.length, hours[0]!.hour_start, hours.at(-1)!.hour_start]).toEqual([
      24,
      '2026-03-09T19:00:00.000Z',
      '2026-03-10T18:00:00.000Z',
    ]);
    const touching = [
      ...(await hoursOf(api, range(FINAL_MS, FINAL_MS + 90 * 60_000))),
      ...(await hoursOf(api, range(FINAL_MS + 90 * 60_000, FINAL_MS + 3 * HOUR_MS))),
    ];
    expect(touching.map(({ hour_start }) => hour_start)).toEqual(
      [0, 1, 2].map((hour) => iso(FINAL_MS + hour * HOUR_MS)),
    );
  });

  test('that cannot turn final are stuck; an operator sees why, and how far the archive is', async () => {
    const reason = 'an object is gone: archive/dt=2026-03-10/hr=10/p0-1-2.parquet';
    const stuck = { hourMs: FINAL_MS, code: 'archive_damaged', reason };
    const api = setUpApi({ finality: testFinality({ stuck: () => stuck }) });
    const query = range(FINAL_MS, FINAL_MS + 2 * HOUR_MS);
    const own = await hoursOf(api, query);
    expect(own.map(({ state }) => state)).toEqual(['stuck', 'waiting']);
    // Paths and other advertisers' affairs are not told.
    expect(Object.keys(own[0]!)).toEqual([
      'hour_start',
      'state',
      'revision',
      'final_at',
      'due_at',
      'drift',
    ]);
    const whole = await hoursOf(api, query, 'admin');
    expect(whole[0]).toMatchObject({
      state: 'stuck',
      reason: `archive_damaged: ${reason}`,
      coverage: { covered_until: iso(NOON_MS - 60_000) },
      records: null,
    });
    expect(whole[1]!.reason).toBeNull();
  });

  test('that lost clicks in the stream say so until they are final', async () => {
    const liveGaps = () => [{ fromMs: FINAL_MS - HOUR_MS / 2, toMs: FINAL_MS + 1 }];
    const api = setUpApi({ finality: testFinality({ liveGaps }) });
    const hours = await hoursOf(api, range(FINAL_MS - HOUR_MS, FINAL_MS + 2 * HOUR_MS));
    expect(hours.map(({ live_incomplete }) => live_incomplete)).toEqual([
      undefined,
      true,
      undefined,
    ]);
  });

  test('are told even when nobody can say how far the archive is', async () => {
    const coveredUntilMs = () => Promise.reject(new LedgerError('log_behind_archive', 'behind'));
    const api = setUpApi({ finality: testFinality({ coveredUntilMs }) });
    const [hour] = await hoursOf(api, range(FINAL_MS, FINAL_MS + HOUR_MS), 'admin');
    expect(hour).toMatchObject({ state: 'waiting', coverage: { covered_until: null } });
  });

  test('show an advertiser its own drift of the revision in force, and no sums over all', async () => {
    const api = setUpApi();
    const hourMs = FINAL_MS - HOUR_MS;
    api.warehouse.hourStates = [finalHour(hourMs)];
    const row = (revision: number, advertiserId: string, live: number) => {
      return { hourMs, revision, advertiserId, live, final: 9 };
    };
    api.warehouse.drifts = [row(1, 'adv-1', 1), row(2, 'adv-1', 8), row(2, 'adv-2', 7)];
    const query = range(hourMs, FINAL_MS);
    expect((await hoursOf(api, query))[0]!.drift).toEqual({ live: 8, final: 9 });
    const [whole] = await hoursOf(api, query, 'admin');
    expect(whole).toEqual({
      hour_start: iso(hourMs),
      state: 'final',
      revision: 2,
      final_at: iso(FINAL_MS),
      due_at: null,
      cause: 'verdict',
      records: 12,
      counted: 9,
      duplicate: 1,
      not_billable: 0,
      invalid: 2,
      live_clicks: 10,
      drift_max: 0.1,
      input_digest: 'ab',
      coverage: null,
      reason: null,
    });
    const [named] = await hoursOf(api, `${query}&advertiser_id=adv-2`, 'admin');
    expect(named!.drift).toEqual({ live: 7, final: 9 });
    expect((await api.send(`/v1/hours?${query}&advertiser_id=adv-2`)).status).toBe(403);
  });

  test('of too long a range, or with a parameter that there is not, are refused', async () => {
    const { send } = setUpApi();
    expect((await send('/v1/hours?from=2026-01-01&to=2026-06-01')).status).toBe(400);
    expect((await send(`/v1/hours?${DAY}&zone=UTC`)).status).toBe(400);
    expect((await send(`/v1/hours?${DAY}&ad_id=a`)).status).toBe(400);
    const body = await jsonOf(send(`/v1/hours?${DAY}`));
    expect(body).toMatchObject({
      interval: '[from,to)',
      final_until: '2026-03-10T10:00:00.000Z',
      timezone: 'UTC',
    });
  });
});

describe('restatements', () => {
  const setUp = () => {
    const api = setUpApi();
    api.warehouse.changes = [
      ['adv-1', 'a'],
      ['adv-1', 'b'],
      ['adv-2', 'c'],
    ].map(([advertiserId, adId]) => ({
      hourMs: FINAL_MS,
      revision: 2,
      advertiserId: advertiserId!,
      adId: adId!,
      before: 4,
      after: 3,
      cause: 'verdict',
      atMs: FINAL_MS,
    }));
    const seen = async (token: string, more = ''): Promise<unknown[]> => {
      const body = await jsonOf(api.send(`/v1/restatements?${DAY}${more}`, {}, token));
      return (body.restatements as { ad_id: string }[]).map((each) => each.ad_id);
    };
    return { ...api, seen };
  };

  test('are an advertiser’s own, an admin’s all', async () => {
    const { seen, send } = setUp();
    expect(await seen('reader')).toEqual(['a', 'b']);
    expect(await seen('admin')).toEqual(['a', 'b', 'c']);
    expect(await seen('admin', '&advertiser_id=adv-2')).toEqual(['c']);
    expect((await send(`/v1/restatements?${DAY}&advertiser_id=adv-2`)).status).toBe(403);
  });

  test('of some ads are those of these, and another’s ad looks like one that is not there', async () => {
    const { seen, send } = setUp();
    expect(await seen('reader', '&ad_id=b')).toEqual(['b']);
    expect(await seen('reader', '&ad_id=a,b')).toEqual(['a', 'b']);
    expect(await seen('reader', '&ad_id=c')).toEqual(await seen('reader', '&ad_id=missing'));
    expect(await seen('admin', '&ad_id=c')).toEqual(['c']);
    expect((await send(`/v1/restatements?${DAY}&ad_id=a,,b`)).status).toBe(400);
  });
});
