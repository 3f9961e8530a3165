/** Publishing as a click worker does: linger, deadline, and a spool on the disk for what is not acknowledged in time. */
import { DiskLogWriter } from '../../src/log/disk/writer.ts';
import { KafkaCluster } from '../../src/log/kafka/cluster.ts';
import type { KafkaConnection } from '../../src/log/kafka/options.ts';
import { Publisher } from '../../src/log/kafka/publisher.ts';
import {
  KafkaLogWriter,
  type KafkaWriterOptions,
  WRITER_DEFAULTS,
} from '../../src/log/kafka/writer.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { quantile, thousands, withTempDir } from '../support.ts';

export type Compression = 'none' | 'lz4' | 'zstd';

export type WriterPlan = Partial<KafkaWriterOptions> & { compression: Compression };

export async function withWriter(
  { connection, topic }: { connection: KafkaConnection; topic: string },
  { compression, ...rest }: WriterPlan,
  use: (writer: KafkaLogWriter) => Promise<void>,
): Promise<void> {
  const cluster = new KafkaCluster(connection, topic);
  await cluster.refresh();
  const publisher = new Publisher({
    ...{ cluster, topic, compression },
    ...{ timeoutMs: 10_000, clock: systemClock },
  });
  await withTempDir(async (dir) => {
    const spool = new DiskLogWriter({
      ...{ logDir: dir, partition: 0, segmentBytes: 64 * 1024 * 1024, clock: systemClock },
    });
    const writer = new KafkaLogWriter({ ...WRITER_DEFAULTS, publisher, spool, ...rest });
    await use(writer);
    await writer.close();
  });
  await cluster.close();
}

/** What a redirect waits for: a steady rate far below what is possible, with the deadline in force. */
export async function paced(
  writer: KafkaLogWriter,
  clicks: readonly Buffer[],
  { perMs, forMs }: { perMs: number; forMs: number },
): Promise<void> {
  const total = perMs * forMs;
  const waitedMs = new Float64Array(total);
  let taken = 0;
  let answered = 0;
  const before = process.cpuUsage();
  const startedMs = performance.now();
  while (taken < total) {
    const due = Math.min(total, Math.floor((performance.now() - startedMs) * perMs));
    for (; taken < due; taken++) {
      const at = taken;
      const click = clicks[at % clicks.length]!;
      const sinceMs = performance.now();
      writer.append(click, click.length, () => {
        waitedMs[at] = performance.now() - sinceMs;
        answered++;
      });
    }
    await Bun.sleep(1);
  }
  while (answered < total) await Bun.sleep(5);
  const { user, system } = process.cpuUsage(before);
  // The first second is the broker's and the compiler's.
  const steady = waitedMs.subarray(perMs * 1_000).toSorted();
  const ms = (share: number): string => `${quantile(steady, share).toFixed(1)} ms`;
  const { spooled } = writer.counts;
  console.log(
    `append at ${thousands(perMs * 1_000)} /s: p50 ${ms(0.5)}, p99 ${ms(0.99)}, most ${ms(1)}; spooled ${spooled} of ${thousands(total)} (${((spooled / total) * 100).toFixed(2)} %); ${((user + system) / total).toFixed(1)} µs of processor each`,
  );
}
