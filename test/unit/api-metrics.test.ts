import { describe, expect, test } from 'bun:test';
import { csvCell } from '../../src/platform/csv-cell.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import type { MetricsRow } from '../../src/warehouse/port.ts';
import { FINAL_MS, jsonOf, setUpApi } from '../support/api.ts';

const PATH = '/v1/ads/metrics';
const DAY = 'from=2026-03-10&to=2026-03-11';
const HOUR_MS = 3_600_000;

const row = (over: Partial<MetricsRow> = {}): MetricsRow => ({
  bucketStart: '2026-03-10T00:00:00+00:00',
  adId: 'ad-1',
  campaignId: undefined,
  country: undefined,
  device: undefined,
  clicks: 3,
  ...over,
});

const post = (body: object): RequestInit => ({
  method: 'POST',
  body: JSON.stringify(body),
  headers: { 'Content-Type': 'application/json' },
});

describe('who may ask', () => {
  test.each([
    [null, 401, 'token_missing', 'Bearer realm="clickledger"'],
    ['nobody', 401, 'token_invalid', 'Bearer realm="clickledger", error="invalid_token"'],
  ])('token %p gets %p %s', async (token, status, code, challenge) => {
    const { send, warehouse } = setUpApi();
    const answer = await send(`${PATH}?${DAY}`, {}, token);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('WWW-Authenticate')).toBe(challenge);
    expect(answer.headers.get('Content-Type')).toBe('application/problem+json');
    expect(await jsonOf(answer)).toMatchObject({ status, code });
    expect(warehouse.asked).toEqual([]);
  });

  test('another scheme than Bearer is no token', async () => {
    const { api } = setUpApi();
    const headers = { Authorization: 'Basic reader' };
    const answer = await api.fetch(new Request(`http://t.example${PATH}?${DAY}`, { headers }));
    expect(answer.status).toBe(401);
  });

  test('the advertiser comes from the token; naming another is refused without a look', async () => {
    const { send, warehouse } = setUpApi();
    await send(`${PATH}?${DAY}`);
    await send(`${PATH}?${DAY}&advertiser_id=adv-1`);
    expect(warehouse.asked.map(({ query }) => query.advertiserId)).toEqual(['adv-1', 'adv-1']);
    const other = await send(`${PATH}?${DAY}&advertiser_id=adv-2`);
    expect([other.status, (await jsonOf(other)).code]).toEqual([403, 'advertiser_forbidden']);
    expect(warehouse.asked).toHaveLength(2);
  });

  test('an admin token must name the advertiser', async () => {
    const { send, warehouse } = setUpApi();
    expect((await send(`${PATH}?${DAY}`, {}, 'admin')).status).toBe(400);
    await send(`${PATH}?${DAY}&advertiser_id=adv-2`, {}, 'admin');
    expect(warehouse.asked.map(({ query }) => query.advertiserId)).toEqual(['adv-2']);
  });

  test('a read token does not reach the admin routes', async () => {
    const { send } = setUpApi();
    const answer = await send('/v1/admin/status');
    expect([answer.status, (await jsonOf(answer)).code]).toEqual([403, 'scope_insufficient']);
    expect((await send('/v1/admin/status', {}, 'admin')).status).toBe(200);
  });
});

