/** The routes of verdicts and of evidence: who may ask what, what is passed on, what is shown. */
import { describe, expect, test } from 'bun:test';
import { createAdminSocketApp } from '../../src/api/admin-socket.ts';
import { clicksFeature } from '../../src/api/clicks-routes.ts';
import { verdictsFeature } from '../../src/api/verdict-routes.ts';
import { LedgerError } from '../../src/platform/errors.ts';
import type { EvidenceClick, EvidencePage, EvidenceQuery } from '../../src/reconcile/evidence.ts';
import { FakeAdmin, jsonOf, NOON_MS, setUpApi } from '../support/api.ts';
import { testAudit } from '../support/audit.ts';

const T0 = Date.UTC(2026, 2, 10, 7);
const RANGE = 'from=2026-03-10T07:00Z&to=2026-03-10T09:00Z';

const CLICK: EvidenceClick = {
  impressionId: 'imp-1',
  adId: 'ad-1',
  campaignId: 'camp-1',
  country: 'DE',
  device: 'mobile',
  class: 'click',
  source: 'http',
  ip: '192.0.2.0',
  userAgent: '<script>',
  referer: '',
  appendedAtMs: T0 + 1_500,
  partition: 3,
  offset: 17,
  clickedAtMs: T0 + 1_000,
  outcome: 'duplicate',
  isFinal: true,
  object: 'dt=2026-03-10/hr=07/p3-0-20.parquet',
  duplicateOf: { partition: 1, offset: 2 },
  verdict: { valid: false, reason: 'bot', atMs: T0 + 2_000 },
};

function setUp() {
  const asked: EvidenceQuery[] = [];
  const state = { page: { clicks: [CLICK], next: null } as EvidencePage };
  const admin = new FakeAdmin();
  const features = [
    verdictsFeature({ admin, log: () => undefined }),
    clicksFeature({
      evidence: {
        clicks: async (query) => {
          asked.push(query);
          return state.page;
        },
      },
      finalUntilMs: () => T0 + 3_600_000,
      archivedUntilMs: async () => NOON_MS,
    }),
  ];
  return { ...setUpApi({ admin, features }), admin, asked, state };
}

const lastLine = async (answer: Response): Promise<unknown> =>
  JSON.parse((await answer.text()).trim().split('\n').at(-1)!);

describe('POST /v1/verdicts', () => {
  const body = '{"impression_id":"a","valid":false,"reason":"bot"}\n\n{"nonsense":1}\nnot json\n';

  test('hands lines on with their numbers, also those that cannot be read', async () => {
    const { send, admin } = setUp();
    const answer = await send('/v1/verdicts', { method: 'POST', body }, 'admin');
    expect(answer.headers.get('Content-Type')).toContain('application/x-ndjson');
    const result = { taken: 3, new: 3, unchanged: 0, hours: [] };
    expect(await lastLine(answer)).toEqual({ result });
    expect(admin.verdictRows).toEqual([
      { line: 1, record: { impression_id: 'a', valid: false, reason: 'bot' } },
      { line: 3, record: {}, problem: expect.stringContaining('nonsense') },
      { line: 4, record: {}, problem: 'the line is not JSON' },
    ]);
  });

  test('is for admins', async () => {
    const { send, admin } = setUp();
    const answer = await send('/v1/verdicts', { method: 'POST', body });
    expect(answer.status).toBe(403);
    expect((await jsonOf(answer)).code).toBe('scope_insufficient');
    expect((await send('/v1/verdicts', { method: 'POST', body }, null)).status).toBe(401);
    expect(admin.verdictRows).toEqual([]);
  });

  test('tells what is wrong as the last line', async () => {
    const { send, admin } = setUp();
    admin.verdicts = async () => {
      throw new LedgerError('verdicts_invalid', '1 of 1 lines are wrong', { hint: 'Correct it.' });
    };
    expect(await lastLine(await send('/v1/verdicts', { method: 'POST', body }, 'admin'))).toEqual({
      error: {
        code: 'verdicts_invalid',
        kind: 'refuse',
        message: '1 of 1 lines are wrong',
        hint: 'Correct it.',
      },
    });
  });

  test('comes over the socket with lines that a command has numbered', async () => {
    const admin = new FakeAdmin();
    const socket = createAdminSocketApp(admin, { log: () => undefined, audit: testAudit() });
    const line = { line: 12, record: { impression_id: 'a', valid: 'true', reason: '' } };
    const request = new Request('http://ledger/v1/admin/verdicts', {
      method: 'POST',
      body: `${JSON.stringify(line)}\n`,
    });
    expect(await lastLine(await socket.fetch(request))).toMatchObject({ result: { taken: 1 } });
    expect(admin.verdictRows).toEqual([line]);
  });
});

