/** The recount of one hour from the archive: objects read, checked and counted, with look-back. */
import { join } from 'node:path';
import { openFolderStore } from '../src/archive/folder/store.ts';
import { Manifest } from '../src/archive/manifest.ts';
import { objectName } from '../src/archive/names.ts';
import { encodeClicks } from '../src/archive/parquet.ts';
import type { ArchivedClick, ArchiveObject } from '../src/archive/port.ts';
import { HourIndexes } from '../src/reconcile/hour-index.ts';
import { HourSource } from '../src/reconcile/hour-source.ts';
import { NO_VERDICTS } from '../src/verdicts/port.ts';
import { heading, megabytes, memoryOf, thousands, withTempDir } from './support.ts';
import { adId, random } from './traffic.ts';

const HOUR_MS = 3_600_000;
const OBJECT_ROWS = 200_000;
const COUNTRIES = ['US', 'DE', 'FR', 'IN', 'BR', 'JP', 'GB', 'ZZ'];
const DEVICES = ['desktop', 'mobile', 'tablet', 'other'] as const;

/** Builds the manifest entry's object: bytes stored, checksum kept. */
type AddObject = (hourMs: number, firstOffset: number, rows: ArchivedClick[]) => Promise<void>;

/** The part of the hour, from 0 to 1, that an object's clicks lie in. */
interface Share {
  readonly from: number;
  readonly width: number;
}

function* clicks(
  hourMs: number,
  firstOffset: number,
  count: number,
  share: Share,
): Iterable<ArchivedClick> {
  const next = random(firstOffset + 1);
  for (let i = 0; i < count; i++) {
    const ad = next() < 0.3 ? 0 : Math.floor(next() * 1_000);
    yield {
      impressionId: crypto.randomUUID(),
      adId: adId(ad),
      advertiserId: `advertiser-${ad % 100}`,
      campaignId: `campaign-${ad % 300}`,
      // Nearly in the order of time, as a log is.
      clickedAtMs: hourMs + Math.floor((share.from + (i / count) * share.width) * HOUR_MS),
      country: COUNTRIES[Math.floor(next() * COUNTRIES.length)]!,
      device: DEVICES[Math.floor(next() * DEVICES.length)]!,
      class: 'click',
      source: 'http',
      geoVersion: 20260101,
      ip: '203.0.113.0',
      userAgent: 'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/126.0.0.0',
      referer: '',
      partition: 0,
      offset: firstOffset + i,
      appendedAtMs: hourMs + HOUR_MS,
    };
  }
}

export async function benchRecount(records: number): Promise<void> {
  heading(`Recount of an hour of ${thousands(records)} clicks`);
  await withTempDir(async (dir) => {
    const store = await openFolderStore({ dir: join(dir, 'archive') });
    const objects: { object: ArchiveObject; first: number; rows: number }[] = [];
    const add: AddObject = async (hourMs, firstOffset, rows) => {
      const bytes = await encodeClicks(rows);
      const range = { partition: 0, firstOffset, lastOffset: firstOffset + rows.length - 1 };
      const name = objectName(hourMs, range);
      await store.putIfAbsent(name, bytes);
      const sha256 = new Bun.CryptoHasher('sha256').update(bytes).digest('hex');
      const object = { name, hourMs, rows: rows.length, sizeBytes: bytes.length, sha256 };
      objects.push({ object, first: firstOffset, rows: rows.length });
    };
    const hourMs = Date.UTC(2026, 0, 2, 10);
    let offset = 0;
    // An earlier hour of a tenth of the size, so that the look-back has something to look into.
    for (const [startMs, count] of [
      [hourMs - HOUR_MS, records / 10],
      [hourMs, records],
    ] as const) {
      for (let done = 0; done < count; done += OBJECT_ROWS) {
        const rows = Math.min(OBJECT_ROWS, count - done);
        await add(startMs, offset, [
          ...clicks(startMs, offset, rows, { from: done / count, width: rows / count }),
        ]);
        offset += rows;
      }
    }
    const manifest = new Manifest(
      objects.map(({ object, first, rows }) => ({
        partition: 0,
        firstOffset: first,
        lastOffset: first + rows - 1,
        objects: [object],
        lastAppendedAtMs: hourMs + HOUR_MS,
      })),
    );
    const source = new HourSource({
      store,
      manifest,
      indexes: new HourIndexes(join(dir, 'recount')),
      lookbackMs: 7 * 24 * HOUR_MS,
      verdicts: NO_VERDICTS,
    });
    await source.impressions(hourMs - HOUR_MS);
    const startedMs = performance.now();
    const count = await source.recount(hourMs);
    const seconds = (performance.now() - startedMs) / 1000;
    const memory = await memoryOf(process.pid);
    console.log(`clicks a second            ${thousands(records / seconds)}   (target >= 150,000)
rows                       ${thousands(count.rows.length)} minute rows, ${thousands(count.counted)} counted
dedup table                ${megabytes(count.memoryBytes)}
memory of the process      ${megabytes(memory.peakBytes)} at most`);
  });
}

if (import.meta.main) {
  await benchRecount(Number(process.argv[2] ?? 10_000_000));
  process.exit(0);
}