describe('parameters', () => {
  test('GET, JSON and form ask the same', async () => {
    const { send, warehouse } = setUpApi();
    const params = {
      ad_ids: 'ad-2,ad-1,ad-2',
      campaign_ids: 'c1',
      country: 'de,US',
      device: 'mobile',
      from: '2026-03-10T00:00',
      to: '2026-03-11T00:00:00+01:00',
      granularity: 'hour',
      group_by: 'device,ad',
      timezone: 'Europe/Berlin',
      limit: '7',
    };
    const form = new URLSearchParams(params);
    expect((await send(`${PATH}?${form}`)).status).toBe(200);
    await send(PATH, { method: 'POST', body: form });
    await send(PATH, post({ ...params, ad_ids: ['ad-2', 'ad-1', 'ad-2'], limit: 7 }));
    const repeated = new URLSearchParams({ ...params, ad_ids: 'ad-2,ad-1' });
    repeated.append('ad_ids', 'ad-2');
    await send(`${PATH}?${repeated}`);
    expect(warehouse.asked).toHaveLength(4);
    for (const { query } of warehouse.asked) {
      expect(query).toEqual({
        advertiserId: 'adv-1',
        adIds: ['ad-2', 'ad-1'],
        campaignIds: ['c1'],
        countries: ['DE', 'US'],
        devices: ['mobile'],
        fromMs: Date.UTC(2026, 2, 9, 23),
        toMs: Date.UTC(2026, 2, 10, 23),
        granularity: 'hour',
        timezone: 'Europe/Berlin',
        groupBy: ['ad', 'device'],
        orderBy: 'bucket',
        limit: 7,
        after: undefined,
      });
    }
  });

  test.each([
    ['ad_ids=', 'ad_ids', 'is no id'],
    ['ad_ids=a,', 'ad_ids', 'is no id'],
    ['ad_ids=a,%20b', 'ad_ids', 'is no id'],
    [
      `ad_ids=${Array.from({ length: 51 }, (_, at) => `a${at}`)}`,
      'ad_ids',
      '51 ad ids, at most 50',
    ],
    ['ad_id=a', 'ad_id', 'did you mean ad_ids?'],
    ['colour=red', 'colour', 'There is no parameter'],
    ['granularity=daily', 'granularity', 'Did you mean day?'],
    ['group_by=add', 'group_by', 'Did you mean ad?'],
    ['group_by=none,ad', 'group_by', 'stands alone'],
    ['device=phone', 'device', 'is not one of desktop'],
    ['country=DEU', 'country', 'two letters'],
    ['timezone=Berlin', 'timezone', 'There is no time zone "Berlin"'],
    ['timezone=UTC&timezone=UTC', 'timezone', 'Give it once'],
    ['limit=0', 'limit', 'from 1 to 100'],
    ['limit=101', 'limit', 'from 1 to 100'],
    ['limit=1e1', 'limit', 'from 1 to 100'],
    ['fill=zero', 'fill', 'group_by=none'],
  ])('%s is refused, naming the parameter', async (more, parameter, message) => {
    const { send, warehouse } = setUpApi();
    const answer = await send(`${PATH}?${DAY}&${more}`);
    expect(answer.status).toBe(400);
    const { code, errors } = await jsonOf(answer);
    expect(code).toBe('parameters_invalid');
    expect(errors).toEqual([{ parameter, message: expect.stringContaining(message) }]);
    expect(warehouse.asked).toEqual([]);
  });

  test('all that is wrong is told at once', async () => {
    const { send } = setUpApi();
    const { errors } = await jsonOf(send(`${PATH}?to=2026-03-11&limit=x&adids=a`));
    expect((errors as { parameter: string }[]).map(({ parameter }) => parameter).sort()).toEqual([
      'adids',
      'from',
      'limit',
    ]);
  });

  test('a list of ids that is empty in JSON is refused, not taken for all ads', async () => {
    const { send } = setUpApi();
    const answer = await send(PATH, post({ from: '2026-03-10', to: '2026-03-11', ad_ids: [] }));
    expect(await jsonOf(answer)).toMatchObject({
      status: 400,
      detail: expect.stringContaining('leave the parameter out'),
    });
  });

  test('values of a wrong kind in JSON are refused', async () => {
    const { send } = setUpApi();
    for (const more of [
      { ad_ids: [1] },
      { ad_ids: {} },
      { from: 5 },
      { limit: 1.5 },
      { fill: null },
    ]) {
      const answer = await send(PATH, post({ from: '2026-03-10', to: '2026-03-11', ...more }));
      expect([more, answer.status]).toEqual([more, 400]);
    }
  });

  test('bodies that are no JSON, no object, of another kind or too long are refused', async () => {
    const { send } = setUpApi();
    const bad = async (body: string, type: string, path = PATH): Promise<unknown[]> => {
      const init = { method: 'POST', body, headers: { 'Content-Type': type } };
      const answer = await send(path, init);
      return [answer.status, (await jsonOf(answer)).code];
    };
    expect(await bad('{', 'application/json')).toEqual([400, 'body_not_json']);
    expect(await bad('[]', 'application/json')).toEqual([400, 'body_not_json']);
    expect(await bad('<a/>', 'text/xml')).toEqual([415, 'media_type']);
    expect(await bad('{}', 'application/json', `${PATH}?${DAY}`)).toEqual([
      400,
      'parameters_in_two_places',
    ]);
    expect(await bad(' '.repeat((1 << 20) + 1), 'application/json')).toEqual([
      413,
      'body_too_large',
    ]);
  });

  test('what is left out and the order are passed on', async () => {
    const { send, warehouse } = setUpApi();
    const more = 'ad_ids_not=a,b&campaign_ids_not=c&country_not=de,ZZ&device_not=other';
    expect((await send(`${PATH}?${DAY}&${more}&order_by=-clicks`)).status).toBe(200);
    expect(warehouse.asked[0]!.query).toMatchObject({
      adIds: undefined,
      adIdsNot: ['a', 'b'],
      campaignIdsNot: ['c'],
      countriesNot: ['DE', 'ZZ'],
      devicesNot: ['other'],
      orderBy: '-clicks',
    });
  });

  test('sorting by clicks is refused where it would take too much, with the ways round', async () => {
    const { send, warehouse } = setUpApi();
    const year = 'from=2026-01-01&to=2027-01-01&order_by=-clicks';
    const answer = await jsonOf(send(`${PATH}?${year}&granularity=hour`));
    expect(answer).toMatchObject({
      status: 400,
      code: 'range_too_long',
      detail: expect.stringContaining('at most 1500 buckets; this range has 8760 by hour'),
      hint: expect.stringContaining('order_by=bucket'),
    });
    const filled = await jsonOf(send(`${PATH}?${DAY}&group_by=none&fill=zero&order_by=clicks`));
    expect(filled).toMatchObject({ code: 'parameters_invalid', errors: [{ parameter: 'fill' }] });
    expect(warehouse.asked).toEqual([]);
    expect((await send(`${PATH}?${year}&granularity=day`)).status).toBe(200);
  });

  test('fine buckets over long ranges are refused with a way round', async () => {
    const { send } = setUpApi();
    const long = 'from=2024-01-01&to=2026-01-01';
    const answer = await send(`${PATH}?${long}&granularity=minute`);
    expect([answer.status, await jsonOf(answer)]).toEqual([
      400,
      expect.objectContaining({
        code: 'range_too_long',
        hint: expect.stringContaining('granularity=hour'),
      }),
    ]);
    expect((await send(`${PATH}?${long}&granularity=hour`)).status).toBe(200);
  });
});

