/** The counter catching up from the log: every record counted, state committed, rows in the warehouse. */
import { join } from 'node:path';
import { configSchema } from '../src/config/schema.ts';
import { Counter } from '../src/counter/counter.ts';
import { openJournalLog } from '../src/counter/disk/journal-log.ts';
import { encodeEvent, MAX_EVENT_BYTES } from '../src/event/codec.ts';
import { DiskLogReader } from '../src/log/disk/reader.ts';
import { DiskLogWriter } from '../src/log/disk/writer.ts';
import { systemClock } from '../src/platform/clock.ts';
import { openChdbWarehouse } from '../src/warehouse/chdb/warehouse.ts';
import { heading, megabytes, memoryOf, thousands, withTempDir } from './support.ts';
import { adId, random } from './traffic.ts';

const COUNTRIES = ['US', 'DE', 'FR', 'IN', 'BR', 'JP', 'GB', 'ZZ'];
const DEVICES = ['desktop', 'mobile', 'tablet', 'other'] as const;
const ADS = 1_000;
/** Clicks a second of event time: what the backlog looked like when it was taken. */
const EVENT_RATE = 10_000;

/** Fills one partition with random UUIDs as impression ids (the harder case for dedup). */
async function fillLog(logDir: string, records: number): Promise<void> {
  const writer = new DiskLogWriter({
    logDir,
    partition: 0,
    segmentBytes: 64 * 1024 * 1024,
    clock: systemClock,
  });
  const next = random(7);
  const bytes = Buffer.alloc(MAX_EVENT_BYTES);
  const firstMs = systemClock() - (records / EVENT_RATE) * 1000;
  let before = '';
  for (let i = 0; i < records; i++) {
    // One in 50 is the click before once more.
    const impressionId = i % 50 === 49 ? before : crypto.randomUUID();
    before = impressionId;
    const ad = next() < 0.3 ? 0 : Math.floor(next() * ADS);
    const event = {
      impressionId,
      adId: adId(ad),
      advertiserId: `advertiser-${ad % 100}`,
      campaignId: `campaign-${ad % 300}`,
      clickedAtMs: Math.floor(firstMs + (i / EVENT_RATE) * 1000),
      country: COUNTRIES[Math.floor(next() * COUNTRIES.length)]!,
      device: DEVICES[Math.floor(next() * DEVICES.length)]!,
      class: 'click',
      source: 'http',
      geoVersion: 20260101,
      ip: '203.0.113.0',
      userAgent:
        'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36',
      referer: '',
    } as const;
    const length = encodeEvent(event, bytes, 0);
    while (!tryAppend(writer, bytes, length)) await new Promise((resolve) => setImmediate(resolve));
  }
  await writer.close();
}

function tryAppend(writer: DiskLogWriter, bytes: Buffer, length: number): boolean {
  try {
    writer.append(bytes, length, () => {});
    return true;
  } catch {
    return false;
  }
}

export async function benchCatchUp(records: number): Promise<void> {
  heading(`Counter catching up: ${thousands(records)} records from the log`);
  await withTempDir(async (dir) => {
    const logDir = join(dir, 'log');
    await fillLog(logDir, records);
    const config = configSchema.parse({});
    const warehouse = await openChdbWarehouse({
      path: join(dir, 'warehouse'),
      minuteTtlDays: 90,
      hourTtlDays: 1_098,
    });
    const open = async (): Promise<Counter> => {
      const counter = new Counter({
        warehouse,
        reader: new DiskLogReader(logDir),
        deadLetters: { put: async () => {} },
        journal: await openJournalLog(join(dir, 'counter'), systemClock),
        clock: systemClock,
        counting: config.counting,
        ...config.counter,
      });
      await counter.open();
      return counter;
    };
    const counter = await open();
    const startedMs = performance.now();
    await counter.catchUp();
    const seconds = (performance.now() - startedMs) / 1000;
    const { claims, claimBytes } = counter.memory();
    const { counted, duplicate } = counter.outcomes();
    await counter.close();
    const reopenedMs = performance.now();
    await (await open()).close();
    const reopen = (performance.now() - reopenedMs) / 1000;
    await warehouse.close();
    const memory = await memoryOf(process.pid);
    console.log(`clicks a second            ${thousands(records / seconds)}   (target >= 250,000)
outcomes                   ${thousands(counted)} counted, ${thousands(duplicate)} duplicate
restart with its state     ${reopen.toFixed(1)} s for ${thousands(claims)} remembered impressions (${megabytes(claimBytes)})
memory of the process      ${megabytes(memory.peakBytes)} at most`);
  });
}

if (import.meta.main) {
  await benchCatchUp(Number(process.argv[2] ?? 3_000_000));
  process.exit(0);
}
