import { expect, test } from 'bun:test';
import { closeChdbClient, openChdbClient } from '../../src/warehouse/chdb/client.ts';
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import type { MetricsQuery } from '../../src/warehouse/port.ts';
import { tempDir } from '../support/temp-dir.ts';
import { HOUR_MS } from './warehouse-model.ts';
import { type WarehouseHarness, warehouseSuite } from './warehouse-suite.ts';
import { hourState } from './warehouse-world.ts';

const DAY_MS = 24 * HOUR_MS;
const KEPT = { minuteTtlDays: 0, hourTtlDays: 0 };

// One engine, one directory per process: whatever opens a warehouse closes it before the next opens.
warehouseSuite('chdb', async () => {
  const dir = tempDir('warehouse');
  const harness: WarehouseHarness = {
    warehouse: await openChdbWarehouse({ path: dir.path, ...KEPT }),
    reopen: async () => {
      await harness.warehouse.close();
      harness.warehouse = await openChdbWarehouse({ path: dir.path, ...KEPT });
    },
    scalar: (sql) => scalar(dir.path, sql),
    dispose: async () => {
      await harness.warehouse.close();
      dir.remove();
    },
  };
  return harness;
});

async function scalar(path: string, sql: string): Promise<number> {
  const client = openChdbClient(path);
  if (/^(INSERT|TRUNCATE)/.test(sql)) {
    await client.command({ query: sql });
    await client.close();
    return 0;
  }
  const result = await client.query({ query: sql, format: 'JSONCompactEachRow' });
  const [row] = await result.json<[number]>();
  await client.close();
  return row![0];
}

const query: MetricsQuery = {
  advertiserId: 'a1',
  adIds: undefined,
  campaignIds: undefined,
  countries: undefined,
  devices: undefined,
  fromMs: Date.UTC(2026, 0, 1),
  toMs: Date.UTC(2026, 1, 1),
  granularity: 'total',
  timezone: 'UTC',
  groupBy: [],
  limit: 1000,
  after: undefined,
};

test(
  'what was acknowledged before kill -9 is there when the warehouse opens again (G12)',
  async () => {
    const dir = tempDir('warehouse-kill');
    const baseMs = Date.UTC(2026, 0, 1);
    for (let round = 0; round < 2; round++) {
      const acknowledged = await writeUntilKilled(`${dir.path}/${round}`, baseMs, 3 + round * 4);
      const warehouse = await openChdbWarehouse({ path: `${dir.path}/${round}`, ...KEPT });
      const hours = await warehouse.hours(0, baseMs + 1000 * DAY_MS);
      expect(hours.length).toBeGreaterThanOrEqual(acknowledged);
      expect(hours.map((hour) => hour.hourMs)).toEqual(
        hours.map((_, index) => baseMs + index * HOUR_MS),
      );
      const { rows } = await warehouse.metrics(
        { ...query, granularity: 'hour' },
        baseMs + hours.length * HOUR_MS,
      );
      expect(rows.slice(0, hours.length).map((row) => row.clicks)).toEqual(
        hours.map((_, index) => index + 1),
      );
      // The attempt of the hour that was being written is used up or free, never given twice.
      const used = await warehouse.nextAttempt('hour', baseMs);
      expect(used).toBe(2);
      expect((await warehouse.liveRows(baseMs, baseMs + acknowledged * HOUR_MS)).length).toBe(
        acknowledged,
      );
      await warehouse.close();
    }
    dir.remove();
  },
  { timeout: 60_000 },
);

/** Returns how many hours the writer had acknowledged when it was killed. */
async function writeUntilKilled(path: string, baseMs: number, hours: number): Promise<number> {
  const script = new URL('../support/warehouse-writer.ts', import.meta.url).pathname;
  const writer = Bun.spawn([process.execPath, script, path, String(baseMs)], { stdout: 'pipe' });
  let text = '';
  for await (const chunk of writer.stdout) {
    text += new TextDecoder().decode(chunk);
    if (text.split('\n').length > hours) writer.kill('SIGKILL');
  }
  await writer.exited;
  return text.split('\n').length - 1;
}