describe('the answer', () => {
  test('says what was asked, what is final and as of when', async () => {
    const { send, warehouse } = setUpApi();
    warehouse.page = {
      rows: [
        row({ bucketStart: '2026-03-10T10:00:00+01:00' }),
        row({ bucketStart: '2026-03-10T11:00:00+01:00', clicks: 4 }),
      ],
      next: undefined,
    };
    const answer = await send(`${PATH}?${DAY}&timezone=Europe/Berlin&granularity=hour`);
    expect(answer.headers.get('Cache-Control')).toBe('no-store');
    expect(answer.headers.get('X-Content-Type-Options')).toBe('nosniff');
    expect(await jsonOf(answer)).toEqual({
      rows: [
        { bucket_start: '2026-03-10T10:00:00+01:00', ad_id: 'ad-1', clicks: 3, final: true },
        { bucket_start: '2026-03-10T11:00:00+01:00', ad_id: 'ad-1', clicks: 4, final: false },
      ],
      final_until: '2026-03-10T10:00:00.000Z',
      from: '2026-03-10T00:00:00+01:00',
      to: '2026-03-11T00:00:00+01:00',
      interval: '[from,to)',
      timezone: 'Europe/Berlin',
      granularity: 'hour',
      as_of: '2026-03-10T12:34:56.000Z',
      truncated: false,
      next_cursor: null,
    });
  });

  test('a day is final once all of it that was asked for is', async () => {
    const { send, warehouse } = setUpApi();
    warehouse.page = { rows: [row()], next: undefined };
    const final = async (to: string, more = ''): Promise<unknown> => {
      const { rows } = await jsonOf(send(`${PATH}?from=2026-03-10&to=${to}${more}`));
      return (rows as { final: boolean }[])[0]!.final;
    };
    expect(await final('2026-03-11')).toBe(false);
    expect(await final('2026-03-10T10:00')).toBe(true);
    expect(await final('2026-03-10T10:01')).toBe(false);
    expect(await final('2026-03-10T10:01', '&granularity=total')).toBe(false);
    expect(await final('2026-03-10T10:00', '&granularity=total')).toBe(true);
  });

  test('before anything is final, final_until is null', async () => {
    const { send, state, warehouse } = setUpApi();
    state.finalUntilMs = 0;
    warehouse.page = { rows: [row()], next: undefined };
    expect(await jsonOf(send(`${PATH}?${DAY}`))).toMatchObject({
      final_until: null,
      rows: [{ final: false }],
    });
  });

  test('CSV has the same rows, and the rest in headers', async () => {
    const { send, warehouse } = setUpApi();
    warehouse.page = {
      rows: [row({ country: 'DE' }), row({ adId: '-2-3', country: 'US', clicks: 12 })],
      next: ['1773100800', '-2-3', 'US'],
    };
    const init = { headers: { Accept: 'text/csv, */*;q=0.1' } };
    const answer = await send(`${PATH}?${DAY}&group_by=country,ad`, init);
    expect(answer.headers.get('Content-Type')).toBe('text/csv; charset=utf-8; header=present');
    expect(await answer.text()).toBe(
      'bucket_start,ad_id,country,clicks,final\r\n' +
        '2026-03-10T00:00:00+00:00,ad-1,DE,3,false\r\n' +
        "2026-03-10T00:00:00+00:00,'-2-3,US,12,false\r\n",
    );
    const header = (name: string): string | null => answer.headers.get(name);
    expect(header('X-Truncated')).toBe('true');
    expect(header('X-Final-Until')).toBe('2026-03-10T10:00:00.000Z');
    expect(header('X-Granularity')).toBe('day');
    expect(header('X-As-Of')).toBe('2026-03-10T12:34:56.000Z');
    expect(header('Link')).toBe(
      `<${PATH}?${DAY}&group_by=country%2Cad&cursor=${header('X-Next-Cursor')}>; rel="next"`,
    );
  });

  test('without rows, JSON and CSV are still valid (G10)', async () => {
    const { send } = setUpApi();
    expect(await jsonOf(send(`${PATH}?${DAY}&granularity=total`))).toMatchObject({ rows: [] });
    const init = { headers: { Accept: 'text/csv' } };
    const csv = await send(`${PATH}?${DAY}&granularity=total&group_by=none`, init);
    expect(await csv.text()).toBe('clicks,final\r\n');
  });

  test.each([
    ['=1+1', "'=1+1"],
    ['-1', "'-1"],
    ['\tx', "'\tx"],
    ['~a', '~a'],
    ['a"b,c', '"a""b,c"'],
    ['@x,y', '"\'@x,y"'],
    ['a\r\nb', '"a\r\nb"'],
  ])('the CSV cell %p is %p', (value, cell) => {
    expect(csvCell(value)).toBe(cell);
  });
});

