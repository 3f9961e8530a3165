/**
 * Writes to a warehouse until it is killed; prints a line after every acknowledged write. Run by the
 * crash test of the warehouse: `bun warehouse-writer.ts <path> <baseMs>`.
 */
import { openChdbWarehouse } from '../../src/warehouse/chdb/warehouse.ts';
import { hourState } from '../conformance/warehouse-world.ts';

const [path, base] = process.argv.slice(2);
const baseMs = Number(base);
const warehouse = await openChdbWarehouse({ path: path!, minuteTtlDays: 0, hourTtlDays: 0 });
const key = {
  advertiserId: 'a1',
  campaignId: 'c1',
  adId: 'ad-1',
  country: 'DE',
  device: 'mobile',
} as const;
for (let hour = 0; ; hour++) {
  const hourMs = baseMs + hour * 3_600_000;
  const attempt = await warehouse.nextAttempt('hour', hourMs);
  await warehouse.upsertLive([{ ...key, minuteMs: hourMs, clicks: hour + 1, shard: 0 }], hour + 1);
  await warehouse.writeFinalHour(hourMs, attempt, [{ ...key, minuteMs: hourMs, clicks: hour + 1 }]);
  const publication = {
    hour: hourState(hourMs, 1, attempt),
    day: null,
    drift: [],
    restatements: [],
  };
  await warehouse.publish(publication);
  process.stdout.write(`${hour}\n`);
}
