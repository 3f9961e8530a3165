/**
 * How many bytes a click takes on its way: encoded, in a Kafka batch, in an object of the archive. Made
 * clicks, real user agents; no time is measured.
 */
import { encodeClicks } from '../src/archive/parquet.ts';
import type { ArchivedClick } from '../src/archive/port.ts';
import type { ClickEvent } from '../src/event/click-event.ts';
import { encodeBatch } from '../src/log/kafka/record-batch.ts';
import { MadeClicks } from './made-clicks.ts';
import { heading } from './support.ts';

const CLICKS = Number(process.argv[2] ?? 200_000);
const ADS = 100_000;
const PER_MS = 10;
const PARTITIONS = 32;
const BATCHED = 40_000;

const made = new MadeClicks({ ads: ADS, firstMs: Date.UTC(2026, 5, 1, 9), perMs: PER_MS });

function clickAt(offset: number): ArchivedClick & ClickEvent {
  const click = made.next();
  return { ...click, partition: 10_000, offset, appendedAtMs: click.clickedAtMs + 5 };
}

const clicks = Array.from({ length: CLICKS }, (_, offset) => clickAt(offset));
const records = clicks.map((click) => made.recordOf(click));
const line = (what: string, bytes: number, count: number): void =>
  console.log(`${what.padEnd(40)} ${(bytes / count).toFixed(0).padStart(5)} bytes a click`);

heading(`sizes of ${CLICKS} made clicks`);
line(
  'event',
  records.reduce((sum, { bytes }) => sum + bytes.length, 0),
  CLICKS,
);
for (const compression of ['lz4', 'zstd'] as const) {
  for (const size of [1, 2, 4, 8, 16, 64]) {
    let bytes = 0;
    const count = Math.floor(Math.min(CLICKS, BATCHED) / size) * size;
    for (let at = 0; at < count; at += size) {
      bytes += encodeBatch(records.slice(at, at + size), 0, compression).length;
    }
    line(`Kafka, ${compression}, batches of ${size}`, bytes, count);
  }
}
const ofPartition = clicks.filter((_, index) => index % PARTITIONS === 0);
line('archive, all clicks in their order', (await encodeClicks(clicks)).length, CLICKS);
line(
  `archive, one partition of ${PARTITIONS}`,
  (await encodeClicks(ofPartition)).length,
  ofPartition.length,
);