describe('pages (H14)', () => {
  const first = async () => {
    const set = setUpApi();
    set.warehouse.page = { rows: [row()], next: ['1773100800', 'ad-1'] };
    const body = await jsonOf(set.send(`${PATH}?${DAY}&limit=1`));
    set.warehouse.page = { rows: [], next: undefined };
    return { ...set, cursor: body.next_cursor as string, body };
  };

  test('a full page says so, and its cursor goes on with the same final_until', async () => {
    const { send, warehouse, state, cursor, body } = await first();
    expect(body).toMatchObject({ truncated: true });
    state.finalUntilMs = FINAL_MS + 2 * HOUR_MS;
    const second = await jsonOf(send(`${PATH}?${DAY}&limit=50&cursor=${cursor}`));
    expect(second).toMatchObject({
      final_until: '2026-03-10T10:00:00.000Z',
      truncated: false,
      next_cursor: null,
    });
    expect(warehouse.asked[1]).toMatchObject({
      finalUntilMs: FINAL_MS,
      query: { after: ['1773100800', 'ad-1'], limit: 50 },
    });
  });

  test('a cursor of another query, a made-up and an old one are refused', async () => {
    const { send, state, cursor } = await first();
    const code = async (query: string): Promise<unknown> => {
      const answer = await send(`${PATH}?${query}`);
      return [answer.status, (await jsonOf(answer)).code];
    };
    const refused = [400, 'cursor_invalid'];
    expect(await code(`${DAY}&ad_ids=ad-1&cursor=${cursor}`)).toEqual(refused);
    expect(await code(`${DAY}&timezone=Asia/Tokyo&cursor=${cursor}`)).toEqual(refused);
    expect(await code(`${DAY}&ad_ids_not=ad-1&cursor=${cursor}`)).toEqual(refused);
    expect(await code(`${DAY}&order_by=clicks&cursor=${cursor}`)).toEqual(refused);
    for (const text of ['x', '', 'bnVsbA', cursor.slice(1)]) {
      expect([text, await code(`${DAY}&cursor=${text}`)]).toEqual([text, refused]);
    }
    const content = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    for (const more of [{ f: 1 }, { f: FINAL_MS * 2 }, { f: '0' }, { a: [1] }, { a: null }]) {
      const forged = Buffer.from(JSON.stringify({ ...content, ...more })).toString('base64url');
      expect([more, await code(`${DAY}&cursor=${forged}`)]).toEqual([more, refused]);
    }
    state.finalUntilMs += 8 * 24 * HOUR_MS;
    expect(await code(`${DAY}&cursor=${cursor}`)).toEqual(refused);
  });

  test('rows without clicks are filled in, page by page (H10)', async () => {
    const { send, warehouse } = setUpApi();
    // The warehouse of this test knows one click; it answers only for the range it is asked for.
    const clickMs = Date.UTC(2026, 2, 10, 3);
    warehouse.metrics = async (query) => {
      const inside = query.fromMs <= clickMs && clickMs < query.toMs;
      const bucketStart = '2026-03-10T03:00:00+00:00';
      return { rows: inside ? [row({ bucketStart, adId: 'b' })] : [], next: undefined };
    };
    const all: unknown[] = [];
    let cursor = '';
    do {
      const path = `${PATH}?${DAY}&granularity=hour&fill=zero&ad_ids=b,a&limit=7${cursor}`;
      const { rows, next_cursor } = await jsonOf(send(path));
      all.push(...(rows as unknown[]));
      cursor = next_cursor === null ? '' : `&cursor=${next_cursor}`;
    } while (cursor !== '');
    expect(all).toEqual(
      Array.from({ length: 48 }, (_, at) => {
        const hour = String(Math.floor(at / 2)).padStart(2, '0');
        return {
          bucket_start: `2026-03-10T${hour}:00:00+00:00`,
          ad_id: at % 2 === 0 ? 'a' : 'b',
          clicks: at === 7 ? 3 : 0,
          final: Number(hour) < 10,
        };
      }),
    );
  });

  test('ads that are left out are not filled in either', async () => {
    const { send } = setUpApi();
    const ids = async (more: string): Promise<unknown[]> => {
      const { rows } = await jsonOf(send(`${PATH}?${DAY}&fill=zero&ad_ids=a,b,c&${more}`));
      return (rows as { ad_id: string }[]).map(({ ad_id }) => ad_id);
    };
    expect(await ids('ad_ids_not=b,z')).toEqual(['a', 'c']);
    expect(await ids('ad_ids_not=a,b,c')).toEqual([]);
  });

  test('a filled total is one row', async () => {
    const { send } = setUpApi();
    const path = `${PATH}?${DAY}&granularity=total&group_by=none&fill=zero`;
    expect((await jsonOf(send(path))).rows).toEqual([{ clicks: 0, final: false }]);
  });

  test('days of 23 and 25 hours are filled with as many (H2)', async () => {
    const { send } = setUpApi();
    const count = async (day: string, next: string, zone: string): Promise<number> => {
      const query = `from=${day}&to=${next}&timezone=${zone}&granularity=hour&fill=zero&group_by=none`;
      const { rows } = await jsonOf(send(`${PATH}?${query}`));
      return new Set((rows as { bucket_start: string }[]).map((each) => each.bucket_start)).size;
    };
    expect(await count('2026-03-29', '2026-03-30', 'Europe/Berlin')).toBe(23);
    expect(await count('2026-10-25', '2026-10-26', 'Europe/Berlin')).toBe(25);
    const days = `${PATH}?from=2024-03-09&to=2024-03-12&timezone=America/Toronto&fill=zero&group_by=none`;
    expect(
      ((await jsonOf(send(days))).rows as { bucket_start: string }[]).map(
        (each) => each.bucket_start,
      ),
    ).toEqual([
      '2024-03-09T00:00:00-05:00',
      '2024-03-10T00:00:00-05:00',
      '2024-03-11T00:00:00-04:00',
    ]);
  });
});

