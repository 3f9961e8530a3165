import { describe, expect, test } from 'bun:test';
import { adOfRecord } from '../../src/ads/import-row.ts';
import { compileTarget } from '../../src/ads/target-url.ts';
import { Agents } from '../../src/click/agent.ts';
import { openGeo } from '../../src/click/geo.ts';
import { Counting } from '../../src/counting/counting.ts';
import { DEMO_ADS, demoAdsNdjson } from '../../src/demo/ads.ts';
import { isBillable, lateRows, planTraffic, REQUEST_KINDS } from '../../src/demo/plan.ts';
import { Random } from '../../src/demo/random.ts';
import { loadUserAgents, NETWORKS, PREVIEWERS } from '../../src/demo/visitors.ts';

const HOUR_MS = 3_600_000;
const NOW_MS = Date.UTC(2026, 5, 1, 12, 34, 56);
const userAgents = loadUserAgents();
const plan = (seed: number, clicks = 6_000) =>
  planTraffic({ seed, clicks, ads: DEMO_ADS, nowMs: NOW_MS, userAgents });

describe('the sample ads', () => {
  test('are twelve of three advertisers, pass the import, and their targets can be filled', () => {
    const rows = demoAdsNdjson()
      .trimEnd()
      .split('\n')
      .map((line) => adOfRecord(JSON.parse(line)));
    expect(rows).toEqual(DEMO_ADS.map((ad) => ({ ok: true, ad })));
    expect(DEMO_ADS).toHaveLength(12);
    expect(new Set(DEMO_ADS.map((ad) => ad.adId)).size).toBe(12);
    expect(new Set(DEMO_ADS.map((ad) => ad.advertiserId)).size).toBe(3);
    for (const ad of DEMO_ADS) expect(() => compileTarget(ad.targetUrl)).not.toThrow();
  });
});

describe('the visitors', () => {
  test('have addresses that the country database puts into their country', async () => {
    const geo = await openGeo();
    for (const [country, network] of NETWORKS) {
      for (const host of ['1', '250']) {
        expect([network, geo.country(network.replace('#', host))]).toEqual([network, country]);
      }
    }
  });

  test('have browsers that count as persons, on every kind of device, and previewers that do not', () => {
    const agents = new Agents();
    expect(userAgents.texts.length).toBeGreaterThan(100);
    expect(userAgents.texts.filter((text) => agents.of(text).isPreview)).toEqual([]);
    const devices = new Set(userAgents.texts.map((text) => agents.of(text).device));
    for (const device of ['desktop', 'mobile', 'tablet'] as const) {
      expect(devices.has(device)).toBe(true);
    }
    expect(PREVIEWERS.filter((text) => !agents.of(text).isPreview)).toEqual([]);
  });
});

describe('the plan', () => {
  test('is the same for the same seed and another for another seed', () => {
    expect(plan(7, 500)).toEqual(plan(7, 500));
    expect(plan(7, 500)).not.toEqual(plan(8, 500));
  });

  test('holds every kind of request, with the status that each must get', () => {
    const { requests, late } = plan(1);
    const statuses = new Map<string, Set<number>>();
    for (const { kind, expectedStatus } of requests) {
      statuses.set(kind, (statuses.get(kind) ?? new Set()).add(expectedStatus));
    }
    expect([...statuses.keys()].sort()).toEqual([...REQUEST_KINDS].sort());
    for (const [kind, found] of statuses) {
      expect([...found]).toEqual([kind === 'forged' ? 403 : kind === 'html_escaped' ? 400 : 302]);
    }
    expect(new Set(requests.map(({ link }) => link)).size).toBe(4);
    expect(new Set(requests.map(({ country }) => country)).size).toBeGreaterThan(10);
    expect(requests.filter(({ method }) => method === 'HEAD').every((r) => r.kind === 'head')).toBe(
      true,
    );
    expect(late.length).toBeGreaterThan(100);
  });

  test('clicks exactly as many impressions as asked for, a third of them on the hot ad', () => {
    const clicks = 6_000;
    const { requests, late } = plan(3, clicks);
    const clicked = new Map<string, string>();
    for (const { kind, impressionId, adId } of requests) {
      if (isBillable(kind)) clicked.set(impressionId, adId);
    }
    expect(clicked.size).toBe(requests.filter(({ kind }) => kind === 'click').length);
    for (const { impressionId, adId } of late) clicked.set(impressionId, adId);
    expect(clicked.size).toBe(clicks);
    const hot = [...clicked.values()].filter((adId) => adId === DEMO_ADS[0]!.adId).length;
    expect(hot).toBe(clicks / 3);
    expect(new Set(clicked.values()).size).toBe(DEMO_ADS.length);
  });

  test('never lets a double, a retry or a recorded copy name another ad than its click', () => {
    const { requests, late } = plan(4);
    const adOf = new Map<string, string>();
    const all = [...requests.filter(({ link }) => link === 'signed'), ...late];
    for (const { impressionId, adId } of all) {
      expect(adOf.get(impressionId) ?? adId).toBe(adId);
      adOf.set(impressionId, adId);
    }
    const forged = requests.filter(({ kind }) => kind === 'forged' || kind === 'html_escaped');
    expect(forged.filter(({ impressionId }) => adOf.has(impressionId))).toEqual([]);
  });

  test('has recorded clicks that the stream calls late, all but the first, in whole hours before now', () => {
    const { late } = plan(5);
    const hourMs = Math.floor(NOW_MS / HOUR_MS) * HOUR_MS;
    const counting = new Counting({
      dedupWindowMs: 24 * HOUR_MS,
      watermarkLagMs: 10_000,
      latenessMs: 300_000,
      maxClaims: 100_000,
    });
    const outcomes = late.map(({ clickedAtMs }, offset) => {
      expect(clickedAtMs).toBeLessThan(hourMs);
      expect(clickedAtMs).toBeGreaterThanOrEqual(hourMs - 2 * HOUR_MS);
      const record = { partition: 1, shard: 1, offset, clickedAtMs, billable: true, rowKey: 'r' };
      return counting.apply({ ...record, hash0: offset, hash1: 0, hash2: 0 });
    });
    expect(outcomes[0]).toBe('counted');
    expect(new Set(outcomes.slice(1))).toEqual(new Set(['late']));
  });

  test('gives its recorded clicks as rows with lines from 1', async () => {
    const { late } = plan(6, 300);
    const rows = await Array.fromAsync(lateRows(late));
    expect(rows).toHaveLength(late.length);
    expect(rows[0]).toEqual({
      line: 1,
      record: {
        impression_id: late[0]!.impressionId,
        ad_id: late[0]!.adId,
        clicked_at: '2026-06-01T11:59:59.999Z',
        ip: late[0]!.address,
        ua: late[0]!.userAgent,
      },
    });
  });
});

describe('the random numbers', () => {
  test('are spread evenly and give UUIDs of version 7 that do not repeat', () => {
    const random = new Random(42);
    const draws = Array.from({ length: 20_000 }, () => random.below(10));
    for (let digit = 0; digit < 10; digit++) {
      const share = draws.filter((each) => each === digit).length / draws.length;
      expect(Math.abs(share - 0.1)).toBeLessThan(0.01);
    }
    const ids = Array.from({ length: 20_000 }, () => random.uuid(NOW_MS));
    expect(new Set(ids).size).toBe(ids.length);
    for (const id of ids.slice(0, 100)) {
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(Number.parseInt(id.slice(0, 13).replace('-', ''), 16)).toBe(NOW_MS);
    }
  });
});