test(
  'a query on expired rows is refused, and coarser tiers still answer',
  async () => {
    const dir = tempDir('warehouse-ttl');
    // The engine expires by the machine's clock, at any moment: by that clock the rows are young and
    // stay. By the clock of the product they are expired: the answer must not rest on them.
    const hourMs = Math.floor(Date.now() / DAY_MS) * DAY_MS - 10 * DAY_MS;
    const clock = (): number => hourMs + 150 * DAY_MS;
    const asked = { ...query, fromMs: hourMs - 4 * DAY_MS, toMs: hourMs + 20 * DAY_MS };
    const warehouse = await openChdbWarehouse({
      path: dir.path,
      minuteTtlDays: 90,
      hourTtlDays: 120,
      clock,
    });
    const key = {
      advertiserId: 'a1',
      campaignId: 'c1',
      adId: 'ad-1',
      country: 'DE',
      device: 'mobile',
    } as const;
    await warehouse.writeFinalHour(hourMs, 1, [{ ...key, minuteMs: hourMs, clicks: 3 }]);
    await warehouse.writeFinalDay(hourMs, 1, new Map([[hourMs, 1]]));
    const day = { dayMs: hourMs, attempt: 1 };
    await warehouse.publish({ hour: hourState(hourMs, 1, 1), day, drift: [], restatements: [] });
    const finalUntilMs = hourMs + 20 * DAY_MS;
    const refused = (more: Partial<MetricsQuery>) =>
      expect(warehouse.metrics({ ...asked, ...more }, finalUntilMs)).rejects.toMatchObject({
        code: 'tier_expired',
      });
    await refused({ granularity: 'minute' });
    await refused({ fromMs: hourMs + 60_000 });
    await refused({ granularity: 'hour' });
    await refused({ granularity: 'day', timezone: 'Asia/Kolkata' });
    expect(
      (await warehouse.metrics({ ...asked, granularity: 'day' }, finalUntilMs)).rows[0]?.clicks,
    ).toBe(3);
    expect((await warehouse.metrics(asked, finalUntilMs)).rows[0]?.clicks).toBe(3);
    await warehouse.close();
    dir.remove();
  },
  { timeout: 30_000 },
);

test(
  'a warehouse without roll-ups gets them when it is opened, also after a death in between',
  async () => {
    const dir = tempDir('warehouse-raise');
    const baseMs = Date.UTC(2026, 0, 5);
    const key = { advertiserId: 'a1', campaignId: 'c1', adId: 'ad-1' } as const;
    const place = { country: 'DE', device: 'mobile' } as const;
    const warehouse = await openChdbWarehouse({ path: dir.path, ...KEPT });
    for (let hour = 0; hour < 3; hour++) {
      const hourMs = baseMs + hour * HOUR_MS;
      const rows = [{ ...key, ...place, minuteMs: hourMs + hour * 20 * 60_000, clicks: hour + 1 }];
      // A first attempt that was never published: its sums must stay as unseen as its rows.
      await warehouse.writeFinalHour(hourMs, 1, rows);
      await warehouse.writeFinalHour(hourMs, 2, rows);
    }
    const hours = [0, 1, 2].map((hour) => baseMs + hour * HOUR_MS);
    await warehouse.writeFinalDay(baseMs, 1, new Map(hours.map((hourMs) => [hourMs, 2])));
    for (const hourMs of hours) {
      const day = hourMs === hours.at(-1) ? { dayMs: baseMs, attempt: 1 } : null;
      const hour = hourState(hourMs, 1, 2);
      await warehouse.publish({ hour, day, drift: [], restatements: [] });
    }
    await warehouse.close();

    const asFirstVersion = async (statements: readonly string[]): Promise<void> => {
      const client = openChdbClient(dir.path);
      for (const query of [...statements, 'TRUNCATE TABLE schema_version']) {
        await client.command({ query });
      }
      await client.command({ query: 'INSERT INTO schema_version SELECT 1' });
      await closeChdbClient(client);
    };
    const check = async (): Promise<void> => {
      const opened = await openChdbWarehouse({ path: dir.path, ...KEPT });
      const finalUntilMs = baseMs + DAY_MS;
      for (const groupBy of [[], ['ad'], ['campaign'], ['country', 'device']] as const) {
        for (const timezone of ['UTC', 'Asia/Kathmandu']) {
          const asked = { ...query, groupBy, timezone, granularity: 'day' } as const;
          const { rows } = await opened.metrics(asked, finalUntilMs);
          expect(rows.map((row) => row.clicks)).toEqual([6]);
        }
      }
      await opened.close();
    };
    await asFirstVersion(['DROP TABLE final_hour_rollup', 'DROP TABLE final_day_rollup']);
    await check();
    // Died after the hours were filled in, before the version was raised.
    await asFirstVersion(['TRUNCATE TABLE final_day_rollup']);
    await check();
    dir.remove();
  },
  { timeout: 30_000 },
);

test(
  'opening with another TTL changes the tables, and opening again changes nothing',
  async () => {
    const dir = tempDir('warehouse-migrate');
    const ttlOf = async (table: string): Promise<string | undefined> => {
      const client = openChdbClient(dir.path);
      const sql = `SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = '${table}'`;
      const result = await client.query({ query: sql, format: 'JSONCompactEachRow' });
      const [row] = await result.json<[string]>();
      await closeChdbClient(client);
      return /TTL (.*?) SETTINGS/.exec(row![0])?.[1];
    };
    for (const [minuteTtlDays, expected] of [
      [90, 'minute + toIntervalDay(90)'],
      [30, 'minute + toIntervalDay(30)'],
      [0, undefined],
    ] as const) {
      const warehouse = await openChdbWarehouse({
        path: dir.path,
        minuteTtlDays,
        hourTtlDays: 1095,
      });
      await warehouse.migrate();
      await warehouse.close();
      expect(await ttlOf('final_minute')).toBe(expected);
      expect(await ttlOf('live_minute')).toBe(expected);
      expect(await ttlOf('final_hour')).toBe('hour + toIntervalDay(1095)');
      expect(await ttlOf('final_day')).toBeUndefined();
    }
    dir.remove();
  },
  { timeout: 30_000 },
);