describe('everything around', () => {
  test('the pages for operators and the index need no token', async () => {
    const { send } = setUpApi();
    const status = async (path: string): Promise<number> => (await send(path, {}, null)).status;
    expect(await Promise.all(['/', '/healthz', '/readyz', '/metrics'].map(status))).toEqual([
      200, 200, 503, 200,
    ]);
  });

  test('unknown paths and methods are told apart', async () => {
    const { send } = setUpApi();
    const lost = await send('/v2/nothing');
    expect([lost.status, (await jsonOf(lost)).code]).toEqual([404, 'path_unknown']);
    const wrong = await send(PATH, { method: 'DELETE' });
    expect([wrong.status, wrong.headers.get('Allow')]).toEqual([405, 'GET, HEAD, POST']);
    expect((await jsonOf(wrong)).code).toBe('method_not_allowed');
  });

  test('a bug answers with an id that the log has, and nothing else', async () => {
    const { send, warehouse, logged } = setUpApi();
    warehouse.failure = new Error('secret inside');
    const answer = await send(`${PATH}?${DAY}`);
    const text = await answer.text();
    expect(answer.status).toBe(500);
    expect(text).not.toContain('secret');
    const errorId = /logged as ([0-9a-f]{12})/.exec(text)![1]!;
    expect(logged).toEqual([
      { error: warehouse.failure, message: `GET ${PATH}: internal error ${errorId}` },
    ]);
  });

  test('a passing failure is 503, an expired tier is the request’s mistake', async () => {
    const { send, warehouse } = setUpApi();
    warehouse.failure = new LedgerError('warehouse_unavailable', 'Busy.', { kind: 'retry' });
    const busy = await send(`${PATH}?${DAY}`);
    expect([busy.status, busy.headers.get('Retry-After')]).toEqual([503, '5']);
    warehouse.failure = new LedgerError('tier_expired', 'Gone.', { hint: 'Ask by day.' });
    expect(await jsonOf(send(`${PATH}?${DAY}`))).toMatchObject({
      status: 400,
      hint: 'Ask by day.',
    });
  });
});