describe('GET /v1/ads/{ad_id}/clicks', () => {
  test('shows each click with its outcome and where it lies', async () => {
    const { send, asked } = setUp();
    const answer = await jsonOf(send(`/v1/ads/ad-1/clicks?${RANGE}`));
    expect(answer).toEqual({
      clicks: [
        {
          impression_id: 'imp-1',
          clicked_at: '2026-03-10T07:00:01.000Z',
          ad_id: 'ad-1',
          campaign_id: 'camp-1',
          country: 'DE',
          device: 'mobile',
          class: 'click',
          outcome: 'duplicate',
          source: 'http',
          ip: '192.0.2.0',
          user_agent: '<script>',
          referer: '',
          final: true,
          evidence: {
            object: 'dt=2026-03-10/hr=07/p3-0-20.parquet',
            partition: 3,
            offset: 17,
            appended_at: '2026-03-10T07:00:01.500Z',
          },
          duplicate_of: { partition: 1, offset: 2 },
          verdict: { valid: false, reason: 'bot', at: '2026-03-10T07:00:02.000Z' },
        },
      ],
      archived_until: '2026-03-10T12:34:56.000Z',
      final_until: '2026-03-10T08:00:00.000Z',
      from: '2026-03-10T07:00:00+00:00',
      to: '2026-03-10T09:00:00+00:00',
      interval: '[from,to)',
      timezone: 'UTC',
      next_cursor: null,
    });
    expect(asked).toEqual([
      {
        adId: 'ad-1',
        advertiserId: 'adv-1',
        fromMs: T0,
        toMs: T0 + 7_200_000,
        limit: 100,
        after: undefined,
      },
    ]);
  });

  test('reads only the advertiser of the token; an admin reads all, or names one', async () => {
    const { send, asked } = setUp();
    await send(`/v1/ads/ad-1/clicks?${RANGE}&advertiser_id=adv-1`);
    await send(`/v1/ads/ad-1/clicks?${RANGE}`, {}, 'admin');
    await send(`/v1/ads/ad-1/clicks?${RANGE}&advertiser_id=adv-7`, {}, 'admin');
    expect(asked.map(({ advertiserId }) => advertiserId)).toEqual(['adv-1', undefined, 'adv-7']);
    const other = await send(`/v1/ads/ad-1/clicks?${RANGE}&advertiser_id=adv-2`);
    expect((await jsonOf(other)).code).toBe('advertiser_forbidden');
    expect(asked).toHaveLength(3);
  });

  test('goes on behind a cursor, which belongs to one query', async () => {
    const { send, asked, state } = setUp();
    const next = { hourMs: T0 + 3_600_000, partition: -1, offset: -1 };
    state.page = { clicks: [], next };
    const { next_cursor: cursor, clicks } = await jsonOf(send(`/v1/ads/ad-1/clicks?${RANGE}`));
    expect(clicks).toEqual([]);
    await send(`/v1/ads/ad-1/clicks?${RANGE}&limit=7&cursor=${cursor}`);
    expect(asked.at(-1)).toMatchObject({ limit: 7, after: next });
    const refusals = [
      `/v1/ads/ad-2/clicks?${RANGE}&cursor=${cursor}`,
      `/v1/ads/ad-1/clicks?${RANGE.replace('T09', 'T08')}&cursor=${cursor}`,
      `/v1/ads/ad-1/clicks?${RANGE}&cursor=x${cursor}`,
      `/v1/ads/ad-1/clicks?${RANGE}&cursor=`,
    ];
    for (const path of refusals) {
      const answer = await send(path);
      expect([answer.status, (await jsonOf(answer)).code]).toEqual([400, 'cursor_invalid']);
    }
    const ofOther = await send(`/v1/ads/ad-1/clicks?${RANGE}&cursor=${cursor}`, {}, 'admin');
    expect(ofOther.status).toBe(400);
  });

  test('refuses what it cannot answer', async () => {
    const { send, asked } = setUp();
    const paths = {
      [`/v1/ads/${'a'.repeat(129)}/clicks?${RANGE}`]: 'parameters_invalid',
      '/v1/ads/ad-1/clicks?from=2026-03-10': 'parameters_invalid',
      '/v1/ads/ad-1/clicks?from=2026-01-01&to=2026-12-31': 'range_too_long',
      [`/v1/ads/ad-1/clicks?${RANGE}&limit=1001`]: 'parameters_invalid',
      [`/v1/ads/ad-1/clicks?${RANGE}&outcome=counted`]: 'parameters_invalid',
    };
    for (const [path, code] of Object.entries(paths)) {
      const answer = await send(path);
      expect([answer.status, (await jsonOf(answer)).code]).toEqual([400, code]);
    }
    expect((await send(`/v1/ads/ad-1/clicks?${RANGE}`, {}, null)).status).toBe(401);
    expect(asked).toEqual([]);
  });
});
